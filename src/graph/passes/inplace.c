// SPDX-License-Identifier: Apache-2.0
// In-place pass: where an operator allows it, its output takes the memory of its first input (in
// backward: the input's gradient takes that of the output's) if no later step reads that.
#include "graph/plan.h"

typedef struct last_use {
    const rung_plan *p;
    int root;
    bool used;
} last_use;

static void note(void *user, const rungi_operand *operand, bool write)
{
    (void)write;
    last_use *u = user;
    u->used |= u->p->tensors.data[operand->buffer].root == u->root;
}

static bool used_after(const rung_plan *p, int root, size_t step)
{
    last_use u = {p, root, false};
    for (size_t i = step + 1; i < p->steps.count && !u.used; i++)
        rungi_step_operands(&p->steps.data[i], note, &u);
    return u.used;
}

typedef struct uses_here {
    const rung_plan *p;
    int root;
    int count;
} uses_here;

static void count_use(void *user, const rungi_operand *operand, bool write)
{
    (void)write;
    uses_here *u = user;
    u->count += u->p->tensors.data[operand->buffer].root == u->root;
}

// Gives tensor `to` (so far with memory of its own, written at `step`) the memory of `from`.
static void take_over(rung_plan *p, size_t step, int from, int to)
{
    rungi_tensor *target = &p->tensors.data[to];
    int root = p->tensors.data[from].root;
    const rungi_tensor *source = &p->tensors.data[root];
    if (target->kind != RUNGI_TENSOR_ARENA || source->kind != RUNGI_TENSOR_ARENA ||
        target->root != to || root == to || source->keep || source->bytes != target->bytes ||
        p->tensors.data[from].bytes != target->bytes || used_after(p, root, step))
        return;
    uses_here here = {p, root, 0};
    rungi_step_operands(&p->steps.data[step], count_use, &here);
    if (here.count != 1)
        return; // the step reads it in another role too
    bool keep = target->keep;
    for (size_t i = 0; i < p->tensors.count; i++)
        if (p->tensors.data[i].root == to)
            p->tensors.data[i].root = root;
    p->tensors.data[root].keep |= keep;
}

void rungi_plan_in_place(rung_plan *p)
{
    for (size_t i = 0; i < p->steps.count; i++) {
        const rungi_query *q = &p->steps.data[i].q;
        bool forward = q->pass == RUNGI_FORWARD;
        if (!rungi_query_pass(q)->in_place || (forward && q->n_fused) || q->n_in < 1)
            continue;
        if (forward) {
            if (q->in[0].buffer >= 0 && q->out[0].buffer >= 0)
                take_over(p, i, q->in[0].buffer, q->out[0].buffer);
        } else if (q->gout[0].buffer >= 0 && q->gin[0].buffer >= 0) {
            take_over(p, i, q->gout[0].buffer, q->gin[0].buffer);
        }
    }
}
