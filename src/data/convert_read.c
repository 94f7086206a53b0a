// SPDX-License-Identifier: Apache-2.0
// Reading what is converted: samples as the source gives them, or pictures made one size, by the
// loader and its workers.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "data/convert.h"
#include "data/pack_file.h"
#include "data/source.h"

enum { BATCH = 32, TELL_EVERY = 64 };

// Does a failure of this kind lie in the sample?
bool rungi_convert_is_bad(rung_status status)
{
    return status == RUNG_NOT_FOUND || status == RUNG_IO || status == RUNG_FORMAT ||
           status == RUNG_CORRUPT || status == RUNG_DATA || status == RUNG_UNSUPPORTED;
}

rung_status rungi_convert_give(rungi_conversion *c, rungi_convert_progress *p, int64_t index,
                               const rung_view *fields)
{
    char place[600];
    rungi_sink *sink = c->sink;
    if (p->drop > 0) {
        p->drop--;
        return RUNG_OK;
    }
    rung_status status = sink->add(
        sink, &(rungi_convert_sample){p->written, rungi_source_name(c->source, index), fields});
    if (status == RUNG_OK) {
        p->written++;
        return RUNG_OK;
    }
    rungi_source_describe(c->source, index, place, sizeof place);
    if (rungi_convert_is_bad(status) && status != RUNG_IO)
        rungi_fail_prefix("%s", place);
    return status;
}

// ---- as they are

static rung_status read_plain(rungi_conversion *c, void *state, void *const *rooms, int64_t index,
                              rungi_convert_progress *p, bool *bad_out)
{
    const rung_source *source = c->source;
    char place[600];
    rung_view views[RUNG_MAX_FIELDS];
    for (int f = 0; f < source->field_count; f++)
        views[f] = (rung_view){source->fields[f].dtype, source->fields[f].shape, rooms[f]};
    rung_status status =
        source->read(source->self, state,
                     &(rung_sample){.index = index, .worker = -1, .may_borrow = UINT32_MAX}, views);
    if (status != RUNG_OK) {
        *bad_out = rungi_convert_is_bad(status);
        rungi_source_describe(source, index, place, sizeof place);
        return rungi_fail_prefix("%s", place);
    }
    status = rungi_convert_give(c, p, index, views);
    *bad_out = status == RUNG_DATA || status == RUNG_FORMAT || status == RUNG_CORRUPT;
    return status;
}

static rung_status run_plain(rungi_conversion *c, void *state, void *const *rooms,
                             rungi_convert_progress *p)
{
    int64_t count = c->source->count;
    const rung_convert_options *o = c->options;
    for (int64_t i = p->drop ? 0 : p->written; i < count; i++) {
        bool bad = false;
        rung_status status = read_plain(c, state, rooms, i, p, &bad);
        if (status != RUNG_OK && bad && o->skip_bad) {
            c->report.left_out++;
            rungi_log(c->context, RUNG_LOG_WARNING, "left out: %s", rung_error_last()->message);
        } else {
            RUNG_TRY(status);
        }
        if (i % TELL_EVERY == 0 || i + 1 == count)
            RUNG_TRY(rungi_convert_tell(c, "writing", i + 1, count));
    }
    return RUNG_OK;
}

static rung_status convert_plain(rungi_conversion *c, rungi_convert_progress *p)
{
    const rung_source *source = c->source;
    void *rooms[RUNG_MAX_FIELDS] = {0}, *state = NULL;
    rung_status status = RUNG_OK;
    for (int f = 0; f < source->field_count && status == RUNG_OK; f++) {
        rooms[f] = malloc(rungi_field_bytes(&source->fields[f]) + 64);
        if (!rooms[f])
            status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a sample");
    }
    if (status == RUNG_OK && source->open)
        status = source->open(source->self, -1, &state);
    if (status == RUNG_OK) {
        status = run_plain(c, state, rooms, p);
        if (source->open && source->close)
            source->close(source->self, state);
    }
    for (int f = 0; f < source->field_count; f++)
        free(rooms[f]);
    return status;
}

// ---- resized

static void count_bad(void *user, int64_t sample, const char *message)
{
    rungi_conversion *c = user;
    (void)sample;
    (void)message; // the loader logs it
    c->report.left_out++;
}

static int make_steps(const rungi_conversion *c, rung_transform *steps)
{
    const rung_convert_options *o = c->options;
    int count = 0, larger = o->height > o->width ? o->height : o->width;
    if (c->source->fields[c->image].pixels == RUNG_PIXELS_FILE)
        steps[count++] = (rung_transform){.kind = RUNG_TRANSFORM_DECODE,
                                          .field = c->image,
                                          .channels = o->channels ? o->channels : 3,
                                          .keep_orientation = o->keep_orientation};
    rung_transform resize = {.kind = RUNG_TRANSFORM_RESIZE, .field = c->image, .filter = o->filter};
    resize.height = o->crop ? larger : o->height;
    resize.width = o->crop ? 0 : o->width;
    steps[count++] = resize;
    if (o->crop)
        steps[count++] = (rung_transform){.kind = RUNG_TRANSFORM_CENTER_CROP,
                                          .field = c->image,
                                          .height = o->height,
                                          .width = o->width};
    return count;
}

// The loader's planes become interleaved pixels, as pictures are stored.
static void interleave(const uint8_t *from, uint8_t *to, size_t plane, size_t channels)
{
    for (size_t k = 0; k < channels; k++)
        for (size_t i = 0; i < plane; i++)
            to[i * channels + k] = from[k * plane + i];
}

static rung_status give_batch(rungi_conversion *c, rungi_convert_progress *p,
                              const rung_batch *batch, uint8_t *pixels)
{
    const int64_t *d = c->fields[c->image].shape.dim;
    size_t plane = (size_t)(d[0] * d[1]), channels = (size_t)d[2];
    for (int64_t i = 0; i < batch->count; i++) {
        rung_view views[RUNG_MAX_FIELDS];
        for (int f = 0; f < c->field_count; f++) {
            size_t bytes = rungi_field_bytes(&c->fields[f]);
            views[f] = (rung_view){c->fields[f].dtype, c->fields[f].shape,
                                   (char *)batch->fields[f].data + (size_t)i * bytes};
        }
        interleave(views[c->image].data, pixels, plane, channels);
        views[c->image].data = pixels;
        RUNG_TRY(rungi_convert_give(c, p, batch->samples[i], views));
    }
    return RUNG_OK;
}

static rung_status run_loader(rungi_conversion *c, rung_loader *loader, rungi_convert_progress *p)
{
    uint8_t *pixels = malloc(rungi_field_bytes(&c->fields[c->image]));
    RUNG_CHECK(pixels, RUNG_NO_MEMORY, "no memory for a picture");
    int64_t position = p->drop ? 0 : p->written, count = c->source->count;
    rung_status status = RUNG_OK;
    while (position < count && status == RUNG_OK) {
        rung_batch batch;
        status = rung_loader_next(loader, &batch);
        if (status != RUNG_OK)
            break;
        position = batch.position + batch.global_count + batch.left_out;
        status = give_batch(c, p, &batch, pixels);
        rung_loader_release(loader, &batch);
        if (status == RUNG_OK)
            status = rungi_convert_tell(c, "writing", position, count);
    }
    free(pixels);
    return status;
}

static rung_status convert_raw(rungi_conversion *c, rungi_convert_progress *p)
{
    rung_transform steps[4];
    rung_loader *loader;
    const rung_convert_options *o = c->options;
    if (!p->drop && p->written >= c->source->count)
        return RUNG_OK;
    rung_loader_options options = {.batch_size = BATCH,
                                   .num_workers = o->num_workers,
                                   .transforms = steps,
                                   .transform_count = make_steps(c, steps),
                                   .skip_bad = o->skip_bad,
                                   .bad_limit = 1,
                                   .on_bad = count_bad,
                                   .on_bad_user = c,
                                   .position = p->drop ? 0 : p->written,
                                   .end_epoch = 1};
    RUNG_TRY(rung_loader_create(c->context, c->source, &options, &loader));
    rung_status status = run_loader(c, loader, p);
    rung_loader_destroy(&loader);
    return status;
}

rung_status rungi_convert_samples(rungi_conversion *c)
{
    // With samples left out, what stands is not the first of the source: all are looked at again.
    int64_t standing = c->sink->standing;
    rungi_convert_progress p = {.drop = c->options->skip_bad ? standing : 0, .written = standing};
    c->report.resumed = standing;
    bool rows =
        c->options->jpeg_rows && c->image >= 0 && c->fields[c->image].pixels == RUNG_PIXELS_FILE;
    rung_status status = c->raw ? convert_raw(c, &p)
                         : rows ? rungi_convert_rows(c, &p)
                                : convert_plain(c, &p);
    c->report.samples = p.written;
    return status;
}
