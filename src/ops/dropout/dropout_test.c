// SPDX-License-Identifier: Apache-2.0
// The mask: its rate, and what it depends on.
#include "testing.h"

#include <math.h>

#include "base/context.h"
#include "ops/dropout/dropout.h"
#include "ops/trial.h"

static const rungi_dropout_attr half = {0.5};

static rungi_dropout_source source_of(double p)
{
    return (rungi_dropout_source){rungi_random_make(1, RUNGI_PURPOSE_DROPOUT, 2, 3, 0),
                                  (uint32_t)(p * 0x1p32 + 0.5)};
}

static void check_bits(const rungi_dropout_loops *loops, double p, int64_t groups)
{
    rungi_dropout_source s = source_of(p);
    int64_t kept = 0;
    for (int64_t g = 0; g < groups; g += 3) {
        uint64_t words[3];
        loops->bits(&s, 7 + ((int64_t)1 << 33), g, 3, words);
        for (int64_t i = 0; i < 3 * 64; i++) {
            bool bit = words[i / 64] >> i % 64 & 1;
            assert_int_equal(bit, rungi_dropout_keeps(&s, 7 + ((int64_t)1 << 33), g * 64 + i));
            kept += bit;
        }
    }
    double n = (double)groups * 64, deviation = sqrt(n * p * (1 - p));
    assert_near((double)kept, n * (1 - p), 5 * deviation + 1);
}

// Every element against the definition, enough of them that some are decided by their second half.
static void bits_are_those_of_the_definition(void **state)
{
    (void)state;
    static const double rates[] = {0.5, 0.1, 0.75, 1e-5, 0.999};
    for (int i = 0; i < 5; i++) {
        check_bits(&rungi_dropout_loops_cpu, rates[i], 6000);
        if (rungi_dropout_loops_avx2 && rungi_cpu_isa() >= RUNG_ISA_AVX2)
            check_bits(rungi_dropout_loops_avx2, rates[i], 6000);
    }
}

// The smallest rates are met too: 16 bits alone would make 1.5e-5 of 1e-5.
static void small_rates_are_met(void **state)
{
    (void)state;
    rungi_dropout_source s = source_of(2e-5);
    int64_t dropped = 0, groups = 600000;
    uint64_t words[100];
    for (int64_t g = 0; g < groups; g += 100) {
        rungi_dropout_loops_cpu.bits(&s, 0, g, 100, words);
        for (int i = 0; i < 100; i++)
            dropped += 64 - __builtin_popcountll(words[i]);
    }
    double expected = (double)groups * 64 * 2e-5; // 768
    assert_near((double)dropped, expected, 5 * sqrt(expected));
}

// y of `samples` samples from `offset` on, whatever the layout in plain order.
static void run(rung_shape shape, rungi_layout layout, int64_t offset, int64_t samples,
                rungi_runtime rt, double *y)
{
    const rungi_case c = {.name = "mask", .in = {{.shape = shape}}, .n_in = 1, .attr = &half};
    rungi_trial t;
    rungi_operand gin[RUNGI_CASE_INPUTS];
    assert_ok(rungi_trial_init(&t, &rungi_op_dropout, &c, RUNG_F32, layout, 2));
    t.rt = rt;
    t.rt.sample_offset = offset;
    t.rt.samples = samples;
    for (int64_t i = 0; i < rungi_operand_count(&t.in[0]); i++)
        rungi_trial_set(&t, &t.in[0], i, 1);
    rungi_query q = rungi_trial_query(&t, RUNGI_FORWARD, ~0u, gin);
    q.key = 4;
    assert_ok(
        rungi_trial_run(&t, &q, rungi_kernel_choose(&q, RUNGI_CPU, RUNGI_POLICY_ALL, NULL), 1));
    for (int64_t i = 0; i < rungi_operand_count(&t.out[0]); i++)
        y[i] = rungi_trial_get(&t, &t.out[0], i);
    rungi_trial_fini(&t);
}

static void shards_and_layouts_do_not_show(void **state)
{
    (void)state;
    enum { SAMPLE = 8 * 3 * 5, COUNT = 6 * SAMPLE };
    rungi_runtime rt = {.seed = 9, .step = 2};
    double whole[COUNT], parts[COUNT];
    run(RUNG_SHAPE(6, 8, 3, 5), RUNGI_PLAIN, 10, 6, rt, whole);
    for (int layout = RUNGI_PLAIN; layout <= RUNGI_BLOCKED8; layout++) {
        run(RUNG_SHAPE(4, 8, 3, 5), (rungi_layout)layout, 10, 4, rt, parts);
        run(RUNG_SHAPE(2, 8, 3, 5), (rungi_layout)layout, 14, 2, rt, parts + 4 * SAMPLE);
        assert_memory_equal(whole, parts, sizeof whole);
    }
    // Tensors whose first dimension is samples and something else, as attention has them.
    run(RUNG_SHAPE(16, 3, 5), RUNGI_PLAIN, 10, 2, rt, parts);
    assert_memory_equal(whole, parts, 2 * SAMPLE * sizeof *whole);
    run(RUNG_SHAPE(2 * SAMPLE), RUNGI_PLAIN, 12, 2, rt, parts);
    assert_memory_equal(whole + 2 * SAMPLE, parts, 2 * SAMPLE * sizeof *whole);
}

// C32: masks of different samples, steps and seeds have nothing in common.
static void samples_steps_and_seeds_differ(void **state)
{
    (void)state;
    enum { COUNT = 1024 };
    static const rungi_runtime other[] = {
        {.seed = 1}, {.seed = 2}, {.seed = 1, .step = 1}, {.seed = 1}};
    double first[COUNT], y[COUNT];
    run(RUNG_SHAPE(1, COUNT), RUNGI_PLAIN, 0, 1, other[0], first);
    for (int k = 1; k < 4; k++) {
        int same = 0;
        run(RUNG_SHAPE(1, COUNT), RUNGI_PLAIN, k == 3, 1, other[k], y);
        for (int i = 0; i < COUNT; i++)
            same += y[i] == first[i];
        assert_in_range(same, COUNT * 40 / 100, COUNT * 60 / 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_those_of_the_definition),
        cmocka_unit_test(small_rates_are_met),
        cmocka_unit_test(shards_and_layouts_do_not_show),
        cmocka_unit_test(samples_steps_and_seeds_differ),
    };
    return RUN_TESTS(tests);
}
