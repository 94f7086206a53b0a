// SPDX-License-Identifier: Apache-2.0
// Update pass: finds the steps whose kernel can update a parameter instead of storing its gradient,
// and that nothing stands in the way of: no other step adds to that gradient, and none that follows
// reads the parameter. A step is moved behind the readers of its parameter (backward_data of the
// same layer, as a rule).
#include "graph/plan.h"

typedef struct search {
    const rung_plan *p;
    int root;
    bool writes_only;
    bool found;
} search;

static void look(void *user, const rungi_operand *operand, bool write)
{
    search *s = user;
    s->found |= s->p->tensors.data[operand->buffer].root == s->root && (write || !s->writes_only);
}

static bool step_uses(const rung_plan *p, size_t step, int root, bool writes_only)
{
    search s = {p, root, writes_only, false};
    rungi_step_operands(&p->steps.data[step], look, &s);
    return s.found;
}

// The gradient of a parameter that the step writes: the only one that is no vector (a bias is not
// worth it). -1: none.
static int gradient_of(const rung_plan *p, const rungi_step *step)
{
    const rungi_query *q = &step->q;
    int found = -1;
    if (q->pass == RUNGI_FORWARD)
        return -1; // an addition, or a forward step done again
    for (int i = 0; i < q->n_in; i++) {
        int grad = q->gin[i].buffer;
        if (grad < 0 || p->tensors.data[grad].kind != RUNGI_TENSOR_GRAD || q->gin[i].shape.rank < 2)
            continue;
        if (found >= 0 || p->tensors.data[grad].root != grad || q->gin[i].dtype != RUNG_F32)
            return -1;
        found = grad;
    }
    return found;
}

// The tensor that holds the parameter of a gradient; -1: the plan does not read it.
static int parameter_of(const rung_plan *p, int grad)
{
    for (size_t i = 0; i < p->tensors.count; i++) {
        const rungi_tensor *t = &p->tensors.data[i];
        if (t->kind == RUNGI_TENSOR_PARAM && t->value == p->tensors.data[grad].value &&
            t->root == (int)i)
            return (int)i;
    }
    return -1;
}

// May step `from` run after step `to`? Not if one in between writes what it reads.
static bool may_move(const rung_plan *p, size_t from, size_t to)
{
    for (size_t t = 0; t < p->tensors.count; t++)
        for (size_t i = from + 1; i <= to; i++)
            if (step_uses(p, from, (int)t, false) && step_uses(p, i, (int)t, true))
                return false;
    return true;
}

static void move_step(rung_plan *p, size_t from, size_t to)
{
    rungi_step kept = p->steps.data[from];
    for (size_t i = from; i < to; i++)
        p->steps.data[i] = p->steps.data[i + 1];
    p->steps.data[to] = kept;
}

static void consider(rung_plan *p, size_t index)
{
    int grad = gradient_of(p, &p->steps.data[index]);
    if (grad < 0 || !p->steps.data[index].kernel->updates)
        return;
    int param = parameter_of(p, grad);
    size_t last = index;
    for (size_t i = (size_t)p->n_forward; i < p->steps.count; i++) {
        if (i != index && step_uses(p, i, grad, false))
            return; // the gradient is a sum
        if (i > index && param >= 0 && step_uses(p, i, param, false))
            last = i;
    }
    if (!may_move(p, index, last))
        return;
    move_step(p, index, last);
    p->steps.data[last].updates = grad;
}

void rungi_plan_update(rung_plan *p)
{
    if (!p->options.fuse_optimizer || !p->options.gradients || p->options.float64 ||
        p->options.accumulate)
        return;
    // From the end, so that a step that has moved is not met again.
    for (size_t i = p->steps.count; i > (size_t)p->n_forward; i--)
        consider(p, i - 1);
}
