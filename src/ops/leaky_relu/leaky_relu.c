// SPDX-License-Identifier: Apache-2.0
// leaky_relu: y = x where x > 0, else slope x; dx = dy where y > 0, else slope dy.
#include "ops/leaky_relu/leaky_relu.h"

#include "base/error.h"
#include "ops/unary.h"

static rung_status infer(rungi_infer *i)
{
    const rungi_leaky_relu_attr *a = i->attr;
    RUNG_CHECK(a->slope >= 0, RUNG_INVALID, "the slope is %g; it must be 0 or more", a->slope);
    return rungi_unary_infer(i);
}

static void describe(const void *attr, rungi_string *out)
{
    rungi_string_add(out, "slope %g", ((const rungi_leaky_relu_attr *)attr)->slope);
}

static double value(const void *attr, double x)
{
    return x < 0 ? x * ((const rungi_leaky_relu_attr *)attr)->slope : x;
}

static double slope(const void *attr, double y)
{
    return y > 0 ? 1 : ((const rungi_leaky_relu_attr *)attr)->slope;
}

static rungi_unary_formula choose(const void *attr, rungi_unary_param *param_out)
{
    param_out->a = (float)((const rungi_leaky_relu_attr *)attr)->slope;
    return RUNGI_UNARY_leaky_relu;
}

const rungi_unary rungi_unary_leaky_relu = {&rungi_op_leaky_relu, value, slope,
                                            RUNGI_UNARY_leaky_relu, choose};

static const rungi_leaky_relu_attr usual = {0.01}, none = {0};

static const rungi_case cases[] = {
    {"one", {RUNGI_IN_AS(RUNGI_FILL_AWAY, 1)}, 1, &usual},
    {"odd", {RUNGI_IN_AS(RUNGI_FILL_AWAY, 3, 37)}, 1, &usual},
    {"image", {RUNGI_IN_AS(RUNGI_FILL_AWAY, 2, 16, 3, 5)}, 1, &usual},
    {"several blocks", {RUNGI_IN_AS(RUNGI_FILL_AWAY, 5, 8009)}, 1, &usual},
    {.name = "bench", .in = {RUNGI_IN(64, 50, 32, 32)}, .n_in = 1, .attr = &usual, .bench = true},
    {"slope 0", {RUNGI_IN_AS(RUNGI_FILL_AWAY, 3, 37)}, 1, &none},
    {0},
};

const rungi_op rungi_op_leaky_relu = {
    .name = "leaky_relu",
    .attr_size = sizeof(rungi_leaky_relu_attr),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = RUNGI_FOLLOW,
    .by_sample = 1 << 0,
    .layouts = RUNGI_LAYOUTS_SAME,
    .infer = infer,
    .describe = describe,
    .forward = {.name = "forward", .in_place = true, .kernels = {rungi_unary_forward_cpu}},
    .backward = {{.name = "backward",
                  .gives = 1 << 0,
                  .reads_out = 1 << 0,
                  .in_place = true,
                  .kernels = {rungi_unary_backward_cpu}}},
    .cases = cases,
};
