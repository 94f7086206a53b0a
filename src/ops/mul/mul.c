// SPDX-License-Identifier: Apache-2.0
// mul: y = a b; da = dy b, db = dy a, summed over what was stretched.
#include "ops/binary.h"

static double value(double a, double b)
{
    return a * b;
}

static double gradient_a(double g, double a, double b, double y)
{
    (void)a, (void)b, (void)y;
    return g * b;
}

static double gradient_b(double g, double a, double b, double y)
{
    (void)a, (void)b, (void)y;
    return g * a;
}

const rungi_binary rungi_binary_mul = {
    &rungi_op_mul,
    value,
    RUNGI_PIECE_mul,
    {{gradient_a, RUNGI_PIECE_mul, "gb", 1}, {gradient_b, RUNGI_PIECE_mul, "ga", 1}}};

const rungi_op rungi_op_mul = {
    .name = "mul",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .precision = RUNGI_FOLLOW,
    .by_sample = 1 << 0 | 1 << 1,
    .layouts = RUNGI_LAYOUTS_SAME,
    .infer = rungi_binary_infer,
    .forward = {.name = "forward", .in_place = true, .kernels = {rungi_binary_forward_cpu}},
    .backward = {{.name = "backward_b",
                  .gives = 1 << 1,
                  .reads_in = 1 << 0,
                  .kernels = {rungi_binary_backward_cpu}},
                 {.name = "backward_a",
                  .gives = 1 << 0,
                  .reads_in = 1 << 1,
                  .in_place = true,
                  .kernels = {rungi_binary_backward_cpu}}},
    .cases = rungi_binary_cases,
};
