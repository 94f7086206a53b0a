// SPDX-License-Identifier: Apache-2.0
// Steps over replicas against steps that are given the sums of their gradients.
#include "testing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "optim/optimizer.h"

static const rung_segment segments[] = {
    {"a", 0, 37, 0, false},
    {"frozen", 48, 60, 0, true},
    {"b", 64, 40001, 0, false},
    {"c", 40016, 40033, 0, false},
};
enum { SEGMENTS = 4, SIZE = 40048, REPLICAS = 3, CUT = 20000 };

// Replica r has gradients grads[r] and parameters params[r].
typedef struct world {
    float grads[REPLICAS][SIZE], params[REPLICAS][SIZE], sums[SIZE];
    int own;
} world;

static void add(void *user, int64_t begin, int64_t count, float *sum_out)
{
    const world *w = user;
    assert_in_range(count, 1, RUNGI_OPTIM_BLOCK);
    for (int64_t i = 0; i < count; i++)
        sum_out[i] = w->grads[0][begin + i] + w->grads[1][begin + i] + w->grads[2][begin + i];
}

static void give(void *user, int64_t begin, int64_t count)
{
    world *w = user;
    for (int r = 0; r < REPLICAS; r++)
        if (r != w->own)
            memcpy(w->params[r] + begin, w->params[w->own] + begin, (size_t)count * sizeof(float));
}

static void fill(float *x, int64_t count, uint64_t seed)
{
    rungi_random random = rungi_random_make(seed, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (int64_t i = 0; i < count; i++)
        x[i] = rungi_unit_f32(rungi_random_block(&random, (uint64_t)i).v[0]) - 0.5f;
}

static world *make_world(void)
{
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    for (int r = 0; r < REPLICAS; r++)
        fill(w->grads[r], SIZE, 7 + (uint64_t)r);
    fill(w->params[0], SIZE, 5);
    for (int64_t i = 0; i < SIZE; i++) {
        w->sums[i] = w->grads[0][i] + w->grads[1][i] + w->grads[2][i];
        w->params[1][i] = w->params[2][i] = w->params[0][i];
    }
    return w;
}

// The optimizer of elements [begin, end).
static rung_optimizer *make(rung_optimizer_kind kind, double momentum, int64_t begin, int64_t end)
{
    rung_context *context = NULL;
    rung_optimizer *optimizer = NULL;
    rung_optimizer_options options = rung_optimizer_defaults(kind);
    options.momentum = momentum;
    assert_ok(rung_context_create(NULL, &context));
    assert_ok(rungi_optimizer_create_part(context, &options, segments, SEGMENTS, begin, end, NULL,
                                          &optimizer));
    rung_context_destroy(&context);
    return optimizer;
}

// Two owners that take turns update all replicas as one optimizer with the sums would.
static void the_bits_are_those_of_sums(void **state)
{
    (void)state;
    static const struct {
        rung_optimizer_kind kind;
        double momentum;
    } cases[] = {{RUNG_OPTIMIZER_SGD, 0}, {RUNG_OPTIMIZER_SGD, 0.9}, {RUNG_OPTIMIZER_ADAMW, 0}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        world *w = make_world();
        float *expected = malloc(sizeof w->params[0]);
        assert_non_null(expected);
        memcpy(expected, w->params[0], sizeof w->params[0]);
        rung_optimizer *whole = make(cases[k].kind, cases[k].momentum, 0, SIZE);
        rung_optimizer *parts[2] = {make(cases[k].kind, cases[k].momentum, 0, CUT),
                                    make(cases[k].kind, cases[k].momentum, CUT, SIZE)};
        const rungi_optim_replicas replicas = {add, give, w};
        for (int step = 0; step < 3; step++) {
            const rung_optimizer_update u = {
                .rates = {.lr = 0.01}, .max_grad_value = step ? 0.2 : 0, .threads = 1 + step % 2};
            assert_ok(rung_optimizer_step(whole, expected, w->sums, &u, NULL));
            for (w->own = 0; w->own < 2; w->own++) {
                rung_optimizer_report report;
                rungi_optimizer_use_replicas(parts[w->own], &replicas);
                assert_ok(rung_optimizer_step(parts[w->own], w->params[w->own], NULL, &u, &report));
                assert_true(report.applied && report.nonfinite == -1);
            }
            for (int r = 0; r < REPLICAS; r++)
                assert_memory_equal(w->params[r], expected, sizeof w->params[r]);
        }
        for (int i = 0; i < 2; i++)
            rung_optimizer_destroy(&parts[i]);
        rung_optimizer_destroy(&whole);
        free(expected);
        free(w);
    }
}

static void a_sum_that_is_not_finite_is_named(void **state)
{
    (void)state;
    world *w = make_world();
    rung_optimizer *parts[2] = {make(RUNG_OPTIMIZER_SGD, 0.9, 0, CUT),
                                make(RUNG_OPTIMIZER_SGD, 0.9, CUT, SIZE)};
    const rungi_optim_replicas replicas = {add, give, w};
    const rung_optimizer_update u = {.rates = {.lr = 0.01}, .threads = 1};
    w->grads[1][64 + 30000] = NAN;
    w->grads[2][50] = INFINITY; // frozen
    w->grads[2][62] = NAN;      // padding
    for (int i = 0; i < 2; i++)
        rungi_optimizer_use_replicas(parts[i], &replicas);
    assert_ok(rung_optimizer_step(parts[0], w->params[0], NULL, &u, NULL));
    w->own = 1;
    assert_fails(RUNG_DIVERGED, "the gradient of b is NaN (element 30000 of 39937)",
                 rung_optimizer_step(parts[1], w->params[1], NULL, &u, NULL));
    w->grads[0][3] = INFINITY;
    w->own = 0;
    assert_fails(RUNG_DIVERGED, "the gradient of a is infinite (element 3 of 37)",
                 rung_optimizer_step(parts[0], w->params[0], NULL, &u, NULL));
    // From then on with what a step is given.
    rungi_optimizer_use_replicas(parts[0], NULL);
    assert_ok(rung_optimizer_step(parts[0], w->params[0], w->sums, &u, NULL));
    for (int i = 0; i < 2; i++)
        rung_optimizer_destroy(&parts[i]);
    free(w);
}

static void updates_that_need_more_are_not_taken(void **state)
{
    (void)state;
    uint16_t low;
    assert_true(rungi_optimizer_takes_replicas(&(rung_optimizer_update){.max_grad_value = 1}));
    assert_false(rungi_optimizer_takes_replicas(&(rung_optimizer_update){.max_grad_norm = 1}));
    assert_false(rungi_optimizer_takes_replicas(&(rung_optimizer_update){.want_norm = true}));
    assert_false(rungi_optimizer_takes_replicas(&(rung_optimizer_update){.skip_nonfinite = true}));
    assert_false(rungi_optimizer_takes_replicas(&(rung_optimizer_update){.measure = true}));
    assert_false(rungi_optimizer_takes_replicas(&(rung_optimizer_update){.low = &low}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_those_of_sums),
        cmocka_unit_test(a_sum_that_is_not_finite_is_named),
        cmocka_unit_test(updates_that_need_more_are_not_taken),
    };
    return RUN_TESTS(tests);
}
