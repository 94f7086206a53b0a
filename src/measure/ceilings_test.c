// SPDX-License-Identifier: Apache-2.0
// How fast a machine is no test knows: these check that the numbers have meaning.
#include "testing.h"

#include <math.h>
#include <sched.h>

#include "measure/ceilings.h"

static void all_are_positive(void **state)
{
    (void)state;
    rung_context *context;
    rungi_ceilings c;
    assert_ok(rung_context_create(NULL, &context));
    assert_ok(rungi_ceilings_measure(context, 2, &c));
    assert_int_equal(c.isa, rung_context_isa(context));
    for (int i = 0; i < 2; i++) {
        assert_true(c.flops[i] > 1e6 && c.flops[i] < 1e14);
        assert_true(c.bytes[i] > 1e6 && c.bytes[i] < 1e13);
    }
    assert_true(c.round_trip >= 0 && c.round_trip < 1);
    rung_context_destroy(&context);
}

// The caller may run afterwards where it could before.
static void round_trip_leaves_affinity(void **state)
{
    rung_context *context;
    cpu_set_t before, after;
    double seconds;
    (void)state;
    assert_ok(rung_context_create(NULL, &context));
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_ok(rungi_round_trip_measure(context, &seconds));
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    rung_context_destroy(&context);
}

// Each loop computes what plain arithmetic does: a = a x + y, `count` times.
static void loops_compute(void **state)
{
    (void)state;
    struct {
        rungi_fma_fn fn;
        int lanes;
        rung_isa isa;
    } loops[] = {
        {rungi_fma_plain, 4, RUNG_ISA_SCALAR},
#if defined(__x86_64__)
        {rungi_fma_avx2, 8, RUNG_ISA_AVX2},
        {rungi_fma_avx512, 16, RUNG_ISA_AVX512},
#endif
    };
    for (size_t l = 0; l < sizeof loops / sizeof *loops; l++) {
        if (loops[l].isa > rungi_cpu_isa())
            continue;
        double sum = 0;
        for (int k = 0; k < RUNGI_FMA_CHAINS; k++)
            for (int i = 0; i < loops[l].lanes; i++) {
                double a = k + i;
                for (int n = 0; n < 100; n++)
                    a = a * (0.999f + 1e-5f * (float)i) + 1e-3f * (float)(i + 1);
                sum += a;
            }
        assert_near(loops[l].fn(100), sum, 1e-4 * fabs(sum));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_positive),
        cmocka_unit_test(round_trip_leaves_affinity),
        cmocka_unit_test(loops_compute),
    };
    return RUN_TESTS(tests);
}
