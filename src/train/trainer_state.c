// SPDX-License-Identifier: Apache-2.0
// Training state to a checkpoint and back: weights and buffers, optimizer state by parameter, and
// where training stands.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "train/trainer.h"

// ---- saving -----------------------------------------------------------------------------------

typedef struct sources {
    RUNGI_ARRAY(rungi_safetensors_source) list;
    RUNGI_ARRAY(char *) names; // those that were made here
} sources;

static void sources_fini(sources *s)
{
    for (size_t i = 0; i < s->names.count; i++)
        free(s->names.data[i]);
    rungi_array_fini(&s->names);
    rungi_array_fini(&s->list);
}

static rung_status add_source(sources *s, const char *name, rung_dtype dtype,
                              const rung_shape *shape, const void *data)
{
    rungi_safetensors_source source = {.name = name, .dtype = dtype, .shape = *shape, .data = data};
    RUNG_CHECK(rungi_array_push(&s->list, source), RUNG_NO_MEMORY, "no memory for a checkpoint");
    return RUNG_OK;
}

// "conv1.weight.momentum_buffer" on the heap, kept with the sources.
static const char *state_name(sources *s, const char *parameter, const char *state)
{
    char *name = rungi_text_format("%s.%s", parameter, state);
    if (name && !rungi_array_push(&s->names, name)) {
        free(name);
        return NULL;
    }
    return name;
}

static rung_status model_sources(const rungi_session *s, sources *out)
{
    for (int i = 0; i < rung_state_count(s->state); i++) {
        rung_state_entry e = rung_state_at(s->state, i);
        RUNG_TRY(add_source(out, e.name, e.dtype, &e.shape, e.data));
    }
    return RUNG_OK;
}

static rung_status optimizer_sources(const rungi_session *s, sources *out)
{
    for (int k = 0; k < rung_optimizer_state_count(s->optimizer); k++)
        for (int64_t i = 0; i < s->n_segments; i++) {
            rung_state_entry e;
            rung_state_find(s->state, s->segments[i].name, &e);
            const char *name =
                state_name(out, s->segments[i].name, rung_optimizer_state_name(s->optimizer, k));
            RUNG_CHECK(name, RUNG_NO_MEMORY, "no memory for a checkpoint");
            RUNG_TRY(add_source(out, name, RUNG_F32, &e.shape,
                                rung_optimizer_state_data(s->optimizer, k) + s->segments[i].begin));
        }
    return RUNG_OK;
}

static json_t *number(double value)
{
    return rungi_json_real(value);
}

static json_t *classes_json(const rungi_session *s)
{
    json_t *list = json_array();
    for (int64_t i = 0; s->class_names && i < s->classes; i++)
        json_array_append_new(list, rungi_json_string(s->class_names[i]));
    return list;
}

static json_t *steps_json(const rungi_session *s)
{
    json_t *steps = json_object();
    for (int64_t i = 0; i < s->n_segments; i++)
        json_object_set_new(steps, s->segments[i].name,
                            json_integer(rung_optimizer_steps(s->optimizer, i)));
    return steps;
}

static rung_status state_json(const rung_trainer *t, json_t **out)
{
    const rungi_session *s = t->s;
    char schedule[RUNG_SCHEDULE_TEXT], described[RUNG_SCHEDULE_TEXT], *yaml;
    rung_shape image;
    rung_loader_info info;
    rung_loader_describe(s->train_loader, &info);
    RUNG_TRY(rungi_session_image(s, &image));
    RUNG_TRY(rung_config_dump(s->config, 0, &yaml));
    json_t *o = json_object();
    json_object_set_new(o, "step", json_integer(t->at.step));
    json_object_set_new(o, "epoch", json_integer(t->at.epoch));
    json_object_set_new(o, "position", json_integer(t->at.position));
    json_object_set_new(o, "samples", json_integer(t->at.samples));
    json_object_set_new(o, "total_steps", json_integer(s->total_steps));
    json_object_set_new(o, "samples_per_epoch", json_integer(info.samples_per_epoch));
    json_object_set_new(o, "seed", json_integer(s->c->seed));
    json_object_set_new(o, "exact", json_boolean(s->c->exact));
    json_object_set_new(o, "shards", json_integer(s->c->train.shards));
    json_object_set_new(o, "batch_size", json_integer(s->c->data.batch_size));
    json_object_set_new(o, "model", json_string(s->c->model.name));
    json_object_set_new(o, "optimizer", json_string(rung_optimizer_name(s->c->optim.name)));
    json_object_set_new(o, "optimizer_steps", steps_json(s));
    json_object_set_new(o, "schedule",
                        json_string(rung_schedule_text(&s->schedule, described, sizeof described)));
    json_object_set_new(
        o, "schedule_state",
        json_string(rung_schedule_state_text(&t->at.schedule, schedule, sizeof schedule)));
    json_object_set_new(o, "best", number(t->at.best));
    json_object_set_new(o, "best_step", json_integer(t->at.best_step));
    json_object_set_new(o, "stop_best", number(t->at.stop_best));
    json_object_set_new(o, "stop_count", json_integer(t->at.stop_count));
    json_object_set_new(o, "classes", json_integer(s->classes));
    json_object_set_new(o, "class_names", classes_json(s));
    json_object_set_new(o, "image",
                        json_pack("[I,I,I]", (json_int_t)image.dim[0], (json_int_t)image.dim[1],
                                  (json_int_t)image.dim[2]));
    json_object_set_new(o, "config", json_string(yaml));
    free(yaml);
    *out = o;
    return RUNG_OK;
}

rung_status rungi_trainer_save(rung_trainer *t, bool best)
{
    char name[48];
    sources model = {0}, optimizer = {0};
    json_t *state = NULL;
    rung_status status;
    snprintf(name, sizeof name, "step-%08" PRId64, t->at.step);
    RUNG_TRY_GOTO(done, model_sources(t->s, &model));
    RUNG_TRY_GOTO(done, optimizer_sources(t->s, &optimizer));
    RUNG_TRY_GOTO(done, state_json(t, &state));
    RUNG_TRY_GOTO(done, rungi_jsonl_sync(t->metrics));
    rungi_checkpoint_file files[] = {
        {RUNGI_CHECKPOINT_MODEL, model.list.data, model.list.count},
        {RUNGI_CHECKPOINT_OPTIMIZER, optimizer.list.data, optimizer.list.count},
    };
    RUNG_TRY_GOTO(done, rungi_checkpoints_save(t->checkpoints, name, files, 2, state));
    if (best)
        RUNG_TRY_GOTO(done, rungi_checkpoints_mark(t->checkpoints, RUNGI_CHECKPOINT_BEST, name));
    RUNG_TRY_GOTO(
        done, rungi_checkpoints_prune(t->checkpoints, (size_t)t->s->c->checkpoint.keep, NULL, 0));
    t->saved_step = t->at.step;
done:
    json_decref(state);
    sources_fini(&model);
    sources_fini(&optimizer);
    return status;
}

// ---- loading ----------------------------------------------------------------------------------

static rung_status load_model(rungi_session *s, rungi_checkpoint *checkpoint)
{
    rung_safetensors *file = rungi_checkpoint_tensors(checkpoint, RUNGI_CHECKPOINT_MODEL);
    RUNG_CHECK(file, RUNG_FORMAT, "%s has no " RUNGI_CHECKPOINT_MODEL,
               rungi_checkpoint_path(checkpoint));
    for (int i = 0; i < rung_state_count(s->state); i++) {
        rung_state_entry e = rung_state_at(s->state, i);
        rung_view view = {e.dtype, e.shape, e.data};
        if (rung_safetensors_load(file, e.name, &view, NULL) != RUNG_OK)
            return rungi_fail_prefix("%s", rungi_checkpoint_path(checkpoint));
    }
    return RUNG_OK;
}

static rung_status load_optimizer(rungi_session *s, rungi_checkpoint *checkpoint)
{
    rung_safetensors *file = rungi_checkpoint_tensors(checkpoint, RUNGI_CHECKPOINT_OPTIMIZER);
    RUNG_CHECK(file, RUNG_FORMAT,
               "%s has no " RUNGI_CHECKPOINT_OPTIMIZER
               ": it holds weights only and training cannot be resumed from it",
               rungi_checkpoint_path(checkpoint));
    sources wanted = {0};
    rung_status status = optimizer_sources(s, &wanted);
    for (size_t i = 0; status == RUNG_OK && i < wanted.list.count; i++) {
        const rungi_safetensors_source *w = &wanted.list.data[i];
        rung_view view = {w->dtype, w->shape, (void *)w->data};
        status = rung_safetensors_load(file, w->name, &view, NULL);
        if (status != RUNG_OK)
            rungi_fail_prefix("%s: %s", rungi_checkpoint_path(checkpoint),
                              RUNGI_CHECKPOINT_OPTIMIZER);
    }
    sources_fini(&wanted);
    return status;
}

static rung_status load_progress(rung_trainer *t, rungi_checkpoint *checkpoint)
{
    json_t *o = rungi_checkpoint_state(checkpoint);
    const char *where = rungi_checkpoint_path(checkpoint), *text;
    rungi_progress *at = &t->at;
    json_t *steps;
    RUNG_TRY(rungi_json_i64(o, where, "step", 0, INT64_MAX, &at->step));
    RUNG_TRY(rungi_json_i64(o, where, "epoch", 0, INT64_MAX, &at->epoch));
    RUNG_TRY(rungi_json_i64(o, where, "position", 0, INT64_MAX, &at->position));
    RUNG_TRY(rungi_json_i64(o, where, "samples", 0, INT64_MAX, &at->samples));
    RUNG_TRY(rungi_json_text(o, where, "schedule_state", &text));
    RUNG_TRY(rung_schedule_state_parse(text, &at->schedule));
    RUNG_TRY(rungi_json_f64(o, where, "best", &at->best));
    RUNG_TRY(rungi_json_i64(o, where, "best_step", INT64_MIN, INT64_MAX, &at->best_step));
    RUNG_TRY(rungi_json_f64(o, where, "stop_best", &at->stop_best));
    RUNG_TRY(rungi_json_i64(o, where, "stop_count", 0, INT64_MAX, &at->stop_count));
    // By the patience of now: raising it lets a run go on.
    int64_t patience = t->s->c->train.early_stop_patience;
    at->stopped_early = patience > 0 && at->stop_count >= patience;
    RUNG_TRY(rungi_json_object(o, where, "optimizer_steps", &steps));
    for (int64_t i = 0; i < t->s->n_segments; i++) {
        int64_t count;
        RUNG_TRY(rungi_json_i64(steps, where, t->s->segments[i].name, 0, INT64_MAX, &count));
        rung_optimizer_set_steps(t->s->optimizer, i, count);
    }
    return RUNG_OK;
}

rung_status rungi_trainer_load(rung_trainer *t, rungi_checkpoint *checkpoint, bool all)
{
    RUNG_TRY(load_model(t->s, checkpoint));
    if (!all)
        return RUNG_OK;
    RUNG_TRY(load_optimizer(t->s, checkpoint));
    RUNG_TRY(load_progress(t, checkpoint));
    t->saved_step = t->at.step;
    if (t->s->c->train.overfit_one_batch)
        return RUNG_OK; // its one batch is the first
    return rung_loader_seek(t->s->train_loader, t->at.epoch, t->at.position);
}
