// SPDX-License-Identifier: Apache-2.0
// What the case table cannot show of Winograd's kernels: every instruction set that this machine
// has, the errors that conv2d_winograd.h states, and tiles in more than one go.
#include "ops/conv2d/conv2d_testing.h"
#include "ops/pool_window.h"

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

// What a fused pooling must give for output pixel (n, c, i, j) of the convolution in t.
static float pooled(const rungi_trial *t, int64_t n, int64_t c, int64_t i, int64_t j, bool relu,
                    uint8_t *place_out)
{
    const int64_t *d = t->out[0].shape.dim;
    float best = 0;
    for (int k = 0; k < 4; k++) {
        int64_t at = ((n * d[1] + c) * d[2] + 2 * i + k / 2) * d[3] + 2 * j + k % 2;
        float v = (float)rungi_trial_get(t, &t->out[0], at);
        if (k == 0 || (!(v <= best) && best == best)) {
            best = v;
            *place_out = (uint8_t)k;
        }
    }
    return relu && best < 0 ? 0 : best;
}

// The convolution of t, which has run, with pooling, and ReLU or the places of the maxima.
static void check_pooling(rungi_trial *t, rung_isa isa, bool relu)
{
    static const rungi_pool_attr two = {{2, 2}, {2, 2}, {0, 0}, false, false, 0};
    const int64_t *d = t->out[0].shape.dim, h = d[2] / 2, w = d[3] / 2;
    const int64_t count = d[0] * h * w * d[1];
    rungi_query q = rungi_trial_query(t, RUNGI_FORWARD, ~0u, NULL);
    rungi_operand out[2] = {{RUNG_F32, RUNGI_CHANNELS_LAST, {4, {d[0], d[1], h, w}}, t->n_ptr},
                            {RUNG_U8, RUNGI_CHANNELS_LAST, {4, {d[0], d[1], h, w}}, -1}};
    rungi_fused fused[2] = {{rungi_op_find("max_pool2d"), &two, 0, &t->out[0], 1, out},
                            {rungi_op_find("relu"), NULL, 0, &out[0], 1, out}};
    out[1].buffer = relu ? -1 : t->n_ptr + 1;
    q.isa = isa;
    q.out = out;
    q.n_out = 2;
    q.fused = fused;
    q.n_fused = 1 + relu;
    float *y = malloc((size_t)(count + 1) * sizeof *y);
    uint8_t *places = malloc((size_t)count + 1), place = 0;
    t->ptr[t->n_ptr] = y;
    t->ptr[t->n_ptr + 1] = places;
    y[count] = 77;
    places[count] = 77;
    assert_true(rungi_kernel_can_run(named(&q, "winograd"), &q, &(rungi_reason){0}));
    assert_ok(rungi_trial_run(t, &q, named(&q, "winograd"), 1));
    for (int64_t k = 0; k < count; k++) {
        int64_t c = k % d[1], j = k / d[1] % w, i = k / d[1] / w % h, n = k / d[1] / w / h;
        float want = pooled(t, n, c, i, j, relu, &place);
        assert_memory_equal(&y[k], &want, sizeof want);
        assert_true(relu || places[k] == place);
    }
    assert_true(y[count] == 77 && places[count] == 77);
    t->ptr[t->n_ptr] = t->ptr[t->n_ptr + 1] = NULL;
    free(y);
    free(places);
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
        cmocka_unit_test(pools_what_it_stores),
        cmocka_unit_test(says_why_not),
    };
    return RUN_TESTS(tests);
}
