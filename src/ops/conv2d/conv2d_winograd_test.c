// SPDX-License-Identifier: Apache-2.0
// What the case table cannot show of Winograd's kernels: every instruction set that this machine
// has, the errors that conv2d_winograd.h states, and tiles in more than one go.
#include "ops/conv2d/conv2d_testing.h"

static const rungi_conv2d_attr same = {{1, 1}, {1, 1}, {1, 1}, 1};
static const rungi_conv2d_attr valid = {{1, 1}, {0, 0}, {1, 1}, 1};

static void errors_are_bounded(void **state)
{
    static const rungi_case cases[] = {
        {"64 channels", {RUNGI_IN(4, 64, 12, 13), RUNGI_IN(64, 64, 3, 3), RUNGI_IN(64)}, 3, &same},
        {"512 inputs", {RUNGI_IN(1, 512, 7, 7), RUNGI_IN(40, 512, 3, 3)}, 2, &same},
        {"512 outputs", {RUNGI_IN(1, 40, 9, 9), RUNGI_IN(512, 40, 3, 3)}, 2, &valid},
        {"many pixels", {RUNGI_IN(2, 5, 90, 70), RUNGI_IN(18, 5, 3, 3), RUNGI_IN(18)}, 3, &same},
        {"many weights", {RUNGI_IN(1, 140, 6, 9), RUNGI_IN(260, 140, 3, 3)}, 2, &same},
    };
    (void)state;
    for (size_t i = 0; i < RUNGI_COUNT(cases); i++)
        check_errors(&cases[i], "winograd", (conv2d_errors){8e-6, 8e-6, 1e-5, 2e-6});
}

static void threads_do_not_show(void **state)
{
    static const rungi_case cases[] = {
        {"few weights", {RUNGI_IN(3, 30, 21, 18), RUNGI_IN(34, 30, 3, 3), RUNGI_IN(34)}, 3, &same},
        {"some weights",
         {RUNGI_IN(1, 100, 21, 18), RUNGI_IN(150, 100, 3, 3), RUNGI_IN(150)},
         3,
         &valid},
        {"many weights",
         {RUNGI_IN(1, 180, 11, 18), RUNGI_IN(190, 180, 3, 3), RUNGI_IN(190)},
         3,
         &same},
    };
    (void)state;
    for (size_t i = 0; i < RUNGI_COUNT(cases); i++)
        check_threads(&cases[i], "winograd");
}

// More tiles than are taken in one go, where the reference would take minutes: beside oneDNN.
static void goes_on_with_more_tiles(void **state)
{
    static const rungi_case c = {
        .name = "more tiles",
        .in = {RUNGI_IN(6, 196, 44, 44), RUNGI_IN(180, 196, 3, 3), RUNGI_IN(180)},
        .n_in = 3,
        .attr = &same};
    rungi_trial t, other;
    (void)state;
    assert_ok(rungi_trial_init(&t, &rungi_op_conv2d, &c, RUNG_F32, RUNGI_CHANNELS_LAST, 2));
    assert_ok(rungi_trial_init(&other, &rungi_op_conv2d, &c, RUNG_F32, RUNGI_CHANNELS_LAST, 2));
    for (int pass = RUNGI_FORWARD; pass <= DATA; pass++) {
        run(&t, pass, "winograd", rungi_cpu_isa(), 2);
        run(&other, pass, "onednn", rungi_cpu_isa(), 2);
    }
    assert_true(error(&t, &t.out[0], &other, &other.out[0]) <= 1e-5);
    for (int i = 0; i < 3; i++)
        assert_true(error(&t, &t.gin[i], &other, &other.gin[i]) <= 1.5e-5);
    rungi_trial_fini(&t);
    rungi_trial_fini(&other);
}

static void says_why_not(void **state)
{
    static const rungi_case c = {.name = "small",
                                 .in = {RUNGI_IN(1, 20, 8, 8), RUNGI_IN(20, 20, 3, 3)},
                                 .n_in = 2,
                                 .attr = &same};
    static const rungi_conv2d_attr strided = {{2, 2}, {1, 1}, {1, 1}, 1};
    rungi_trial t;
    rungi_reason why;
    (void)state;
    assert_ok(rungi_trial_init(&t, &rungi_op_conv2d, &c, RUNG_F32, RUNGI_CHANNELS_LAST, 1));
    rungi_query q = rungi_trial_query(&t, RUNGI_FORWARD, ~0u, NULL);
    const rungi_kernel *kernel = named(&q, "winograd");
    assert_true(kernel->can_run(&q, &why));
    assert_ptr_equal(rungi_kernel_choose(&q, RUNGI_CPU, RUNGI_POLICY_ALL, NULL), kernel);
    q.winograd = false;
    assert_false(kernel->can_run(&q, &why));
    assert_string_equal(why.text, "plan.winograd is off");
    q.winograd = true;
    q.attr = &strided;
    assert_false(kernel->can_run(&q, &why));
    rungi_trial_fini(&t);
    assert_ok(rungi_trial_init(&t, &rungi_op_conv2d, &c, RUNG_F32, RUNGI_PLAIN, 1));
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
        cmocka_unit_test(goes_on_with_more_tiles),
        cmocka_unit_test(says_why_not),
    };
    return RUN_TESTS(tests);
}
