// SPDX-License-Identifier: Apache-2.0
// The orders in which a session's samples come: the split into training and validation, and
// data.sampler.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fs.h"
#include "base/philox.h"
#include "data/reader.h"
#include "data/source.h"
#include "data/tar_stream.h"
#include "rung/pack.h"
#include "train/session.h"

enum { WEIGHTS_BYTES_MAX = 1 << 30 };

// ---- the split

// Training samples that validation holds back.
typedef struct parts {
    int64_t *order; // of all: the first `held` validate. NULL: validation has samples of its own
    int64_t held;
} parts;

// Puts those samples first whose names choose them for validation.
static rung_status order_by_name(const rungi_session *s, int64_t *order, int64_t *held)
{
    const rung_source *source = s->train_source;
    int64_t first = 0, last = source->count;
    bool *chosen = calloc((size_t)source->count, sizeof *chosen);
    RUNG_CHECK(chosen, RUNG_NO_MEMORY, "no memory for the split of the training samples");
    rung_status status = rung_split_by_name(source, s->c->data.path, s->c->data.val_split, chosen);
    for (int64_t i = 0; i < source->count; i++)
        if (chosen[i])
            order[first++] = i;
    *held = first;
    for (int64_t i = source->count - 1; i >= 0; i--)
        if (!chosen[i])
            order[--last] = i;
    free(chosen);
    RUNG_TRY(status);
    RUNG_CHECK(first > 0 && first < source->count, RUNG_CONFIG,
               "data.val.split leaves %" PRId64 " of %" PRId64
               " samples for validation: both parts need one at least",
               first, source->count);
    return RUNG_OK;
}

// Splits the training samples: a random but fixed share of them validates.
static rung_status split(rungi_session *s, parts *p)
{
    int64_t count = s->train_source->count, held = (int64_t)(s->c->data.val_split * (double)count);
    RUNG_CHECK(held >= 1 && held < count, RUNG_CONFIG,
               "data.val.split leaves %" PRId64 " of %" PRId64
               " samples for validation: both parts need one at least",
               held, count);
    int64_t *order = malloc((size_t)count * sizeof *order);
    RUNG_CHECK(order, RUNG_NO_MEMORY, "no memory for the split of the training samples");
    rungi_random random =
        rungi_random_make((uint64_t)s->c->seed, RUNGI_PURPOSE_SHUFFLE, UINT64_MAX, 0, 0);
    uint64_t index = 0;
    for (int64_t i = 0; i < count; i++)
        order[i] = i;
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t other = (int64_t)rungi_random_below(&random, (uint64_t)i + 1, &index);
        int64_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    p->order = order;
    p->held = held;
    return s->c->data.val_split_by == RUNGI_SPLIT_NAME ? order_by_name(s, order, &p->held)
                                                       : RUNG_OK;
}

// ---- weights

// A weight a line.
static rung_status parse_weights(const char *path, const char *text, double *weights, int64_t count)
{
    int64_t lines = 0;
    for (; *text; lines++) {
        size_t length = strcspn(text, "\n");
        char *stop;
        double value = strtod(text, &stop);
        RUNG_CHECK(stop > text && stop + strspn(stop, " \t\r") == text + length, RUNG_FORMAT,
                   "%s: line %" PRId64 " is no number", path, lines + 1);
        if (lines < count)
            weights[lines] = value;
        text += length + (text[length] == '\n');
    }
    RUNG_CHECK(lines == count, RUNG_MISMATCH,
               "%s: has %" PRId64 " weights, one a line, but there are %" PRId64
               " training samples (held-back ones included)",
               path, lines, count);
    return RUNG_OK;
}

static rung_status read_weights(const rungi_session *s, double *weights)
{
    char *text = NULL;
    size_t size;
    const char *path = s->c->data.weights;
    RUNG_TRY(rungi_fs_read(path, WEIGHTS_BYTES_MAX, &text, &size));
    rung_status status = strlen(text) == size
                             ? parse_weights(path, text, weights, s->train_source->count)
                             : RUNG_FAIL(RUNG_FORMAT, "%s: is no text", path);
    free(text);
    return status;
}

// Each class as often as any other: a sample's weight is 1 / samples of its class.
static rung_status weigh_classes(const rungi_session *s, const int64_t *labels, const bool *held,
                                 double *weights)
{
    int64_t count = s->train_source->count, most = 0;
    for (int64_t i = 0; i < count; i++) {
        RUNG_CHECK(labels[i] >= 0 && labels[i] < INT32_MAX, RUNG_DATA,
                   "sample %" PRId64 " has label %" PRId64 ", which is no class", i, labels[i]);
        most = labels[i] > most ? labels[i] : most;
    }
    int64_t *samples = calloc((size_t)most + 1, sizeof *samples);
    RUNG_CHECK(samples, RUNG_NO_MEMORY, "no memory for the weights of classes");
    for (int64_t i = 0; i < count; i++)
        samples[labels[i]] += !held[i];
    for (int64_t i = 0; i < count; i++)
        weights[i] = held[i] ? 0 : 1 / (double)samples[labels[i]];
    free(samples);
    return RUNG_OK;
}

// A scalar field of every sample, as the source gives it.
static rung_status read_numbers(rung_source *source, const char *name, int64_t *out)
{
    rungi_reader reader;
    int field = -1;
    for (int f = 0; f < source->field_count; f++)
        if (strcmp(source->fields[f].name, name) == 0 && source->fields[f].dtype == RUNG_I64 &&
            source->fields[f].shape.rank == 0)
            field = f;
    RUNG_CHECK(field >= 0, RUNG_UNSUPPORTED, "%s: its samples have no %s (i64)", source->name,
               name);
    rung_status status = rungi_reader_open(source, -1, &reader);
    for (int64_t i = 0; i < source->count && status == RUNG_OK; i++) {
        const int64_t *known = strcmp(name, "label") == 0 ? rungi_source_label(source, i) : NULL;
        if (!known)
            status = rungi_reader_read(&reader, i);
        if (status == RUNG_OK)
            out[i] = known ? *known : *(const int64_t *)reader.fields[field].data;
    }
    rungi_reader_close(&reader);
    return status;
}

static rung_status make_weighted(rungi_session *s, const bool *held, int64_t left)
{
    const rungi_data_config *d = &s->c->data;
    rung_source *source = s->train_source;
    double *weights = calloc((size_t)source->count, sizeof *weights);
    int64_t *labels = calloc((size_t)source->count, sizeof *labels);
    rung_status status = weights && labels
                             ? RUNG_OK
                             : RUNG_FAIL(RUNG_NO_MEMORY, "no memory for the weights of samples");
    bool by_class = strcmp(d->weights, "class") == 0;
    if (status == RUNG_OK && by_class)
        status = read_numbers(source, "label", labels);
    if (status == RUNG_OK)
        status = by_class ? weigh_classes(s, labels, held, weights) : read_weights(s, weights);
    for (int64_t i = 0; i < source->count && status == RUNG_OK; i++)
        if (held[i])
            weights[i] = 0;
    if (status == RUNG_OK)
        status = rung_sampler_weighted(weights, source->count, d->draws ? d->draws : left,
                                       d->replacement, (uint64_t)s->c->seed, &s->train_sampler);
    free(weights);
    free(labels);
    return status == RUNG_OK ? RUNG_OK : rungi_fail_prefix("data.sampler: weighted");
}

// ---- all of it

static rung_status make_by_length(rungi_session *s)
{
    const rungi_data_config *d = &s->c->data;
    rung_source *source = s->train_source;
    int64_t *lengths = calloc((size_t)source->count, sizeof *lengths);
    RUNG_CHECK(lengths, RUNG_NO_MEMORY, "no memory for the lengths of samples");
    rung_status status = read_numbers(source, "length", lengths);
    if (status == RUNG_OK)
        status = rung_sampler_by_length(lengths, source->count, d->batch_size, d->shuffle,
                                        (uint64_t)s->c->seed, &s->train_sampler);
    free(lengths);
    return status == RUNG_OK ? RUNG_OK : rungi_fail_prefix("data.sampler: by_length");
}

static rung_status make_groups(rungi_session *s)
{
    if (rung_sampler_pack(s->train_source, 0, 0, (uint64_t)s->c->seed, &s->train_sampler) !=
        RUNG_OK)
        return rungi_fail_prefix("data.shuffle_by: group");
    return RUNG_OK;
}

// Streams come through a buffer. What validation holds back of them is read as a stream of its own.
static rung_status make_streams(rungi_session *s, const parts *p)
{
    const rungi_data_config *d = &s->c->data;
    int64_t count = s->train_source->count;
    RUNG_CHECK(
        d->sampler == RUNGI_SAMPLER_AUTO && d->shuffle_by == RUNGI_SHUFFLE_SAMPLE, RUNG_CONFIG,
        "%s needs random access, but the archives of %s are read as streams: make a pack of "
        "them first (rung convert)",
        d->sampler == RUNGI_SAMPLER_AUTO ? "data.shuffle_by: group" : "data.sampler", d->path);
    rung_stream_options o = {
        .shuffle = d->shuffle, .buffer = d->shuffle_buffer, .seed = (uint64_t)s->c->seed};
    if (!p->order)
        return rung_sampler_stream(s->train_source, &o, &s->train_sampler);
    bool *keep = malloc((size_t)count * sizeof *keep);
    RUNG_CHECK(keep, RUNG_NO_MEMORY, "no memory for the split of the training samples");
    for (int64_t i = 0; i < count; i++)
        keep[p->order[i]] = i >= p->held;
    o.keep = keep;
    rung_status status = rung_sampler_stream(s->train_source, &o, &s->train_sampler);
    for (int64_t i = 0; i < count; i++)
        keep[i] = !keep[i];
    o.shuffle = false;
    if (status == RUNG_OK)
        status = rungi_source_stream_again(s->train_source, &s->val_source);
    if (status == RUNG_OK)
        status = rung_sampler_stream(s->val_source, &o, &s->val_sampler);
    free(keep);
    return status;
}

// The training samples that are left, by data.sampler.
static rung_status make_training(rungi_session *s, const parts *p)
{
    const rungi_data_config *d = &s->c->data;
    int64_t count = s->train_source->count;
    if (d->sampler == RUNGI_SAMPLER_WEIGHTED) {
        bool *held = calloc((size_t)count, sizeof *held);
        RUNG_CHECK(held, RUNG_NO_MEMORY, "no memory for the weights of samples");
        for (int64_t i = 0; i < p->held; i++)
            held[p->order[i]] = true;
        rung_status status = make_weighted(s, held, count - p->held);
        free(held);
        return status;
    }
    if (d->sampler == RUNGI_SAMPLER_BY_LENGTH) {
        RUNG_CHECK(!p->order, RUNG_CONFIG,
                   "data.sampler: by_length needs a validation set of its own, not data.val.split");
        return make_by_length(s);
    }
    if (d->shuffle && d->shuffle_by == RUNGI_SHUFFLE_GROUP) {
        RUNG_CHECK(!p->order, RUNG_CONFIG,
                   "data.shuffle_by: group needs a validation set of its own, not data.val.split");
        return make_groups(s);
    }
    if (!p->order)
        return RUNG_OK; // the loader's own
    return rung_sampler_subset(p->order + p->held, count - p->held, d->shuffle,
                               (uint64_t)s->c->seed, &s->train_sampler);
}

rung_status rungi_session_samplers(rungi_session *s, unsigned parts_wanted)
{
    parts p = {0};
    rung_status status = s->c->data.val_split > 0 ? split(s, &p) : RUNG_OK;
    bool streams = s->train_source && rungi_source_stream_archives(s->train_source) > 0;
    if (status == RUNG_OK && streams) {
        status = make_streams(s, &p);
        free(p.order);
        return status;
    }
    if (status == RUNG_OK && p.order)
        status = rung_sampler_subset(p.order, p.held, false, 0, &s->val_sampler);
    if (status == RUNG_OK && (parts_wanted & RUNGI_SESSION_TRAIN))
        status = make_training(s, &p);
    free(p.order);
    return status;
}
