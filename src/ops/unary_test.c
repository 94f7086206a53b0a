// SPDX-License-Identifier: Apache-2.0
// Every instruction set computes the same bits, whatever the length and with values at the ends.
#include "ops/unary.h"

#include "testing.h"

#include <math.h>

#include "base/context.h"
#include "base/philox.h"

enum { COUNT = 1027 };

static void fill(float *x, int id)
{
    static const float ends[] = {0,       -0.0f,        INFINITY,  -INFINITY, NAN,    1e-40f,
                                 -1e-40f, 3.4e38f,      -3e38f,    88.7f,     -88.7f, -87.f,
                                 0.625f,  0.927734375f, 1.17e-38f, 1,         -1};
    rungi_random random = rungi_random_make(7, RUNGI_PURPOSE_TEST, (uint64_t)id, 0, 0);
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)rungi_random_normal(&random, (uint64_t)i) * (float)(1 + i % 30);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        x[i * 57 + 3] = ends[i];
}

static void check_equal(const float *a, const float *b, int n, const char *what, int formula)
{
    for (int i = 0; i < n; i++) {
        bool equal = memcmp(&a[i], &b[i], sizeof *a) == 0 || (isnan(a[i]) && isnan(b[i]));
        if (!equal)
            fail_msg("formula %d, %s: element %d of %d is %.9g, plain C says %.9g", formula, what,
                     i, n, b[i], a[i]);
    }
}

static void check_bits(void **state)
{
    (void)state;
#if defined(__x86_64__)
    if (rungi_cpu_isa() < RUNG_ISA_AVX2)
        skip_because("no AVX2");
    static float x[COUNT], g[COUNT], plain[COUNT], fast[COUNT];
    const rungi_unary_param param = {0.3f, -0.7f};
    fill(x, 0);
    fill(g, 1);
    for (int f = 0; f < RUNGI_UNARY_COUNT; f++)
        for (int n = 1; n <= COUNT; n += n < 40 ? 1 : 141) {
            rungi_unary_loops_plain.forward[f](x, plain, n, &param);
            rungi_unary_loops_avx2.forward[f](x, fast, n, &param);
            check_equal(plain, fast, n, "forward", f);
            rungi_unary_loops_plain.backward[f](x, g, plain, n, &param);
            rungi_unary_loops_avx2.backward[f](x, g, fast, n, &param);
            check_equal(plain, fast, n, "backward", f);
        }
#else
    skip_because("one instruction set only");
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_bits)};
    return RUN_TESTS(tests);
}
