// SPDX-License-Identifier: Apache-2.0
// gelu: y = x Phi(x), Phi being the distribution function of the standard normal; dx = dy (Phi(x) +
// x phi(x)). With tanh: Phi(x) = (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2. (Hendrycks, Gimpel:
// Gaussian Error Linear Units, 2016.)
#include "ops/gelu/gelu.h"

#include <math.h>

#include "ops/unary.h"

static bool by_tanh(const void *attr)
{
    return ((const rungi_gelu_attr *)attr)->tanh;
}

static double value(const void *attr, double x)
{
    if (by_tanh(attr))
        return 0.5 * x * (1 + tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
    return 0.5 * x * (1 + erf(x * M_SQRT1_2));
}

static double slope(const void *attr, double x)
{
    if (by_tanh(attr)) {
        double t = tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x));
        double inner = M_2_SQRTPI * M_SQRT1_2 * (1 + 3 * 0.044715 * x * x);
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
    }
    double density = 0.5 * M_2_SQRTPI * M_SQRT1_2 * exp(-0.5 * x * x);
    return 0.5 * (1 + erf(x * M_SQRT1_2)) + x * density;
}

static rungi_unary_formula choose(const void *attr, rungi_unary_param *param_out)
{
    (void)param_out;
    return by_tanh(attr) ? RUNGI_UNARY_gelu_tanh : RUNGI_UNARY_gelu_erf;
}

static void describe(const void *attr, rungi_string *out)
{
    rungi_string_add(out, by_tanh(attr) ? "tanh" : "erf");
}

const rungi_unary rungi_unary_gelu = {&rungi_op_gelu, value, slope, RUNGI_UNARY_gelu_erf, choose};

static const rungi_gelu_attr exact = {false}, approximate = {true};

static const rungi_case cases[] = {
    {"one", {RUNGI_IN(1)}, 1, &exact},
    {"odd", {RUNGI_IN(3, 37)}, 1, &exact},
    {"image", {RUNGI_IN(2, 16, 3, 5)}, 1, &exact},
    {"several blocks", {RUNGI_IN(5, 8009)}, 1, &exact},
    {.name = "bench", .in = {RUNGI_IN(64, 50, 32, 32)}, .n_in = 1, .attr = &exact, .bench = true},
    {"tanh, one", {RUNGI_IN(1)}, 1, &approximate},
    {"tanh, odd", {RUNGI_IN(3, 37)}, 1, &approximate},
    {"tanh, image", {RUNGI_IN(2, 16, 3, 5)}, 1, &approximate},
    {"tanh, several blocks", {RUNGI_IN(5, 8009)}, 1, &approximate},
    {.name = "tanh, bench",
     .in = {RUNGI_IN(64, 50, 32, 32)},
     .n_in = 1,
     .attr = &approximate,
     .bench = true},
    {0},
};

const rungi_op rungi_op_gelu = {
    .name = "gelu",
    .attr_size = sizeof(rungi_gelu_attr),
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
                  .reads_in = 1 << 0,
                  .in_place = true,
                  .kernels = {rungi_unary_backward_cpu}}},
    .cases = cases,
};
