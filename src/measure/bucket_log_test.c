// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include <math.h>

#include "measure/bucket_log.h"

// nccl-tests, doc/PERFORMANCE.md: all-reduce busbw = algbw * 2 (n - 1) / n, reduce busbw = algbw.
static void bandwidth_is_that_of_the_bus(void **state)
{
    (void)state;
    assert_near(rungi_bus_bandwidth(8e9, 1e9, 2, false), 8, 1e-12);
    assert_near(rungi_bus_bandwidth(8e9, 1e9, 4, false), 12, 1e-12);
    assert_near(rungi_bus_bandwidth(8e9, 1e9, 4, true), 8, 1e-12);
    assert_true(isnan(rungi_bus_bandwidth(8, 0, 4, true)));
}

// Two buckets that share the link, the second one seen to its end by a rank that waits.
static void time_is_hidden_or_exposed_once(void **state)
{
    (void)state;
    rungi_bucket_log *log;
    int64_t from;
    assert_ok(rungi_bucket_log_create(2, 3, &log));
    for (int64_t step = 0; step < 2; step++) {
        int64_t t = 1000 * step;
        rungi_bucket_log_step(log, t);
        const rungi_bucket_span first = {0, step, 100, t + 10, t + 12, t + 15, t + 40};
        const rungi_bucket_span second = {1, step, 50, t + 20, t + 22, t + 40, t + 60};
        rungi_bucket_log_add(log, &first, t + 35, &from);
        assert_int_equal(from, t + 12);
        rungi_bucket_log_add(log, &second, t + 35, &from);
        assert_int_equal(from, t + 40);
    }
    const rungi_bucket_sums *sums = rungi_bucket_log_sums(log);
    static const double want[2][RUNGI_BUCKET_SUMS] = {
        // count, bytes, ready, started, ended, moving, hidden, exposed
        {2, 200, 20, 24, 80, 50, 46, 10},
        {2, 100, 40, 44, 120, 40, 0, 40},
    };
    for (int b = 0; b < 2; b++)
        for (int k = 0; k < RUNGI_BUCKET_SUMS; k++)
            assert_near(sums[b][k], want[b][k], 0);
    assert_int_equal(rungi_bucket_log_buckets(log), 2);
    assert_int_equal(rungi_bucket_log_count(log), 3); // the oldest of four was overwritten
    assert_int_equal(rungi_bucket_log_span(log, 0).bucket, 1);
    assert_int_equal(rungi_bucket_log_span(log, 2).step, 1);
    rungi_bucket_log_destroy(&log);
    assert_null(log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bandwidth_is_that_of_the_bus),
        cmocka_unit_test(time_is_hidden_or_exposed_once),
    };
    return RUN_TESTS(tests);
}
