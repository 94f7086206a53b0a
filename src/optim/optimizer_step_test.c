// SPDX-License-Identifier: Apache-2.0
// Norm, clipping, scaled gradients and gradients that are not finite. (optimizer_fixture_test.c
// compares the updates with PyTorch.)
#include "testing.h"

#include <float.h>
#include <math.h>

#include "base/philox.h"
#include "optim/optimizer.h"

static const rung_segment segments[] = {
    {"a", 0, 37, 0, false},
    {"frozen", 48, 60, 0, true},
    {"b", 64, 70001, 0, false},
    {"c", 70016, 70033, 0, false},
};
enum { SEGMENTS = 4, SIZE = 70040 };

static rung_optimizer *make_isa(rung_optimizer_kind kind, rung_isa isa)
{
    rung_context *context = NULL;
    rung_optimizer *optimizer = NULL;
    rung_optimizer_options options = rung_optimizer_defaults(kind);
    assert_ok(rung_context_create(&(rung_context_options){.isa = isa}, &context));
    assert_ok(rung_optimizer_create(context, &options, segments, SEGMENTS, &optimizer));
    rung_context_destroy(&context);
    return optimizer;
}

static rung_optimizer *make(rung_optimizer_kind kind)
{
    return make_isa(kind, RUNG_ISA_AUTO);
}

static float *numbers(float scale)
{
    float *x = malloc(SIZE * sizeof *x);
    assert_non_null(x);
    rungi_random random = rungi_random_make(3, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (uint64_t i = 0; i < SIZE; i++)
        x[i] = scale * (rungi_unit_f32(rungi_random_block(&random, i).v[0]) - 0.5f);
    return x;
}

static double reference_norm(const float *x, int segment)
{
    long double sum = 0;
    for (int i = 0; i < SEGMENTS; i++)
        for (int64_t j = segments[i].begin; j < segments[i].end; j++)
            if (!segments[i].frozen && (segment < 0 || segment == i))
                sum += (long double)x[j] * x[j];
    return (double)sqrtl(sum);
}

static void norm_against_reference(void **state)
{
    (void)state;
    float *x = numbers(1);
    rung_optimizer *optimizer = make(RUNG_OPTIMIZER_SGD);
    int64_t bad;
    double norm = rungi_optimizer_norm(optimizer, x, 1, 1, &bad);
    assert_near(norm / reference_norm(x, -1), 1, 1e-14);
    for (int i = 0; i < SEGMENTS; i++)
        assert_near(rung_optimizer_segment_norm(optimizer, i),
                    segments[i].frozen ? 0 : reference_norm(x, i), 1e-11);
    assert_int_equal(bad, -1);
    for (int threads = 1; threads <= 3; threads++) {
        rung_optimizer *scalar = make_isa(RUNG_OPTIMIZER_SGD, RUNG_ISA_SCALAR);
        assert_true(norm == rungi_optimizer_norm(optimizer, x, 1, threads, &bad));
        assert_true(norm == rungi_optimizer_norm(scalar, x, 1, threads, &bad));
        rung_optimizer_destroy(&scalar);
    }
    // float32 would overflow here
    float *large = numbers(1e30f);
    norm = rungi_optimizer_norm(optimizer, large, 1, 1, &bad);
    assert_near(norm / reference_norm(large, -1), 1, 1e-14);
    assert_int_equal(bad, -1);
    rung_optimizer_destroy(&optimizer);
    free(large);
    free(x);
}

static void names_the_segment_at_fault(void **state)
{
    (void)state;
    float *params = numbers(1), *before = numbers(1), *grads = numbers(1);
    rung_optimizer *optimizer = make(RUNG_OPTIMIZER_ADAMW);
    const rung_optimizer_update update = {.rates.lr = 1e-3, .want_norm = true};
    grads[50] = NAN; // frozen: nobody looks
    rung_optimizer_report report;
    assert_ok(rung_optimizer_step(optimizer, params, grads, &update, &report));
    assert_int_equal(report.nonfinite, -1);
    for (int64_t i = 48; i < 60; i++)
        assert_true(params[i] == before[i]);
    memcpy(params, before, SIZE * sizeof *params);

    grads[70032] = INFINITY;
    assert_fails(RUNG_DIVERGED, "gradient of c is infinite (element 16 of 17)",
                 rung_optimizer_step(optimizer, params, grads, &update, &report));
    grads[70000] = NAN; // the last element before a tail
    assert_fails(RUNG_DIVERGED, "gradient of b is NaN (element 69936 of 69937)",
                 rung_optimizer_step(optimizer, params, grads, &update, &report));
    const rung_optimizer_update clipped = {.rates.lr = 1e-3, .max_grad_norm = 1, .threads = 2};
    assert_fails(RUNG_DIVERGED, "gradient of b",
                 rung_optimizer_step(optimizer, params, grads, &clipped, &report));
    const rung_optimizer_update skip = {.rates.lr = 1e-3, .skip_nonfinite = true};
    assert_ok(rung_optimizer_step(optimizer, params, grads, &skip, &report));
    assert_false(report.applied);
    assert_int_equal(report.nonfinite, 2);
    assert_memory_equal(params, before, SIZE * sizeof *params);
    assert_int_equal(rung_optimizer_steps(optimizer, 2), 1);
    rung_optimizer_destroy(&optimizer);
    free(params), free(before), free(grads);
}

// Without the norm the update's own pass finds it, in every kind of optimizer.
static void update_finds_what_is_not_finite(void **state)
{
    (void)state;
    static const float values[] = {NAN, INFINITY, -INFINITY};
    const rung_optimizer_update update = {.rates.lr = 1e-3, .max_grad_value = 1, .threads = 2};
    for (int kind = 0; kind < RUNG_OPTIMIZER_COUNT; kind++)
        for (int v = 0; v < 3; v++) {
            float *params = numbers(1), *grads = numbers(1);
            rung_optimizer *optimizer = make((rung_optimizer_kind)kind);
            grads[50] = values[v]; // frozen: nobody looks
            grads[90] = FLT_MAX;   // large, not infinite
            assert_ok(rung_optimizer_step(optimizer, params, grads, &update, NULL));
            grads[70000] = values[v];
            assert_fails(RUNG_DIVERGED, "gradient of b is",
                         rung_optimizer_step(optimizer, params, grads, &update, NULL));
            rung_optimizer_destroy(&optimizer);
            free(params), free(grads);
        }
}

static void coefficient(void **state)
{
    (void)state;
    assert_true(rungi_clip_coefficient(0.5, 1) == 1);
    assert_true(rungi_clip_coefficient(0, 0.1) == 1);
    assert_true(rungi_clip_coefficient(10, 1) == 1 / (10 + 1e-6));
}

// What the pass also gives: parameters rounded to 16 bits, and each segment's norm and that of its
// update. Parameters and state are those of a plain step, on any number of threads.
static void gives_low_precision_and_norms(void **state)
{
    (void)state;
    static const rung_optimizer_kind kinds[] = {RUNG_OPTIMIZER_SGD, RUNG_OPTIMIZER_ADAMW};
    static const rung_dtype dtypes[] = {RUNG_BF16, RUNG_F16};
    for (int variant = 0; variant < 24; variant++) {
        rung_isa isa = variant % 2 ? RUNG_ISA_AUTO : RUNG_ISA_SCALAR;
        int kind = variant / 2 % 2, dtype = variant / 4 % 2, threads = variant / 8 + 1;
        float *plain = numbers(1), *params = numbers(1), *before = numbers(1), *grads = numbers(1);
        uint16_t *low = calloc(SIZE, sizeof *low);
        rung_optimizer *a = make(kinds[kind]), *b = make_isa(kinds[kind], isa);
        assert_non_null(low);
        rung_optimizer_update u = {.rates.lr = 0.01, .max_grad_norm = 1, .threads = threads};
        assert_ok(rung_optimizer_step(a, plain, grads, &u, NULL));
        u.measure = variant & 1;
        u.low = low;
        u.low_dtype = dtypes[dtype];
        assert_ok(rung_optimizer_step(b, params, grads, &u, NULL));
        for (int i = 0; i < SEGMENTS; i++) {
            assert_memory_equal(plain + segments[i].begin, params + segments[i].begin,
                                (size_t)(segments[i].end - segments[i].begin) * sizeof *plain);
            double w = 0, d = 0, got_w, got_d;
            rung_optimizer_segment_update(b, i, &got_w, &got_d);
            for (int64_t k = segments[i].begin; k < segments[i].end; k++) {
                uint16_t want = dtype ? rung_f32_to_f16(params[k]) : rung_f32_to_bf16(params[k]);
                assert_int_equal(low[k], segments[i].frozen ? 0 : want);
                w += (double)before[k] * before[k];
                d += pow((double)(params[k] - before[k]), 2);
            }
            bool measured = u.measure && !segments[i].frozen;
            assert_near(got_w, measured ? w : 0, 1e-12 * w);
            assert_near(got_d, measured ? d : 0, 1e-12 * w);
        }
        rung_optimizer_destroy(&a);
        rung_optimizer_destroy(&b);
        free(plain), free(params), free(before), free(grads), free(low);
    }
}

// Rounding to bf16 is that of rung_f32_to_bf16 for all kinds of numbers.
static void rounds_every_kind_of_number(void **state)
{
    (void)state;
    enum { COUNT = 1 << 16 };

    static float x[COUNT];
    static uint16_t got[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) { // halves of the last place, NaN and infinity among them
        uint32_t bits = i << 16 | (i % 5 == 0   ? 0x8000U
                                   : i % 7 == 0 ? 0x8001U
                                                : i * 2654435761U >> 16);
        memcpy(&x[i], &bits, sizeof bits);
    }
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    const rung_isa isas[] = {RUNG_ISA_SCALAR, rung_context_isa(context)};
    rung_context_destroy(&context);
    for (int k = 0; k < 2; k++) {
        rungi_step_kernels_for(isas[k])->to_bf16(got, x, COUNT);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(got[i], rung_f32_to_bf16(x[i]));
    }
}

// C44: true norm 10, limit 1, gradients scaled by 65536: the report says 10, and the update equals
// that of the unscaled gradients.
static void clips_unscaled_gradients(void **state)
{
    (void)state;
    for (int kind = 0; kind < RUNG_OPTIMIZER_COUNT; kind++) {
        float *plain = numbers(1), *scaled = numbers(1), *grads = numbers(1);
        for (int64_t i = 0; i < SIZE; i++)
            grads[i] = i == 5 ? 6 : i == 70020 ? -8 : 0;
        rung_optimizer *a = make((rung_optimizer_kind)kind), *b = make((rung_optimizer_kind)kind);
        rung_optimizer_report report;
        rung_optimizer_update update = {.rates.lr = 0.1, .max_grad_norm = 1};
        assert_ok(rung_optimizer_step(a, plain, grads, &update, &report));
        assert_near(report.grad_norm, 10, 1e-9);
        assert_near(report.clip, 0.1, 1e-7);
        for (int64_t i = 0; i < SIZE; i++)
            grads[i] *= 65536;
        update.loss_scale = 65536;
        assert_ok(rung_optimizer_step(b, scaled, grads, &update, &report));
        assert_near(report.grad_norm, 10, 1e-9);
        assert_near(rung_optimizer_segment_norm(b, 0), 6, 1e-9);
        assert_memory_equal(plain, scaled, SIZE * sizeof *plain);
        if (kind == RUNG_OPTIMIZER_SGD) {
            float *start = numbers(1);
            assert_near(start[5] - plain[5], 0.1 * 0.6, 1e-6);
            assert_near(start[70020] - plain[70020], -0.1 * 0.8, 1e-6);
            free(start);
        }
        rung_optimizer_destroy(&a);
        rung_optimizer_destroy(&b);
        free(plain), free(scaled), free(grads);
    }
}

// By value, after unscaling, and without touching the gradients.
static void clips_by_value(void **state)
{
    (void)state;
    float *params = calloc(SIZE, sizeof *params), *grads = calloc(SIZE, sizeof *grads);
    grads[0] = 40, grads[1] = -40, grads[2] = 0.5f, grads[70032] = -4;
    rung_optimizer *optimizer = make(RUNG_OPTIMIZER_SGD);
    rung_optimizer_report report;
    assert_ok(rung_optimizer_step(
        optimizer, params, grads,
        &(rung_optimizer_update){.rates.lr = 1, .loss_scale = 4, .max_grad_value = 2}, &report));
    assert_true(params[0] == -2 && params[1] == 2 && params[2] == -0.125f && params[70032] == 1);
    assert_true(grads[0] == 40);
    assert_true(isnan(report.grad_norm) && report.clip == 1);
    rung_optimizer_destroy(&optimizer);
    free(params), free(grads);
}

// Parts of an optimizer update what is theirs, and nothing else: together they give the bits of a
// whole step, for any cut and number of threads, and hold the whole state once.
static void parts_make_a_step(void **state)
{
    (void)state;
    static const int64_t cuts[][4] = {{0, 16, 64, SIZE}, {0, 48, 35008, SIZE}, {0, 0, 70016, SIZE}};
    static const rung_optimizer_kind kinds[] = {RUNG_OPTIMIZER_SGD, RUNG_OPTIMIZER_ADAMW};
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts * 2; c++) {
        const int64_t *cut = cuts[c / 2];
        rung_optimizer_options options = rung_optimizer_defaults(kinds[c % 2]);
        options.momentum = c % 2 ? 0 : 0.9;
        float *whole = numbers(1), *parts = numbers(1), *grads = numbers(2);
        rung_optimizer *all, *part[3];
        assert_ok(rung_optimizer_create(context, &options, segments, SEGMENTS, &all));
        for (int p = 0; p < 3; p++)
            assert_ok(rungi_optimizer_create_part(context, &options, segments, SEGMENTS, cut[p],
                                                  cut[p + 1], NULL, &part[p]));
        for (int step = 0; step < 3; step++) {
            rung_optimizer_update update = {
                .rates.lr = 0.01, .max_grad_norm = 1, .threads = 1 + step};
            rung_optimizer_report report, other;
            assert_ok(rung_optimizer_step(all, whole, grads, &update, &report));
            double *sums[3];
            int64_t count;
            for (int p = 0; p < 3 && step; p++) // each sums its own blocks; then they are added
                rungi_optimizer_part_sums(part[p], grads, 1, &sums[p], &count);
            for (int64_t i = 0; step && i < count; i++)
                sums[0][i] = sums[1][i] = sums[2][i] = sums[0][i] + sums[1][i] + sums[2][i];
            for (int p = 0; p < 3; p++) {
                assert_ok(rung_optimizer_step(part[p], parts, grads, &update, &other));
                assert_true(other.grad_norm == report.grad_norm);
            }
            assert_memory_equal(whole, parts, SIZE * sizeof(float));
        }
        for (int k = 0; k < rung_optimizer_state_count(all); k++)
            for (int p = 0; p < 3; p++) {
                int64_t begin, end;
                const float *own = rungi_optimizer_part_state(part[p], k, &begin, &end);
                assert_int_equal(begin, cut[p]);
                assert_true(end <= cut[p + 1]);
                assert_memory_equal(own, rung_optimizer_state_data(all, k) + begin,
                                    (size_t)(end - begin) * sizeof(float));
                assert_null(rung_optimizer_state_data(part[p], k));
            }
        for (int p = 0; p < 3; p++)
            rung_optimizer_destroy(&part[p]);
        rung_optimizer_destroy(&all);
        free(whole), free(parts), free(grads);
    }
    rung_context_destroy(&context);
}

// A team of threads gives the bits of any other way to run the passes.
static void a_team_does_not_show(void **state)
{
    (void)state;
    rungi_team *team;
    assert_ok(rungi_team_create(3, &team));
    for (int measure = 0; measure < 2; measure++) {
        float *params[2] = {numbers(1), numbers(1)}, *grads = numbers(3);
        rung_optimizer *optimizers[2] = {make(RUNG_OPTIMIZER_ADAMW), make(RUNG_OPTIMIZER_ADAMW)};
        rungi_optimizer_use_team(optimizers[1], team);
        for (int step = 0; step < 2; step++)
            for (int i = 0; i < 2; i++) {
                rung_optimizer_report report;
                const rung_optimizer_update u = {
                    .rates.lr = 1e-3, .max_grad_norm = 1, .threads = 1 + i, .measure = measure};
                assert_ok(rung_optimizer_step(optimizers[i], params[i], grads, &u, &report));
                assert_true(report.clip < 1);
            }
        assert_memory_equal(params[0], params[1], SIZE * sizeof(float));
        for (int i = 0; i < 2; i++) {
            rung_optimizer_destroy(&optimizers[i]);
            free(params[i]);
        }
        free(grads);
    }
    rungi_team_destroy(&team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norm_against_reference),
        cmocka_unit_test(parts_make_a_step),
        cmocka_unit_test(names_the_segment_at_fault),
        cmocka_unit_test(update_finds_what_is_not_finite),
        cmocka_unit_test(coefficient),
        cmocka_unit_test(gives_low_precision_and_norms),
        cmocka_unit_test(rounds_every_kind_of_number),
        cmocka_unit_test(clips_unscaled_gradients),
        cmocka_unit_test(clips_by_value),
        cmocka_unit_test(a_team_does_not_show),
    };
    return RUN_TESTS(tests);
}
