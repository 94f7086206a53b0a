// SPDX-License-Identifier: Apache-2.0
// What few rows hand over to an update: every row of the weight's gradient, but those of zeros
// where these would change nothing.
#include "testing.h"

#include <math.h>

#include "base/context.h"
#include "base/options.h"
#include "ops/linear/linear.h"
#include "ops/linear/linear_rows.h"
#include "ops/trial.h"

extern const rungi_op rungi_op_linear;

enum { IN = 1100, OUT = 33, WEIGHT = 0 };

static float got[OUT * IN];

static void take(void *self, int64_t at, const float *grad, int64_t count)
{
    (void)self;
    memcpy(got + at, grad, (size_t)count * sizeof *grad);
}

static void take_scaled(void *self, int64_t at, float factor, const float *x, float largest,
                        int64_t count)
{
    float most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmaxf(most, fabsf(x[i]));
    assert_true(largest == most);
    (void)self;
    for (int64_t i = 0; i < count; i++)
        got[at + i] = factor * x[i];
}

static void run(rungi_trial *t, const rungi_update *update)
{
    rungi_operand gin[RUNGI_CASE_INPUTS];
    rungi_update updates[2 * (RUNGI_CASE_INPUTS + RUNGI_TRIAL_OUTPUTS)] = {{0}};
    rungi_query q = rungi_trial_query(t, WEIGHT, ~0u, gin);
    if (update)
        updates[gin[1].buffer] = *update;
    t->rt.updates = update ? updates : NULL;
    for (int i = 0; i < OUT * IN; i++)
        got[i] = NAN;
    assert_ok(rungi_trial_run(t, &q, &rungi_linear_weight_rows, 1));
    assert_true(rungi_trial_guards(t));
    t->rt.updates = NULL;
}

// Rows 3 and 7 have no gradient; row 5 has one of the first sample alone.
static void check(const rungi_case *c, int threads, bool scaled, bool nothing, bool infinite)
{
    rungi_trial t;
    int64_t rows = c->in[0].shape.dim[0];
    assert_ok(rungi_trial_init(&t, &rungi_op_linear, c, RUNG_F32, RUNGI_PLAIN, threads));
    for (int64_t r = 0; r < rows; r++)
        for (int o = 3; o <= 7; o += 2)
            if (o != 5 || r > 0)
                rungi_trial_set(&t, &t.gout[0], r * OUT + o, 0);
    if (infinite)
        rungi_trial_set(&t, &t.in[0], 1000, INFINITY);
    int self = 0;
    run(&t, NULL);
    run(&t, &(rungi_update){take, scaled ? take_scaled : NULL, &self, nothing});
    for (int o = 0; o < OUT; o++) {
        bool skipped = nothing && !infinite && (o == 3 || o == 7);
        for (int i = 0; i < IN; i++) {
            double want = rungi_trial_get(&t, &t.gin[1], o * IN + i);
            if (skipped)
                assert_true(isnan(got[o * IN + i]));
            else if (isnan(want))
                assert_true(isnan(got[o * IN + i]));
            else
                assert_true(got[o * IN + i] == (float)want);
        }
    }
    rungi_trial_fini(&t);
}

static void rows_are_handed_over(void **state)
{
    static const rungi_case cases[] = {
        {"one", {RUNGI_IN(1, IN), RUNGI_IN(OUT, IN), RUNGI_IN(OUT)}, 3, NULL},
        {"three", {RUNGI_IN(3, IN), RUNGI_IN(OUT, IN), RUNGI_IN(OUT)}, 3, NULL},
    };
    (void)state;
    for (int bits = 0; bits < 32; bits++)
        check(&cases[bits & 1], bits & 2 ? 2 : 1, bits & 4, bits & 8, bits & 16);
}

// Whatever is left of rows and of vectors, all instruction sets give the same bits.
static void instruction_sets_do_not_show(void **state)
{
    static const int64_t lengths[] = {1, 7, 16, 31, 32, 33, 47, 63, 64, 100, 784, IN};
    static float x[3 * IN], w[OUT * IN], gy[3 * OUT], y[3][3 * OUT], gx[3][3 * IN], gw[3][OUT * IN];
    const rungi_linear_loops *tables[3] = {&rungi_linear_loops_plain};
    int count = 1;
    (void)state;
#if defined(__x86_64__)
    tables[1] = &rungi_linear_loops_avx2;
    tables[2] = &rungi_linear_loops_avx512;
    count = 1 + (int)rungi_cpu_isa() - RUNG_ISA_SCALAR;
#endif
    for (int i = 0; i < OUT * IN; i++)
        w[i] = (float)sin(i) / 3;
    for (int i = 0; i < 3 * IN; i++)
        x[i] = (float)cos(2 * i);
    for (int i = 0; i < 3 * OUT; i++)
        gy[i] = (float)sin(5 * i);
    for (size_t n = 0; n < RUNGI_COUNT(lengths); n++)
        for (int64_t rows = 1; rows <= 3; rows += 2)
            for (int k = 0; k < count; k++) {
                int64_t in = lengths[n];
                tables[k]->forward(x, w, gy, y[k], rows, in, OUT, 0, OUT);
                tables[k]->weight(x, gy, gw[k], rows, in, OUT, 0, OUT);
                tables[k]->data(gy, w, gx[k], rows, in, OUT, 0, in);
                assert_memory_equal(y[k], y[0], (size_t)(rows * OUT) * sizeof(float));
                assert_memory_equal(gw[k], gw[0], (size_t)(OUT * in) * sizeof(float));
                assert_memory_equal(gx[k], gx[0], (size_t)(rows * in) * sizeof(float));
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_handed_over),
                                       cmocka_unit_test(instruction_sets_do_not_show)};
    return RUN_TESTS(tests);
}
