// SPDX-License-Identifier: Apache-2.0
#include "train/feeder.h"

#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "data/source.h"
#include "device/device.h"

enum { BUFFERS = 2 };

// A batch's place on the device.
typedef struct buffer {
    rung_batch batch; // as the consumer gets it
    void *fields[RUNG_MAX_FIELDS];
    int64_t *samples;
    rung_draw *draws;
    rung_batch slot; // of the loader, while it is being copied
    rung_event *event;
    bool flying;          // being copied, or copied and not yet delivered
    rung_status status;   // of the copy
    rung_error error;     // where that failed
    int64_t began, ended; // clock, set by the stream
    int64_t bytes;
    rung_context *context;
} buffer;

struct rungi_feeder {
    rung_context *context;
    rung_loader *loader;
    rungi_feeder_options o;
    rung_loader_info info;
    rung_field image;
    rung_device *device;
    rung_stream *stream;
    buffer buffers[BUFFERS];
    int next;
    void *finished; // field 0 after o.finish
    void *staging;  // for copies from pageable memory
};

static rungi_timeline *timeline(const rungi_feeder *f)
{
    return f->o.timeline ? *f->o.timeline : NULL;
}

// The host waits for `category` from now on. What a copy takes behind the network's back is the
// loader's to tell: the timeline has what was waited for.
static void host(const rungi_feeder *f, rungi_category category, int64_t step)
{
    if (timeline(f))
        rungi_timeline_begin(timeline(f), RUNGI_QUEUE_HOST, category, step);
}

// ---- memory

static rung_status make_buffer(rungi_feeder *f, buffer *b, int64_t capacity)
{
    b->context = f->context;
    b->samples = calloc((size_t)capacity, sizeof *b->samples);
    b->draws = calloc((size_t)capacity, sizeof *b->draws);
    RUNG_CHECK(b->samples && b->draws, RUNG_NO_MEMORY, "no memory for a batch on the device");
    for (int i = 0; i < f->info.field_count; i++)
        RUNG_TRY(rung_device_alloc(f->device,
                                   (uint64_t)capacity * rungi_field_bytes(&f->info.fields[i]),
                                   "a batch", &b->fields[i]));
    return rung_event_create(f->device, &b->event);
}

static rung_status make(rungi_feeder *f)
{
    const rung_device_options device = {.threads = 1,
                                        .async = true,
                                        .delay_copy = f->o.copy_delay,
                                        .delay_copy_byte = f->o.copy_byte};
    int64_t capacity = 0;
    for (int i = 0; i < f->info.field_count; i++) {
        int64_t bytes = (int64_t)rungi_field_bytes(&f->info.fields[i]);
        int64_t room = bytes ? (int64_t)f->info.slot_bytes / bytes : 0;
        capacity = capacity == 0 || room < capacity ? room : capacity;
    }
    RUNG_TRY(rung_device_create(f->context, f->o.device, &device, &f->device));
    RUNG_TRY(rung_stream_create(f->device, &f->stream));
    for (int i = 0; i < BUFFERS && f->o.copy; i++)
        RUNG_TRY(make_buffer(f, &f->buffers[i], capacity));
    if (f->o.copy) {
        f->staging = aligned_alloc(64, rungi_round64(f->info.slot_bytes));
        RUNG_CHECK(f->staging, RUNG_NO_MEMORY, "no memory to copy batches");
    }
    f->image = f->info.fields[0];
    if (f->o.finish) {
        f->image = *rungi_finish_output(f->o.finish);
        RUNG_TRY(rung_device_alloc(f->device, (uint64_t)capacity * rungi_field_bytes(&f->image),
                                   "a batch", &f->finished));
    }
    return RUNG_OK;
}

rung_status rungi_feeder_create(rung_context *context, rung_loader *loader,
                                const rungi_feeder_options *options, rungi_feeder **feeder_out)
{
    rungi_feeder *f = calloc(1, sizeof *f);
    RUNG_CHECK(f, RUNG_NO_MEMORY, "no memory for copies to the device");
    f->context = context;
    f->loader = loader;
    f->o = *options;
    rung_loader_describe(loader, &f->info);
    rung_status status = make(f);
    if (status != RUNG_OK) {
        rung_error error = *rung_error_last();
        f->o.finish = NULL;
        rungi_feeder_destroy(&f);
        return rungi_fail_adopt(&error);
    }
    *feeder_out = f;
    return RUNG_OK;
}

// ---- a copy

static rung_status copy_begins(void *buffer_)
{
    buffer *b = buffer_;
    b->began = rungi_now(b->context);
    return RUNG_OK;
}

static rung_status copy_ends(void *buffer_)
{
    buffer *b = buffer_;
    b->ended = rungi_now(b->context);
    return RUNG_OK;
}

static int64_t view_bytes(const rung_view *view)
{
    int64_t count = 0;
    rung_shape_count(&view->shape, &count);
    return count * (int64_t)rung_dtype_size(view->dtype);
}

// Submits the copy of all fields; from pageable memory through the staging buffer.
static rung_status submit(rungi_feeder *f, buffer *b, bool pinned)
{
    char *stage = f->staging;
    RUNG_TRY(rungi_stream_submit(f->stream, RUNGI_WORK_MARK, copy_begins, b));
    for (int i = 0; i < b->slot.field_count; i++) {
        const void *from = b->slot.fields[i].data;
        int64_t bytes = view_bytes(&b->slot.fields[i]);
        if (!pinned && bytes > 0) {
            from = memcpy(stage, from, (size_t)bytes);
            stage += rungi_round64((size_t)bytes);
        }
        RUNG_TRY(rung_stream_copy(f->stream, b->fields[i], from, (uint64_t)bytes));
        b->bytes += bytes;
    }
    RUNG_TRY(rungi_stream_submit(f->stream, RUNGI_WORK_MARK, copy_ends, b));
    return rung_event_record(b->event, f->stream);
}

// Takes the next batch of the loader and begins to copy it. A copy that fails is told when its
// batch is wanted.
static rung_status start(rungi_feeder *f, buffer *b, int64_t step)
{
    RUNG_TRY(rung_loader_next(f->loader, &b->slot));
    bool pinned = f->o.pinned && rungi_pinned_is(f->o.pinned, b->slot.fields[0].data);
    b->batch = b->slot;
    b->batch.slot = NULL;
    b->batch.samples =
        memcpy(b->samples, b->slot.samples, (size_t)b->slot.count * sizeof *b->samples);
    b->batch.draws = memcpy(b->draws, b->slot.draws, (size_t)b->slot.count * sizeof *b->draws);
    for (int i = 0; i < b->slot.field_count; i++)
        b->batch.fields[i].data = b->fields[i];
    b->bytes = 0;
    b->flying = true;
    host(f, RUNGI_TIME_COPY, step);
    b->status = submit(f, b, pinned);
    // Pageable: the staging buffer is needed for the next.
    if (!pinned || !f->o.non_blocking || b->status != RUNG_OK) {
        rung_status status = rung_stream_sync(f->stream);
        b->status = b->status != RUNG_OK ? b->status : status;
    }
    host(f, RUNGI_TIME_WAIT, step);
    if (b->status != RUNG_OK)
        b->error = *rung_error_last();
    return RUNG_OK;
}

// Waits for the copy, gives the slot back.
static void land(rungi_feeder *f, buffer *b, int64_t step)
{
    if (!rung_event_done(b->event)) {
        host(f, RUNGI_TIME_COPY, step);
        rung_event_sync(b->event);
        host(f, RUNGI_TIME_WAIT, step);
    }
    rung_loader_count_copy(f->loader, (double)(b->ended - b->began) * 1e-9, b->bytes);
    rung_loader_release(f->loader, &b->slot);
    b->flying = false;
}

static rung_status next_copied(rungi_feeder *f, int64_t step, rung_batch *batch_out)
{
    buffer *b = &f->buffers[f->next];
    if (!b->flying)
        RUNG_TRY(start(f, b, step));
    land(f, b, step);
    if (b->status != RUNG_OK)
        return rungi_fail_adopt(&b->error);
    f->next = (f->next + 1) % BUFFERS;
    *batch_out = b->batch;
    bool more = f->o.non_blocking && f->o.pinned;
    if (!more)
        return RUNG_OK;
    // A batch that cannot be had now is asked for again when its turn comes, and told of then.
    start(f, &f->buffers[f->next], step);
    return RUNG_OK;
}

// ---- batches

rung_status rungi_feeder_next(rungi_feeder *f, int64_t step, rung_batch *batch_out)
{
    rung_batch batch = {0};
    RUNG_TRY(f->o.copy ? next_copied(f, step, &batch) : rung_loader_next(f->loader, &batch));
    if (f->o.finish) {
        rung_view *image = &batch.fields[0];
        host(f, RUNGI_TIME_COPY, step);
        rung_status status = rungi_finish_run(f->o.finish, batch.epoch, batch.draws, batch.count,
                                              image->data, f->finished);
        host(f, RUNGI_TIME_WAIT, step);
        if (status != RUNG_OK) {
            rungi_feeder_release(f, &batch);
            return status;
        }
        *image = (rung_view){f->image.dtype, {.rank = f->image.shape.rank + 1}, f->finished};
        image->shape.dim[0] = batch.count;
        for (int d = 0; d < f->image.shape.rank; d++)
            image->shape.dim[d + 1] = f->image.shape.dim[d];
    }
    *batch_out = batch;
    return RUNG_OK;
}

void rungi_feeder_release(rungi_feeder *f, rung_batch *batch)
{
    if (batch->slot)
        rung_loader_release(f->loader, batch);
    *batch = (rung_batch){0};
}

static void forget(rungi_feeder *f)
{
    for (int i = 0; i < BUFFERS; i++)
        if (f->buffers[i].flying)
            land(f, &f->buffers[i], 0);
}

rung_status rungi_feeder_seek(rungi_feeder *f, int64_t epoch, int64_t position)
{
    forget(f);
    return rung_loader_seek(f->loader, epoch, position);
}

const rung_field *rungi_feeder_image(const rungi_feeder *f)
{
    return &f->image;
}

void rungi_feeder_destroy(rungi_feeder **feeder)
{
    if (!feeder || !*feeder)
        return;
    rungi_feeder *f = *feeder;
    forget(f);
    for (int i = 0; i < BUFFERS; i++) {
        buffer *b = &f->buffers[i];
        for (int k = 0; f->device && k < RUNG_MAX_FIELDS; k++)
            rung_device_free(f->device, b->fields[k]);
        rung_event_destroy(&b->event);
        free(b->samples);
        free(b->draws);
    }
    if (f->finished)
        rung_device_free(f->device, f->finished);
    rungi_finish_destroy(&f->o.finish);
    rung_stream_destroy(&f->stream);
    rung_device_destroy(&f->device);
    free(f->staging);
    free(f);
    *feeder = NULL;
}
