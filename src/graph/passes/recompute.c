// SPDX-License-Identifier: Apache-2.0
// Recompute pass (`memory.recompute`): backward computes some of what forward gave again, so that
// it need not be kept. The schedule is the best of a chain of stages (recompute_chain.c,
// recompute_solve.c), or follows from the layers that were named. A step that is done again has the
// same kernel, the same inputs and, where it draws random numbers, the same keys, so its bits are
// the same; what happens once a step (running statistics) belongs to the first time alone.
#include "graph/passes/recompute.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

// Without a budget: the share of the step's time that may be added.
#define CHEAP 0.2

// Rates of a thread with AVX-512, AVX2, without; of memory; of a call: in seconds.
double rungi_step_seconds(const rungi_step *s)
{
    const rungi_query *q = &s->q;
    double rate = q->isa >= RUNG_ISA_AVX512 ? 60e9 : q->isa >= RUNG_ISA_AVX2 ? 40e9 : 5e9;
    if (s->kernel->kind == RUNGI_REFERENCE)
        rate = 1e9;
    double arithmetic = rungi_kernel_flops(s->kernel, q) / (rate * q->threads);
    double memory = rungi_query_cost(q).bytes / (q->threads > 1 ? 14e9 : 9e9);
    return fmax(arithmetic, memory) + 3e-6;
}

// ---- named layers -----------------------------------------------------------------------------

static bool names_node(const rung_plan *p, int node)
{
    for (int i = 0; i < p->options.n_recompute_layers; i++)
        if (rungi_text_match(p->options.recompute_layers[i], p->graph->nodes.data[node].name))
            return true;
    return false;
}

static bool names_step(const rung_plan *p, const rungi_step *s)
{
    bool named = names_node(p, s->q.node);
    for (int i = 0; i < s->q.n_fused; i++)
        named |= names_node(p, s->q.fused[i].node);
    return named;
}

static rung_status check_layers(const rung_plan *p)
{
    for (int i = 0; i < p->options.n_recompute_layers; i++) {
        bool found = false;
        for (size_t k = 0; k < p->graph->nodes.count; k++)
            found |= rungi_text_match(p->options.recompute_layers[i], p->graph->nodes.data[k].name);
        RUNG_CHECK(found, RUNG_NOT_FOUND, "memory.recompute: no layer matches '%s'",
                   p->options.recompute_layers[i]);
    }
    return RUNG_OK;
}

// Forgets after forward what the named layers gave.
static rung_status forget_layers(const rungi_again *a, rungi_moves *moves)
{
    bool *there = calloc((size_t)a->n_tensors + 1, sizeof *there);
    bool good = there != NULL;
    for (int i = 0; good && i < a->n_forward; i++)
        good = rungi_array_push(moves, i);
    for (int r = 0; good && r < a->n_tensors; r++) {
        there[r] =
            a->writer[r] < 0 || a->fixed[r] || !names_step(a->p, &a->p->steps.data[a->writer[r]]);
        if (!there[r])
            good = rungi_array_push(moves, ~r);
    }
    good = good && rungi_moves_backward(a, a->n_forward, a->n_steps, there, moves);
    free(there);
    RUNG_CHECK(good, RUNG_NO_MEMORY, "no memory to plan memory");
    return RUNG_OK;
}

// ---- the best of a chain ----------------------------------------------------------------------

typedef struct search {
    const rungi_again *a;
    rungi_solution *solution;
    rungi_take all; // without recomputation
    rungi_moves moves;
    int size; // found
    rungi_take take;
} search;

static rung_status measure_all(search *s)
{
    s->moves.count = 0;
    for (int i = 0; i < s->a->n_steps; i++)
        RUNG_CHECK(rungi_array_push(&s->moves, i), RUNG_NO_MEMORY, "no memory to plan memory");
    return rungi_moves_take(s->a, &s->moves, NULL, -1, &s->all);
}

// Is `x` better than what was found? Within the budget the faster one; else the smaller.
static bool better(const search *s, const rungi_take *x, uint64_t budget)
{
    const rungi_take *y = &s->take;
    if (s->size < 0)
        return true;
    if (!budget) {
        double most = s->all.seconds * (1 + CHEAP);
        bool x_cheap = x->seconds <= most, y_cheap = y->seconds <= most;
        return x_cheap != y_cheap ? x_cheap : x_cheap ? x->peak < y->peak : x->seconds < y->seconds;
    }
    bool x_fits = x->peak <= budget, y_fits = y->peak <= budget;
    if (x_fits != y_fits)
        return x_fits;
    if (!x_fits || x->seconds == y->seconds)
        return x->peak < y->peak;
    return x->seconds < y->seconds;
}

// Looks at each schedule that the solution has.
static rung_status search_sizes(search *s, uint64_t budget)
{
    double last = INFINITY;
    s->size = -1;
    for (int size = 1; size <= rungi_solution_sizes(s->solution); size++) {
        double seconds = rungi_solution_seconds(s->solution, size);
        rungi_take take;
        if (!(seconds < last))
            continue; // the one before, or none
        last = seconds;
        RUNG_TRY(rungi_solution_moves(s->solution, s->a, size, &s->moves));
        RUNG_TRY(rungi_moves_take(s->a, &s->moves, NULL, -1, &take));
        if (better(s, &take, budget)) {
            s->size = size;
            s->take = take;
        }
    }
    return RUNG_OK;
}

static rung_status solve(search *s, rungi_chain *chain, uint64_t budget, rungi_moves *moves)
{
    RUNG_TRY(measure_all(s));
    if (budget && s->all.peak <= budget)
        return RUNG_OK;
    RUNG_TRY(rungi_chain_make(s->a, chain));
    RUNG_TRY(rungi_solution_make(chain, s->all.peak + s->all.peak / 8, &s->solution));
    RUNG_TRY(search_sizes(s, budget));
    if (s->size < 0 || s->take.peak >= s->all.peak)
        return RUNG_OK;
    return rungi_solution_moves(s->solution, s->a, s->size, moves);
}

static rung_status best_schedule(const rungi_again *a, uint64_t budget, rungi_moves *moves)
{
    search s = {.a = a};
    rungi_chain *chain = calloc(1, sizeof *chain);
    RUNG_CHECK(chain, RUNG_NO_MEMORY, "no memory to plan memory");
    rung_status status = solve(&s, chain, budget, moves);
    rungi_solution_destroy(&s.solution);
    rungi_chain_fini(chain);
    free(chain);
    rungi_array_fini(&s.moves);
    return status;
}

// ---- the pass ---------------------------------------------------------------------------------

rung_status rungi_plan_recompute(rung_plan *p, uint64_t budget)
{
    rungi_again a;
    rungi_moves moves = {0};
    bool named = p->options.recompute == RUNG_RECOMPUTE_LAYERS;
    if (named)
        RUNG_TRY(check_layers(p));
    if (p->options.recompute == RUNG_RECOMPUTE_NONE || !p->options.gradients)
        return RUNG_OK;
    rung_status status = rungi_again_init(&a, p);
    if (status == RUNG_OK)
        status = named ? forget_layers(&a, &moves) : best_schedule(&a, budget, &moves);
    if (status == RUNG_OK && moves.count)
        status = rungi_moves_apply(&a, &moves);
    rungi_array_fini(&moves);
    rungi_again_fini(&a);
    return status;
}

void rungi_plan_count_again(rung_plan *p)
{
    p->n_again = 0;
    p->step_seconds = p->again_seconds = 0;
    for (size_t i = 0; i < p->steps.count; i++) {
        double seconds = rungi_step_seconds(&p->steps.data[i]);
        p->step_seconds += seconds;
        if (p->steps.data[i].again) {
            p->n_again++;
            p->again_seconds += seconds;
        }
    }
}

rung_status rungi_plan_prepare_again(rung_plan *p)
{
    for (size_t i = 0; i < p->steps.count; i++) {
        rungi_step *step = &p->steps.data[i];
        if (!step->stale)
            continue;
        step->stale = false;
        if (!step->kernel->create)
            continue;
        if (step->setup.state && step->kernel->destroy)
            step->kernel->destroy(step->setup.state);
        size_t workspace = step->setup.workspace;
        step->setup = (rungi_setup){0};
        if (step->kernel->create(&step->q, &step->setup) != RUNG_OK)
            return rungi_fail_prefix("layer %s (%s)", p->graph->nodes.data[step->q.node].name,
                                     step->kernel->name);
        RUNG_CHECK(step->setup.workspace == workspace, RUNG_INTERNAL,
                   "layer %s (%s): asks for another workspace the second time",
                   p->graph->nodes.data[step->q.node].name, step->kernel->name);
    }
    return RUNG_OK;
}
