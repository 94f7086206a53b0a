// SPDX-License-Identifier: Apache-2.0
// Statistics that shards keep until the end of a step (those of batch normalization): with other
// ranks, or several rounds of one, they are copied to a room where those of all shards lie side by
// side.
#include <string.h>

#include "base/error.h"
#include "train/engine_inside.h"

// The own shard at place `shard` of all, where it has samples; -1: there is none.
static int own_of(const rungi_engine *e, int shard)
{
    int place = shard - e->first;
    bool own = place >= 0 && place < e->shards && e->now[e->of_leaf[place]];
    return own ? e->of_leaf[place] : -1;
}

// A plan of shard `shard` of all: which one does not matter for what is kept.
static rung_status plan_of(rungi_engine *e, int shard, rungi_shard_plan **out)
{
    int own = own_of(e, shard);
    if (own >= 0) {
        *out = e->now[own];
        return RUNG_OK;
    }
    return rungi_engine_find(e, true, true, false, rungi_shard_of(e->whole, e->total, shard).count,
                             -1, out);
}

rung_status rungi_engine_open_statistics(rungi_engine *e)
{
    rungi_shard_plan *x; // shard 0 has samples: every rank can ask for its plan
    e->room = NULL;
    RUNG_TRY(plan_of(e, 0, &x));
    e->room_bytes = x->plan->kept_bytes;
    if (!e->room_bytes || (!e->exchange && e->rounds == 1))
        return RUNG_OK;
    if (e->exchange)
        return rungi_exchange_room(e->exchange, e->total, e->room_bytes, &e->room);
    size_t bytes = e->room_bytes * (size_t)e->total;
    if (bytes > e->own_room_bytes) {
        rung_device_free(e->state->device, e->own_room);
        e->own_room = NULL;
        e->own_room_bytes = 0;
        RUNG_TRY(rung_device_alloc(e->state->device, bytes, "statistics of micro-batches",
                                   (void **)&e->own_room));
        e->own_room_bytes = bytes;
    }
    e->room = e->own_room;
    return RUNG_OK;
}

rung_status rungi_engine_keep_statistics(rungi_engine *e, int s)
{
    if (!e->room)
        return RUNG_OK;
    RUNG_CHECK(e->now[s]->plan->kept_bytes == e->room_bytes, RUNG_INTERNAL,
               "plans of shards keep different statistics");
    memcpy(e->room + (size_t)(e->first + e->leaf[s]) * e->room_bytes,
           rungi_engine_instance(e, s)->kept, e->room_bytes);
    return RUNG_OK;
}

// The instance that stands for a shard of another rank or round.
static rung_status find_remote(rungi_engine *e, int shard, rungi_instance **out)
{
    rungi_shard_plan *x;
    RUNG_TRY(plan_of(e, shard, &x));
    if (!x->remote[shard])
        RUNG_TRY(rungi_instance_create_remote(x->plan, &x->remote[shard]));
    rungi_instance_place_kept(x->remote[shard], e->room + (size_t)shard * e->room_bytes);
    *out = x->remote[shard];
    return RUNG_OK;
}

// Does the shard at that place of all have samples that count for the statistics?
static bool counts(const rungi_engine *e, int shard)
{
    if (e->devices == 1)
        return rungi_shard_of(e->whole, e->total, shard).count > 0;
    int own = own_of(e, shard);
    return own >= 0 && !(e->options.replicas.first_statistics && e->device_of[own % e->slots]);
}

rung_status rungi_engine_finish_statistics(rungi_engine *e)
{
    rungi_instance *all[RUNGI_MAX_SHARDS];
    int count = 0;
    if (e->room_bytes && e->exchange)
        RUNG_TRY(
            rungi_exchange_gather(e->exchange, e->total, e->room_bytes, (int64_t)e->batch->step));
    if (!e->room_bytes && (e->exchange || e->rounds > 1))
        return RUNG_OK;
    for (int i = 0; i < e->total; i++) {
        int own = own_of(e, i);
        if (!counts(e, i))
            continue;
        if (e->rounds == 1 && own >= 0)
            all[count] = e->now[own]->instances[own];
        else
            RUNG_TRY(find_remote(e, i, &all[count]));
        count++;
    }
    return rungi_instances_finish(all, count);
}
