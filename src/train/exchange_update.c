// SPDX-License-Identifier: Apache-2.0
// Gradients added, parameters updated and given to all ranks in one pass, over memory that the
// ranks share. Of N bytes of parameters two ranks that update them with momentum move 7 N or 8 N;
// with a sum for each owner, a step of the optimizer and a gather it would be 11 N (2 N + N for the
// sums, 5 N for the step, 3 N for the gather), with replicas that each update everything 14 N.
#include <stdlib.h>

#include "base/error.h"
#include "comm/combine.h"
#include "optim/optimizer.h"
#include "train/exchange_inside.h"

static rung_status reach(const rungi_exchange *x, float *data, const char *label, float **of_out)
{
    void *at[RUNGI_COMBINE_RANKS];
    uint64_t bytes = (uint64_t)x->state->flat_size * sizeof(float);
    RUNG_TRY(rungi_comm_reach(x->o.comm, data, bytes, label, at));
    for (int r = 0; r < rungi_exchange_ranks(x); r++) {
        of_out[r] = at[r];
        RUNG_CHECK(at[r], RUNG_UNSUPPORTED,
                   "ddp.fuse_update: ranks %d and %d share no memory: switch it off",
                   rungi_exchange_rank(x), r);
    }
    return RUNG_OK;
}

rung_status rungi_exchange_share_params(rungi_exchange *x)
{
    void *params;
    RUNG_TRY(rungi_exchange_alloc(x, (uint64_t)x->state->flat_size * sizeof(float), "parameters",
                                  &params));
    x->params = params;
    rungi_state_lend_params(x->state, params);
    return RUNG_OK;
}

rung_status rungi_exchange_reach(rungi_exchange *x)
{
    size_t ranks = (size_t)rungi_exchange_ranks(x);
    x->grads_of = calloc(2 * ranks, sizeof *x->grads_of);
    RUNG_CHECK(x->grads_of, RUNG_NO_MEMORY, "no memory for an exchange");
    x->params_of = x->grads_of + ranks;
    RUNG_TRY(reach(x, x->grads, "places of gradients", x->grads_of));
    return reach(x, x->params, "places of parameters", x->params_of);
}

bool rungi_exchange_fuses(const rungi_exchange *x)
{
    return x->params != NULL;
}

static void add(void *user, int64_t begin, int64_t count, float *sum_out)
{
    const rungi_exchange *x = user;
    rungi_comm_sum_reached(x->o.comm, x->grads_of, begin, count, sum_out);
}

static void give(void *user, int64_t begin, int64_t count)
{
    const rungi_exchange *x = user;
    rungi_comm_give_reached(x->o.comm, x->params_of, begin, count);
}

static rung_status meet(const rungi_exchange *x, int64_t step, const char *label)
{
    rungi_exchange_begin(x, step);
    rung_status status = rungi_comm_barrier(x->o.comm, label);
    rungi_exchange_end(x);
    return status;
}

rung_status rungi_exchange_update(rungi_exchange *x, rung_optimizer *optimizer,
                                  const rung_optimizer_update *update, int64_t step,
                                  rung_optimizer_report *report_out, int64_t *took_out)
{
    const rungi_optim_replicas replicas = {add, give, x};
    int ranks = rungi_exchange_ranks(x);
    int64_t own = rungi_comm_part_of(x->state->flat_size, ranks, rungi_exchange_rank(x)).count;
    *took_out = 0;
    RUNG_TRY(meet(x, step, "gradients to update with"));
    int64_t began = rungi_comm_now(x->o.comm);
    if (!rungi_comm_touch_begin(x->o.comm)) // the next call says why
        return meet(x, step, "updated parameters");
    rungi_optimizer_use_replicas(optimizer, &replicas);
    rung_status status =
        rung_optimizer_step(optimizer, x->state->params, x->grads, update, report_out);
    rungi_optimizer_use_replicas(optimizer, NULL);
    rungi_comm_touch_end(x->o.comm);
    rungi_comm_note_reached(x->o.comm, (uint64_t)own * sizeof(float) * (uint64_t)(ranks - 1) * 2);
    *took_out = rungi_comm_now(x->o.comm) - began;
    return status == RUNG_OK ? meet(x, step, "updated parameters") : status;
}
