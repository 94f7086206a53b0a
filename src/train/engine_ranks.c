// SPDX-License-Identifier: Apache-2.0
// What the engines of several ranks do together: see exchange.h.
#include <math.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "optim/optimizer.h"
#include "train/engine_inside.h"

static int64_t step_of(const rungi_engine *e)
{
    return (int64_t)e->batch->step;
}

rung_status rungi_engine_share_counts(rungi_engine *e)
{
    size_t n = e->divided.count;
    for (size_t i = 0; i < n; i++)
        e->numbers[i] = e->counts[e->divided.data[i]];
    e->numbers[n] = e->batch->stop;
    RUNG_TRY(rungi_exchange_sum(e->exchange, e->numbers, (int64_t)n + 1, step_of(e),
                                "divisors of the losses"));
    for (size_t i = 0; i < n; i++)
        e->counts[e->divided.data[i]] = e->numbers[i];
    e->stop = e->numbers[n] > 0;
    return RUNG_OK;
}

rung_status rungi_engine_share_loss(rungi_engine *e, double *loss)
{
    enum { LOSS, DATA, COMPUTE, LINK, NUMBERS };
    _Static_assert((int)NUMBERS == (int)RUNGI_EXCHANGE_NUMBERS, "as many as there is room for");
    int ranks = rungi_exchange_ranks(e->exchange);
    double all[RUNGI_MAX_SHARDS][NUMBERS], losses[RUNGI_MAX_SHARDS];
    double times[RUNGI_MAX_SHARDS][RUNGI_STRAGGLER_CAUSES];
    int64_t took = rungi_now(rung_device_context(e->state->device)) - e->began - e->met;
    // Of the link since the last step's losses: that step's gradients, and what came before these.
    int64_t link = rungi_exchange_link_time(e->exchange), linked = link - e->linked;
    e->linked = link;
    const double own[NUMBERS] = {*loss, (double)e->batch->waited * 1e-9, (double)took * 1e-9,
                                 (double)linked * 1e-9};
    RUNG_TRY(rungi_exchange_numbers(e->exchange, own, NUMBERS, all[0], step_of(e), "losses"));
    e->bad_rank = -1;
    for (int r = ranks - 1; r >= 0; r--) {
        losses[r] = all[r][LOSS];
        times[r][RUNGI_STRAGGLER_DATA] = all[r][DATA];
        times[r][RUNGI_STRAGGLER_COMPUTE] = all[r][COMPUTE];
        times[r][RUNGI_STRAGGLER_LINK] = all[r][LINK];
        if (!isfinite(losses[r]))
            e->bad_rank = r;
    }
    if (e->met_bad >= 0 && e->bad_rank >= 0)
        e->bad_rank = e->met_bad;
    *loss = rungi_engine_tree_sum(losses, ranks);
    if (e->training)
        rungi_straggler_feed(&e->balance, (const double(*)[RUNGI_STRAGGLER_CAUSES])times);
    return RUNG_OK;
}

// ---- statistics -------------------------------------------------------------------------------

// The instance that stands for a shard of another rank.
static rung_status find_remote(rungi_engine *e, int shard, char *kept, rungi_instance **out)
{
    rungi_shard_plan *x;
    RUNG_TRY(
        rungi_engine_find(e, true, true, rungi_shard_of(e->whole, e->total, shard).count, -1, &x));
    if (!x->remote[shard])
        RUNG_TRY(rungi_instance_create_remote(x->plan, &x->remote[shard]));
    rungi_instance_place_kept(x->remote[shard], kept);
    *out = x->remote[shard];
    return RUNG_OK;
}

rung_status rungi_engine_share_statistics(rungi_engine *e)
{
    rungi_instance *all[RUNGI_MAX_SHARDS];
    rungi_shard_plan *x; // shard 0 has samples: every rank can ask for its plan
    char *room;
    RUNG_TRY(rungi_engine_find(e, true, true, rungi_shard_of(e->whole, e->total, 0).count, -1, &x));
    size_t bytes = x->plan->kept_bytes;
    if (!bytes)
        return RUNG_OK;
    RUNG_TRY(rungi_exchange_room(e->exchange, e->total, bytes, &room));
    for (int s = 0; s < e->active; s++) {
        RUNG_CHECK(e->now[s]->plan->kept_bytes == bytes, RUNG_INTERNAL,
                   "plans of shards keep different statistics");
        memcpy(room + (size_t)(e->first + s) * bytes, e->now[s]->instances[s]->kept, bytes);
    }
    RUNG_TRY(rungi_exchange_gather(e->exchange, e->total, bytes, step_of(e)));
    int count = 0;
    for (; count < e->total && rungi_shard_of(e->whole, e->total, count).count; count++) {
        int own = count - e->first;
        if (own >= 0 && own < e->shards)
            all[count] = e->now[own]->instances[own];
        else
            RUNG_TRY(find_remote(e, count, room + (size_t)count * bytes, &all[count]));
    }
    return rungi_instances_finish(all, count);
}

// ---- gradients --------------------------------------------------------------------------------

rung_status rungi_engine_backward_overlapped(rungi_engine *e, rungi_instance *instance)
{
    const rungi_shard_plan *x = e->now[0];
    int buckets = rungi_exchange_buckets(e->exchange), next = 0;
    for (int i = x->plan->n_forward; i < (int)x->plan->steps.count; i++) {
        RUNG_TRY(rungi_engine_run_steps(e, 0, instance, i, i + 1));
        while (next < buckets && x->ready[next] <= i)
            RUNG_TRY(rungi_exchange_start(e->exchange, next++));
        RUNG_TRY(rungi_exchange_progress(e->exchange));
    }
    return RUNG_OK;
}

rung_status rungi_engine_share_gradients(rungi_engine *e)
{
    const rungi_batch_view *b = e->batch;
    // Servers need their ranges alone, unless somebody looks at all gradients.
    bool whole = !b->optimizer || !b->update || rungi_optimizer_needs_all(b->update);
    return rungi_exchange_finish(e->exchange, step_of(e), whole);
}
