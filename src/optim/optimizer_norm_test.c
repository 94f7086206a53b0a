// SPDX-License-Identifier: Apache-2.0
// Sums for the norm that are made while gradients are completed. (optimizer_step_test.c has the
// norm itself, and that of parts.)
#include "testing.h"

#include <math.h>

#include "base/philox.h"
#include "optim/optimizer.h"

static const rung_segment segments[] = {
    {"a", 0, 37, 0, false},
    {"frozen", 48, 60, 0, true},
    {"b", 64, 70001, 0, false},
    {"c", 70016, 70033, 0, false},
};
enum { SEGMENTS = 4, SIZE = 70040, FROZEN = 50, PADDING = 40, BLOCKS = 1 + 18 + 1 };

typedef struct world {
    rung_optimizer *optimizer;
    float *params, *grads;
} world;

// Gradients that nobody may look at are NaN.
static world open(void)
{
    rung_context *context;
    rung_optimizer_options options = rung_optimizer_defaults(RUNG_OPTIMIZER_SGD);
    world w = {.params = calloc(SIZE, sizeof *w.params), .grads = calloc(SIZE, sizeof *w.grads)};
    rungi_random random = rungi_random_make(3, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (uint64_t i = 0; i < SIZE; i++)
        w.grads[i] = (float)rungi_random_normal(&random, i);
    w.grads[FROZEN] = w.grads[PADDING] = NAN;
    assert_ok(rung_context_create(NULL, &context));
    assert_ok(rung_optimizer_create(context, &options, segments, SEGMENTS, &w.optimizer));
    rung_context_destroy(&context);
    return w;
}

static void drop(world *w)
{
    rung_optimizer_destroy(&w->optimizer);
    free(w->params);
    free(w->grads);
}

// Wherever gradients are cut and however many are left to it, the norm has the bits of one that
// sums all, and does not read again what was summed.
static void norm_takes_what_is_there(void **state)
{
    static const struct {
        int64_t ends[3];
        int blocks; // summed after the last of them
    } cuts[] = {
        {{37, 60, 70001}, BLOCKS - 1},
        {{36, 36, 36}, 0},                    // within the first block
        {{0, 64 + 4095, 64 + 40960}, 1 + 10}, // within blocks of a segment
        {{40000, 70033, SIZE}, BLOCKS},
    };
    (void)state;
    world w = open();
    int64_t bad;
    double norm = rungi_optimizer_norm(w.optimizer, w.grads, 1, 1, &bad);
    double of_b = rung_optimizer_segment_norm(w.optimizer, 2);
    assert_true(norm > 0 && of_b > 0 && bad < 0);
    for (int i = 0; i < (int)(sizeof cuts / sizeof *cuts) * 3; i++) {
        int threads = 1 + i % 3, c = i / 3;
        float *left = calloc(SIZE, sizeof *left); // what is summed already is zero here
        rungi_optimizer_begin_sums(w.optimizer);
        for (int k = 0; k < 3; k++)
            rungi_optimizer_sum(w.optimizer, w.grads, cuts[c].ends[k], threads);
        assert_int_equal(w.optimizer->block_count, BLOCKS);
        assert_int_equal(w.optimizer->summed, cuts[c].blocks);
        for (int b = cuts[c].blocks; b < BLOCKS; b++)
            for (int64_t k = w.optimizer->blocks[b].begin; k < w.optimizer->blocks[b].end; k++)
                left[k] = w.grads[k];
        assert_true(rungi_optimizer_norm(w.optimizer, left, 1, threads, &bad) == norm);
        assert_true(rung_optimizer_segment_norm(w.optimizer, 2) == of_b);
        free(left);
    }
    drop(&w);
}

// Sums are used once, and those of a step that did not come, or of other segments, not at all.
static void old_sums_are_forgotten(void **state)
{
    (void)state;
    world w = open();
    float *zeros = calloc(SIZE, sizeof *zeros);
    int64_t bad, count;
    double norm = rungi_optimizer_norm(w.optimizer, w.grads, 1, 1, &bad), *sums, sum = 0;
    rungi_optimizer_begin_sums(w.optimizer);
    rungi_optimizer_sum(w.optimizer, w.grads, SIZE, 1);
    assert_true(rungi_optimizer_norm(w.optimizer, zeros, 1, 1, &bad) == norm);
    assert_true(rungi_optimizer_norm(w.optimizer, zeros, 1, 1, &bad) == 0);

    rungi_optimizer_sum(w.optimizer, w.grads, SIZE, 1);
    rungi_optimizer_begin_sums(w.optimizer);
    assert_true(rungi_optimizer_norm(w.optimizer, zeros, 1, 1, &bad) == 0);

    rungi_optimizer_sum(w.optimizer, w.grads, SIZE, 1);
    rungi_optimizer_part_sums(w.optimizer, zeros, 1, &sums, &count);
    for (int64_t i = 0; i < count; i++)
        sum += sums[i];
    assert_true(count == BLOCKS && sum == 0);

    rungi_optimizer_sum(w.optimizer, w.grads, SIZE, 1);
    rung_optimizer_freeze(w.optimizer, 0, true);
    double less = rungi_optimizer_norm(w.optimizer, w.grads, 1, 1, &bad);
    assert_true(less > 0 && less < norm);
    free(zeros);
    drop(&w);
}

// Infinity and NaN in any block keep a step from changing anything.
static void finds_infinity_in_any_block(void **state)
{
    (void)state;
    world w = open();
    const rung_optimizer_update update = {
        .rates.lr = 1, .loss_scale = 65536, .skip_nonfinite = true, .threads = 2};
    rung_optimizer_report report;
    rungi_optimizer_plan(w.optimizer);
    for (int64_t i = 0; i < 2 * BLOCKS; i++) {
        const rungi_optim_block *block = &w.optimizer->blocks[i / 2];
        float *at = &w.grads[block->begin + i * 131 % (block->end - block->begin)], kept = *at;
        *at = i % 2 ? NAN : -INFINITY;
        rungi_optimizer_begin_sums(w.optimizer);
        rungi_optimizer_sum(w.optimizer, w.grads, SIZE, 1 + (int)(i % 3));
        assert_ok(rung_optimizer_step(w.optimizer, w.params, w.grads, &update, &report));
        assert_false(report.applied);
        const rung_segment *s = &segments[report.nonfinite];
        assert_true(s->begin <= block->begin && block->end <= s->end);
        *at = kept;
    }
    for (int i = 0; i < SIZE; i++)
        assert_true(w.params[i] == 0);
    w.grads[PADDING] = 0; // which an update runs over
    assert_ok(rung_optimizer_step(w.optimizer, w.params, w.grads, &update, &report));
    assert_true(report.applied && w.params[0] != 0);
    drop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norm_takes_what_is_there),
        cmocka_unit_test(old_sums_are_forgotten),
        cmocka_unit_test(finds_infinity_in_any_block),
    };
    return RUN_TESTS(tests);
}
