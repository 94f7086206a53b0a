// SPDX-License-Identifier: Apache-2.0
#include "data/preload.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "data/source.h"

typedef struct kept {
    rung_batch batch;
    void *memory;
} kept;

struct rungi_preload {
    int64_t count, room;
    kept *batches;
    rung_loader_memory memory;
    bool hooked; // memory comes from the caller's functions
};

static rung_status view_bytes(const rung_view *view, size_t *bytes_out)
{
    int64_t count = 0;
    RUNG_TRY(rung_shape_count(&view->shape, &count));
    *bytes_out = (size_t)count * rung_dtype_size(view->dtype);
    return RUNG_OK;
}

static rung_status allocate(const rungi_preload *preload, size_t bytes, void **out)
{
    char text[32];
    if (preload->hooked)
        return preload->memory.allocate(preload->memory.user, bytes, out);
    *out = aligned_alloc(64, rungi_round64(bytes));
    RUNG_CHECK(*out, RUNG_NO_MEMORY,
               "no memory to preload another batch of %s: the data set is too large for "
               "data.source preloaded",
               rungi_text_bytes(bytes, text, sizeof text));
    return RUNG_OK;
}

// Copies a batch, its indices behind its fields.
static rung_status keep(rungi_preload *preload, const rung_batch *batch)
{
    size_t total = 0, bytes = 0, indices = (size_t)batch->count * sizeof *batch->samples;
    size_t draws = (size_t)batch->count * sizeof *batch->draws;
    for (int f = 0; f < batch->field_count; f++) {
        RUNG_TRY(view_bytes(&batch->fields[f], &bytes));
        total += rungi_round64(bytes);
    }
    kept *k = &preload->batches[preload->count];
    RUNG_TRY(allocate(preload, total + rungi_round64(indices) + draws + 64, &k->memory));
    k->batch = *batch;
    char *at = k->memory;
    for (int f = 0; f < batch->field_count; f++) {
        RUNG_TRY(view_bytes(&batch->fields[f], &bytes));
        k->batch.fields[f].data = memcpy(at, batch->fields[f].data, bytes);
        at += rungi_round64(bytes);
    }
    k->batch.samples = memcpy(at, batch->samples, indices);
    k->batch.draws = memcpy(at + rungi_round64(indices), batch->draws, draws);
    k->batch.slot = NULL; // nothing to release
    preload->count++;
    return RUNG_OK;
}

rung_status rungi_preload_create(rungi_ring *ring, rungi_preload **preload_out)
{
    rung_status status;
    RUNG_TRY(rungi_ring_seek(ring, 0, 0)); // after a time-out, from the beginning again
    rungi_preload *preload = calloc(1, sizeof *preload);
    RUNG_CHECK(preload, RUNG_NO_MEMORY, "no memory for the loader");
    preload->room = ring->info.batches_per_epoch;
    preload->batches = calloc((size_t)preload->room, sizeof *preload->batches);
    if (!preload->batches) {
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for the loader");
        goto destroy_preload;
    }
    if (ring->options.memory) {
        preload->memory = *ring->options.memory;
        preload->hooked = true;
    }
    for (bool last = false; !last;) {
        rung_batch batch = {0};
        RUNG_TRY_GOTO(destroy_preload, rungi_ring_next(ring, &batch));
        last = batch.is_last_of_epoch;
        status = keep(preload, &batch);
        rungi_ring_release(ring, &batch);
        if (status != RUNG_OK)
            goto destroy_preload;
    }
    *preload_out = preload;
    return RUNG_OK;
destroy_preload:
    rungi_preload_destroy(&preload);
    return status;
}

void rungi_preload_destroy(rungi_preload **preload)
{
    if (!*preload)
        return;
    for (int64_t i = 0; (*preload)->batches && i < (*preload)->room; i++) {
        void *memory = (*preload)->batches[i].memory;
        if (memory && (*preload)->hooked)
            (*preload)->memory.release((*preload)->memory.user, memory);
        else
            free(memory);
    }
    free((*preload)->batches);
    free(*preload);
    *preload = NULL;
}

rung_status rungi_preload_next(rungi_preload *preload, int64_t *epoch, int64_t *position,
                               rung_batch *batch_out)
{
    int64_t low = 0, high = preload->count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (preload->batches[middle].batch.position < *position)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == preload->count) { // the end of the epoch
        low = 0;
        *position = 0;
        ++*epoch;
    }
    RUNG_CHECK(preload->batches[low].batch.position == *position, RUNG_INVALID,
               "position %" PRId64
               " is inside of a preloaded batch: only whole batches can be served",
               *position);
    *batch_out = preload->batches[low].batch;
    batch_out->epoch = *epoch;
    *position += batch_out->global_count + batch_out->left_out;
    return RUNG_OK;
}
