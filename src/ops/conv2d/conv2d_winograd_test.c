// SPDX-License-Identifier: Apache-2.0
// What the case table cannot show of Winograd's kernels: every instruction set that this machine
// has, the errors that conv2d_winograd.h states, and tiles in more than one go.
#include "ops/channel_sums.h"
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
        // Whole vectors of 8 and not of 16, near the weights for which there are fewer parts.
        {"parts", {RUNGI_IN(4, 88, 64, 64), RUNGI_IN(88, 88, 3, 3), RUNGI_IN(88)}, 3, &same},
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

static void check_pooling(rungi_trial *t, rung_isa isa, bool relu)
{
    rungi_query q = rungi_trial_query(t, RUNGI_FORWARD, ~0u, NULL);
    q.isa = isa;
    check_fused(t, q, "winograd", true, relu);
}

// The bits of a convolution and a pooling after it, with equal values and NaN too.
static void pools_what_it_stores(void **state)
{
    static const rungi_case cases[] = {
        {"few weights", {RUNGI_IN(2, 18, 9, 14), RUNGI_IN(21, 18, 3, 3), RUNGI_IN(21)}, 3, &same},
        {"one row", {RUNGI_IN(1, 16, 5, 4), RUNGI_IN(16, 16, 3, 3)}, 2, &valid},
        {"many weights",
         {RUNGI_IN(1, 180, 7, 10), RUNGI_IN(190, 180, 3, 3), RUNGI_IN(190)},
         3,
         &same},
    };
    rungi_trial t;
    (void)state;
    for (size_t i = 0; i < RUNGI_COUNT(cases); i++)
        for (int isa = RUNG_ISA_SCALAR; isa <= (int)rungi_cpu_isa(); isa++) {
            assert_ok(rungi_trial_init(&t, &rungi_op_conv2d, &cases[i], RUNG_F32,
                                       RUNGI_CHANNELS_LAST, 2));
            run(&t, RUNGI_FORWARD, "winograd", (rung_isa)isa, 2);
            check_pooling(&t, (rung_isa)isa, false);
            check_pooling(&t, (rung_isa)isa, true);
            memset(t.ptr[t.in[0].buffer], 0, rungi_operand_bytes(&t.in[0]));
            rungi_trial_set(&t, &t.in[0], 5, NAN);
            run(&t, RUNGI_FORWARD, "winograd", (rung_isa)isa, 2);
            check_pooling(&t, (rung_isa)isa, false);
            rungi_trial_fini(&t);
        }
}

// ---- sums by channel ----------------------------------------------------------------------------

// The convolution of t with sums by channel, which are returned, of `parts` parts.
static float *run_with_sums(rungi_trial *t, rung_isa isa, int threads, int64_t *parts_out)
{
    t->threads = threads;
    rungi_query q = rungi_trial_query(t, RUNGI_FORWARD, ~0u, NULL);
    const rungi_kernel *kernel = named(&q, "winograd");
    int64_t parts = kernel->sum_parts(&q);
    int64_t size = rungi_channel_sums_size(parts, q.out[0].shape.dim[1]);
    const rungi_operand sums = {RUNG_F32, RUNGI_PLAIN, {1, {size}}, t->n_ptr};
    q.isa = isa;
    q.sums_out = &sums;
    float *data = malloc((size_t)(size + 1) * sizeof *data);
    for (int64_t i = 0; i <= size; i++)
        data[i] = 77;
    t->ptr[t->n_ptr] = data;
    assert_ok(rungi_trial_run(t, &q, kernel, 2));
    assert_true(rungi_trial_guards(t) && data[size] == 77);
    t->ptr[t->n_ptr] = NULL;
    *parts_out = parts;
    return data;
}

// Mean and variance of output channel c: of the parts' sums, and of the stored values.
static void check_channel(const rungi_trial *t, const float *sums, int64_t parts, int64_t c)
{
    const int64_t *d = t->out[0].shape.dim, part = rungi_channel_sums_part(d[1]);
    const float *counts = sums + parts * part;
    double n = (double)(d[0] * d[2] * d[3]), mean = 0, var = 0, true_mean = 0, true_var = 0;
    for (int64_t k = 0; k < parts; k++)
        mean += (counts[k] * (double)sums[k * part + c] + sums[k * part + d[1] + c]) / n;
    for (int64_t k = 0; k < parts; k++) {
        double s1 = sums[k * part + d[1] + c], s2 = sums[k * part + 2 * d[1] + c];
        double apart = sums[k * part + c] + s1 / counts[k] - mean;
        var += (s2 - s1 * s1 / counts[k] + counts[k] * apart * apart) / n;
    }
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < d[0] * d[2] * d[3]; i++) {
            int64_t image = i / (d[2] * d[3]), pixel = i % (d[2] * d[3]);
            double y = rungi_trial_get(t, &t->out[0], (image * d[1] + c) * d[2] * d[3] + pixel);
            true_mean += pass ? 0 : y / n;
            true_var += pass ? (y - true_mean) * (y - true_mean) / n : 0;
        }
    assert_near(mean, true_mean, 1e-6 * sqrt(true_var) + 1e-9 * fabs(true_mean));
    assert_near(var, true_var, 2e-6 * true_var);
}

// With means of zero and of a thousand times what the values differ by.
static void leaves_sums_by_channel(void **state)
{
    static const rungi_case cases[] = {
        {"few weights", {RUNGI_IN(2, 18, 9, 14), RUNGI_IN(21, 18, 3, 3), RUNGI_IN(21)}, 3, &same},
        {"whole tiles", {RUNGI_IN(3, 3, 16, 20), RUNGI_IN(32, 3, 3, 3), RUNGI_IN(32)}, 3, &same},
        {"one pixel", {RUNGI_IN(1, 2, 3, 3), RUNGI_IN(5, 2, 3, 3), RUNGI_IN(5)}, 3, &valid},
        {"edges", {RUNGI_IN(11, 2, 7, 7), RUNGI_IN(9, 2, 3, 3), RUNGI_IN(9)}, 3, &valid},
        {"many weights",
         {RUNGI_IN(1, 180, 21, 10), RUNGI_IN(190, 180, 3, 3), RUNGI_IN(190)},
         3,
         &same},
    };
    rungi_trial t;
    (void)state;
    for (size_t i = 0; i < RUNGI_COUNT(cases); i++)
        for (int far = 0; far < 2; far++) {
            assert_ok(rungi_trial_init(&t, &rungi_op_conv2d, &cases[i], RUNG_F32,
                                       RUNGI_CHANNELS_LAST, 2));
            for (int64_t o = 0; far && o < rungi_operand_count(&t.in[2]); o++)
                rungi_trial_set(&t, &t.in[2], o, 1e4 + (double)o);
            for (int isa = RUNG_ISA_SCALAR; isa <= (int)rungi_cpu_isa(); isa++) {
                size_t bytes = rungi_operand_bytes(&t.out[0]);
                int64_t parts;
                run(&t, RUNGI_FORWARD, "winograd", (rung_isa)isa, 2);
                void *alone = memcpy(malloc(bytes), t.ptr[t.out[0].buffer], bytes);
                float *sums = run_with_sums(&t, (rung_isa)isa, 2, &parts);
                assert_memory_equal(t.ptr[t.out[0].buffer], alone, bytes);
                for (int64_t c = 0; c < t.out[0].shape.dim[1]; c++)
                    check_channel(&t, sums, parts, c);
                free(sums);
                free(alone);
            }
            rungi_trial_fini(&t);
        }
}

static void threads_do_not_show_in_sums(void **state)
{
    static const rungi_case cases[] = {
        {"few weights", {RUNGI_IN(3, 30, 21, 18), RUNGI_IN(34, 30, 3, 3), RUNGI_IN(34)}, 3, &same},
        {"many weights",
         {RUNGI_IN(1, 180, 11, 18), RUNGI_IN(190, 180, 3, 3), RUNGI_IN(190)},
         3,
         &same},
    };
    rungi_trial t;
    (void)state;
    for (size_t i = 0; i < RUNGI_COUNT(cases); i++) {
        int64_t parts;
        assert_ok(
            rungi_trial_init(&t, &rungi_op_conv2d, &cases[i], RUNG_F32, RUNGI_CHANNELS_LAST, 1));
        float *one = run_with_sums(&t, rungi_cpu_isa(), 1, &parts);
        size_t size = (size_t)rungi_channel_sums_size(parts, t.out[0].shape.dim[1]);
        for (int threads = 2; threads <= 17; threads = threads * 2 + (threads == 2)) {
            float *some = run_with_sums(&t, rungi_cpu_isa(), threads, &parts);
            assert_memory_equal(some, one, size * sizeof *one);
            free(some);
        }
        free(one);
        rungi_trial_fini(&t);
    }
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
    assert_false(named(&q, "onednn_winograd")->can_run(&q, &why));
    assert_string_equal(why.text, "needs AVX-512 and plan.layout blocked");
    q.winograd = false;
    assert_false(named(&q, "onednn_winograd")->can_run(&q, &why));
    assert_string_equal(why.text, "plan.winograd is off");
    rungi_trial_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_bounded),
        cmocka_unit_test(threads_do_not_show),
        cmocka_unit_test(goes_on_with_more_tiles),
        cmocka_unit_test(pools_what_it_stores),
        cmocka_unit_test(leaves_sums_by_channel),
        cmocka_unit_test(threads_do_not_show_in_sums),
        cmocka_unit_test(says_why_not),
    };
    return RUN_TESTS(tests);
}
