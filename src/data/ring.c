// SPDX-License-Identifier: Apache-2.0
// A ring's memory: options turned into slots and workers, and what is freed at the end.
#include "data/ring.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/context.h"
#include "base/error.h"
#include "base/shard.h"
#include "base/text.h"
#include "data/finish.h"
#include "data/source.h"

// ---- memory

static rung_status allocate(rungi_ring *ring, size_t bytes, void **out)
{
    const rung_loader_memory *memory = ring->options.memory;
    if (memory) {
        RUNG_TRY(memory->allocate(memory->user, bytes, out));
        return RUNG_OK;
    }
    void *block = aligned_alloc(64, bytes);
    char text[32];
    RUNG_CHECK(block, RUNG_NO_MEMORY,
               "no memory for a batch of %s: lower data.batch_size or data.prefetch_factor",
               rungi_text_bytes(bytes, text, sizeof text));
    *out = block;
    return RUNG_OK;
}

static rung_status make_slots(rungi_ring *ring)
{
    int fields = ring->info.field_count;
    ring->slots = calloc((size_t)ring->info.slots, sizeof *ring->slots);
    ring->queue = calloc((size_t)ring->info.slots, sizeof *ring->queue);
    RUNG_CHECK(ring->slots && ring->queue, RUNG_NO_MEMORY, "no memory for the loader");
    for (int i = 0; i < ring->info.slots; i++) {
        rungi_slot *slot = &ring->slots[i];
        size_t capacity = (size_t)ring->capacity, at = 0;
        slot->draws = calloc(capacity, sizeof *slot->draws);
        slot->batch.samples = calloc(capacity, sizeof *slot->batch.samples);
        RUNG_CHECK(slot->draws && slot->batch.samples, RUNG_NO_MEMORY, "no memory for the loader");
        if (ring->options.skip_bad) {
            slot->bad = calloc(capacity, sizeof *slot->bad);
            slot->bad_samples = calloc(capacity, sizeof *slot->bad_samples);
            RUNG_CHECK(slot->bad && slot->bad_samples, RUNG_NO_MEMORY, "no memory for the loader");
        }
        RUNG_TRY(allocate(ring, ring->info.slot_bytes, &slot->memory));
        slot->batch.field_count = fields;
        slot->batch.draws = slot->draws;
        for (int f = 0; f < fields; f++) {
            slot->data[f] = (char *)slot->memory + at;
            at += rungi_round64(capacity * ring->field_bytes[f]);
        }
    }
    return RUNG_OK;
}

// Each worker's own memory: fields before their transforms, and what the transforms need.
static rung_status make_workers(rungi_ring *ring)
{
    int count = ring->options.num_workers > 0 ? ring->options.num_workers : 1;
    const rung_source *source = ring->source;
    rung_isa isa = ring->context ? rung_context_isa(ring->context) : rungi_cpu_isa();
    size_t raw = 0;
    for (int f = 0; f < source->field_count; f++)
        ring->plain_bytes += rungi_field_bytes(&source->fields[f]);
    for (int f = 0; f < source->field_count; f++)
        if (ring->chains[f])
            raw += rungi_round64(rungi_field_bytes(&source->fields[f]));
    ring->workers = calloc((size_t)count, sizeof *ring->workers);
    RUNG_CHECK(ring->workers, RUNG_NO_MEMORY, "no memory for the loader");
    for (int i = 0; i < count; i++) {
        rungi_worker *worker = &ring->workers[i];
        worker->ring = ring;
        worker->number = ring->options.num_workers > 0 ? i : -1;
        worker->waiting = -1;
        atomic_init(&worker->sample, RUNGI_NO_SAMPLE);
        worker->scratch = raw ? aligned_alloc(64, raw) : NULL;
        RUNG_CHECK(worker->scratch || !raw, RUNG_NO_MEMORY, "no memory for the loader");
        char *at = worker->scratch;
        for (int f = 0; f < source->field_count; f++)
            if (ring->chains[f]) {
                worker->raw[f] = at;
                at += rungi_round64(rungi_field_bytes(&source->fields[f]));
                RUNG_TRY(rungi_chain_worker_create(ring->chains[f], isa, &worker->chains[f]));
                rungi_chain_worker_watch(worker->chains[f], rungi_clock(ring->context));
            }
    }
    return RUNG_OK;
}

// ---- creation

static rung_status choose_sampler(rungi_ring *ring)
{
    const rung_loader_options *options = &ring->options;
    ring->sampler = options->sampler;
    if (!ring->sampler && options->shuffle)
        RUNG_TRY(rung_sampler_random(ring->source->count, options->seed, &ring->own_sampler));
    else if (!ring->sampler)
        RUNG_TRY(rung_sampler_sequential(ring->source->count, &ring->own_sampler));
    if (ring->own_sampler)
        ring->sampler = ring->own_sampler;
    RUNG_CHECK(ring->sampler->count > 0 && ring->sampler->at, RUNG_INVALID,
               "%s sampler: has no positions or no `at`",
               ring->sampler->name ? ring->sampler->name : "custom");
    return RUNG_OK;
}

static rung_status compile_transforms(rungi_ring *ring)
{
    const rung_loader_options *options = &ring->options;
    const rung_source *source = ring->source;
    int count = options->transform_count;
    if (count > 0) {
        ring->transforms = calloc((size_t)count, sizeof *ring->transforms);
        RUNG_CHECK(ring->transforms, RUNG_NO_MEMORY, "no memory for the loader");
        memcpy(ring->transforms, options->transforms, (size_t)count * sizeof *ring->transforms);
    }
    ring->options.transforms = ring->transforms;
    for (int i = 0; i < count; i++)
        RUNG_CHECK(
            ring->transforms[i].field >= 0 && ring->transforms[i].field < source->field_count,
            RUNG_INVALID, "transform %d is for field %d, the source %s has %d", i,
            ring->transforms[i].field, source->name ? source->name : "", source->field_count);
    ring->info.field_count = source->field_count; // and maybe that of rungi_ring_add_mix
    for (int f = 0; f < source->field_count; f++) {
        bool part = options->defer && f == 0;
        int end = part ? rungi_finish_begin(&source->fields[0], ring->transforms, count) : count;
        RUNG_TRY(rungi_chain_create_part(&source->fields[f], f, ring->transforms, 0, end, !part,
                                         &ring->chains[f]));
        ring->info.fields[f] =
            ring->chains[f] ? *rungi_chain_output(ring->chains[f]) : source->fields[f];
        ring->field_bytes[f] = rungi_field_bytes(&ring->info.fields[f]);
    }
    return RUNG_OK;
}

static rung_status work_out_sizes(rungi_ring *ring)
{
    rung_loader_info *info = &ring->info;
    const rung_loader_options *options = &ring->options;
    int64_t count = ring->sampler->count, batch = options->batch_size;
    RUNG_CHECK(!options->drop_last || batch <= count, RUNG_DATA,
               "data.batch_size %" PRId64 " is larger than the data set of %" PRId64
               " samples and drop_last leaves nothing: lower it or set drop_last to false",
               batch, count);
    info->samples_per_epoch = rungi_ring_left(ring, 0);
    info->dropped = count - info->samples_per_epoch;
    info->batches_per_epoch = (info->samples_per_epoch + batch - 1) / batch;
    info->last_batch = info->samples_per_epoch - (info->batches_per_epoch - 1) * batch;
    info->workers = options->num_workers;
    info->slots = options->num_workers * options->prefetch_factor + options->hold;
    int64_t most = batch < count ? batch : count;
    int own = options->shards / options->world;
    ring->capacity = rungi_shards_of(most, options->shards, 0, own).count; // no rank has more
    for (int f = 0; f < info->field_count; f++) {
        size_t bytes = 0;
        RUNG_CHECK(rungi_size_mul((size_t)ring->capacity, ring->field_bytes[f], &bytes) &&
                       bytes < SIZE_MAX / 64 &&
                       rungi_size_add(info->slot_bytes, rungi_round64(bytes), &info->slot_bytes),
                   RUNG_INVALID,
                   "data.batch_size %" PRId64 ": a batch is larger than memory can be", batch);
    }
    return RUNG_OK;
}

static rung_status fill_in(rungi_ring *ring)
{
    RUNG_TRY(choose_sampler(ring));
    RUNG_TRY(compile_transforms(ring));
    if (ring->options.mix)
        RUNG_TRY(rungi_ring_add_mix(ring));
    RUNG_TRY(work_out_sizes(ring));
    RUNG_TRY(make_slots(ring));
    RUNG_TRY(make_workers(ring));
    return rungi_ring_seek(ring, ring->options.epoch, ring->options.position);
}

static void free_ring(rungi_ring *ring)
{
    const rung_loader_memory *memory = ring->options.memory;
    // After workers were left behind, what is not the ring's own may be gone, and is left alone.
    bool whole = ring->exited == ring->threads;
    for (int i = 0; ring->slots && i < ring->info.slots; i++) {
        free(ring->slots[i].draws);
        if (ring->slots[i].bad)
            ring->slots[i].bad_count = ring->capacity;
        rungi_slot_forget_bad(&ring->slots[i]);
        free(ring->slots[i].bad);
        free(ring->slots[i].bad_samples);
        free((void *)(uintptr_t)ring->slots[i].batch.samples);
        if (!memory)
            free(ring->slots[i].memory);
        else if (whole && ring->slots[i].memory)
            memory->release(memory->user, ring->slots[i].memory);
    }
    if (ring->order_epoch >= 0 && ring->sampler->end && (whole || ring->own_sampler))
        ring->sampler->end(ring->sampler->self, ring->order);
    for (int f = 0; f < RUNG_MAX_FIELDS; f++)
        rungi_chain_destroy(&ring->chains[f]);
    int workers = ring->options.num_workers > 0 ? ring->options.num_workers : 1;
    for (int i = 0; ring->workers && i < workers; i++) {
        free(ring->workers[i].scratch);
        for (int f = 0; f < RUNG_MAX_FIELDS; f++)
            rungi_chain_worker_destroy(&ring->workers[i].chains[f]);
    }
    rung_sampler_destroy(&ring->own_sampler);
    rungi_array_fini(&ring->bad);
    free(ring->slots);
    free(ring->queue);
    free(ring->workers);
    free(ring->transforms);
    pthread_cond_destroy(&ring->work);
    pthread_cond_destroy(&ring->ready);
    pthread_mutex_destroy(&ring->lock);
    free(ring);
}

void rungi_ring_drop(rungi_ring *ring)
{
    bool last = --ring->references == 0;
    pthread_mutex_unlock(&ring->lock);
    if (last)
        free_ring(ring);
}

rung_status rungi_ring_create(rung_context *context, rung_source *source,
                              const rung_loader_options *options, rungi_ring **ring_out)
{
    rungi_ring *ring = calloc(1, sizeof *ring);
    RUNG_CHECK(ring, RUNG_NO_MEMORY, "no memory for the loader");
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&ring->lock, NULL);
    pthread_cond_init(&ring->work, NULL);
    pthread_cond_init(&ring->ready, &monotonic);
    pthread_condattr_destroy(&monotonic);
    ring->references = 1;
    ring->context = context;
    ring->source = source;
    ring->options = *options;
    if (options->memory) {
        ring->memory = *options->memory;
        ring->options.memory = &ring->memory;
    }
    ring->order_epoch = -1;
    atomic_init(&ring->failed_order, INT64_MAX);
    rung_status status = fill_in(ring);
    if (status != RUNG_OK) {
        free_ring(ring);
        return status;
    }
    *ring_out = ring;
    return RUNG_OK;
}
