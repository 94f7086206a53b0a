// SPDX-License-Identifier: Apache-2.0
// A ring's place in the data: which samples the next batch has.
#include <inttypes.h>

#include "base/error.h"
#include "base/shard.h"
#include "data/ring.h"

int64_t rungi_ring_left(const rungi_ring *ring, int64_t position)
{
    int64_t left = ring->sampler->count - position, batch = ring->options.batch_size;
    return ring->options.drop_last ? left / batch * batch : left;
}

void rungi_ring_place(rungi_ring *ring, int64_t epoch, int64_t position)
{
    if (rungi_ring_left(ring, position) == 0) {
        epoch++;
        position = 0;
    }
    ring->epoch = epoch;
    ring->position = position;
}

bool rungi_ring_past_end(const rungi_ring *ring)
{
    return ring->options.end_epoch > 0 && ring->epoch >= ring->options.end_epoch;
}

static rung_status prepare_order(rungi_ring *ring)
{
    const rung_sampler *sampler = ring->sampler;
    if (!sampler->begin || ring->order_epoch == ring->epoch)
        return RUNG_OK;
    if (ring->order_epoch >= 0 && sampler->end)
        sampler->end(sampler->self, ring->order);
    ring->order = NULL;
    ring->order_epoch = -1;
    if (sampler->begin(sampler->self, ring->epoch, &ring->order) != RUNG_OK)
        return rungi_fail_prefix("%s sampler, epoch %" PRId64,
                                 sampler->name ? sampler->name : "custom", ring->epoch);
    ring->order_epoch = ring->epoch;
    return RUNG_OK;
}

rung_status rungi_ring_open_batch(rungi_ring *ring, rungi_slot *slot)
{
    const rung_sampler *sampler = ring->sampler;
    const rung_loader_options *options = &ring->options;
    rung_batch *batch = &slot->batch;
    int64_t left = rungi_ring_left(ring, ring->position);
    int64_t all = left < options->batch_size ? left : options->batch_size;
    int own = options->shards / options->world;
    rungi_shard part = rungi_shards_of(all, options->shards, options->rank * own, own);
    batch->count = part.count;
    batch->begin = part.begin;
    batch->global_count = all;
    batch->left_out = 0;
    batch->epoch = ring->epoch;
    batch->position = ring->position;
    batch->is_last_of_epoch = left == all;
    slot->first = ring->opened;
    ring->opened += batch->count;
    RUNG_TRY(prepare_order(ring));
    for (int64_t i = 0; i < batch->count; i++) {
        rung_draw *draw = &slot->draws[i];
        *draw = (rung_draw){0};
        sampler->at(sampler->self, ring->order, batch->position + part.begin + i, draw);
        RUNG_CHECK(draw->sample >= 0 && draw->sample < ring->source->count, RUNG_DATA,
                   "%s sampler: gave sample %" PRId64 ", the source %s has %" PRId64,
                   sampler->name ? sampler->name : "custom", draw->sample,
                   ring->source->name ? ring->source->name : "", ring->source->count);
        ((int64_t *)(uintptr_t)batch->samples)[i] = draw->sample;
    }
    for (int f = 0; f < batch->field_count; f++) {
        const rung_field *field = &ring->info.fields[f];
        rung_view *view = &batch->fields[f];
        *view = (rung_view){field->dtype, {.rank = field->shape.rank + 1}, slot->data[f]};
        view->shape.dim[0] = batch->count;
        for (int d = 0; d < field->shape.rank; d++)
            view->shape.dim[d + 1] = field->shape.dim[d];
    }
    rungi_ring_place(ring, ring->epoch, ring->position + all);
    return RUNG_OK;
}

rungi_slot *rungi_ring_free_slot(rungi_ring *ring)
{
    for (int i = 0; i < ring->info.slots; i++)
        if (ring->slots[i].state == RUNGI_SLOT_FREE)
            return &ring->slots[i];
    return NULL;
}
