// SPDX-License-Identifier: Apache-2.0
#include "ops/op.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tensor/half.h"

#define RUNG_OP(name) extern const rungi_op rungi_op_##name;
#include "ops/ops.def"
#undef RUNG_OP

const rungi_op *const rungi_ops[] = {
#define RUNG_OP(name) &rungi_op_##name,
#include "ops/ops.def"
#undef RUNG_OP
    NULL,
};

const rungi_op *rungi_op_find(const char *name)
{
    for (int i = 0; rungi_ops[i]; i++)
        if (strcmp(rungi_ops[i]->name, name) == 0)
            return rungi_ops[i];
    return NULL;
}

const char *rungi_layout_name(rungi_layout layout)
{
    static const char *const names[] = {"plain", "channels_last", "blocked8", "blocked16"};
    return names[layout];
}

bool rungi_refuse(rungi_reason *why, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(why->text, sizeof why->text, fmt, args);
    va_end(args);
    return false;
}

bool rungi_f32_only(const rungi_query *q, rungi_reason *why)
{
    return q->in[0].dtype == RUNG_F32 ? true : rungi_refuse(why, "float32 only");
}

bool rungi_f32_avx2(const rungi_query *q, rungi_reason *why)
{
    if (q->isa < RUNG_ISA_AVX2)
        return rungi_refuse(why, "needs AVX2");
    return rungi_f32_only(q, why);
}

bool rungi_fuses_relu(const rungi_query *q, rungi_reason *why)
{
    if (q->n_fused > 1 || (q->n_fused && strcmp(q->fused[0].op->name, "relu") != 0))
        return rungi_refuse(why, "cannot apply %s", q->fused[q->n_fused - 1].op->name);
    return true;
}

const rungi_pass *rungi_query_pass(const rungi_query *q)
{
    return q->pass == RUNGI_FORWARD ? &q->op->forward : &q->op->backward[q->pass];
}

const rungi_kernel *const *rungi_query_kernels(const rungi_query *q, rungi_device_kind kind)
{
    static const rungi_kernel *const none[] = {NULL};
    const rungi_kernel *const *list = rungi_query_pass(q)->kernels[kind];
    return list ? list : none;
}

// Order of kinds under a policy; a kind that is missing may not be used.
static int policy_order(rungi_policy policy, rungi_kernel_kind order[3])
{
    switch (policy) {
    case RUNGI_POLICY_REFERENCE:
        order[0] = RUNGI_REFERENCE;
        return 1;
    case RUNGI_POLICY_LIBRARY:
        order[0] = RUNGI_LIBRARY;
        order[1] = RUNGI_OWN;
        order[2] = RUNGI_REFERENCE;
        return 3;
    default:
        return 0; // the list's own order
    }
}

static bool any_half(const rungi_operand *list, int n)
{
    for (int i = 0; list && i < n; i++)
        if (list[i].buffer >= 0 && rungi_dtype_is_half(list[i].dtype))
            return true;
    return false;
}

bool rungi_query_has_halves(const rungi_query *q)
{
    bool any = any_half(q->in, q->n_in) || any_half(q->out, q->n_out) ||
               any_half(q->gout, q->op->n_out) || any_half(q->gin, q->n_in);
    for (int i = 0; i < q->n_fused; i++)
        any |= any_half(q->fused[i].in + 1, q->fused[i].n_in - 1) || any_half(q->fused[i].out, 1);
    return any;
}

bool rungi_kernel_can_run(const rungi_kernel *kernel, const rungi_query *q, rungi_reason *why)
{
    if (!kernel->halves && rungi_query_has_halves(q))
        return rungi_refuse(why, "no operands of 16 bits");
    if (q->n_fused && !kernel->fuses)
        return rungi_refuse(why, "applies nothing to its output");
    return !kernel->can_run || kernel->can_run(q, why);
}

static bool can_run(const rungi_kernel *kernel, const rungi_query *q, rungi_string *log)
{
    rungi_reason why = {""};
    bool able = rungi_kernel_can_run(kernel, q, &why);
    if (able)
        return true;
    if (log)
        rungi_string_add(log, "%s%s: %s", log->size ? "; " : "", kernel->name, why.text);
    return false;
}

const rungi_kernel *rungi_kernel_choose(const rungi_query *q, rungi_device_kind kind,
                                        rungi_policy policy, rungi_string *log)
{
    const rungi_kernel *const *list = rungi_query_kernels(q, kind);
    rungi_kernel_kind order[3];
    int kinds = policy_order(policy, order);
    for (int k = 0; k < (kinds ? kinds : 1); k++) {
        const rungi_kernel *first = NULL;
        for (int i = 0; list[i]; i++) {
            bool preferred = list[i]->prefers && list[i]->prefers(q);
            if ((kinds && list[i]->kind != order[k]) || (first && !preferred) ||
                !can_run(list[i], q, first ? NULL : log))
                continue;
            if (preferred)
                return list[i];
            first = list[i];
        }
        if (first)
            return first;
    }
    return NULL;
}

double rungi_no_flops(const rungi_query *q)
{
    (void)q;
    return 0;
}

double rungi_kernel_flops(const rungi_kernel *kernel, const rungi_query *q)
{
    return kernel->flops ? kernel->flops(q) : rungi_query_cost(q).flops;
}

static double present_bytes(const rungi_operand *operands, int count, uint32_t mask)
{
    double bytes = 0;
    for (int i = 0; i < count; i++)
        if (operands[i].buffer >= 0 && (mask & rungi_bit(i)))
            bytes += (double)rungi_operand_bytes(&operands[i]);
    return bytes;
}

rungi_cost rungi_query_cost(const rungi_query *q)
{
    rungi_cost cost = {0};
    cost.flops = q->op->flops ? q->op->flops(q) : (double)rungi_operand_count(&q->out[0]);
    if (q->pass == RUNGI_FORWARD) {
        cost.bytes = present_bytes(q->in, q->n_in, ~0u) + present_bytes(q->out, q->n_out, ~0u);
        for (int i = 0; i < q->n_fused; i++)
            cost.bytes += present_bytes(q->fused[i].in + 1, q->fused[i].n_in - 1, ~0u);
    } else {
        const rungi_pass *pass = rungi_query_pass(q);
        cost.bytes = present_bytes(q->in, q->n_in, pass->reads_in) +
                     present_bytes(q->out, q->n_out, pass->reads_out) +
                     present_bytes(q->gout, q->op->n_out, ~0u) +
                     present_bytes(q->gin, q->n_in, pass->gives);
        for (int i = 0; i < q->n_fused; i++)
            cost.bytes += present_bytes(q->fused[i].out, 1, ~0u);
    }
    return cost;
}
