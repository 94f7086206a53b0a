// SPDX-License-Identifier: Apache-2.0
// avg_pool2d: the mean of each window, as torch.nn.AvgPool2d. The divisor is the size of the
// window, with padding unless count_include_pad is off, but without what ceil_mode lets reach
// beyond that; or a given number.
#include "ops/avg_pool2d/avg_pool2d.h"

#include "base/error.h"
#include "ops/cases.h"

static rung_status infer(rungi_infer *i)
{
    const rungi_pool_attr *a = i->attr;
    rung_shape out;
    RUNG_CHECK(a->divisor >= 0, RUNG_INVALID, "the divisor must be above 0");
    RUNG_TRY(rungi_pool_infer(a, &i->in[0].shape, "avg_pool2d", &out));
    i->out[0] = (rungi_type){i->in[0].dtype, out};
    return RUNG_OK;
}

static const rungi_pool_attr two = {{2, 2}, {2, 2}, {0, 0}, false, true, 0};
static const rungi_pool_attr three = {{3, 3}, {2, 2}, {1, 1}, false, true, 0};
static const rungi_pool_attr excluded = {{3, 3}, {1, 1}, {1, 1}, false, false, 0};
static const rungi_pool_attr ceiling = {{3, 2}, {2, 3}, {1, 1}, true, true, 0};
static const rungi_pool_attr ceiling_excluded = {{3, 2}, {2, 3}, {1, 1}, true, false, 0};
static const rungi_pool_attr divided = {{2, 3}, {1, 2}, {1, 0}, false, true, 5};
static const rungi_pool_attr spaced = {{1, 2}, {3, 3}, {0, 0}, false, true, 0};

static const rungi_case cases[] = {
    {"2x2", {RUNGI_IN(2, 3, 6, 4)}, 1, &two},
    {"odd size", {RUNGI_IN(1, 5, 7, 19)}, 1, &two},
    {"8 channels", {RUNGI_IN(2, 8, 4, 4)}, 1, &two},
    {"50 channels", {RUNGI_IN(2, 50, 4, 4)}, 1, &two},
    {"overlapping, padded", {RUNGI_IN(2, 16, 7, 40)}, 1, &three},
    {"padding excluded", {RUNGI_IN(2, 8, 5, 21)}, 1, &excluded},
    {"ceil mode", {RUNGI_IN(1, 3, 6, 7)}, 1, &ceiling},
    {"ceil mode, padding excluded", {RUNGI_IN(1, 8, 6, 7)}, 1, &ceiling_excluded},
    {"divisor", {RUNGI_IN(1, 4, 5, 7)}, 1, &divided},
    {"gaps between windows", {RUNGI_IN(1, 9, 8, 9)}, 1, &spaced},
    {"several threads", {RUNGI_IN(3, 16, 31, 29)}, 1, &two},
    {.name = "densenet transition",
     .in = {RUNGI_IN(16, 128, 56, 56)},
     .n_in = 1,
     .attr = &two,
     .bench = true},
    {.name = "3x3", .in = {RUNGI_IN(16, 64, 56, 56)}, .n_in = 1, .attr = &excluded, .bench = true},
    {0},
};

const rungi_op rungi_op_avg_pool2d = {
    .name = "avg_pool2d",
    .attr_size = sizeof(rungi_pool_attr),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = RUNGI_FOLLOW,
    .by_sample = 1 << 0,
    .layouts = RUNGI_LAYOUTS_IMAGE,
    .infer = infer,
    .describe = rungi_pool_describe,
    .flops = rungi_pool_flops,
    .forward = {.name = "forward", .kernels = {rungi_avg_pool2d_forward_cpu}},
    .backward = {{.name = "backward", .gives = 1 << 0, .kernels = {rungi_avg_pool2d_backward_cpu}}},
    .cases = cases,
};
