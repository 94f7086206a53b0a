// SPDX-License-Identifier: Apache-2.0
// scale: y = factor x + offset by constants; dx = factor dy.
#include "ops/scale/scale.h"

#include "ops/unary.h"

static double value(const void *attr, double x)
{
    const rungi_scale_attr *a = attr;
    return a->factor * x + a->offset;
}

static double slope(const void *attr, double unused)
{
    (void)unused;
    return ((const rungi_scale_attr *)attr)->factor;
}

static rungi_unary_formula choose(const void *attr, rungi_unary_param *param_out)
{
    const rungi_scale_attr *a = attr;
    *param_out = (rungi_unary_param){(float)a->factor, (float)a->offset};
    return RUNGI_UNARY_scale;
}

static void describe(const void *attr, rungi_string *out)
{
    const rungi_scale_attr *a = attr;
    rungi_string_add(out, "times %g", a->factor);
    if (a->offset != 0)
        rungi_string_add(out, ", plus %g", a->offset);
}

const rungi_unary rungi_unary_scale = {&rungi_op_scale, value, slope, RUNGI_UNARY_scale, choose};

static const rungi_scale_attr attr = {-1.5, 0.25};

static const rungi_case cases[] = {
    {"one", {RUNGI_IN(1)}, 1, &attr},
    {"odd", {RUNGI_IN(3, 37)}, 1, &attr},
    {"image", {RUNGI_IN(2, 16, 3, 5)}, 1, &attr},
    {"several blocks", {RUNGI_IN(5, 8009)}, 1, &attr},
    {.name = "bench", .in = {RUNGI_IN(64, 50, 32, 32)}, .n_in = 1, .attr = &attr, .bench = true},
    {0},
};

const rungi_op rungi_op_scale = {
    .name = "scale",
    .attr_size = sizeof(rungi_scale_attr),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = RUNGI_FOLLOW,
    .by_sample = 1 << 0,
    .layouts = RUNGI_LAYOUTS_SAME,
    .infer = rungi_unary_infer,
    .describe = describe,
    .forward = {.name = "forward", .in_place = true, .kernels = {rungi_unary_forward_cpu}},
    .backward = {{.name = "backward",
                  .gives = 1 << 0,
                  .in_place = true,
                  .kernels = {rungi_unary_backward_cpu}}},
    .cases = cases,
};
