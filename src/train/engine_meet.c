// SPDX-License-Identifier: Apache-2.0
// Steps in which the ranks meet: synchronized batch normalization.
//
// All ranks run the same layers in the same order, so what they tell each other in a step, and the
// buckets of gradients that are sent in between, are the same calls in the same order on all of
// them. In a round of which a rank has no samples it goes along with the plan of the first rank,
// which has some, and gives zeros.
#include <math.h>

#include "base/context.h"
#include "base/error.h"
#include "train/engine_inside.h"

// The first rank that gives something not finite: its statistics spread to all.
static void note_bad(rungi_engine *e, const double *all, int64_t count, int64_t stride)
{
    for (int r = 0; r < e->group.size && e->met_bad < 0; r++)
        for (int64_t k = 0; k < count && e->met_bad < 0; k++)
            if (!isfinite(all[r * stride + k]))
                e->met_bad = r;
}

static rung_status gather(void *self, const double *own, int64_t count, const double **all_out,
                          int64_t *stride_out)
{
    rungi_engine *e = self;
    rungi_timeline *t = e->options.timeline;
    const rung_context *context = rung_device_context(e->state->device);
    rungi_span was;
    int64_t began = rungi_now(context);
    bool computes = t && rungi_timeline_busy(t, RUNGI_QUEUE_COMPUTE, &was);
    if (computes) // what the others are waited for is no computing
        rungi_timeline_end(t, RUNGI_QUEUE_COMPUTE);
    rung_status status =
        rungi_exchange_meet(e->exchange, own, count, (int64_t)e->batch->step, all_out, stride_out);
    if (computes)
        rungi_timeline_begin(t, RUNGI_QUEUE_COMPUTE, was.category, was.step);
    e->met += rungi_now(context) - began;
    if (status == RUNG_OK)
        note_bad(e, *all_out, count, *stride_out);
    return status;
}

void rungi_engine_meet_init(rungi_engine *e)
{
    e->group =
        (rungi_group){.size = rungi_exchange_ranks(e->exchange), .gather = gather, .self = e};
}

// What the plan's step tells, as a rank without samples.
static rung_status meet_in(rungi_engine *e, const rungi_step *step)
{
    const rungi_query *q = &step->q;
    const double *all;
    int64_t stride;
    int64_t count = q->synchronized ? q->op->meets(q) : 0;
    if (!count)
        return RUNG_OK;
    while (e->zeros.count < (size_t)count)
        RUNG_CHECK(rungi_array_push(&e->zeros, 0.0), RUNG_NO_MEMORY, "no memory for statistics");
    return gather(e, e->zeros.data, count, &all, &stride);
}

rung_status rungi_engine_meet_idle(rungi_engine *e, int round, bool overlaps)
{
    rungi_shard_plan *x;
    int next = 0;
    int64_t count = rungi_shard_of(e->whole, e->total, round).count;
    RUNG_TRY(rungi_engine_find(e, true, true, round > 0 && !e->options.exact, count, -1, &x));
    for (int i = 0; i < (int)x->plan->steps.count; i++) {
        RUNG_TRY(meet_in(e, &x->plan->steps.data[i]));
        if (overlaps && i >= x->plan->n_forward)
            RUNG_TRY(rungi_engine_start_buckets(e, x, i, &next));
    }
    return RUNG_OK;
}
