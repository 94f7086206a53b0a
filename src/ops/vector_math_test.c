// SPDX-License-Identifier: Apache-2.0
// The float32 functions of vector_math.h against the C library's in float64.
#include "ops/vector_math.h"

#include "testing.h"

#include <math.h>

// Distance of a float from the truth in units in the last place of the truth.
static double ulps(float got, double truth)
{
    float near = fabsf((float)truth);
    double unit = (double)nextafterf(near, INFINITY) - near;
    return fabs(got - truth) / unit;
}

static double log1p_of(double x)
{
    return log1p(x);
}

static double sigmoid_of(double x)
{
    return 1 / (1 + exp(-x));
}

typedef struct function {
    const char *name;
    float (*fast)(float x);
    double (*truth)(double x);
    double low, high;
    double limit; // ulps
} function;

static const function functions[] = {
    {"exp", rungi_exp, exp, -86.9, 88.72, 1.0},
    {"exp near 0", rungi_exp, exp, -1e-3, 1e-3, 1.0},
    {"tanh", rungi_tanh, tanh, -20, 20, 1.5},
    {"tanh near 0", rungi_tanh, tanh, -1e-3, 1e-3, 1.5},
    {"erf", rungi_erf, erf, -8, 8, 1.3},
    {"erf near 0", rungi_erf, erf, -1e-3, 1e-3, 1.3},
    {"log1p", rungi_log1p_unit, log1p_of, 0, 1, 2.0},
    {"log1p near 0", rungi_log1p_unit, log1p_of, 0, 1e-3, 2.0},
    {"sigmoid", rungi_sigmoid, sigmoid_of, -86, 40, 2.5},
};

static void check_errors(void **state)
{
    (void)state;
    const int steps = 400000;
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        const function *fn = &functions[f];
        for (int i = 0; i <= steps; i++) {
            float x = (float)(fn->low + (fn->high - fn->low) * i / steps);
            double off = ulps(fn->fast(x), fn->truth(x));
            if (!(off <= fn->limit))
                fail_msg("%s(%.9g) = %.9g is off by %.2f ulps, allowed are %.2f", fn->name, x,
                         fn->fast(x), off, fn->limit);
        }
    }
}

static void check_ends(void **state)
{
    (void)state;
    assert_true(rungi_exp(-INFINITY) == 0 && rungi_exp(-1000) == 0);
    assert_true(rungi_exp(INFINITY) == INFINITY && rungi_exp(88.8f) == INFINITY);
    assert_true(rungi_exp(0) == 1);
    assert_true(rungi_tanh(INFINITY) == 1 && rungi_tanh(-INFINITY) == -1);
    assert_true(rungi_erf(INFINITY) == 1 && rungi_erf(-INFINITY) == -1);
    assert_true(rungi_sigmoid(INFINITY) == 1 && rungi_sigmoid(-INFINITY) == 0);
    assert_true(rungi_tanh(-0.0f) == 0 && rungi_erf(0) == 0);
    assert_true(rungi_log1p_unit(0) == 0);
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
        assert_true(isnan(functions[f].fast(NAN)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_errors),
        cmocka_unit_test(check_ends),
    };
    return RUN_TESTS(tests);
}
