// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include <math.h>
#include <stdio.h>

#include "base/philox.h"
#include "measure/straggler.h"

static const double mean[RUNGI_STRAGGLER_CAUSES] = {0.002, 0.020, 0.001};

enum { QUIET_RUNS = 50, QUIET_STEPS = 1000, RUNS = 200, BEGINS = 20 };

// One step of `ranks` ranks: 2 ms of data, 20 ms of computation and 1 ms of the link, each varying
// by `spread`; rank `slow` (-1: none) takes `factor` times as long for `cause`.
static void step_of(double (*times)[RUNGI_STRAGGLER_CAUSES], int ranks, double spread, int slow,
                    int cause, double factor, const rungi_random *random, uint64_t *at)
{
    for (int r = 0; r < ranks; r++)
        for (int c = 0; c < RUNGI_STRAGGLER_CAUSES; c++) {
            double noise = exp(spread * rungi_random_normal(random, (*at)++));
            times[r][c] = mean[c] * noise * (r == slow && c == cause ? factor : 1);
        }
}

// No false alarm in 1,000 steps of ranks whose times vary by 5 % or 10 %, in 50 runs of six
// settings: a detector that gave one in 10^5 steps would pass with a probability of e^-3.
static void equal_ranks_give_no_alarm(void **state)
{
    (void)state;
    static const int sizes[] = {2, 3, 8};
    static const double spreads[] = {0.05, 0.1};
    for (int k = 0; k < 6; k++)
        for (int run = 0; run < QUIET_RUNS; run++) {
            rungi_straggler s;
            rungi_straggler_verdict v;
            double times[8][RUNGI_STRAGGLER_CAUSES];
            uint64_t at = 0;
            rungi_random random =
                rungi_random_make(7, RUNGI_PURPOSE_TEST, (uint64_t)k, (uint64_t)run, 0);
            rungi_straggler_init(&s, sizes[k / 2]);
            for (int i = 0; i < QUIET_STEPS; i++) {
                step_of(times, sizes[k / 2], spreads[k % 2], -1, 0, 1, &random, &at);
                rungi_straggler_feed(&s, (const double(*)[RUNGI_STRAGGLER_CAUSES])times);
                if (i % 5 == 0)
                    assert_false(rungi_straggler_find(&s, &v));
            }
        }
}

// A rank that takes 1.2 times as long from step 20 on is named 20 steps later, with its cause, in
// all of 200 runs at 5 % of spread: for each the probability of a miss is below 10^-3 (of 20 ratios
// with mean 1.2 and deviation 0.085 at least five below 1.1).
static void a_slow_rank_is_named_with_its_cause(void **state)
{
    (void)state;
    for (int cause = 0; cause < RUNGI_STRAGGLER_CAUSES; cause++) {
        double factor = 1 + 0.0046 / mean[cause]; // 1.2 times the whole step
        int found = 0;
        for (int run = 0; run < RUNS; run++) {
            rungi_straggler s;
            rungi_straggler_verdict v;
            double times[4][RUNGI_STRAGGLER_CAUSES];
            uint64_t at = 0;
            rungi_random random =
                rungi_random_make(8, RUNGI_PURPOSE_TEST, (uint64_t)cause, (uint64_t)run, 0);
            rungi_straggler_init(&s, 4);
            for (int i = 0; i < BEGINS + RUNGI_STRAGGLER_STEPS; i++) {
                step_of(times, 4, 0.05, i >= BEGINS ? 2 : -1, cause, factor, &random, &at);
                rungi_straggler_feed(&s, (const double(*)[RUNGI_STRAGGLER_CAUSES])times);
            }
            if (!rungi_straggler_find(&s, &v))
                continue;
            found++;
            assert_int_equal(v.rank, 2);
            assert_int_equal(v.cause, cause);
            assert_near(v.slowness, 1.2, 0.08);
            assert_true(v.own > v.others);
        }
        assert_true(found >= RUNS - 2);
    }
}

// Nor in 1,000 steps of two and of four ranks recorded on a machine with two cores, whose other
// programs kept some 10 processes a core waiting: microseconds of data, computing and link by rank
// (fashion_cnn on pictures of 28 x 28, batch 32).
static void recorded_steps_give_no_alarm(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        char path[512];
        int steps = 0;
        double times[4][RUNGI_STRAGGLER_CAUSES];
        rungi_straggler s;
        rungi_straggler_verdict v;
        snprintf(path, sizeof path, RUNG_SOURCE_DIR "/tests/fixtures/straggler/ranks-%d.csv",
                 ranks);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        rungi_straggler_init(&s, ranks);
        for (bool good = true; good;) {
            for (int k = 0; k < ranks * RUNGI_STRAGGLER_CAUSES && good; k++) {
                double *time = &times[k / RUNGI_STRAGGLER_CAUSES][k % RUNGI_STRAGGLER_CAUSES];
                good = fscanf(file, k ? ",%lf" : "%lf", time) == 1;
                *time *= 1e-6;
            }
            if (!good)
                break;
            rungi_straggler_feed(&s, (const double(*)[RUNGI_STRAGGLER_CAUSES])times);
            if (++steps % RUNGI_STRAGGLER_STEPS == 0) // as a trainer looks
                assert_false(rungi_straggler_find(&s, &v));
        }
        fclose(file);
        assert_int_equal(steps, 1000);
    }
}

static void imbalance_is_the_largest_over_the_mean(void **state)
{
    (void)state;
    rungi_straggler s;
    const double times[3][RUNGI_STRAGGLER_CAUSES] = {{0, 1}, {1, 1}, {0, 3}};
    rungi_straggler_init(&s, 3);
    assert_near(rungi_straggler_imbalance(&s), 1, 0);
    rungi_straggler_feed(&s, times);
    rungi_straggler_feed(&s, times);
    assert_near(rungi_straggler_imbalance(&s), 1.5, 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_ranks_give_no_alarm),
        cmocka_unit_test(recorded_steps_give_no_alarm),
        cmocka_unit_test(a_slow_rank_is_named_with_its_cause),
        cmocka_unit_test(imbalance_is_the_largest_over_the_mean),
    };
    return RUN_TESTS(tests);
}
