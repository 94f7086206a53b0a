// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include <math.h>

#include "base/philox.h"
#include "ladder/statistics.h"

static void medians(void **state)
{
    (void)state;
    const double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};
    assert_near(rungi_median(odd, 3), 2, 0);
    assert_near(rungi_median(even, 4), 2.5, 0);
    assert_near(odd[0], 3, 0); // not sorted in place
}

// Published two-sided 95 % quantiles; beyond the table the expansion is good to 1e-3.
static void student(void **state)
{
    (void)state;
    assert_near(rungi_student_95(1), 12.706, 5e-4);
    assert_near(rungi_student_95(4), 2.776, 5e-4);
    assert_near(rungi_student_95(30), 2.042, 5e-4);
    assert_near(rungi_student_95(40), 2.021, 1e-3);
    assert_near(rungi_student_95(60), 2.000, 1e-3);
    assert_near(rungi_student_95(120), 1.980, 1e-3);
}

// Closed form: ratios 1.2 with no spread, and the interval of two ratios.
static void gains(void **state)
{
    (void)state;
    const double before[] = {12, 24, 6}, after[] = {10, 20, 5};
    rungi_gain g = rungi_gain_of(before, after, 3);
    assert_near(g.median, 1.2, 1e-12);
    assert_near(g.low, 1.2, 1e-9);
    assert_near(g.high, 1.2, 1e-9);
    assert_int_equal(rungi_verdict_of(&g), RUNG_VERDICT_KEPT);
    const double two[] = {1.1, 1.3}, one[] = {1, 1};
    g = rungi_gain_of(two, one, 2);
    double mean = (log(1.1) + log(1.3)) / 2, sd = fabs(log(1.3) - log(1.1)) / sqrt(2);
    assert_near(g.low, exp(mean - 12.706 * sd / sqrt(2)), 1e-9);
    assert_near(g.high, exp(mean + 12.706 * sd / sqrt(2)), 1e-9);
    assert_int_equal(rungi_verdict_of(&g), RUNG_VERDICT_NO_CLEAR_CHANGE);
    g = rungi_gain_of(after, before, 3);
    assert_int_equal(rungi_verdict_of(&g), RUNG_VERDICT_SLOWER);
}

// A change of less than 1 % is not called one, however sure it is.
static void small_changes_are_none(void **state)
{
    (void)state;
    const double before[] = {1.005, 1.005, 1.005}, after[] = {1, 1, 1};
    rungi_gain g = rungi_gain_of(before, after, 3);
    assert_int_equal(rungi_verdict_of(&g), RUNG_VERDICT_NO_CLEAR_CHANGE);
}

static double noisy(const rungi_random *random, uint64_t index, double sd)
{
    return exp(sd * rungi_random_normal(random, index));
}

// Case C88 on generated series: a rung that does nothing, 5 pairs of blocks with 3 % noise, is
// called "no clear change" in at least 90 % of 2,000 runs. The interval errs in 5 %, less what the
// 1 % threshold takes away; the draws are fixed, so this holds or does not hold for ever.
static void nothing_is_called_nothing(void **state)
{
    (void)state;
    int called = 0;
    for (uint64_t run = 0; run < 2000; run++) {
        rungi_random random = rungi_random_make(1, RUNGI_PURPOSE_TEST, 88, run, 0);
        double before[5], after[5];
        for (uint64_t i = 0; i < 5; i++) {
            before[i] = noisy(&random, 2 * i, 0.03);
            after[i] = noisy(&random, 2 * i + 1, 0.03);
        }
        rungi_gain g = rungi_gain_of(before, after, 5);
        called += rungi_verdict_of(&g) == RUNG_VERDICT_NO_CLEAR_CHANGE;
    }
    assert_true(called >= 1900);
}

// And a gain of 15 % under the same noise is found in nearly all runs.
static void gains_are_found(void **state)
{
    (void)state;
    int kept = 0;
    for (uint64_t run = 0; run < 2000; run++) {
        rungi_random random = rungi_random_make(1, RUNGI_PURPOSE_TEST, 89, run, 0);
        double before[5], after[5];
        for (uint64_t i = 0; i < 5; i++) {
            before[i] = 1.15 * noisy(&random, 2 * i, 0.03);
            after[i] = noisy(&random, 2 * i + 1, 0.03);
        }
        rungi_gain g = rungi_gain_of(before, after, 5);
        kept += rungi_verdict_of(&g) == RUNG_VERDICT_KEPT;
    }
    assert_true(kept >= 1800);
}

static void margins(void **state)
{
    (void)state;
    const double values[] = {0.90, 0.91, 0.92};
    assert_near(rungi_prediction_margin(values, 3), 4.303 * 0.01 * sqrt(4.0 / 3), 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(medians),
        cmocka_unit_test(student),
        cmocka_unit_test(gains),
        cmocka_unit_test(small_changes_are_none),
        cmocka_unit_test(nothing_is_called_nothing),
        cmocka_unit_test(gains_are_found),
        cmocka_unit_test(margins),
    };
    return RUN_TESTS(tests);
}
