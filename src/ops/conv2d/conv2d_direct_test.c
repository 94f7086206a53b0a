// SPDX-License-Identifier: Apache-2.0
// What the case table cannot show of the direct kernels: every instruction set that this machine
// has, many channels, any number of threads.
#include "ops/conv2d/conv2d_testing.h"

static const rungi_conv2d_attr strided = {{2, 2}, {1, 1}, {1, 1}, 1};
static const rungi_conv2d_attr stem = {{2, 2}, {3, 3}, {1, 1}, 1};
static const rungi_conv2d_attr point = {{1, 1}, {0, 0}, {1, 1}, 1};
static const rungi_conv2d_attr sparse = {{2, 2}, {0, 0}, {1, 1}, 1};
static const rungi_conv2d_attr uneven = {{3, 2}, {0, 2}, {1, 1}, 1};

static const rungi_case cases[] = {
    {"64 channels", {RUNGI_IN(4, 64, 14, 15), RUNGI_IN(40, 64, 3, 3), RUNGI_IN(40)}, 3, &strided},
    {"300 inputs",
     {RUNGI_IN(3, 300, 7, 7), RUNGI_IN(20, 300, 3, 3)},
     2,
     &strided}, // runs in pieces
    {"300 outputs", {RUNGI_IN(5, 20, 7, 7), RUNGI_IN(300, 20, 3, 3)}, 2, &strided},
    {"stem", {RUNGI_IN(2, 3, 60, 70), RUNGI_IN(64, 3, 7, 7), RUNGI_IN(64)}, 3, &stem},
    {"1x1", {RUNGI_IN(3, 70, 9, 11), RUNGI_IN(90, 70, 1, 1), RUNGI_IN(90)}, 3, &point},
    {"1x1 stride 2", {RUNGI_IN(3, 70, 9, 11), RUNGI_IN(33, 70, 1, 1)}, 2, &sparse},
    {"uneven", {RUNGI_IN(2, 6, 19, 17), RUNGI_IN(7, 6, 2, 5), RUNGI_IN(7)}, 3, &uneven},
};

// Whole vectors of 8 and not of 16, near the weights for which there are fewer parts.
static const rungi_case parts = {
    "parts", {RUNGI_IN(8, 180, 13, 13), RUNGI_IN(40, 180, 7, 7), RUNGI_IN(40)}, 3, &stem};

static void errors_are_bounded(void **state)
{
    (void)state;
    for (size_t i = 0; i < RUNGI_COUNT(cases); i++)
        check_errors(&cases[i], "direct", (conv2d_errors){2e-6, 2e-6, 3e-6, 2e-6});
}

static void threads_do_not_show(void **state)
{
    (void)state;
    for (size_t i = 0; i < RUNGI_COUNT(cases); i++)
        check_threads(&cases[i], "direct");
    check_threads(&parts, "direct");
}

static void says_why_not(void **state)
{
    static const rungi_conv2d_attr far = {{5, 5}, {1, 1}, {1, 1}, 1};
    static const rungi_conv2d_attr dilated = {{1, 1}, {1, 1}, {2, 2}, 1};
    static const rungi_case c = {
        "small", {RUNGI_IN(1, 8, 8, 8), RUNGI_IN(8, 8, 3, 3)}, 2, &strided};
    rungi_trial t;
    rungi_reason why;
    (void)state;
    assert_ok(rungi_trial_init(&t, &rungi_op_conv2d, &c, RUNG_F32, RUNGI_CHANNELS_LAST, 1));
    rungi_query q = rungi_trial_query(&t, RUNGI_FORWARD, ~0u, NULL);
    const rungi_kernel *kernel = named(&q, "direct");
    assert_true(kernel->can_run(&q, &why));
    q.attr = &far;
    assert_false(kernel->can_run(&q, &why));
    assert_string_equal(why.text, "for strides up to 4");
    q.attr = &dilated;
    assert_false(kernel->can_run(&q, &why));
    assert_string_equal(why.text, "without dilation and groups");
    rungi_trial_fini(&t);
    assert_ok(rungi_trial_init(&t, &rungi_op_conv2d, &c, RUNG_F32, RUNGI_BLOCKED8, 1));
    q = rungi_trial_query(&t, RUNGI_FORWARD, ~0u, NULL);
    assert_false(kernel->can_run(&q, &why));
    assert_string_equal(why.text, "needs plan.layout channels_last");
    rungi_trial_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_bounded),
        cmocka_unit_test(threads_do_not_show),
        cmocka_unit_test(says_why_not),
    };
    return RUN_TESTS(tests);
}
