// SPDX-License-Identifier: Apache-2.0
// Which device and worker runs which shard of an engine.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/device.h"
#include "train/engine_inside.h"

// ---- devices ----------------------------------------------------------------------------------

static rung_status make_stream(rungi_engine *e, int d)
{
    rungi_replica *r = &e->replicas[d];
    r->device = e->options.replicas.devices[d];
    RUNG_CHECK(r->device->backend->kind == e->state->device->backend->kind, RUNG_UNSUPPORTED,
               "%s and %s are devices of different kinds, which cannot share batches",
               rung_device_name(e->state->device), rung_device_name(r->device));
    return rung_stream_create(r->device, &r->copies);
}

static rung_status make_replicas(rungi_engine *e)
{
    const rungi_replicas_options *o = &e->options.replicas;
    e->devices = o->count > 1 ? o->count : 1;
    e->replicas[0] = (rungi_replica){.device = e->state->device, .state = e->state};
    if (e->devices == 1) {
        e->options.replicas = (rungi_replicas_options){0};
        return RUNG_OK;
    }
    RUNG_CHECK(!e->exchange, RUNG_UNSUPPORTED, "ranks cannot share batches between devices");
    RUNG_CHECK(e->devices <= RUNGI_MAX_SHARDS, RUNG_UNSUPPORTED, "%d devices; at most %d work",
               e->devices, RUNGI_MAX_SHARDS);
    RUNG_CHECK(o->output_device >= 0 && o->output_device < e->devices, RUNG_INVALID,
               "the output device is %d; allowed are 0..%d", o->output_device, e->devices - 1);
    for (int d = 0; d < e->devices; d++)
        RUNG_TRY(make_stream(e, d));
    if (!o->parallel_criterion)
        RUNG_TRY(rungi_criterion_create(e));
    for (int d = 1; d < e->devices; d++)
        RUNG_TRY(rung_state_create(e->model, e->replicas[d].device, &e->replicas[d].state));
    return RUNG_OK;
}

rungi_shard rungi_engine_share(const rungi_engine *e, int64_t count, int device)
{
    const double *weights = e->options.replicas.weights;
    return weights ? rungi_share_of(count, weights, e->devices, device)
                   : rungi_shard_of(count, e->devices, device);
}

// ---- shards -----------------------------------------------------------------------------------

// A round has as many shards of a block as a batch without rounds, and those of all its rounds are
// a branch of the tree again.
int rungi_engine_leaf(const rungi_engine *e, int s, int rounds)
{
    int place = s % e->slots, first = place;
    if (e->devices == 1 || rounds == 1)
        return s;
    while (!e->blocks[first])
        first--;
    return first * rounds + s / e->slots * e->blocks[first] + place - first;
}

void rungi_engine_cut(rungi_engine *e, bool training)
{
    int ranks = e->exchange ? rungi_exchange_ranks(e->exchange) : 1;
    int rank = e->exchange ? rungi_exchange_rank(e->exchange) : 0;
    e->rounds = training ? e->options.accumulate : 1;
    e->shards = e->slots * e->rounds;
    e->total = e->shards * ranks;
    e->first = rank * e->shards;
    for (int s = 0; s < e->shards; s++) {
        e->leaf[s] = rungi_engine_leaf(e, s, e->rounds);
        e->of_leaf[e->leaf[s]] = s;
    }
}

// The part of a batch of so many rounds.
static rungi_shard device_part(const rungi_engine *e, int64_t count, int device, int rounds)
{
    const rungi_replica *r = &e->replicas[device];
    if (e->devices > 1 && !e->options.exact)
        return rungi_engine_share(e, count, device);
    return rungi_shards_of(count, e->total / e->rounds * rounds,
                           (e->first / e->rounds + r->first) * rounds, r->shards * rounds);
}

rungi_shard rungi_engine_device_part(const rungi_engine *e, int64_t count, int device)
{
    return device_part(e, count, device, e->rounds);
}

rungi_shard rungi_engine_part_of(const rungi_engine *e, int64_t count, int device)
{
    return device_part(e, count, device, e->options.accumulate);
}

rungi_shard rungi_engine_part(const rungi_engine *e, int64_t count, int s)
{
    if (e->devices == 1 || e->options.exact)
        return rungi_shard_of(count, e->total, e->first + e->leaf[s]);
    rungi_shard whole = rungi_engine_share(e, count, s % e->slots);
    rungi_shard part = rungi_shard_of(whole.count, e->rounds, s / e->slots);
    return (rungi_shard){whole.begin + part.begin, part.count};
}

static rung_status check_rounds(const rungi_engine *e)
{
    int rounds = e->options.accumulate;
    int64_t total = (int64_t)e->total * rounds;
    if (rounds == 1)
        return RUNG_OK;
    RUNG_CHECK(!e->options.exact || (rounds & (rounds - 1)) == 0, RUNG_CONFIG,
               "train.accumulate is %d; with exact it must be a power of two", rounds);
    RUNG_CHECK(total <= RUNGI_MAX_SHARDS, RUNG_CONFIG,
               "a batch would be cut into %lld parts (train.accumulate is %d); at most %d work",
               (long long)total, rounds, RUNGI_MAX_SHARDS);
    return RUNG_OK;
}

static rung_status count_shards(rungi_engine *e)
{
    int ranks = e->exchange ? rungi_exchange_ranks(e->exchange) : 1, s = e->options.shards;
    RUNG_CHECK(ranks <= RUNGI_MAX_SHARDS, RUNG_UNSUPPORTED, "%d ranks; at most %d work", ranks,
               RUNGI_MAX_SHARDS);
    if (e->options.exact) {
        RUNG_CHECK(s >= 1 && s <= RUNGI_MAX_SHARDS && (s & (s - 1)) == 0, RUNG_CONFIG,
                   "train.shards is %d; it must be a power of two up to %d", s, RUNGI_MAX_SHARDS);
        RUNG_CHECK((ranks & (ranks - 1)) == 0 && ranks <= s, RUNG_CONFIG,
                   "exact with %d ranks: there must be 1, 2, 4, ... of them, at most "
                   "train.shards, which is %d",
                   ranks, s);
        RUNG_CHECK(!e->options.synchronize || s == ranks, RUNG_INVALID,
                   "synchronized batch normalization needs one shard for each rank: there are %d "
                   "shards, %d ranks",
                   s, ranks);
        RUNG_CHECK(e->devices <= s, RUNG_CONFIG,
                   "exact with %d devices: at most train.shards, which is %d", e->devices, s);
        e->slots = s / ranks;
    } else {
        e->slots = e->devices;
    }
    rungi_engine_cut(e, false);
    return check_rounds(e);
}

static void place_shards(rungi_engine *e, int threads)
{
    for (int d = 0; d < e->devices; d++) {
        rungi_replica *r = &e->replicas[d];
        rungi_shard own = rungi_engine_share(e, e->shards, d);
        r->first = (int)own.begin;
        r->shards = (int)own.count;
        r->worker = e->workers;
        r->workers = !e->options.exact ? 1 : threads < r->shards ? threads : r->shards;
        for (int s = 0; s < r->shards; s++)
            e->device_of[r->first + s] = d;
        for (int w = 0; w < r->workers; w++) { // consecutive ones, so that sums meet early
            rungi_shard part = rungi_shard_of(r->shards, r->workers, w);
            for (int s = (int)part.begin; s < part.begin + part.count; s++)
                e->worker_of[r->first + s] = r->worker + w;
        }
        for (int w = 0; w < r->workers; w++)
            e->worker_device[r->worker + w] = d;
        e->workers += r->workers;
    }
}

// Does the shard at place s of a round add its gradients to those of the one before? Its worker has
// just computed these, and the tree adds the two first.
static bool adds_to_pair(const rungi_engine *e, int s)
{
    return e->options.exact && e->devices == 1 && s % 2 == 1 &&
           e->worker_of[s] == e->worker_of[s - 1];
}

static rung_status make_gradients(rungi_engine *e)
{
    uint64_t bytes = (uint64_t)e->state->flat_size * sizeof(float);
    int levels = e->options.exact ? rungi_tree_levels(e->options.accumulate) : 0;
    for (int s = 0; s < e->shards; s++) {
        const rungi_replica *r = &e->replicas[e->device_of[s]];
        for (int i = 0; e->blocks[s] && i < levels; i++)
            RUNG_TRY(rung_device_alloc(r->device, bytes, "gradients of micro-batches",
                                       (void **)&e->levels[s][i]));
        if (s == r->first) {
            e->grads[s] = r->state->grads;
            continue;
        }
        if (!e->pairs[s]) {
            e->grads[s] = e->grads[s - 1];
            continue;
        }
        RUNG_TRY(
            rung_device_alloc(r->device, bytes, "gradients of a shard", (void **)&e->grads[s]));
        memset(e->grads[s], 0, bytes);
    }
    return RUNG_OK;
}

// The largest parts of the tree that lie on one device, and room for those of others.
static rung_status make_blocks(rungi_engine *e)
{
    for (int s = 0; s < e->shards; s++)
        e->pairs[s] = adds_to_pair(e, s) ? 0 : s + 1 < e->shards && adds_to_pair(e, s + 1) ? 2 : 1;
    uint64_t bytes = (uint64_t)e->state->flat_size * sizeof(float);
    for (int d = 0; d < e->devices; d++) {
        int end = e->replicas[d].first + e->replicas[d].shards, size;
        for (int s = e->replicas[d].first; s < end; s += size) {
            for (size = 1; s % (size * 2) == 0 && s + size * 2 <= end; size *= 2)
                continue;
            e->blocks[s] = size;
            if (d && e->options.replicas.copies)
                RUNG_TRY(rung_device_alloc(e->state->device, bytes, "gradients of other devices",
                                           (void **)&e->staged[s]));
        }
    }
    return RUNG_OK;
}

static rung_status make_workers(rungi_engine *e)
{
    if (e->options.exact || e->devices > 1)
        RUNG_TRY(rungi_team_create(e->workers, &e->team));
    for (int s = 0; s < e->shards; s++) {
        rung_arena **arena = &e->arenas[e->criterion ? s : e->worker_of[s]];
        if (!*arena)
            RUNG_TRY(rung_arena_create(e->replicas[e->device_of[s]].device, arena));
    }
    for (int w = 0; w < e->workers; w++) {
        rung_device *device = e->replicas[e->worker_device[w]].device;
        const rung_device_options *o = &device->options;
        if (o->async || o->delay_op || o->op_rate > 0)
            RUNG_TRY(rung_stream_create(device, &e->streams[w]));
    }
    return RUNG_OK;
}

rung_status rungi_engine_place(rungi_engine *e, int threads)
{
    RUNG_TRY(make_replicas(e));
    RUNG_TRY(count_shards(e));
    place_shards(e, threads);
    e->threads = e->options.exact ? 1 : threads;
    RUNG_TRY(make_blocks(e));
    RUNG_TRY(make_gradients(e));
    return make_workers(e);
}

void rungi_engine_leave(rungi_engine *e)
{
    for (int i = 0; i < RUNGI_MAX_SHARDS; i++) {
        const rungi_replica *r = &e->replicas[e->device_of[i]];
        rung_stream_destroy(&e->streams[i]);
        rung_arena_destroy(&e->arenas[i]);
        if (i != r->first && e->grads[i] && e->pairs[i])
            rung_device_free(r->device, e->grads[i]);
        for (int k = 0; k < RUNGI_ENGINE_LEVELS; k++)
            rung_device_free(r->device, e->levels[i][k]);
        rung_device_free(e->state->device, e->staged[i]);
    }
    for (int d = 0; d < e->devices; d++) {
        rungi_replica *r = &e->replicas[d];
        for (int i = 0; r->device && i < RUNG_MAX_FIELDS; i++)
            rung_device_free(r->device, r->inputs[i]);
        rung_stream_destroy(&r->copies);
        if (d)
            rung_state_destroy(&r->state);
    }
}
