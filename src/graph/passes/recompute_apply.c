// SPDX-License-Identifier: Apache-2.0
// Making a plan of a schedule of the recompute pass.
#include <stdlib.h>

#include "base/error.h"
#include "graph/passes/recompute_walk.h"

typedef struct maker {
    rungi_walk w;
    rungi_again *a;
    int *seen; // by tensor of the old plan: its alias of the latest instance's memory, -1: none
    bool failed;
} maker;

// A fresh tensor like `root`, not an output.
static int fresh_tensor(maker *m, int root)
{
    rungi_tensor t = m->a->p->tensors.data[root];
    t.keep = false;
    int index = rungi_plan_tensor(m->a->p, &t);
    m->failed |= index < 0;
    return index;
}

// A copy of an operand list in which each operand is of the instance that `as` (by root) names.
static const rungi_operand *mapped(maker *m, const rungi_operand *list, int n, const int *as)
{
    rung_plan *p = m->a->p;
    if (!list || n < 1)
        return list;
    rungi_operand *copy = rungi_plan_block(p, sizeof *copy * (size_t)n);
    m->failed |= !copy;
    for (int i = 0; copy && i < n; i++) {
        copy[i] = list[i];
        if (list[i].buffer < 0)
            continue;
        int root = p->tensors.data[list[i].buffer].root, now = as[root];
        if (now < 0 || now == root)
            continue;
        if (list[i].buffer == root) {
            copy[i].buffer = now;
        } else {
            int alias = rungi_plan_alias(p, now, &list[i]);
            m->failed |= alias < 0;
            if (alias >= 0) {
                p->tensors.data[alias].value = p->tensors.data[list[i].buffer].value;
                copy[i].buffer = alias;
            }
        }
    }
    return copy;
}

static void map_fused(maker *m, rungi_query *q, const int *reads, const int *writes)
{
    if (!q->n_fused)
        return;
    rungi_fused *list = rungi_plan_block(m->a->p, sizeof *list * (size_t)q->n_fused);
    m->failed |= !list;
    for (int i = 0; list && i < q->n_fused; i++) {
        list[i] = q->fused[i];
        list[i].in = mapped(m, q->fused[i].in, q->fused[i].n_in, reads);
        list[i].out = mapped(m, q->fused[i].out, q->fused[i].op->n_out,
                             q->pass == RUNGI_FORWARD ? writes : reads);
    }
    if (list)
        q->fused = list;
}

// Which instances the step's uses are of: `reads` and `writes` by root. True when one is not the
// original.
static bool assign(maker *m, int step, bool again, int *reads, int *writes)
{
    const rungi_use *uses;
    int n = rungi_again_uses(m->a, step, &uses);
    bool moved = again;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < n; i++) {
            if (uses[i].write != pass)
                continue;
            int root = uses[i].root, instance = m->w.now[root];
            if (rungi_walk_needs(&m->w, &uses[i])) {
                instance = again && uses[i].write ? fresh_tensor(m, root) : root;
                rungi_walk_take(&m->w, &uses[i], instance);
            }
            m->w.there[root] = true;
            (pass ? writes : reads)[root] = instance;
            moved |= instance != root;
        }
    return moved;
}

static void add_step(maker *m, int index, bool again, int *reads, int *writes, rungi_step *out)
{
    rung_plan *p = m->a->p;
    *out = p->steps.data[index];
    if (!assign(m, index, again, reads, writes))
        return;
    rungi_query *q = &out->q;
    out->stale = true;
    if (q->pass == RUNGI_FORWARD) {
        q->in = mapped(m, q->in, q->n_in, reads);
        q->out = mapped(m, q->out, q->n_out, writes);
    } else {
        q->in = mapped(m, q->in, q->n_in, reads);
        q->out = mapped(m, q->out, q->n_out, reads);
        q->gout = mapped(m, q->gout, q->op->n_out, reads);
        q->gin = mapped(m, q->gin, q->n_in, writes);
    }
    map_fused(m, q, reads, writes);
    if (!again)
        return;
    out->again = q->again = true;
    q->sums_in = q->sums_out = NULL;
    out->setup.state = NULL;
    out->refusals = NULL;
    if (out->workspace >= 0)
        out->workspace = fresh_tensor(m, out->workspace);
}

static rung_status make_steps(maker *m, const rungi_moves *moves, rungi_step *steps, size_t *count)
{
    size_t tensors = (size_t)m->a->n_tensors;
    bool *done = calloc((size_t)m->a->n_steps + 1, sizeof *done);
    int *reads = calloc(tensors + 1, sizeof *reads), *writes = calloc(tensors + 1, sizeof *writes);
    m->failed |= !done || !reads || !writes;
    for (size_t i = 0; !m->failed && i < tensors; i++)
        reads[i] = writes[i] = -1;
    for (size_t i = 0; !m->failed && i < moves->count; i++) {
        int move = moves->data[i];
        if (move < 0) {
            m->w.there[~move] = false;
            continue;
        }
        const rungi_use *uses;
        int n = rungi_again_uses(m->a, move, &uses);
        add_step(m, move, done[move], reads, writes, &steps[(*count)++]);
        done[move] = true;
        for (int k = 0; k < n; k++)
            reads[uses[k].root] = writes[uses[k].root] = -1;
    }
    free(done);
    free(reads);
    free(writes);
    RUNG_CHECK(!m->failed, RUNG_NO_MEMORY, "no memory for a plan");
    return RUNG_OK;
}

rung_status rungi_moves_apply(rungi_again *a, const rungi_moves *moves)
{
    rung_plan *p = a->p;
    maker m = {.a = a};
    size_t count = 0;
    rungi_step *steps = calloc(moves->count + 1, sizeof *steps);
    m.failed = !rungi_walk_init(&m.w, a) || !steps;
    rung_status status = RUNG_OK;
    if (m.failed)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a plan");
    if (status == RUNG_OK)
        status = make_steps(&m, moves, steps, &count);
    rungi_walk_fini(&m.w);
    if (status != RUNG_OK) {
        free(steps);
        return status;
    }
    free(p->steps.data);
    p->steps.data = steps;
    p->steps.count = count;
    p->steps.capacity = moves->count + 1;
    return RUNG_OK;
}
