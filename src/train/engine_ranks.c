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

// ---- gradients --------------------------------------------------------------------------------

bool rungi_engine_leaves_gradients(const rungi_engine *e)
{
    const rungi_batch_view *b = e->batch;
    return e->exchange && rungi_exchange_fuses(e->exchange) && b->optimizer && b->update &&
           rungi_optimizer_takes_replicas(b->update);
}

bool rungi_engine_left_gradients(const rungi_engine *e)
{
    return e->left;
}

rung_status rungi_engine_update(rungi_engine *e, rung_optimizer *optimizer,
                                const rung_optimizer_update *update,
                                rung_optimizer_report *report_out)
{
    int64_t took;
    e->left = false;
    rung_status status =
        rungi_exchange_update(e->exchange, optimizer, update, step_of(e), report_out, &took);
    rungi_engine_note_update(e, took);
    return status;
}

rung_status rungi_engine_share_gradients(rungi_engine *e)
{
    if (e->left)
        return RUNG_OK;
    const rungi_batch_view *b = e->batch;
    // Servers need their ranges alone, unless somebody looks at all gradients.
    bool whole = !b->optimizer || !b->update || rungi_optimizer_needs_all(b->update);
    return rungi_exchange_finish(e->exchange, step_of(e), whole);
}
