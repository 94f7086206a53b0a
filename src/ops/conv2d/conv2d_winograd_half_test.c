// SPDX-License-Identifier: Apache-2.0
// Winograd's kernels of bf16 with every instruction set that this machine has; without dot products
// of bf16 by widening, which gives the same sums.
#include "ops/conv2d/conv2d_testing.h"
#include "ops/conv2d/conv2d_winograd_half.h"
#include "ops/halves.h"
#include "ops/random_testing.h"

static const rungi_conv2d_attr same = {{1, 1}, {1, 1}, {1, 1}, 1};
static const rungi_conv2d_attr valid = {{1, 1}, {0, 0}, {1, 1}, 1};

// Tails of tiles, vectors, pairs and panels; images smaller than a tile; weights that are streamed,
// in one chunk and in two.
static const rungi_case cases[] = {
    {"48 channels", {RUNGI_IN(1, 48, 9, 11), RUNGI_IN(40, 48, 3, 3), RUNGI_IN(40)}, 3, &same},
    {"odd", {RUNGI_IN(3, 17, 5, 7), RUNGI_IN(9, 17, 3, 3), RUNGI_IN(9)}, 3, &valid},
    {"one input", {RUNGI_IN(1, 1, 6, 6), RUNGI_IN(50, 1, 3, 3)}, 2, &same},
    {"one output", {RUNGI_IN(2, 35, 4, 5), RUNGI_IN(1, 35, 3, 3), RUNGI_IN(1)}, 3, &same},
    {"2x3 image", {RUNGI_IN(9, 5, 2, 3), RUNGI_IN(12, 5, 3, 3), RUNGI_IN(12)}, 3, &same},
    {"one pixel", {RUNGI_IN(1, 20, 3, 3), RUNGI_IN(24, 20, 3, 3), RUNGI_IN(24)}, 3, &valid},
    {"many tiles", {RUNGI_IN(3, 3, 21, 19), RUNGI_IN(18, 3, 3, 3), RUNGI_IN(18)}, 3, &valid},
    {"many weights", {RUNGI_IN(1, 330, 2, 3), RUNGI_IN(401, 330, 3, 3)}, 2, &same},
};

// The query of a pass as a plan that computes natively would ask it.
static rungi_query query_of(const rungi_trial *t, int pass, bool f4,
                            rungi_operand gin[RUNGI_CASE_INPUTS])
{
    rungi_query q = rungi_trial_query(t, pass, ~0u, gin);
    q.native = true;
    q.winograd_f4 = f4;
    return q;
}

static void run_half(rungi_trial *t, int pass, bool f4, rung_isa isa, int threads)
{
    rungi_operand gin[RUNGI_CASE_INPUTS];
    rungi_reason why;
    t->threads = threads;
    rungi_query q = query_of(t, pass, f4, gin);
    q.isa = isa;
    const rungi_kernel *kernel = named(&q, "winograd_bf16");
    if (!rungi_kernel_can_run(kernel, &q, &why))
        fail_msg("%s: %s", t->which->name, why.text);
    assert_ok(rungi_trial_run(t, &q, kernel, 1));
    assert_true(rungi_trial_guards(t));
}

static void copy_values(const rungi_trial *to, const rungi_operand *o, const rungi_trial *from,
                        const rungi_operand *with)
{
    for (int64_t i = 0; i < rungi_operand_count(o); i++)
        rungi_trial_set(to, o, i, rungi_trial_get(from, with, i));
}

// The case in bf16 and in float64, with the same values.
static void make_both(const rungi_case *c, rungi_trial *t, rungi_trial *truth)
{
    assert_ok(rungi_trial_init(t, &rungi_op_conv2d, c, RUNG_BF16, RUNGI_CHANNELS_LAST, 1));
    assert_ok(rungi_trial_init(truth, &rungi_op_conv2d, c, RUNG_F64, RUNGI_PLAIN, 1));
    for (int i = 0; i < t->n_in; i++)
        copy_values(truth, &truth->in[i], t, &t->in[i]);
    copy_values(truth, &truth->gout[0], t, &t->gout[0]);
}

static void run_truth(rungi_trial *truth)
{
    run(truth, RUNGI_FORWARD, "reference", RUNG_ISA_SCALAR, 1);
    run(truth, DATA, "reference", RUNG_ISA_SCALAR, 1);
}

// Whole numbers so small that no transform of F(2x2) rounds; of the weight a fourth of them.
static void make_whole(const rungi_trial *t, const rungi_operand *o, double factor)
{
    for (int64_t k = 0; k < rungi_operand_count(o); k++)
        rungi_trial_set(t, o, k, factor * round(rungi_trial_get(t, o, k)));
}

// Is what a kernel stored the exact result, rounded once?
static void check_rounded(const rungi_trial *t, const rungi_operand *got, const rungi_trial *truth,
                          const rungi_operand *want, rung_isa isa)
{
    for (int64_t k = 0; k < rungi_operand_count(got); k++) {
        float exact = (float)rungi_trial_get(truth, want, k);
        float rounded = rung_bf16_to_f32(rung_f32_to_bf16(exact));
        float value = (float)rungi_trial_get(t, got, k);
        if (value != rounded)
            fail_msg("%s, %s: element %d is %g, not %g", t->which->name, rung_isa_name(isa), (int)k,
                     (double)value, (double)rounded);
    }
}

static void check_small_numbers(const rungi_case *c, int threads)
{
    rungi_trial t, truth;
    make_both(c, &t, &truth);
    make_whole(&t, &t.in[0], 1);
    make_whole(&t, &t.in[1], 4);
    make_whole(&t, &t.gout[0], 1);
    copy_values(&truth, &truth.in[0], &t, &t.in[0]);
    copy_values(&truth, &truth.in[1], &t, &t.in[1]);
    copy_values(&truth, &truth.gout[0], &t, &t.gout[0]);
    run_truth(&truth);
    for (int isa = RUNG_ISA_SCALAR; isa <= (int)rungi_cpu_isa(); isa++) {
        run_half(&t, RUNGI_FORWARD, false, (rung_isa)isa, threads);
        check_rounded(&t, &t.out[0], &truth, &truth.out[0], (rung_isa)isa);
        run_half(&t, DATA, false, (rung_isa)isa, threads);
        check_rounded(&t, &t.gin[0], &truth, &truth.gin[0], (rung_isa)isa);
    }
    rungi_trial_fini(&t);
    rungi_trial_fini(&truth);
}

static void small_numbers_are_exact(void **state)
{
    random_case r;
    (void)state;
    for (size_t i = 0; i < RUNGI_COUNT(cases); i++)
        check_small_numbers(&cases[i], 2);
    for (int i = 0; i < random_cases(30) && random_case_of("winograd", i, 1 << 20, &r); i++)
        check_small_numbers(&r.c, (int)random_between(&r, 1, 17));
}

// The l2 norm of the error over that of the truth.
static double error_l2(const rungi_trial *t, const rungi_operand *got, const rungi_trial *truth,
                       const rungi_operand *want)
{
    double apart = 0, all = 0;
    for (int64_t i = 0; i < rungi_operand_count(got); i++) {
        double value = rungi_trial_get(truth, want, i), d = rungi_trial_get(t, got, i) - value;
        apart += d * d;
        all += value * value;
    }
    return sqrt(apart / all);
}

// What conv2d_winograd_half.h states and half as much again, for results of a few values. Images
// smaller than a tile of 4x4 have more of its corners, where it errs most.
static double most_of(const rungi_operand *image, int f4)
{
    bool small = image->shape.dim[2] < 4 || image->shape.dim[3] < 4;
    return !f4 ? 6e-3 : small ? 3e-2 : 1.6e-2;
}

static void errors_are_bounded(void **state)
{
    (void)state;
    for (size_t i = 0; i < RUNGI_COUNT(cases); i++) {
        rungi_trial t, truth;
        make_both(&cases[i], &t, &truth);
        run_truth(&truth);
        for (int isa = RUNG_ISA_SCALAR; isa <= (int)rungi_cpu_isa(); isa++)
            for (int f4 = 0; f4 < 2; f4++) {
                run_half(&t, RUNGI_FORWARD, f4, (rung_isa)isa, 1);
                run_half(&t, DATA, f4, (rung_isa)isa, 1);
                double forward = error_l2(&t, &t.out[0], &truth, &truth.out[0]);
                double data = error_l2(&t, &t.gin[0], &truth, &truth.gin[0]);
                print_message("%s, %s, F(%d): forward %.2g, data %.2g\n", cases[i].name,
                              rung_isa_name((rung_isa)isa), f4 ? 4 : 2, forward, data);
                assert_true(forward <= most_of(&t.out[0], f4) && data <= most_of(&t.gin[0], f4));
            }
        rungi_trial_fini(&t);
        rungi_trial_fini(&truth);
    }
}

static void threads_and_runs_do_not_show(void **state)
{
    (void)state;
    for (size_t i = 0; i < RUNGI_COUNT(cases); i++) {
        rungi_trial t;
        assert_ok(
            rungi_trial_init(&t, &rungi_op_conv2d, &cases[i], RUNG_BF16, RUNGI_CHANNELS_LAST, 1));
        const rungi_operand *results[2] = {&t.out[0], &t.gin[0]};
        for (int f4 = 0; f4 < 2; f4++)
            for (int pass = 0; pass < 2; pass++) {
                size_t bytes = rungi_operand_bytes(results[pass]);
                void *bits = malloc(bytes), *at = t.ptr[results[pass]->buffer];
                for (int threads = 1; threads <= 17; threads = threads * 2 + (threads == 2)) {
                    run_half(&t, pass ? DATA : RUNGI_FORWARD, f4, rungi_cpu_isa(), threads);
                    if (threads == 1) {
                        memcpy(bits, at, bytes);
                        run_half(&t, pass ? DATA : RUNGI_FORWARD, f4, rungi_cpu_isa(), threads);
                    }
                    assert_memory_equal(at, bits, bytes);
                }
                free(bits);
            }
        rungi_trial_fini(&t);
    }
}

// ---- what is fused ------------------------------------------------------------------------------

// The bits of a convolution and what follows it, with equal values and NaN too.
static void fuses_what_it_stores(void **state)
{
    static const rungi_case pooled[] = {
        {"few weights", {RUNGI_IN(2, 18, 9, 14), RUNGI_IN(21, 18, 3, 3), RUNGI_IN(21)}, 3, &same},
        {"one row", {RUNGI_IN(1, 16, 5, 4), RUNGI_IN(16, 16, 3, 3)}, 2, &valid},
        {"many weights", {RUNGI_IN(1, 280, 4, 6), RUNGI_IN(480, 280, 3, 3)}, 2, &same},
    };
    (void)state;
    for (size_t i = 0; i < RUNGI_COUNT(pooled); i++)
        for (int isa = RUNG_ISA_SCALAR; isa <= (int)rungi_cpu_isa(); isa++)
            for (int f4 = 0; f4 < 2; f4++) {
                rungi_trial t;
                assert_ok(rungi_trial_init(&t, &rungi_op_conv2d, &pooled[i], RUNG_BF16,
                                           RUNGI_CHANNELS_LAST, 2));
                run_half(&t, RUNGI_FORWARD, f4, (rung_isa)isa, 2);
                rungi_query q = query_of(&t, RUNGI_FORWARD, f4, NULL);
                q.isa = (rung_isa)isa;
                check_fused(&t, q, "winograd_bf16", false, true);
                check_fused(&t, q, "winograd_bf16", true, false);
                check_fused(&t, q, "winograd_bf16", true, true);
                memset(t.ptr[t.in[0].buffer], 0, rungi_operand_bytes(&t.in[0]));
                rungi_trial_set(&t, &t.in[0], 5, NAN);
                run_half(&t, RUNGI_FORWARD, f4, (rung_isa)isa, 2);
                check_fused(&t, q, "winograd_bf16", true, false);
                rungi_trial_fini(&t);
            }
}

// ---- choice -------------------------------------------------------------------------------------

static const rungi_case chosen = {
    "chosen", {RUNGI_IN(1, 40, 8, 8), RUNGI_IN(32, 40, 3, 3)}, 2, &same};

static const char *name_of_choice(const rungi_query *q, struct rungi_halves *halves)
{
    return rungi_halves_choose(q, RUNGI_CPU, RUNGI_POLICY_ALL, NULL, halves)->name;
}

// Plans whose bf16 is computed natively take it, others the kernel of float32, as all do for the
// weight, unless the CPU multiplies tiles of bf16; with few channels the library's.
static void native_plans_choose_it(void **state)
{
    static const rungi_case few = {
        "few", {RUNGI_IN(1, 16, 8, 8), RUNGI_IN(32, 16, 3, 3)}, 2, &same};
    rungi_operand gin[RUNGI_CASE_INPUTS];
    struct rungi_halves halves;
    rungi_trial t;
    (void)state;
    assert_ok(rungi_trial_init(&t, &rungi_op_conv2d, &chosen, RUNG_BF16, RUNGI_CHANNELS_LAST, 1));
    for (int pass = RUNGI_FORWARD; pass <= DATA; pass++) {
        rungi_query q = query_of(&t, pass, false, gin);
        if (pass == WEIGHT && !rungi_cpu_multiplies_tiles()) {
            assert_string_equal(name_of_choice(&q, &halves), "winograd");
            assert_ptr_equal(halves.kernel, &rungi_conv2d_weight_winograd);
        } else {
            assert_string_equal(name_of_choice(&q, &halves),
                                pass == WEIGHT ? "onednn" : "winograd_bf16");
            assert_null(halves.kernel);
        }
        q.winograd = false;
        assert_string_equal(name_of_choice(&q, &halves), "onednn");
        q.winograd = true;
        q.native = false;
        assert_string_equal(name_of_choice(&q, &halves), "winograd");
        assert_non_null(halves.kernel);
    }
    rungi_trial_fini(&t);
    assert_ok(rungi_trial_init(&t, &rungi_op_conv2d, &few, RUNG_BF16, RUNGI_CHANNELS_LAST, 1));
    for (int pass = RUNGI_FORWARD; pass <= DATA; pass++) {
        rungi_query q = query_of(&t, pass, false, gin);
        assert_string_equal(name_of_choice(&q, &halves), "onednn");
        assert_null(halves.kernel);
    }
    rungi_trial_fini(&t);
}

// What plan.autotune measures beside the library's weight gradient.
static void float32_may_go_around(void **state)
{
    rungi_operand gin[RUNGI_CASE_INPUTS];
    struct rungi_halves halves;
    rungi_trial t;
    (void)state;
    assert_ok(rungi_trial_init(&t, &rungi_op_conv2d, &chosen, RUNG_BF16, RUNGI_CHANNELS_LAST, 1));
    rungi_query q = query_of(&t, WEIGHT, false, gin);
    rungi_halves_around(&q, RUNGI_CPU, RUNGI_POLICY_ALL, &halves);
    assert_ptr_equal(halves.kernel, &rungi_conv2d_weight_winograd);
    rungi_halves_around(&q, RUNGI_CPU, RUNGI_POLICY_LIBRARY, &halves); // it takes 16 bits itself
    assert_null(halves.kernel);
    rungi_trial_fini(&t);
}

static void says_why_not(void **state)
{
    static const rungi_conv2d_attr strided = {{2, 2}, {1, 1}, {1, 1}, 1};
    rungi_operand gin[RUNGI_CASE_INPUTS];
    rungi_trial t;
    rungi_reason why;
    (void)state;
    assert_ok(rungi_trial_init(&t, &rungi_op_conv2d, &chosen, RUNG_BF16, RUNGI_CHANNELS_LAST, 1));
    for (int pass = RUNGI_FORWARD; pass <= DATA; pass += DATA - RUNGI_FORWARD) {
        rungi_query q = query_of(&t, pass, false, gin);
        const rungi_kernel *kernel = named(&q, "winograd_bf16");
        assert_true(kernel->can_run(&q, &why));
        q.native = false;
        assert_false(kernel->can_run(&q, &why));
        assert_string_equal(why.text, "no instructions for these 16 bits");
        q = query_of(&t, pass, false, gin);
        q.winograd = false;
        assert_false(kernel->can_run(&q, &why));
        assert_string_equal(why.text, "plan.winograd is off");
        q.winograd = true;
        q.attr = &strided;
        assert_false(kernel->can_run(&q, &why));
    }
    rungi_trial_fini(&t);
    assert_ok(rungi_trial_init(&t, &rungi_op_conv2d, &chosen, RUNG_F32, RUNGI_CHANNELS_LAST, 1));
    rungi_query q = query_of(&t, RUNGI_FORWARD, false, NULL);
    assert_false(named(&q, "winograd_bf16")->can_run(&q, &why));
    assert_string_equal(why.text, "bf16 only");
    rungi_trial_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_numbers_are_exact),
        cmocka_unit_test(errors_are_bounded),
        cmocka_unit_test(threads_and_runs_do_not_show),
        cmocka_unit_test(fuses_what_it_stores),
        cmocka_unit_test(native_plans_choose_it),
        cmocka_unit_test(float32_may_go_around),
        cmocka_unit_test(says_why_not),
    };
    return RUN_TESTS(tests);
}
