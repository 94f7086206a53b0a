// SPDX-License-Identifier: Apache-2.0
// sigmoid: y = 1 / (1 + e^-x); dx = dy y (1 - y).
#include <math.h>

#include "ops/unary.h"

static double value(const void *attr, double x)
{
    (void)attr;
    return 1 / (1 + exp(-x));
}

static double slope(const void *attr, double y)
{
    (void)attr;
    return y * (1 - y);
}

const rungi_unary rungi_unary_sigmoid = {&rungi_op_sigmoid, value, slope, RUNGI_UNARY_sigmoid,
                                         NULL};

const rungi_op rungi_op_sigmoid = {
    .name = "sigmoid",
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
