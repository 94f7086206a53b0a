// SPDX-License-Identifier: Apache-2.0
// max_pool2d: the largest value of each window; padding never wins, NaN always does, and of equal
// values the first in row-major order. As torch.nn.MaxPool2d. Backward gives dy to the winner,
// whose place in the window forward keeps (hidden output: u8).
#include "ops/max_pool2d/max_pool2d.h"

#include "base/error.h"
#include "ops/cases.h"

static rung_status infer(rungi_infer *i)
{
    const rungi_pool_attr *a = i->attr;
    rung_shape out;
    RUNG_TRY(rungi_pool_infer(a, &i->in[0].shape, "max_pool2d", &out));
    RUNG_CHECK(a->kernel[0] * a->kernel[1] < 255, RUNG_UNSUPPORTED,
               "a window of 255 and more values (%dx%d)", a->kernel[0], a->kernel[1]);
    i->out[0] = (rungi_type){i->in[0].dtype, out};
    i->out[1] = (rungi_type){RUNG_U8, out};
    return RUNG_OK;
}

static const rungi_pool_attr two = {{2, 2}, {2, 2}, {0, 0}, false, false, 0};
static const rungi_pool_attr three = {{3, 3}, {2, 2}, {1, 1}, false, false, 0};
static const rungi_pool_attr ceiling = {{3, 2}, {2, 2}, {1, 0}, true, false, 0};
static const rungi_pool_attr all = {{1, 1}, {1, 1}, {0, 0}, false, false, 0};

static const rungi_case cases[] = {
    {"2x2", {RUNGI_IN_AS(RUNGI_FILL_DISTINCT, 2, 3, 6, 4)}, 1, &two},
    {"odd size", {RUNGI_IN_AS(RUNGI_FILL_DISTINCT, 1, 5, 7, 5)}, 1, &two},
    {"8 channels", {RUNGI_IN_AS(RUNGI_FILL_DISTINCT, 2, 8, 4, 4)}, 1, &two},
    {"overlapping, padded", {RUNGI_IN_AS(RUNGI_FILL_DISTINCT, 2, 16, 7, 8)}, 1, &three},
    {"ceil mode", {RUNGI_IN_AS(RUNGI_FILL_DISTINCT, 1, 3, 6, 7)}, 1, &ceiling},
    {"1x1", {RUNGI_IN_AS(RUNGI_FILL_DISTINCT, 1, 1, 1, 1)}, 1, &all},
    {"50 channels", {RUNGI_IN_AS(RUNGI_FILL_DISTINCT, 2, 50, 4, 4)}, 1, &two},
    {"several threads", {RUNGI_IN_AS(RUNGI_FILL_DISTINCT, 3, 16, 31, 29)}, 1, &two},
    {.name = "cnn pool1", .in = {RUNGI_IN(64, 50, 32, 32)}, .n_in = 1, .attr = &two, .bench = true},
    {.name = "resnet stem",
     .in = {RUNGI_IN(16, 64, 112, 112)},
     .n_in = 1,
     .attr = &three,
     .bench = true},
    {0},
};

const rungi_op rungi_op_max_pool2d = {
    .name = "max_pool2d",
    .attr_size = sizeof(rungi_pool_attr),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .n_hidden = 1,
    .precision = RUNGI_FOLLOW,
    .by_sample = 1 << 0,
    .layouts = RUNGI_LAYOUTS_IMAGE,
    .joins = true,
    .infer = infer,
    .describe = rungi_pool_describe,
    .flops = rungi_pool_flops,
    .forward = {.name = "forward", .kernels = {rungi_max_pool2d_forward_cpu}},
    .backward = {{.name = "backward",
                  .gives = 1 << 0,
                  .reads_out = 1 << 1,
                  .kernels = {rungi_max_pool2d_backward_cpu}}},
    .cases = cases,
};
