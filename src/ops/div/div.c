// SPDX-License-Identifier: Apache-2.0
// div: y = a / b; da = dy / b, db = -dy y / b, summed over what was stretched.
#include "ops/binary.h"

static double value(double a, double b)
{
    return a / b;
}

static double gradient_a(double g, double a, double b, double y)
{
    (void)a, (void)b, (void)y;
    return g / b;
}

static double gradient_b(double g, double a, double b, double y)
{
    (void)a, (void)b, (void)y;
    return -g * y / b;
}

const rungi_binary rungi_binary_div = {
    &rungi_op_div,
    value,
    RUNGI_PIECE_div,
    {{gradient_a, RUNGI_PIECE_div, "gb", 1}, {gradient_b, RUNGI_PIECE_div_gradient, "gyb", 1}}};

static const rungi_case cases[] = {
    {"equal", {RUNGI_IN(3, 37), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 3, 37)}, 2},
    {"bias", {RUNGI_IN(4, 5), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 5)}, 2},
    {"channels", {RUNGI_IN(2, 3, 4, 5), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 3, 1, 1)}, 2},
    {"both stretch", {RUNGI_IN(4, 1, 3), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 5, 1)}, 2},
    {"scalar", {RUNGI_IN(3, 7), {.shape = {0}, .fill = RUNGI_FILL_POSITIVE}}, 2},
    {"one", {RUNGI_IN(1), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 1)}, 2},
    {"rows", {RUNGI_IN(6, 5), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 6, 1)}, 2},
    {"scalar first", {{.shape = {0}}, RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 2, 9)}, 2},
    {"every other", {RUNGI_IN(2, 3, 2, 3), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 1, 3, 1, 3)}, 2},
    {"image", {RUNGI_IN(2, 16, 3, 5), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 2, 16, 3, 5)}, 2},
    {"several blocks", {RUNGI_IN(5, 8009), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 5, 8009)}, 2},
    {"long bias", {RUNGI_IN(7000, 6), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 6)}, 2},
    {"long channels", {RUNGI_IN(3, 2, 7000), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 2, 1)}, 2},
    {"large to scalar", {RUNGI_IN(41, 1000), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 1)}, 2},
    {.name = "bench",
     .in = {RUNGI_IN(64, 50, 32, 32), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 64, 50, 32, 32)},
     .n_in = 2,
     .bench = true},
    {.name = "bench channels",
     .in = {RUNGI_IN(64, 50, 32, 32), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 50, 1, 1)},
     .n_in = 2,
     .bench = true},
    {.name = "bench bias",
     .in = {RUNGI_IN(512, 4096), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 4096)},
     .n_in = 2,
     .bench = true},
    {0},
};

const rungi_op rungi_op_div = {
    .name = "div",
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
                  .reads_in = 1 << 1,
                  .reads_out = 1 << 0,
                  .kernels = {rungi_binary_backward_cpu}},
                 {.name = "backward_a",
                  .gives = 1 << 0,
                  .reads_in = 1 << 1,
                  .in_place = true,
                  .kernels = {rungi_binary_backward_cpu}}},
    .cases = cases,
};
