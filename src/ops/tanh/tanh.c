// SPDX-License-Identifier: Apache-2.0
// tanh: y = tanh x; dx = dy (1 - y^2).
#include <math.h>

#include "ops/unary.h"

static double value(const void *attr, double x)
{
    (void)attr;
    return tanh(x);
}

static double slope(const void *attr, double y)
{
    (void)attr;
    return 1 - y * y;
}

const rungi_unary rungi_unary_tanh = {&rungi_op_tanh, value, slope, RUNGI_UNARY_tanh, NULL};

const rungi_op rungi_op_tanh = {
    .name = "tanh",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = RUNGI_FOLLOW,
    .by_sample = 1 << 0,
    .layouts = RUNGI_LAYOUTS_SAME,
    .infer = rungi_unary_infer,
    .forward = {.name = "forward", .in_place = true, .kernels = {rungi_unary_forward_cpu}},
    .backward = {{.name = "backward",
                  .gives = 1 << 0,
                  .reads_out = 1 << 0,
                  .in_place = true,
                  .kernels = {rungi_unary_backward_cpu}}},
    .cases = rungi_unary_cases,
};
