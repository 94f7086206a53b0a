// SPDX-License-Identifier: Apache-2.0
// The last stages of a plan: what is computed again, what shares memory, where everything lies.
// Where that misses the budget by what only the placement shows, it begins anew with a smaller aim.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "graph/plan.h"

static rung_status check_budget(const rung_plan *p)
{
    char wanted[32], budget[32];
    bool fits = !p->options.budget || p->arena_bytes <= p->options.budget;
    RUNG_CHECK(fits, RUNG_NO_MEMORY,
               "activations and workspace of a batch of %" PRId64
               " take %s, more than the budget of %s%s",
               p->options.batch, rungi_text_bytes(p->arena_bytes, wanted, sizeof wanted),
               rungi_text_bytes(p->options.budget, budget, sizeof budget),
               p->options.recompute == RUNG_RECOMPUTE_AUTO ? ", even where most is computed again"
               : p->options.gradients                      ? "; memory.recompute=auto takes less"
                                                           : "");
    return RUNG_OK;
}

// Steps and tensors as they were.
typedef struct snapshot {
    rungi_step *steps;
    rungi_tensor *tensors;
    size_t n_steps, n_tensors;
} snapshot;

static void *copy_of(const void *data, size_t bytes)
{
    void *copy = malloc(bytes + 1);
    if (copy && bytes)
        memcpy(copy, data, bytes);
    return copy;
}

static rung_status keep(const rung_plan *p, snapshot *s)
{
    *s = (snapshot){.n_steps = p->steps.count, .n_tensors = p->tensors.count};
    s->steps = copy_of(p->steps.data, p->steps.count * sizeof *s->steps);
    s->tensors = copy_of(p->tensors.data, p->tensors.count * sizeof *s->tensors);
    RUNG_CHECK(s->steps && s->tensors, RUNG_NO_MEMORY, "no memory for a plan");
    return RUNG_OK;
}

// The plan never has fewer than it had; what was added has no kernel state yet.
static void restore(rung_plan *p, const snapshot *s)
{
    memcpy(p->steps.data, s->steps, s->n_steps * sizeof *s->steps);
    memcpy(p->tensors.data, s->tensors, s->n_tensors * sizeof *s->tensors);
    p->steps.count = s->n_steps;
    p->tensors.count = s->n_tensors;
}

static rung_status arrange(rung_plan *p, uint64_t budget)
{
    RUNG_TRY(rungi_plan_recompute(p, budget));
    rungi_plan_update(p);
    rungi_plan_in_place(p);
    return rungi_plan_place(p);
}

static rung_status arrange_within(rung_plan *p, const snapshot *before)
{
    static const double aims[] = {1, 0.98, 0.95, 0.9, 0.8, 0.6, 0.4, 0.2};
    rung_status status = RUNG_OK;
    for (size_t i = 0; i < sizeof aims / sizeof *aims; i++) {
        if (i)
            restore(p, before);
        status = arrange(p, (uint64_t)((double)p->options.budget * aims[i]));
        if (status != RUNG_OK || p->arena_bytes <= p->options.budget)
            break;
    }
    return status;
}

rung_status rungi_plan_arrange(rung_plan *p)
{
    snapshot before = {0};
    bool search = p->options.budget && p->options.recompute == RUNG_RECOMPUTE_AUTO;
    rung_status status = search ? keep(p, &before) : RUNG_OK;
    if (status == RUNG_OK)
        status = search ? arrange_within(p, &before) : arrange(p, 0);
    free(before.steps);
    free(before.tensors);
    RUNG_TRY(status);
    rungi_plan_count_again(p);
    if (!p->options.plan_only)
        RUNG_TRY(check_budget(p));
    return rungi_plan_prepare_again(p);
}
