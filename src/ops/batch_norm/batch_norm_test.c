// SPDX-License-Identifier: Apache-2.0
// What the case table cannot show: accuracy far from zero, and running statistics over shards.
#include "testing.h"

#include <math.h>

#include "base/philox.h"
#include "ops/batch_norm/batch_norm.h"
#include "ops/channel_sums.h"
#include "ops/trial.h"

static const rungi_batch_norm_attr usual = {1e-5, 0.1, false};
static const rungi_batch_norm_attr cumulative = {1e-5, 0.1, true};

enum { CHANNELS = 8 };

static double normal(int64_t i)
{
    rungi_random random = rungi_random_make(5, RUNGI_PURPOSE_TEST, 0, 0, 0);
    return rungi_random_normal(&random, (uint64_t)i);
}

static void run_forward(const rungi_trial *t, const rungi_kernel *kernel)
{
    rungi_operand gin[RUNGI_CASE_INPUTS];
    rungi_query q = rungi_trial_query(t, RUNGI_FORWARD, ~0u, gin);
    assert_ok(rungi_trial_run(t, &q, kernel, 1));
}

// Data whose mean is 1e4 times its standard deviation; with `outliers` only in the first rows,
// which own kernels take their shift from.
static void check_far(rungi_layout layout, bool outliers)
{
    const rungi_case c = {
        .name = "far from zero", .in = {RUNGI_IN(6, CHANNELS, 31, 17)}, .n_in = 1, .attr = &usual};
    rungi_trial t, truth;
    assert_ok(rungi_trial_init(&t, &rungi_op_batch_norm, &c, RUNG_F32, layout, 2));
    assert_ok(rungi_trial_init(&truth, &rungi_op_batch_norm, &c, RUNG_F64, RUNGI_PLAIN, 1));
    for (int64_t i = 0; i < rungi_operand_count(&t.in[0]); i++) {
        bool first = i % (31 * 17) < 20 && i < CHANNELS * 31 * 17;
        float x = (float)(normal(i) + (outliers && !first ? 0 : 1e4));
        rungi_trial_set(&t, &t.in[0], i, x);
        rungi_trial_set(&truth, &truth.in[0], i, x);
    }
    run_forward(&truth, &rungi_batch_norm_forward_reference);
    for (int k = 0; rungi_batch_norm_forward_cpu[k]; k++) {
        const rungi_kernel *kernel = rungi_batch_norm_forward_cpu[k];
        if (kernel->kind != RUNGI_OWN)
            continue;
        run_forward(&t, kernel);
        for (int64_t ch = 0; ch < CHANNELS; ch++) {
            double var = rungi_trial_get(&truth, &truth.out[RUNGI_BN_VAR], ch);
            assert_near(rungi_trial_get(&t, &t.out[RUNGI_BN_VAR], ch) / var, 1, 2e-5);
            assert_near(rungi_trial_get(&t, &t.out[RUNGI_BN_MEAN], ch),
                        rungi_trial_get(&truth, &truth.out[RUNGI_BN_MEAN], ch), 1e-3);
        }
    }
    rungi_trial_fini(&t);
    rungi_trial_fini(&truth);
}

static void variance_is_accurate_far_from_zero(void **state)
{
    (void)state;
    for (int layout = RUNGI_PLAIN; layout <= RUNGI_BLOCKED8; layout++) {
        check_far((rungi_layout)layout, false);
        check_far((rungi_layout)layout, true);
    }
}

// ---- sums that are there already ----------------------------------------------------------------

enum { PARTS = 5 };

// Sums by channel of channels-last data in parts of very different sizes, the last of which are
// `last` rows.
static float *sums_of(const rungi_trial *t, int64_t rows, int64_t last)
{
    int64_t size = rungi_channel_sums_size(PARTS, CHANNELS), at = 0;
    float *sums = calloc((size_t)size, sizeof *sums);
    const float *x = t->ptr[t->in[0].buffer];
    for (int k = 0; k < PARTS; k++) {
        int64_t end = k == PARTS - 1 ? rows : k == PARTS - 2 ? rows - last : at + 1 + 37 * k;
        float *part = sums + k * rungi_channel_sums_part(CHANNELS);
        sums[PARTS * rungi_channel_sums_part(CHANNELS) + k] = (float)(end - at);
        for (int c = 0; c < CHANNELS; c++) {
            double s1 = 0, s2 = 0;
            part[c] = x[at * CHANNELS + c];
            for (int64_t r = at; r < end; r++) {
                double d = (double)x[r * CHANNELS + c] - part[c];
                s1 += d;
                s2 += d * d;
            }
            part[CHANNELS + c] = (float)s1;
            part[2 * CHANNELS + c] = (float)s2;
        }
        at = end;
    }
    return sums;
}

static void takes_sums_that_are_left(void **state)
{
    const rungi_case c = {
        .name = "left", .in = {RUNGI_IN(6, CHANNELS, 31, 17)}, .n_in = 1, .attr = &usual};
    rungi_trial t;
    (void)state;
    for (int k = 0; rungi_batch_norm_forward_cpu[k]; k++) {
        const rungi_kernel *kernel = rungi_batch_norm_forward_cpu[k];
        if (!kernel->takes_sums)
            continue;
        assert_int_equal(kernel->kind, RUNGI_OWN);
        for (int far = 0; far < 2; far++) {
            assert_ok(
                rungi_trial_init(&t, &rungi_op_batch_norm, &c, RUNG_F32, RUNGI_CHANNELS_LAST, 3));
            int64_t count = rungi_operand_count(&t.in[0]);
            for (int64_t i = 0; i < count; i++)
                rungi_trial_set(&t, &t.in[0], i, normal(i) + (far ? 1e4 : 0.1));
            run_forward(&t, kernel);
            float *y = malloc((size_t)count * sizeof *y), mean[CHANNELS], var[CHANNELS];
            memcpy(y, t.ptr[t.out[0].buffer], (size_t)count * sizeof *y);
            memcpy(mean, t.ptr[t.out[RUNGI_BN_MEAN].buffer], sizeof mean);
            memcpy(var, t.ptr[t.out[RUNGI_BN_VAR].buffer], sizeof var);
            rungi_query q = rungi_trial_query(&t, RUNGI_FORWARD, ~0u, NULL);
            rungi_operand sums = {
                RUNG_F32, RUNGI_PLAIN, {1, {rungi_channel_sums_size(PARTS, CHANNELS)}}, t.n_ptr};
            assert_true(kernel->takes_sums(&q));
            q.sums_in = &sums;
            t.ptr[t.n_ptr] = sums_of(&t, 6 * 31 * 17, 2);
            assert_ok(rungi_trial_run(&t, &q, kernel, 1));
            assert_true(rungi_trial_guards(&t));
            for (int i = 0; i < CHANNELS; i++) {
                assert_near(((float *)t.ptr[t.out[RUNGI_BN_MEAN].buffer])[i], mean[i],
                            1e-6 * (1 + fabs((double)mean[i])));
                assert_near(((float *)t.ptr[t.out[RUNGI_BN_VAR].buffer])[i], var[i], 1e-5);
            }
            for (int64_t i = 0; i < count; i++)
                assert_near(((float *)t.ptr[t.out[0].buffer])[i], y[i], far ? 2e-3 : 1e-5);
            free(t.ptr[t.n_ptr]);
            t.ptr[t.n_ptr] = NULL;
            free(y);
            rungi_trial_fini(&t);
        }
    }
}

// ---- running statistics -----------------------------------------------------------------------

#define RUNNING                                                                        \
    RUNGI_IN(CHANNELS), RUNGI_IN(CHANNELS), RUNGI_IN(CHANNELS), RUNGI_IN(CHANNELS),    \
    {                                                                                  \
        .shape = {.rank = 0}, .dtype = RUNG_I64, .fill = RUNGI_FILL_LABELS, .limit = 1 \
    }

enum { ROWS = 3, SAMPLES = 11, MAX_SHARDS = 4 };

// One step of a global batch of 11 samples in shards of the given sizes. Running statistics start
// as 0.5 and 2, and are left in mean and var.
static void step(const int *sizes, int shards, const rungi_batch_norm_attr *attr, int64_t tracked,
                 double *mean, double *var, int64_t *tracked_out)
{
    rungi_case c[MAX_SHARDS];
    rungi_trial t[MAX_SHARDS];
    rungi_query q[MAX_SHARDS];
    rungi_call calls[MAX_SHARDS];
    const rungi_call *list[MAX_SHARDS];
    int64_t at = 0;
    for (int s = 0; s < shards; s++) {
        c[s] = (rungi_case){.name = "shard",
                            .in = {RUNGI_IN(sizes[s], CHANNELS, ROWS), RUNNING},
                            .n_in = 6,
                            .attr = attr};
        assert_ok(rungi_trial_init(&t[s], &rungi_op_batch_norm, &c[s], RUNG_F32, RUNGI_PLAIN, 1));
        for (int64_t i = 0; i < rungi_operand_count(&t[s].in[0]); i++)
            rungi_trial_set(&t[s], &t[s].in[0], i, normal(at++) * 3 + 7);
        rungi_operand gin[RUNGI_CASE_INPUTS];
        q[s] = rungi_trial_query(&t[s], RUNGI_FORWARD, ~0u, gin);
        assert_ok(rungi_trial_run(&t[s], &q[s], rungi_batch_norm_forward_cpu[0], 1));
        calls[s] = (rungi_call){.q = &q[s], .ptr = t[s].ptr, .rt = &t[s].rt};
        list[s] = &calls[s];
    }
    for (int i = 0; i < CHANNELS; i++) {
        rungi_trial_set(&t[0], &t[0].in[RUNGI_BN_RUNNING_MEAN], i, 0.5);
        rungi_trial_set(&t[0], &t[0].in[RUNGI_BN_RUNNING_VAR], i, 2);
    }
    rungi_trial_set(&t[0], &t[0].in[RUNGI_BN_TRACKED], 0, (double)tracked);
    assert_ok(rungi_op_batch_norm.finish(list, shards));
    for (int i = 0; i < CHANNELS; i++) {
        mean[i] = rungi_trial_get(&t[0], &t[0].in[RUNGI_BN_RUNNING_MEAN], i);
        var[i] = rungi_trial_get(&t[0], &t[0].in[RUNGI_BN_RUNNING_VAR], i);
    }
    *tracked_out = (int64_t)rungi_trial_get(&t[0], &t[0].in[RUNGI_BN_TRACKED], 0);
    for (int s = 0; s < shards; s++)
        rungi_trial_fini(&t[s]);
}

// Mean and unbiased variance of channel `channel` over the global batch.
static void moments(int channel, double *mean, double *var)
{
    double n = SAMPLES * ROWS, sum = 0, squares = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int s = 0; s < SAMPLES; s++)
            for (int r = 0; r < ROWS; r++) {
                double x = (float)(normal((s * CHANNELS + channel) * ROWS + r) * 3 + 7);
                sum += pass ? 0 : x;
                squares += pass ? (x - sum / n) * (x - sum / n) : 0;
            }
    *mean = sum / n;
    *var = squares / (n - 1);
}

static void running_statistics_are_those_of_the_global_batch(void **state)
{
    (void)state;
    static const int splits[][MAX_SHARDS] = {{11}, {6, 5}, {4, 4, 3}, {3, 3, 3, 2}};
    for (int split = 0; split < 4; split++) {
        double mean[CHANNELS], var[CHANNELS], batch_mean, batch_var;
        int64_t tracked;
        step(splits[split], split + 1, &usual, 4, mean, var, &tracked);
        assert_int_equal(tracked, 5);
        for (int i = 0; i < CHANNELS; i++) {
            moments(i, &batch_mean, &batch_var);
            assert_near(mean[i], 0.9 * 0.5 + 0.1 * batch_mean, 2e-6);
            assert_near(var[i], 0.9 * 2 + 0.1 * batch_var, 2e-6);
        }
        step(splits[split], split + 1, &cumulative, 4, mean, var, &tracked);
        for (int i = 0; i < CHANNELS; i++) {
            moments(i, &batch_mean, &batch_var);
            assert_near(mean[i], 0.5 + (batch_mean - 0.5) / 5, 2e-6);
            assert_near(var[i], 2 + (batch_var - 2) / 5, 2e-6);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variance_is_accurate_far_from_zero),
        cmocka_unit_test(takes_sums_that_are_left),
        cmocka_unit_test(running_statistics_are_those_of_the_global_batch),
    };
    return RUN_TESTS(tests);
}
