// SPDX-License-Identifier: Apache-2.0
// What the case table cannot show of Winograd's kernels: every instruction set that this machine
// has, the errors that conv2d_winograd.h states, and tiles in more than one go.
#include "testing.h"

#include <math.h>

#include "base/context.h"
#include "base/options.h"
#include "ops/conv2d/conv2d.h"
#include "ops/conv2d/conv2d_winograd.h"
#include "ops/trial.h"

extern const rungi_op rungi_op_conv2d;

static const rungi_conv2d_attr same = {{1, 1}, {1, 1}, {1, 1}, 1};
static const rungi_conv2d_attr valid = {{1, 1}, {0, 0}, {1, 1}, 1};

enum { WEIGHT, DATA };

static const rungi_kernel *named(const rungi_query *q, const char *name)
{
    const rungi_kernel *const *list = rungi_query_kernels(q, RUNGI_CPU);
    for (int i = 0; list[i]; i++)
        if (strcmp(list[i]->name, name) == 0)
            return list[i];
    fail_msg("no kernel %s", name);
    return NULL;
}

static void run(rungi_trial *t, int pass, const char *kernel, rung_isa isa, int threads)
{
    rungi_operand gin[RUNGI_CASE_INPUTS];
    t->threads = threads;
    rungi_query q = rungi_trial_query(t, pass, ~0u, gin);
    rungi_reason why;
    q.isa = isa;
    const rungi_kernel *k = named(&q, kernel);
    if (k->can_run && !k->can_run(&q, &why))
        fail_msg("%s: %s", kernel, why.text);
    assert_ok(rungi_trial_run(t, &q, k, 1));
    assert_true(rungi_trial_guards(t));
}

// The largest difference, of the largest value.
static double error(const rungi_trial *t, const rungi_operand *got, const rungi_trial *truth,
                    const rungi_operand *want)
{
    double top = 0, apart = 0;
    for (int64_t i = 0; i < rungi_operand_count(got); i++) {
        double value = rungi_trial_get(truth, want, i);
        top = fmax(top, fabs(value));
        apart = fmax(apart, fabs(rungi_trial_get(t, got, i) - value));
    }
    return apart / top;
}

static void check_error(const rungi_case *c, const rungi_trial *t, const rungi_trial *truth,
                        rung_isa isa)
{
    double forward = error(t, &t->out[0], truth, &truth->out[0]);
    double data = error(t, &t->gin[0], truth, &truth->gin[0]);
    double weight = error(t, &t->gin[1], truth, &truth->gin[1]);
    double bias = t->n_in > 2 ? error(t, &t->gin[2], truth, &truth->gin[2]) : 0;
    print_message("%s, %s: forward %.2g, data %.2g, weight %.2g, bias %.2g\n", c->name,
                  rung_isa_name(isa), forward, data, weight, bias);
    assert_true(forward <= 8e-6);
    assert_true(data <= 8e-6);
    assert_true(weight <= 1e-5);
    assert_true(bias <= 2e-6);
}

// Against the float64 reference; the same bits with any number of threads.
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
    for (size_t i = 0; i < RUNGI_COUNT(cases); i++) {
        rungi_trial t, truth;
        assert_ok(rungi_trial_init(&truth, &rungi_op_conv2d, &cases[i], RUNG_F64, RUNGI_PLAIN, 1));
        for (int pass = RUNGI_FORWARD; pass <= DATA; pass++)
            run(&truth, pass, "reference", RUNG_ISA_SCALAR, 1);
        assert_ok(
            rungi_trial_init(&t, &rungi_op_conv2d, &cases[i], RUNG_F32, RUNGI_CHANNELS_LAST, 1));
        for (int isa = RUNG_ISA_SCALAR; isa <= (int)rungi_cpu_isa(); isa++) {
            for (int pass = RUNGI_FORWARD; pass <= DATA; pass++)
                run(&t, pass, "winograd", (rung_isa)isa, 1);
            check_error(&cases[i], &t, &truth, (rung_isa)isa);
        }
        rungi_trial_fini(&t);
        rungi_trial_fini(&truth);
    }
}

static void copy(const rungi_trial *t, const rungi_operand *o, char **to)
{
    *to = malloc(rungi_operand_bytes(o));
    memcpy(*to, t->ptr[o->buffer], rungi_operand_bytes(o));
}

static void same_bits(const rungi_trial *t, const rungi_operand *o, const char *bits)
{
    assert_memory_equal(t->ptr[o->buffer], bits, rungi_operand_bytes(o));
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
    for (size_t i = 0; i < RUNGI_COUNT(cases); i++) {
        rungi_trial t;
        char *bits[4];
        assert_ok(
            rungi_trial_init(&t, &rungi_op_conv2d, &cases[i], RUNG_F32, RUNGI_CHANNELS_LAST, 1));
        const rungi_operand *results[4] = {&t.out[0], &t.gin[0], &t.gin[1], &t.gin[2]};
        for (int threads = 1; threads <= 17; threads = threads * 2 + (threads == 2)) {
            for (int pass = RUNGI_FORWARD; pass <= DATA; pass++)
                run(&t, pass, "winograd", rungi_cpu_isa(), threads);
            for (int k = 0; k < 4; k++)
                if (threads == 1)
                    copy(&t, results[k], &bits[k]);
                else
                    same_bits(&t, results[k], bits[k]);
        }
        for (int k = 0; k < 4; k++)
            free(bits[k]);
        rungi_trial_fini(&t);
    }
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
