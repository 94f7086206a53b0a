// SPDX-License-Identifier: Apache-2.0
// Kernels that can add to gradients themselves (rungi_kernel.adds) get those instead of temporary
// ones, and the additions go away. Parameters' gradients, in a plan that adds to what is there:
//
//     [ linear.backward_weight ] -> g      gradients + g -> gradients
//     [ linear.backward_weight, adds ] -> gradients
//
// Of a step all parameters' gradients or none: each written by it alone, and read only by its
// addition. And (`plan.fuse`) the gradient of a value that is used twice, as the input of a
// residual block is:
//
//     [ conv2d.backward_data ] -> g        gradient + g -> gradient
//     [ conv2d.backward_data, adds ] -> gradient
#include <string.h>

#include "base/error.h"
#include "graph/plan.h"

// Steps that write tensor t's memory.
static int writes_of(const rung_plan *p, int t)
{
    int count = 0;
    for (size_t s = 0; s < p->steps.count; s++) {
        const rungi_query *q = &p->steps.data[s].q;
        bool forward = q->pass == RUNGI_FORWARD;
        const rungi_operand *list = forward ? q->out : q->gin;
        for (int i = 0; i < (forward ? q->n_out : q->n_in); i++)
            count += list[i].buffer >= 0 && p->tensors.data[list[i].buffer].root == t;
    }
    return count;
}

// The step that adds tensor g, as step `from` writes it, to another in place; 0: there is none.
static size_t addition_of(const rung_plan *p, size_t from, int g)
{
    const rungi_tensor *t = &p->tensors.data[g];
    if (t->kind != RUNGI_TENSOR_ARENA || t->root != g || rungi_plan_reads(p, g) != 1 ||
        writes_of(p, g) != 1)
        return 0;
    for (size_t s = from + 1; s < p->steps.count; s++) {
        const rungi_query *q = &p->steps.data[s].q;
        if (q->op != rungi_op_find("add") || q->pass != RUNGI_FORWARD || q->in[1].buffer != g)
            continue;
        const rungi_operand *sum = &q->out[0];
        bool same = q->in[0].buffer == sum->buffer && sum->dtype == t->operand.dtype &&
                    sum->layout == t->operand.layout;
        return same ? s : 0;
    }
    return 0;
}

static bool is_parameter(const rung_plan *p, int tensor)
{
    int value = p->tensors.data[tensor].value;
    return value && p->graph->values.data[value].kind == RUNGI_VALUE_PARAM;
}

static bool can_add(const rungi_step *s)
{
    return s->q.pass != RUNGI_FORWARD && s->kernel->adds && !s->q.halves;
}

// Lets a step add the gradients of the inputs in `which`, a bit each, in place of their additions.
static rung_status add_instead(rung_plan *p, size_t index, uint32_t which)
{
    rungi_query *q = &p->steps.data[index].q;
    rungi_operand *gin = rungi_plan_block(p, sizeof *gin * (size_t)q->n_in);
    RUNG_CHECK(gin, RUNG_NO_MEMORY, "no memory for a plan");
    memcpy(gin, q->gin, sizeof *gin * (size_t)q->n_in);
    for (int i = 0; i < q->n_in; i++) {
        if (!(which & rungi_bit(i)))
            continue;
        size_t addition = addition_of(p, index, q->gin[i].buffer);
        gin[i] = p->steps.data[addition].q.out[0];
        rungi_plan_remove_step(p, addition);
    }
    q->gin = gin;
    q->adds = true;
    return RUNG_OK;
}

// A step that gives parameters' gradients.
static rung_status consider_parameters(rung_plan *p, size_t index)
{
    const rungi_query *q = &p->steps.data[index].q;
    uint32_t which = 0;
    for (int i = 0; i < q->n_in; i++) {
        if (q->gin[i].buffer < 0 || !is_parameter(p, q->gin[i].buffer))
            continue;
        size_t addition = addition_of(p, index, q->gin[i].buffer);
        if (!addition ||
            p->tensors.data[p->steps.data[addition].q.out[0].buffer].kind != RUNGI_TENSOR_GRAD)
            return RUNG_OK;
        which |= rungi_bit(i);
    }
    return which ? add_instead(p, index, which) : RUNG_OK;
}

// A step that gives the gradient of its input alone, which the next one adds.
static rung_status consider_data(rung_plan *p, size_t index)
{
    const rungi_query *q = &p->steps.data[index].q;
    if (rungi_query_pass(q)->gives != rungi_bit(0) || q->gin[0].buffer < 0 ||
        addition_of(p, index, q->gin[0].buffer) != index + 1)
        return RUNG_OK;
    return add_instead(p, index, rungi_bit(0));
}

rung_status rungi_plan_accumulate(rung_plan *p)
{
    for (size_t i = (size_t)p->n_forward; i < p->steps.count; i++) {
        if (p->options.accumulate && can_add(&p->steps.data[i]))
            RUNG_TRY(consider_parameters(p, i));
        if (p->options.fuse && can_add(&p->steps.data[i]))
            RUNG_TRY(consider_data(p, i));
    }
    return RUNG_OK;
}
