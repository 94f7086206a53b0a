// SPDX-License-Identifier: Apache-2.0
// add: y = a + b; da = dy, db = dy, summed over what was stretched.
#include "ops/binary.h"

static double value(double a, double b)
{
    return a + b;
}

static double gradient_a(double g, double a, double b, double y)
{
    (void)a, (void)b, (void)y;
    return g;
}

static double gradient_b(double g, double a, double b, double y)
{
    (void)a, (void)b, (void)y;
    return g;
}

const rungi_binary rungi_binary_add = {
    &rungi_op_add,
    value,
    RUNGI_PIECE_add,
    {{gradient_a, RUNGI_PIECE_IN0, "g", 1}, {gradient_b, RUNGI_PIECE_IN0, "g", 1}}};

const rungi_op rungi_op_add = {
    .name = "add",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .precision = RUNGI_FOLLOW,
    .by_sample = 1 << 0 | 1 << 1,
    .layouts = RUNGI_LAYOUTS_SAME,
    .infer = rungi_binary_infer,
    .forward = {.name = "forward", .in_place = true, .kernels = {rungi_binary_forward_cpu}},
    .backward = {{.name = "backward_a",
                  .gives = 1 << 0,
                  .identity = 1,
                  .kernels = {rungi_binary_backward_cpu}},
                 {.name = "backward_b",
                  .gives = 1 << 1,
                  .identity = 2,
                  .kernels = {rungi_binary_backward_cpu}}},
    .cases = rungi_binary_cases,
};
