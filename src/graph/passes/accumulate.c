// SPDX-License-Identifier: Apache-2.0
// In a plan that adds to the gradients that are there: kernels that can do so themselves
// (rungi_kernel.adds) get the gradient instead of a temporary one, and the additions go away:
//
//     [ linear.backward_weight ] -> g      gradients + g -> gradients
//     [ linear.backward_weight, adds ] -> gradients
//
// Of a step all parameters' gradients or none: each written by it alone, and read only by its
// addition.
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

// The step that adds tensor g, as step `from` writes it, to a stored gradient; 0: there is none.
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
        const rungi_tensor *sum = &p->tensors.data[q->out[0].buffer];
        bool same = q->in[0].buffer == q->out[0].buffer && sum->kind == RUNGI_TENSOR_GRAD &&
                    sum->operand.dtype == t->operand.dtype &&
                    sum->operand.layout == t->operand.layout;
        return same ? s : 0;
    }
    return 0;
}

static bool is_parameter(const rung_plan *p, int tensor)
{
    int value = p->tensors.data[tensor].value;
    return value && p->graph->values.data[value].kind == RUNGI_VALUE_PARAM;
}

static rung_status consider(rung_plan *p, size_t index)
{
    rungi_query *q = &p->steps.data[index].q;
    if (q->pass == RUNGI_FORWARD || !p->steps.data[index].kernel->adds || q->halves)
        return RUNG_OK;
    rungi_operand *gin = rungi_plan_block(p, sizeof *gin * (size_t)q->n_in);
    RUNG_CHECK(gin, RUNG_NO_MEMORY, "no memory for a plan");
    memcpy(gin, q->gin, sizeof *gin * (size_t)q->n_in);
    for (int i = 0; i < q->n_in; i++) {
        if (gin[i].buffer < 0 || !is_parameter(p, gin[i].buffer))
            continue;
        size_t addition = addition_of(p, index, gin[i].buffer);
        if (!addition)
            return RUNG_OK;
        gin[i] = p->steps.data[addition].q.out[0];
    }
    for (int i = 0; i < q->n_in; i++)
        if (gin[i].buffer != q->gin[i].buffer)
            rungi_plan_remove_step(p, addition_of(p, index, q->gin[i].buffer));
    q->gin = gin;
    q->adds = true;
    return RUNG_OK;
}

rung_status rungi_plan_accumulate(rung_plan *p)
{
    if (!p->options.accumulate)
        return RUNG_OK;
    for (size_t i = (size_t)p->n_forward; i < p->steps.count; i++)
        RUNG_TRY(consider(p, i));
    return RUNG_OK;
}
