// SPDX-License-Identifier: Apache-2.0
// softmax: y = e^x / sum of e^x along a dimension; dx = y (dy - sum of dy y).
#include "ops/softmax/softmax.h"

#include "base/error.h"
#include "ops/rows.h"

rung_status rungi_softmax_infer(rungi_infer *i)
{
    const rungi_softmax_attr *a = i->attr;
    RUNG_CHECK(rung_dtype_is_float(i->in[0].dtype), RUNG_MISMATCH, "takes floats, not %s",
               rung_dtype_name(i->in[0].dtype));
    RUNG_TRY(rungi_rows_check(&i->in[0].shape, a->dim));
    i->out[0] = i->in[0];
    return RUNG_OK;
}

void rungi_softmax_describe(const void *attr, rungi_string *out)
{
    rungi_string_add(out, "dim %d", ((const rungi_softmax_attr *)attr)->dim);
}

double rungi_softmax_flops(const rungi_query *q)
{
    return 4.0 * (double)rungi_operand_count(&q->in[0]);
}

static const rungi_softmax_attr last = {-1}, first = {0}, middle = {1};

const rungi_case rungi_softmax_cases[] = {
    {"one", {RUNGI_IN(1, 1)}, 1, &last},
    {"rows", {RUNGI_IN(5, 10)}, 1, &last},
    {"long rows", {RUNGI_IN(3, 2057)}, 1, &last},
    {"first", {RUNGI_IN(7, 5)}, 1, &first},
    {"middle", {RUNGI_IN(2, 5, 3, 7)}, 1, &middle},
    {"large", {RUNGI_IN(41, 1000)}, 1, &last},
    {"large, middle", {RUNGI_IN(3, 40, 331)}, 1, &middle},
    {.name = "bench 50257", .in = {RUNGI_IN(256, 50257)}, .n_in = 1, .attr = &last, .bench = true},
    {.name = "bench attention",
     .in = {RUNGI_IN(4, 12, 256, 256)},
     .n_in = 1,
     .attr = &last,
     .bench = true},
    {.name = "bench channels",
     .in = {RUNGI_IN(4, 21, 128, 128)},
     .n_in = 1,
     .attr = &middle,
     .bench = true},
    {0},
};

const rungi_op rungi_op_softmax = {
    .name = "softmax",
    .attr_size = sizeof(rungi_softmax_attr),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = RUNGI_HIGH,
    .infer = rungi_softmax_infer,
    .describe = rungi_softmax_describe,
    .flops = rungi_softmax_flops,
    .forward = {.name = "forward", .in_place = true, .kernels = {rungi_softmax_forward_cpu}},
    .backward = {{.name = "backward",
                  .gives = 1 << 0,
                  .reads_out = 1 << 0,
                  .in_place = true,
                  .kernels = {rungi_softmax_backward_cpu}}},
    .cases = rungi_softmax_cases,
};
