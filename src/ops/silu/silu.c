// SPDX-License-Identifier: Apache-2.0
// silu (swish): y = x s with s = 1 / (1 + e^-x); dx = dy (s + x s (1 - s)).
#include <math.h>

#include "ops/unary.h"

static double value(const void *attr, double x)
{
    (void)attr;
    return x / (1 + exp(-x));
}

static double slope(const void *attr, double x)
{
    (void)attr;
    double s = 1 / (1 + exp(-x));
    return s + x * s * (1 - s);
}

const rungi_unary rungi_unary_silu = {&rungi_op_silu, value, slope, RUNGI_UNARY_silu, NULL};

const rungi_op rungi_op_silu = {
    .name = "silu",
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
                  .reads_in = 1 << 0,
                  .in_place = true,
                  .kernels = {rungi_unary_backward_cpu}}},
    .cases = rungi_unary_cases,
};
