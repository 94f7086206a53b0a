// SPDX-License-Identifier: Apache-2.0
// The fastest schedule of a chain of stages within a given memory, by dynamic programming:
// Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova, "Optimal checkpointing for heterogeneous
// chains: how to train deep neural networks with limited memory" (2019), which is optimal among
// schedules that keep what they saved until it is used (and generalizes the segments of Chen, Xu,
// Zhang, Guestrin, "Training deep nets with sublinear memory cost", 2016); with several choices of
// what a stage keeps inside, as in Zhao, Le Hellard, Eyraud-Dubois, Gusak, Beaumont, "Rockmate"
// (2023).
//
// best(s, t, m) is the time of stages s to t, forward and backward, with memory m beside the input
// of s and with the gradient of t's output in it. Either forward of s keeps one of its choices and
// the rest goes on with what is left; or forward runs from s to k - 1 keeping nothing but the input
// of k, stages k to t go on, and then s to k - 1 begin again with all of the memory.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/error.h"
#include "graph/passes/recompute.h"

enum { SIZES = 800 };

// What to do: a choice of s (0 ...), or after which stage to put down: ~k.
typedef int8_t verdict;

struct rungi_solution {
    const rungi_chain *chain;
    int stages, sizes;
    double unit;
    float *best;     // [s][t][m], m from 0
    verdict *decide; // the same
};

static size_t index_of(const rungi_solution *x, int s, int t, int m)
{
    return ((size_t)s * (size_t)x->stages + (size_t)t) * (size_t)(x->sizes + 1) + (size_t)m;
}

static int units(const rungi_solution *x, size_t bytes)
{
    double n = ceil((double)bytes / x->unit - 1e-9);
    return n > x->sizes ? x->sizes + 1 : (int)n;
}

static double best_of(const rungi_solution *x, int s, int t, int m)
{
    return m < 0 ? INFINITY : (double)x->best[index_of(x, s, t, m)];
}

typedef struct answer {
    double seconds;
    int decision;
} answer;

static void consider(answer *a, double seconds, int decision)
{
    if (seconds < a->seconds)
        *a = (answer){seconds, decision};
}

// A stage alone. Only the last one of the chain is met before its forward ran.
static answer solve_one(const rungi_solution *x, int s, int m)
{
    const rungi_stage *stage = &x->chain->stages[s];
    answer a = {INFINITY, 0};
    if (s + 1 < x->stages) {
        if (units(x, stage->nothing.backward_peak) <= m)
            consider(&a, stage->nothing.backward_seconds, 0);
        return a;
    }
    for (int i = 0; i < stage->n_choices; i++) {
        const rungi_choice *c = &stage->choices[i];
        if (units(x, c->forward_peak) <= m && units(x, c->backward_peak) <= m)
            consider(&a, stage->forward_seconds + c->backward_seconds, i);
    }
    return a;
}

static answer solve(const rungi_solution *x, int s, int t, int m)
{
    const rungi_stage *stage = &x->chain->stages[s];
    answer a = {INFINITY, 0};
    size_t gradient = x->chain->stages[t].out_bytes;
    for (int i = 0; i < stage->n_choices; i++) {
        const rungi_choice *c = &stage->choices[i];
        if (units(x, c->forward_peak + gradient) > m || units(x, c->backward_peak) > m)
            continue;
        consider(&a,
                 stage->forward_seconds + c->backward_seconds +
                     best_of(x, s + 1, t, m - units(x, c->saved)),
                 i);
    }
    double forward = 0;
    for (int k = s + 1; k <= t; k++) {
        const rungi_stage *passed = &x->chain->stages[k - 1];
        forward += passed->forward_seconds;
        size_t input = k - 1 > s ? passed->in_bytes : 0;
        if (units(x, passed->pass_peak + input + gradient) > m)
            break;
        consider(&a,
                 forward + best_of(x, k, t, m - units(x, passed->out_bytes)) +
                     best_of(x, s, k - 1, m),
                 ~k);
    }
    return a;
}

rung_status rungi_solution_make(const rungi_chain *chain, size_t most, rungi_solution **out)
{
    rungi_solution *x = calloc(1, sizeof *x);
    RUNG_CHECK(x, RUNG_NO_MEMORY, "no memory to plan memory");
    *x = (rungi_solution){.chain = chain, .stages = chain->count, .sizes = SIZES};
    x->unit = (double)most / SIZES;
    size_t count = index_of(x, x->stages, 0, 0);
    x->best = calloc(count, sizeof *x->best);
    x->decide = calloc(count, sizeof *x->decide);
    if (!x->best || !x->decide || most == 0) {
        rungi_solution_destroy(&x);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory to plan memory");
    }
    for (int length = 0; length < x->stages; length++)
        for (int s = 0; s + length < x->stages; s++)
            for (int m = 0; m <= x->sizes; m++) {
                answer a = length ? solve(x, s, s + length, m) : solve_one(x, s, m);
                x->best[index_of(x, s, s + length, m)] = (float)a.seconds;
                x->decide[index_of(x, s, s + length, m)] = (verdict)a.decision;
            }
    *out = x;
    return RUNG_OK;
}

void rungi_solution_destroy(rungi_solution **solution)
{
    if (!*solution)
        return;
    free((*solution)->best);
    free((*solution)->decide);
    free(*solution);
    *solution = NULL;
}

int rungi_solution_sizes(const rungi_solution *s)
{
    return s->sizes;
}

double rungi_solution_seconds(const rungi_solution *s, int size)
{
    return best_of(s, 0, s->stages - 1, size);
}

// ---- the schedule -----------------------------------------------------------------------------

typedef struct emitter {
    const rungi_solution *x;
    const rungi_again *a;
    rungi_moves *moves;
    bool *there;
    bool failed;
} emitter;

static void forget(emitter *e, int r)
{
    if (r < 0 || e->a->fixed[r] || !e->there[r])
        return;
    e->there[r] = false;
    e->failed |= !rungi_array_push(e->moves, ~r);
}

// Forgets what stages s to t - 1 gave, except `output`.
static void forget_stages(emitter *e, int s, int t, int output)
{
    int from = e->x->chain->stages[s].forward[0], to = e->x->chain->stages[t - 1].forward[1];
    for (int r = 0; r < e->a->n_tensors; r++)
        if (r != output && e->a->writer[r] >= from && e->a->writer[r] < to)
            forget(e, r);
}

// Forward of a stage; of what it gives, `keep` (NULL: nothing) and the output stay.
static void run_forward(emitter *e, int stage, const bool *keep)
{
    const rungi_stage *s = &e->x->chain->stages[stage];
    for (int i = s->forward[0]; i < s->forward[1]; i++)
        e->failed |= !rungi_array_push(e->moves, i);
    for (int r = 0; r < e->a->n_tensors; r++) {
        if (e->a->writer[r] < s->forward[0] || e->a->writer[r] >= s->forward[1])
            continue;
        e->there[r] = true;
        if (r != s->output && !(keep && keep[r]))
            forget(e, r);
    }
}

static void run_backward(emitter *e, int stage)
{
    const rungi_stage *s = &e->x->chain->stages[stage];
    e->failed |= !rungi_moves_backward(e->a, s->backward[0], s->backward[1], e->there, e->moves);
    forget_stages(e, stage, stage + 1, -1);
}

static void emit(emitter *e, int s, int t, int m)
{
    const rungi_solution *x = e->x;
    const rungi_stage *stage = &x->chain->stages[s];
    int decide = x->decide[index_of(x, s, t, m)];
    if (s == t) {
        if (s + 1 == x->stages)
            run_forward(e, s, stage->choices[decide].keep);
        run_backward(e, s);
    } else if (decide >= 0) {
        const rungi_choice *c = &stage->choices[decide];
        run_forward(e, s, c->keep);
        emit(e, s + 1, t, m - units(x, c->saved));
        run_backward(e, s);
    } else {
        int k = ~decide;
        for (int j = s; j < k; j++) {
            run_forward(e, j, NULL);
            if (j > s)
                forget(e, x->chain->stages[j].input);
        }
        emit(e, k, t, m - units(x, x->chain->stages[k - 1].out_bytes));
        forget_stages(e, s, k, -1);
        emit(e, s, k - 1, m);
    }
}

rung_status rungi_solution_moves(const rungi_solution *s, const rungi_again *a, int size,
                                 rungi_moves *moves)
{
    emitter e = {.x = s, .a = a, .moves = moves};
    e.there = calloc((size_t)a->n_tensors + 1, sizeof *e.there);
    RUNG_CHECK(e.there, RUNG_NO_MEMORY, "no memory to plan memory");
    for (int r = 0; r < a->n_tensors; r++)
        e.there[r] = a->fixed[r];
    moves->count = 0;
    emit(&e, 0, s->stages - 1, size);
    free(e.there);
    RUNG_CHECK(!e.failed, RUNG_NO_MEMORY, "no memory to plan memory");
    return RUNG_OK;
}
