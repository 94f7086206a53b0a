// SPDX-License-Identifier: Apache-2.0
// Backward of a rank's one shard where something is done with gradients as soon as they are
// complete: they are sent to the other ranks, or summed for the optimizer while they lie in the
// caches.
#include <stdlib.h>

#include "base/error.h"
#include "optim/optimizer.h"
#include "train/engine_inside.h"

// ---- when they are ----------------------------------------------------------------------------

typedef struct writes {
    const rung_plan *plan;
    int *last; // by entry of the state: the last step that writes its gradient
    int step;
} writes;

static void note_write(void *user, const rungi_operand *operand, bool write)
{
    writes *w = user;
    const rungi_tensor *t = &w->plan->tensors.data[w->plan->tensors.data[operand->buffer].root];
    if (write && t->kind == RUNGI_TENSOR_GRAD)
        w->last[w->plan->state->entry_of[t->value]] = w->step;
}

rung_status rungi_engine_note_complete(rungi_shard_plan *x)
{
    const rung_plan *plan = x->plan;
    const rung_state *s = plan->state;
    int *last = malloc((size_t)(s->n_entries + 1) * sizeof *last), latest = plan->n_forward - 1;
    x->complete = malloc((size_t)(s->n_params + 1) * sizeof *x->complete);
    if (!last || !x->complete) {
        free(last);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a plan");
    }
    writes w = {plan, last, plan->n_forward};
    for (int i = 0; i < s->n_entries; i++)
        last[i] = latest;
    for (; w.step < (int)plan->steps.count; w.step++)
        rungi_step_operands(&plan->steps.data[w.step], note_write, &w);
    for (int i = 0; i < s->n_params; i++) {
        if (last[s->flat_order[i]] > latest)
            latest = last[s->flat_order[i]];
        x->complete[i] = latest;
    }
    free(last);
    return RUNG_OK;
}

// ---- backward ---------------------------------------------------------------------------------

rung_status rungi_engine_start_buckets(rungi_engine *e, const rungi_shard_plan *x, int step,
                                       int *next)
{
    int buckets = rungi_exchange_buckets(e->exchange);
    while (*next < buckets && x->complete[rungi_exchange_last(e->exchange, *next)] <= step)
        RUNG_TRY(rungi_exchange_start(e->exchange, (*next)++));
    return RUNG_OK;
}

rung_status rungi_engine_backward_overlapped(rungi_engine *e, rungi_instance *instance)
{
    const rungi_shard_plan *x = e->now[e->active - 1]; // of the last round
    int next = 0;
    for (int i = x->plan->n_forward; i < (int)x->plan->steps.count; i++) {
        RUNG_TRY(rungi_engine_run_steps(e, 0, instance, i, i + 1));
        RUNG_TRY(rungi_engine_start_buckets(e, x, i, &next));
        RUNG_TRY(rungi_exchange_progress(e->exchange));
    }
    return RUNG_OK;
}

bool rungi_engine_sums_gradients(const rungi_engine *e)
{
    const rungi_batch_view *b = e->batch;
    bool looks = b->optimizer && b->update && rungi_optimizer_needs_all(b->update);
    return looks && !e->team && !e->exchange && !e->streams[0];
}

rung_status rungi_engine_backward_summed(rungi_engine *e, rungi_instance *instance)
{
    const rungi_shard_plan *x = e->now[e->active - 1]; // of the last round
    const rung_state *s = e->state;
    const rungi_batch_view *b = e->batch;
    int done = 0; // parameters
    rungi_optimizer_begin_sums(b->optimizer);
    for (int i = x->plan->n_forward; i < (int)x->plan->steps.count; i++) {
        RUNG_TRY(rungi_engine_run_steps(e, 0, instance, i, i + 1));
        while (done < s->n_params && x->complete[done] <= i)
            done++;
        int64_t end = done < s->n_params ? s->entries[s->flat_order[done]].offset : s->flat_size;
        rungi_optimizer_sum(b->optimizer, s->grads, end, b->update->threads);
    }
    return RUNG_OK;
}
