// SPDX-License-Identifier: Apache-2.0
// Data of a session: sources, transforms, loaders.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "data/source.h"
#include "data/source_tar.h"
#include "train/session.h"

rung_status rungi_session_open_source(const rungi_session *s, bool validation,
                                      rung_source **source_out)
{
    const rungi_data_config *d = &s->c->data;
    if (d->source == RUNGI_DATA_SYNTHETIC) {
        rung_shape shape = {
            3,
            {d->synthetic_shape.data[0], d->synthetic_shape.data[1], d->synthetic_shape.data[2]}};
        // A tenth of the samples, others than those of training, for validation.
        int64_t count = validation ? (d->synthetic_count + 9) / 10 : d->synthetic_count;
        return rung_source_synthetic(s->context,
                                     &(rung_synthetic_options){.count = count,
                                                               .shape = shape,
                                                               .dtype = RUNG_U8,
                                                               .classes = (int)d->synthetic_classes,
                                                               .seed = (uint64_t)s->c->seed},
                                     source_out);
    }
    bool own = validation && *d->val_path;
    const char *split = !validation                                   ? "train"
                        : own && rungi_source_may_be_split(d->format) ? "all"
                                                                      : "test";
    if (d->stream)
        return rungi_source_open_tar(s->context, own ? d->val_path : d->path,
                                     &(rungi_tar_options){.split = split, .stream = true}, NULL,
                                     source_out);
    return rung_source_open(s->context, d->format, own ? d->val_path : d->path, split, source_out);
}

// Validation must know the classes of training, by the same numbers.
static rung_status compare_classes(const rung_source *train, const rung_source *val)
{
    if (train->class_names && val->class_names)
        for (int i = 0; i < train->class_count && i < val->class_count; i++)
            RUNG_CHECK(strcmp(train->class_names[i], val->class_names[i]) == 0, RUNG_DATA,
                       "class %d is %s in training and %s in validation: both must have the same "
                       "classes",
                       i, train->class_names[i], val->class_names[i]);
    RUNG_CHECK(train->class_names ? val->class_count == train->class_count
                                  : val->class_count <= train->class_count,
               RUNG_DATA, "training has %d classes, validation %d: both must have the same classes",
               train->class_count, val->class_count);
    return RUNG_OK;
}

static rung_status check_fields(const rung_source *source)
{
    const rung_field *label = source->field_count > 1 ? &source->fields[1] : NULL;
    RUNG_CHECK(source->fields[0].pixels != RUNG_PIXELS_NONE, RUNG_UNSUPPORTED,
               "%s: field %s is no picture: the built-in networks train with pictures and labels, "
               "a program of one's own with all sources",
               source->name, source->fields[0].name);
    RUNG_CHECK(!label || label->dtype == RUNG_I64, RUNG_UNSUPPORTED,
               "%s: pictures have several labels, the built-in networks train with one: give a "
               "list of path and label",
               source->name);
    return RUNG_OK;
}

static void keep_bad(rungi_session *s, bool training, int64_t sample, const char *message)
{
    rungi_bad_entry entry = {training, sample, strdup(message)};
    if (!entry.message || !rungi_array_push(&s->bad, entry))
        free(entry.message); // it stands in the log
}

static void keep_bad_train(void *session, int64_t sample, const char *message)
{
    keep_bad(session, true, sample, message);
}

static void keep_bad_val(void *session, int64_t sample, const char *message)
{
    keep_bad(session, false, sample, message);
}

bool rungi_session_mixes(const rungi_session *s)
{
    return s->c->data.mixup > 0 || s->c->data.cutmix > 0;
}

// Validation's targets are plain, for a loss of the same kind.
static const rung_mix *choose_mix(rungi_session *s, bool training, const rung_source *source)
{
    rung_mix *mix = &s->mixes[training];
    mix->classes = (int)(s->c->model.classes ? s->c->model.classes : source->class_count);
    mix->mixup_alpha = training ? s->c->data.mixup : 0;
    mix->cutmix_alpha = training ? s->c->data.cutmix : 0;
    return mix;
}

rung_status rungi_session_loader_options(rungi_session *s, bool training, rung_transform *steps,
                                         rung_loader_options *options_out, rung_source **source_out)
{
    const rungi_data_config *d = &s->c->data;
    rung_source *source = training || !s->val_source ? s->train_source : s->val_source;
    int workers = d->num_workers > 0 ? (int)d->num_workers : 0; // auto: until they are chosen
    // As much is loaded ahead as without accumulation, but whole batches.
    int64_t rounds = training ? s->c->gradients.accumulate : 1;
    int replicas = rungi_session_parts(s);
    rung_loader_options o = {.batch_size =
                                 training ? rungi_session_batch(s) : rungi_session_micro_batch(s),
                             .rank = replicas > 1 ? s->rank : 0,
                             .world = replicas,
                             .shards = rungi_session_cut(s, training),
                             .shuffle = training && d->shuffle,
                             .sampler = training ? s->train_sampler : s->val_sampler,
                             .seed = (uint64_t)s->c->seed,
                             .num_workers = workers,
                             .prefetch_factor = (int)((d->prefetch_factor + rounds - 1) / rounds),
                             .worker_nice = (int)d->worker_nice,
                             .drop_last = training && d->drop_last,
                             .timeout = workers ? (double)d->timeout * 1e-9 : 0,
                             .skip_bad = d->on_bad_sample == RUNGI_BAD_SAMPLE_SKIP,
                             .bad_limit = d->bad_sample_limit,
                             .on_bad = training ? keep_bad_train : keep_bad_val,
                             .on_bad_user = s,
                             .transforms = steps};
    memset(steps, 0, RUNGI_SESSION_TRANSFORMS * sizeof *steps);
    RUNG_TRY(rungi_session_transforms(s, training, &source->fields[0], steps, &o.transform_count));
    if (o.sampler)
        o.shuffle = false;
    if (d->source == RUNGI_DATA_PRELOADED) {
        o.preload = true;
        o.num_workers = 0;
        o.timeout = 0;
    }
    o.mix = rungi_session_mixes(s) ? choose_mix(s, training, source) : NULL;
    *options_out = o;
    *source_out = source;
    return RUNG_OK;
}

static rung_status make_loader(rungi_session *s, bool training, rung_loader **loader_out)
{
    rung_transform steps[RUNGI_SESSION_TRANSFORMS];
    rung_loader_options options;
    rung_loader_memory memory;
    rung_source *source;
    bool pinned = false;
    RUNG_TRY(rungi_session_loader_options(s, training, steps, &options, &source));
    RUNG_TRY(rungi_session_pin(s, &pinned, &memory));
    options.memory = pinned ? &memory : NULL;
    options.defer = training && s->c->data.augment_on == RUNGI_AUGMENT_DEVICE;
    RUNG_TRY(rung_loader_create(s->context, source, &options, loader_out));
    return rungi_session_make_feeder(s, *loader_out, source, &options, training,
                                     training ? &s->feeder : &s->val_feeder);
}

rung_status rungi_session_set_workers(rungi_session *s, int workers)
{
    char text[16];
    snprintf(text, sizeof text, "%d", workers);
    RUNG_TRY(rung_config_set(s->config, "data.num_workers", text));
    rung_loader **loaders[] = {&s->val_loader, &s->train_loader};
    rungi_feeder_destroy(&s->feeder);
    rungi_feeder_destroy(&s->val_feeder);
    for (int i = 0; i < 2; i++) {
        if (!*loaders[i])
            continue;
        rung_loader_destroy(loaders[i]);
        RUNG_TRY(make_loader(s, i == 1, loaders[i]));
    }
    return RUNG_OK;
}

rung_status rungi_session_set_classes(rungi_session *s, int64_t classes, const char *const *names)
{
    s->classes = classes;
    if (!names)
        return RUNG_OK;
    s->class_names = calloc((size_t)classes + 1, sizeof *s->class_names);
    RUNG_CHECK(s->class_names, RUNG_NO_MEMORY, "no memory for the names of the classes");
    for (int64_t i = 0; i < classes; i++) {
        s->class_names[i] = strdup(names[i]);
        RUNG_CHECK(s->class_names[i], RUNG_NO_MEMORY, "no memory for the names of the classes");
    }
    return RUNG_OK;
}

rung_status rungi_session_open_data(rungi_session *s, unsigned parts)
{
    const rungi_data_config *d = &s->c->data;
    bool own_validation = d->val_split <= 0;
    if ((parts & RUNGI_SESSION_TRAIN) || !own_validation)
        RUNG_TRY(rungi_session_open_source(s, false, &s->train_source));
    if ((parts & RUNGI_SESSION_EVAL) && own_validation)
        RUNG_TRY(rungi_session_open_source(s, true, &s->val_source));
    if (s->train_source && s->val_source)
        RUNG_TRY(compare_classes(s->train_source, s->val_source));
    RUNG_TRY(rungi_session_samplers(s, parts));
    if (parts & RUNGI_SESSION_TRAIN)
        RUNG_TRY(make_loader(s, true, &s->train_loader));
    if (parts & RUNGI_SESSION_EVAL)
        RUNG_TRY(make_loader(s, false, &s->val_loader));
    const rung_source *source = s->train_source ? s->train_source : s->val_source;
    return rungi_session_set_classes(s, source->class_count, source->class_names);
}

rung_status rungi_session_check_fields(const rungi_session *s)
{
    if (s->train_source)
        RUNG_TRY(check_fields(s->train_source));
    return s->val_source ? check_fields(s->val_source) : RUNG_OK;
}

rung_status rungi_session_image(const rungi_session *s, rung_shape *shape_out)
{
    rung_loader_info info;
    rung_loader_describe(s->train_loader ? s->train_loader : s->val_loader, &info);
    *shape_out = s->feeder ? rungi_feeder_image(s->feeder)->shape : info.fields[0].shape;
    return RUNG_OK;
}

bool rungi_session_picture(const rungi_session *s, rung_shape *shape_out)
{
    const rung_source *source = s->train_source ? s->train_source : s->val_source;
    const rung_field *field = &source->fields[0];
    const int64_t *d = field->shape.dim;
    if (field->pixels == RUNG_PIXELS_FILE) {
        *shape_out = RUNG_SHAPE(s->c->data.channels, 0, 0);
        return true;
    }
    if (field->shape.rank != 3 || field->pixels == RUNG_PIXELS_NONE || field->dtype != RUNG_U8)
        return false;
    *shape_out = field->pixels == RUNG_PIXELS_HWC ? RUNG_SHAPE(d[2], d[0], d[1]) : field->shape;
    return true;
}

int rungi_session_feeds(const rungi_session *s, const rung_batch *batch, rungi_feed *feeds)
{
    rung_loader_info info;
    int count = 0;
    rung_loader_describe(s->train_loader ? s->train_loader : s->val_loader, &info);
    for (int i = 0; i < batch->field_count; i++)
        if (!rungi_session_mixes(s) || strcmp(info.fields[i].name, "label") != 0)
            feeds[count++] = (rungi_feed){info.fields[i].name, batch->fields[i].data};
    return count;
}

const int64_t *rungi_session_labels(const rungi_session *s, const rung_batch *batch)
{
    rung_loader_info info;
    rung_loader_describe(s->train_loader ? s->train_loader : s->val_loader, &info);
    for (int i = 0; i < batch->field_count; i++)
        if (strcmp(info.fields[i].name, "label") == 0)
            return batch->fields[i].data;
    return NULL;
}
