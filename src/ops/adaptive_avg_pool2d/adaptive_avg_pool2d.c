// SPDX-License-Identifier: Apache-2.0
// adaptive_avg_pool2d: the mean of each of out x out windows, which share the image: window o has
// the rows floor(o * in / out) to ceil((o + 1) * in / out) - 1. As torch.nn.AdaptiveAvgPool2d; 1x1
// is global average pooling. Its kernels are avg_pool2d's.
#include "ops/adaptive_avg_pool2d/adaptive_avg_pool2d.h"

#include "base/error.h"
#include "ops/avg_pool2d/avg_pool2d.h"
#include "ops/cases.h"

static rung_status infer(rungi_infer *i)
{
    const rungi_adaptive_pool_attr *a = i->attr;
    rung_shape out = i->in[0].shape;
    char xt[RUNG_SHAPE_TEXT];
    RUNG_CHECK(out.rank == 4, RUNG_MISMATCH, "adaptive_avg_pool2d takes [N, C, H, W]; got %s",
               rung_shape_text(&out, xt, sizeof xt));
    for (int d = 0; d < 2; d++) {
        RUNG_CHECK(a->out[d] >= 0, RUNG_INVALID, "the output size must be 0 or more");
        if (a->out[d])
            out.dim[2 + d] = a->out[d];
    }
    i->out[0] = (rungi_type){i->in[0].dtype, out};
    return RUNG_OK;
}

static void describe(const void *attr, rungi_string *out)
{
    const rungi_adaptive_pool_attr *a = attr;
    rungi_string_add(out, "%lldx%lld", (long long)a->out[0], (long long)a->out[1]);
}

static double flops(const rungi_query *q)
{
    return (double)rungi_operand_count(&q->in[0]);
}

static const rungi_adaptive_pool_attr global = {{1, 1}}, even = {{2, 3}}, uneven = {{3, 5}},
                                      rows = {{2, 0}}, larger = {{7, 4}};

static const rungi_case cases[] = {
    {"global", {RUNGI_IN(2, 5, 7, 7)}, 1, &global},
    {"global, 64 channels", {RUNGI_IN(2, 64, 7, 7)}, 1, &global},
    {"global, large", {RUNGI_IN(2, 3, 65, 33)}, 1, &global},
    {"1x1", {RUNGI_IN(3, 8, 1, 1)}, 1, &global},
    {"even", {RUNGI_IN(2, 8, 4, 9)}, 1, &even},
    {"uneven", {RUNGI_IN(2, 8, 7, 7)}, 1, &uneven},
    {"rows only", {RUNGI_IN(1, 3, 5, 6)}, 1, &rows},
    {"larger than the input", {RUNGI_IN(1, 50, 5, 3)}, 1, &larger},
    {"several threads", {RUNGI_IN(5, 16, 23, 20)}, 1, &uneven},
    {.name = "resnet head",
     .in = {RUNGI_IN(16, 512, 7, 7)},
     .n_in = 1,
     .attr = &global,
     .bench = true},
    {.name = "large global",
     .in = {RUNGI_IN(16, 64, 56, 56)},
     .n_in = 1,
     .attr = &global,
     .bench = true},
    {0},
};

const rungi_op rungi_op_adaptive_avg_pool2d = {
    .name = "adaptive_avg_pool2d",
    .attr_size = sizeof(rungi_adaptive_pool_attr),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = RUNGI_FOLLOW,
    .by_sample = 1 << 0,
    .layouts = RUNGI_LAYOUTS_IMAGE,
    .infer = infer,
    .describe = describe,
    .flops = flops,
    .forward = {.name = "forward", .kernels = {rungi_adaptive_avg_pool2d_forward_cpu}},
    .backward = {{.name = "backward",
                  .gives = 1 << 0,
                  .kernels = {rungi_adaptive_avg_pool2d_backward_cpu}}},
    .cases = cases,
};
