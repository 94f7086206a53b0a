// SPDX-License-Identifier: Apache-2.0
// Weighted, evened and grouped orders. Seeds are fixed; each statistic is compared with the bound
// that a right sampler passes in one of a million seeds.
#include "data/data_testing.h"

#include <math.h>

static void take(const rung_sampler *sampler, int64_t epoch, rung_draw *out)
{
    void *order = NULL;
    if (sampler->begin)
        assert_ok(sampler->begin(sampler->self, epoch, &order));
    for (int64_t i = 0; i < sampler->count; i++)
        sampler->at(sampler->self, order, i, &out[i]);
    if (sampler->end)
        sampler->end(sampler->self, order);
}

static double chi_square(const double *expected, const int64_t *seen, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)((seen[i] - expected[i]) * (seen[i] - expected[i]) / expected[i]);
    return sum;
}

static const double weights[5] = {1, 0, 3, 0.5, 5.5}; // of ten

static void weighted_with_replacement(void **state)
{
    enum { DRAWS = 20000 };
    static rung_draw draws[DRAWS], again[DRAWS];
    rung_sampler *sampler;
    int64_t seen[5] = {0};
    (void)state;
    assert_ok(rung_sampler_weighted(weights, 5, DRAWS, true, 11, &sampler));
    assert_int_equal(sampler->count, DRAWS);
    take(sampler, 0, draws);
    for (int i = 0; i < DRAWS; i++) {
        // Occurrences count from 0 in the order of positions.
        assert_int_equal(draws[i].occurrence, seen[draws[i].sample]);
        seen[draws[i].sample]++;
    }
    assert_int_equal(seen[1], 0);
    const double expected[4] = {2000, 6000, 1000, 11000};
    assert_true(chi_square(expected, (int64_t[]){seen[0], seen[2], seen[3], seen[4]}, 4) <
                30.66); // 3 degrees of freedom
    take(sampler, 0, again);
    assert_memory_equal(draws, again, sizeof draws);
    take(sampler, 1, again);
    int equal = 0;
    for (int i = 0; i < DRAWS; i++)
        equal += draws[i].sample == again[i].sample;
    // Two epochs agree by chance: sum of squares of the shares is 0.405.
    assert_true(fabs(equal - 0.405 * DRAWS) < 5 * sqrt(0.405 * 0.595 * DRAWS));
    rung_sampler_destroy(&sampler);
}

// The first and the second of two draws, over many epochs, against their probabilities.
static void weighted_without_replacement(void **state)
{
    enum { EPOCHS = 20000 };
    const int index[4] = {0, 2, 3, 4};
    double expected[4] = {0}, pairs[12];
    int64_t first[4] = {0}, both[12] = {0};
    rung_sampler *sampler;
    (void)state;
    assert_ok(rung_sampler_weighted(weights, 5, 4, false, 5, &sampler));
    for (int e = 0; e < EPOCHS; e++) {
        rung_draw draws[4];
        int at[4], n = 0;
        take(sampler, e, draws);
        for (int i = 0; i < 4; i++) {
            at[i] = draws[i].sample == 0 ? 0 : (int)draws[i].sample - 1;
            assert_int_not_equal(draws[i].sample, 1);
            assert_int_equal(draws[i].occurrence, 0);
            n |= 1 << at[i];
        }
        assert_int_equal(n, 15); // each once
        first[at[0]]++;
        both[at[0] * 3 + (at[1] > at[0] ? at[1] - 1 : at[1])]++;
    }
    for (int i = 0; i < 4; i++) {
        double w = weights[index[i]];
        expected[i] = EPOCHS * w / 10;
        for (int k = 0, n = 0; k < 4; k++)
            if (k != i)
                pairs[i * 3 + n++] = EPOCHS * w / 10 * weights[index[k]] / (10 - w);
    }
    assert_true(chi_square(expected, first, 4) < 30.66); // 3 degrees of freedom
    assert_true(chi_square(pairs, both, 12) < 48.87);    // 11
    rung_sampler_destroy(&sampler);
}

static void bad_weights_are_refused(void **state)
{
    rung_sampler *sampler;
    (void)state;
    assert_fails(RUNG_DATA, "weight of sample 1 is -2",
                 rung_sampler_weighted((double[]){1, -2}, 2, 1, true, 0, &sampler));
    assert_fails(RUNG_DATA, "add up to 0",
                 rung_sampler_weighted((double[]){0, 0}, 2, 1, true, 0, &sampler));
    assert_fails(RUNG_DATA, "only 1 samples have a weight",
                 rung_sampler_weighted((double[]){0, 1}, 2, 2, false, 0, &sampler));
}

// Resumed in the middle of an epoch, a loader goes on with the same draws.
static void weighted_is_resumable(void **state)
{
    test_log log;
    test_source s;
    rung_sampler *sampler;
    rung_loader *whole, *resumed;
    rung_context *context = test_context(&log, NULL);
    double w[64];
    (void)state;
    for (int i = 0; i < 64; i++)
        w[i] = i % 5;
    test_source_init(&s, 64);
    assert_ok(rung_sampler_weighted(w, 64, 100, true, 3, &sampler));
    rung_loader_options o = {.batch_size = 10, .sampler = sampler, .num_workers = 2};
    assert_ok(rung_loader_create(context, &s.source, &o, &whole));
    o.epoch = 1;
    o.position = 40;
    assert_ok(rung_loader_create(context, &s.source, &o, &resumed));
    for (int b = 0; b < 20; b++) {
        rung_batch a, c;
        assert_ok(rung_loader_next(whole, &a));
        if (b >= 14) {
            assert_ok(rung_loader_next(resumed, &c));
            assert_int_equal(c.position, a.position);
            assert_memory_equal(test_draws(&a), test_draws(&c), 10 * sizeof(int64_t));
            rung_loader_release(resumed, &c);
        }
        rung_loader_release(whole, &a);
    }
    rung_loader_destroy(&whole);
    rung_loader_destroy(&resumed);
    rung_sampler_destroy(&sampler);
    test_source_fini(&s);
    rung_context_destroy(&context);
}

// As torch.utils.data.DistributedSampler: 10 samples on 4 ranks become 12 by beginning again, or 8.
static void evened_for_ranks(void **state)
{
    rung_sampler *inner, *padded, *dropped;
    rung_draw draws[12], plain[10];
    (void)state;
    assert_ok(rung_sampler_random(10, 1, &inner));
    assert_ok(rung_sampler_even(inner, 4, false, &padded));
    assert_ok(rung_sampler_even(inner, 4, true, &dropped));
    assert_int_equal(padded->count, 12);
    assert_int_equal(dropped->count, 8);
    take(inner, 3, plain);
    take(padded, 3, draws);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(draws[i].sample, plain[i % 10].sample);
        assert_int_equal(draws[i].occurrence, i / 10);
    }
    take(dropped, 3, draws);
    for (int i = 0; i < 8; i++)
        assert_int_equal(draws[i].sample, plain[i].sample);
    rung_sampler_destroy(&padded);
    rung_sampler_destroy(&dropped);
    assert_ok(rung_sampler_even(inner, 25, false, &padded)); // more than twice
    assert_int_equal(padded->count, 25);
    rung_sampler_destroy(&padded);
    assert_fails(RUNG_DATA, "leaves nothing", rung_sampler_even(inner, 25, true, &dropped));
    rung_sampler_destroy(&inner);
}

// Without either, ranks evaluate each sample once, in parts that differ in size.
static void uneven_evaluation_is_exact(void **state)
{
    test_log log;
    test_source s;
    int times[64] = {0};
    rung_context *context = test_context(&log, NULL);
    (void)state;
    test_source_init(&s, 61);
    for (int rank = 0; rank < 3; rank++) {
        rung_loader *loader;
        assert_ok(rung_loader_create(
            context, &s.source,
            &(rung_loader_options){.batch_size = 8, .rank = rank, .world = 3, .end_epoch = 1},
            &loader));
        for (int b = 0; b < 8; b++) {
            rung_batch batch;
            assert_ok(rung_loader_next(loader, &batch));
            for (int64_t i = 0; i < batch.count; i++)
                times[batch.samples[i]]++;
            assert_true(batch.count >= batch.global_count / 3 &&
                        batch.count <= (batch.global_count + 2) / 3);
            rung_loader_release(loader, &batch);
        }
        rung_loader_destroy(&loader);
    }
    for (int i = 0; i < 61; i++)
        assert_int_equal(times[i], 1);
    test_source_fini(&s);
    rung_context_destroy(&context);
}

static void batches_of_similar_length(void **state)
{
    enum { N = 1003, BATCH = 10 };
    static rung_draw draws[N], again[N];
    static int64_t lengths[N];
    rung_sampler *sampler;
    int64_t waste = 0, plain_waste = 0;
    bool seen[N] = {false};
    (void)state;
    for (int i = 0; i < N; i++)
        lengths[i] = 1 + i * 7919 % 200;
    assert_ok(rung_sampler_by_length(lengths, N, BATCH, true, 4, &sampler));
    take(sampler, 0, draws);
    for (int b = 0; b < N; b += BATCH) {
        int64_t longest = 0, longest_plain = 0;
        int count = b + BATCH < N ? BATCH : N - b;
        for (int i = b; i < b + count; i++) {
            assert_false(seen[draws[i].sample]);
            seen[draws[i].sample] = true;
            longest = lengths[draws[i].sample] > longest ? lengths[draws[i].sample] : longest;
            longest_plain = lengths[i] > longest_plain ? lengths[i] : longest_plain;
        }
        for (int i = b; i < b + count; i++) {
            waste += longest - lengths[draws[i].sample];
            plain_waste += longest_plain - lengths[i];
        }
    }
    assert_true(waste * 20 < plain_waste); // padding
    take(sampler, 1, again);
    assert_true(memcmp(draws, again, sizeof draws) != 0);
    take(sampler, 0, again);
    assert_memory_equal(draws, again, sizeof draws);
    rung_sampler_destroy(&sampler);
    // Without shuffling: by length, in the order of samples where it is equal.
    assert_ok(rung_sampler_by_length((int64_t[]){3, 1, 3, 2, 1}, 5, 2, false, 0, &sampler));
    take(sampler, 7, draws);
    const int64_t want[5] = {1, 4, 3, 0, 2};
    for (int i = 0; i < 5; i++)
        assert_int_equal(draws[i].sample, want[i]);
    rung_sampler_destroy(&sampler);
}

// ---- splits by name

static void describe(void *self, int64_t index, char *out, size_t size)
{
    snprintf(out, size, "%s/class/picture_%d.jpg", (const char *)self, (int)index);
}

static void splits_by_name(void **state)
{
    enum { N = 10000 };
    static bool held[N], moved[N], more[N];
    rung_source source = {.name = "named", .count = N, .self = "/a/b", .describe = describe};
    int64_t count = 0, both = 0;
    (void)state;
    assert_ok(rung_split_by_name(&source, "/a/b/", 0.1, held));
    for (int i = 0; i < N; i++)
        count += held[i];
    // Five standard errors of a share of 0.1: 150.
    assert_true(count > 850 && count < 1150);
    // The folder's own place does not matter, nor how many samples there are; a larger share holds
    // the smaller one.
    source.self = "elsewhere";
    source.count = 100;
    assert_ok(rung_split_by_name(&source, "elsewhere", 0.1, moved));
    assert_memory_equal(held, moved, 100 * sizeof *held);
    source.count = N;
    assert_ok(rung_split_by_name(&source, "elsewhere", 0.2, more));
    for (int i = 0; i < N; i++)
        both += held[i] && more[i];
    assert_int_equal(both, count);
    source.describe = NULL;
    assert_fails(RUNG_UNSUPPORTED, "no names", rung_split_by_name(&source, "", 0.2, more));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weighted_with_replacement), cmocka_unit_test(weighted_without_replacement),
        cmocka_unit_test(bad_weights_are_refused),   cmocka_unit_test(weighted_is_resumable),
        cmocka_unit_test(evened_for_ranks),          cmocka_unit_test(uneven_evaluation_is_exact),
        cmocka_unit_test(batches_of_similar_length), cmocka_unit_test(splits_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
