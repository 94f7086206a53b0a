// SPDX-License-Identifier: Apache-2.0
// The plan as the recompute pass sees it: who gives each value, who reads it.
#include <stdlib.h>

#include "base/error.h"
#include "graph/passes/recompute.h"

typedef struct collector {
    rungi_again *a;
    const rungi_step *step;
    size_t count;
    bool failed;
} collector;

static void collect(void *user, const rungi_operand *operand, bool write)
{
    collector *c = user;
    const rung_plan *p = c->a->p;
    if (operand == c->step->q.sums_in || operand == c->step->q.sums_out)
        return; // of the first time alone
    int root = p->tensors.data[operand->buffer].root;
    if (p->tensors.data[root].kind != RUNGI_TENSOR_ARENA)
        return;
    if (c->a->uses)
        c->a->uses[c->count] = (rungi_use){
            root, write, c->step->q.pass == RUNGI_FORWARD && operand == &c->step->q.out[0]};
    c->count++;
}

static size_t collect_all(rungi_again *a)
{
    collector c = {.a = a};
    for (int i = 0; i < a->n_steps; i++) {
        if (a->uses)
            a->begin[i] = (int)c.count;
        c.step = &a->p->steps.data[i];
        rungi_step_operands(c.step, collect, &c);
    }
    if (a->uses)
        a->begin[a->n_steps] = (int)c.count;
    return c.count;
}

// Forward values, their writers and readers.
static rung_status find_values(rungi_again *a)
{
    for (int i = 0; i < a->n_tensors; i++) {
        a->writer[i] = a->last_forward[i] = a->last_use[i] = -1;
        a->fixed[i] = a->p->tensors.data[i].keep;
    }
    for (int step = 0; step < a->n_steps; step++)
        for (int k = a->begin[step]; k < a->begin[step + 1]; k++) {
            const rungi_use *u = &a->uses[k];
            bool forward = step < a->n_forward;
            RUNG_CHECK(!forward || !u->write || a->writer[u->root] < 0, RUNG_INTERNAL,
                       "forward writes a tensor twice");
            if (forward && u->write)
                a->writer[u->root] = step;
            if (forward)
                a->last_forward[u->root] = step;
            else
                a->backward_reads[u->root] |= !u->write;
            a->last_use[u->root] = step;
        }
    return RUNG_OK;
}

// For each backward step the forward step that its layer ends with.
static rung_status find_places(rungi_again *a)
{
    size_t nodes = a->p->graph->nodes.count;
    int *step_of = calloc(nodes + 1, sizeof *step_of);
    RUNG_CHECK(step_of, RUNG_NO_MEMORY, "no memory to plan memory");
    for (int i = 0; i < a->n_forward; i++) {
        const rungi_query *q = &a->p->steps.data[i].q;
        step_of[q->node] = i;
        for (int k = 0; k < q->n_fused; k++)
            step_of[q->fused[k].node] = i;
    }
    for (size_t k = 1; k < nodes; k++) // views have no step: they go with what is before them
        if (step_of[k] == 0)
            step_of[k] = step_of[k - 1];
    for (int i = a->n_forward; i < a->n_steps; i++)
        a->place_of[i] = step_of[a->p->steps.data[i].q.node];
    free(step_of);
    return RUNG_OK;
}

rung_status rungi_again_init(rungi_again *a, rung_plan *p)
{
    *a = (rungi_again){.p = p,
                       .n_forward = p->n_forward,
                       .n_steps = (int)p->steps.count,
                       .n_tensors = (int)p->tensors.count};
    size_t steps = p->steps.count + 1, tensors = p->tensors.count + 1;
    size_t count = collect_all(a);
    a->begin = calloc(steps + 1, sizeof *a->begin);
    a->uses = calloc(count + 1, sizeof *a->uses);
    a->seconds = calloc(steps, sizeof *a->seconds);
    a->writer = calloc(tensors, sizeof *a->writer);
    a->fixed = calloc(tensors, sizeof *a->fixed);
    a->last_forward = calloc(tensors, sizeof *a->last_forward);
    a->last_use = calloc(tensors, sizeof *a->last_use);
    a->backward_reads = calloc(tensors, sizeof *a->backward_reads);
    a->place_of = calloc(steps, sizeof *a->place_of);
    RUNG_CHECK(a->begin && a->uses && a->seconds && a->writer && a->fixed && a->last_forward &&
                   a->last_use && a->backward_reads && a->place_of,
               RUNG_NO_MEMORY, "no memory to plan memory");
    collect_all(a);
    for (int i = 0; i < a->n_steps; i++)
        a->seconds[i] = rungi_step_seconds(&p->steps.data[i]);
    RUNG_TRY(find_values(a));
    return find_places(a);
}

void rungi_again_fini(rungi_again *a)
{
    free(a->begin);
    free(a->uses);
    free(a->seconds);
    free(a->writer);
    free(a->fixed);
    free(a->last_forward);
    free(a->last_use);
    free(a->backward_reads);
    free(a->place_of);
    *a = (rungi_again){0};
}
