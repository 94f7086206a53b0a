// SPDX-License-Identifier: Apache-2.0
#include "data/data_testing.h"

#include "data/sample.h"

// Writes one epoch's samples.
static void take(const rung_sampler *sampler, int64_t epoch, int64_t *out)
{
    void *order = NULL;
    if (sampler->begin)
        assert_ok(sampler->begin(sampler->self, epoch, &order));
    for (int64_t i = 0; i < sampler->count; i++) {
        rung_draw draw;
        sampler->at(sampler->self, order, i, &draw);
        out[i] = draw.sample;
    }
    if (sampler->end)
        sampler->end(sampler->self, order);
}

static bool is_permutation(const int64_t *list, int64_t count)
{
    bool *seen = calloc((size_t)count, sizeof *seen);
    bool good = true;
    for (int64_t i = 0; i < count && good; i++) {
        good = list[i] >= 0 && list[i] < count && !seen[list[i]];
        if (good)
            seen[list[i]] = true;
    }
    free(seen);
    return good;
}

static void sequential(void **state)
{
    (void)state;
    rung_sampler *sampler;
    int64_t list[5];
    assert_ok(rung_sampler_sequential(5, &sampler));
    for (int64_t epoch = 0; epoch < 2; epoch++) {
        take(sampler, epoch, list);
        for (int64_t i = 0; i < 5; i++)
            assert_int_equal(list[i], i);
    }
    rung_sampler_destroy(&sampler);
    assert_null(sampler);
    assert_fails(RUNG_DATA, "0 samples", rung_sampler_sequential(0, &sampler));
}

static void random_is_a_permutation_of_its_own_each_epoch(void **state)
{
    (void)state;
    enum { N = 1000 };
    static int64_t lists[4][N], again[N];
    rung_sampler *sampler, *other;
    assert_ok(rung_sampler_random(N, 7, &sampler));
    assert_ok(rung_sampler_random(N, 8, &other));
    for (int e = 0; e < 3; e++)
        take(sampler, e, lists[e]);
    take(other, 0, lists[3]);
    for (int a = 0; a < 4; a++) {
        assert_true(is_permutation(lists[a], N));
        for (int b = 0; b < a; b++) {
            int equal = 0; // about one place of a random permutation
            for (int i = 0; i < N; i++)
                equal += lists[a][i] == lists[b][i];
            assert_true(equal < 10);
        }
    }
    take(sampler, 1, again);
    assert_memory_equal(again, lists[1], sizeof again);
    rung_sampler_destroy(&sampler);
    rung_sampler_destroy(&other);
}

// What a seed means must never change. The numbers come from a program of its own in Python: Philox
// keys as in base/philox.h, words in turn, Lemire's method, swaps from the last place down.
static void random_known_answers(void **state)
{
    (void)state;
    const int64_t epoch0[] = {1, 8, 5, 2, 4, 9, 6, 3, 0, 7};
    const int64_t epoch3[] = {2, 6, 9, 8, 1, 3, 7, 4, 0, 5};
    const int64_t first[] = {196, 774, 336, 252, 892}, last[] = {502, 882, 456, 85, 780};
    int64_t list[1000];
    rung_sampler *sampler;
    assert_ok(rung_sampler_random(10, 7, &sampler));
    take(sampler, 0, list);
    assert_memory_equal(list, epoch0, sizeof epoch0);
    take(sampler, 3, list);
    assert_memory_equal(list, epoch3, sizeof epoch3);
    rung_sampler_destroy(&sampler);
    assert_ok(rung_sampler_random(1000, 7, &sampler));
    take(sampler, 0, list);
    assert_memory_equal(list, first, sizeof first);
    assert_memory_equal(list + 995, last, sizeof last);
    rung_sampler_destroy(&sampler);
    // and number 4 of sample 11's second place in epoch 2, seed 5
    rung_random random = rungi_sample_random(5, 2, 11, 1);
    assert_true(rung_random_u64(&random, 4) == 0xcad8639b9e07448c);
}

// All 24 orders of four samples, over 24,000 epochs: chi-square with 23 degrees of freedom is below
// 49.7 with probability 0.999. The numbers are fixed, so this holds for ever or never.
static void random_is_uniform(void **state)
{
    (void)state;
    enum { EPOCHS = 24000 };
    int counts[256] = {0};
    rung_sampler *sampler;
    assert_ok(rung_sampler_random(4, 3, &sampler));
    for (int e = 0; e < EPOCHS; e++) {
        int64_t list[4];
        take(sampler, e, list);
        counts[list[0] * 64 + list[1] * 16 + list[2] * 4 + list[3]]++;
    }
    double chi = 0;
    int orders = 0;
    for (int i = 0; i < 256; i++)
        if (counts[i]) {
            orders++;
            chi += (counts[i] - 1000.0) * (counts[i] - 1000.0) / 1000.0;
        }
    assert_int_equal(orders, 24);
    assert_true(chi < 49.7);
    rung_sampler_destroy(&sampler);
}

static void a_million(void **state)
{
    (void)state;
    enum { N = 1000000 };
    int64_t *list = malloc(N * sizeof *list);
    rung_sampler *sampler;
    assert_ok(rung_sampler_random(N, 1, &sampler));
    take(sampler, 0, list);
    assert_true(is_permutation(list, N));
    int64_t inversions = 0; // half of neighbours, give or take 5 standard deviations
    for (int i = 1; i < N; i++)
        inversions += list[i] < list[i - 1];
    assert_true(inversions > N / 2 - 1500 && inversions < N / 2 + 1500);
    rung_sampler_destroy(&sampler);
    free(list);
}

static void subset(void **state)
{
    (void)state;
    const int64_t given[] = {9, 4, 9, 2, 9};
    int64_t list[5], count9 = 0;
    rung_sampler *in_order, *shuffled;
    assert_ok(rung_sampler_subset(given, 5, false, 0, &in_order));
    take(in_order, 3, list);
    assert_memory_equal(list, given, sizeof given);
    assert_ok(rung_sampler_subset(given, 5, true, 1, &shuffled));
    int64_t occurrences = 0;
    void *order;
    assert_ok(shuffled->begin(shuffled->self, 0, &order));
    for (int i = 0; i < 5; i++) {
        rung_draw draw;
        shuffled->at(shuffled->self, order, i, &draw);
        if (draw.sample == 9) {
            count9++;
            occurrences |= INT64_C(1) << draw.occurrence;
        } else {
            assert_int_equal(draw.occurrence, 0);
        }
    }
    shuffled->end(shuffled->self, order);
    assert_int_equal(count9, 3);
    assert_int_equal(occurrences, 7); // 0, 1 and 2: random choices of their own
    rung_sampler_destroy(&in_order);
    rung_sampler_destroy(&shuffled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequential),
        cmocka_unit_test(random_is_a_permutation_of_its_own_each_epoch),
        cmocka_unit_test(random_known_answers),
        cmocka_unit_test(random_is_uniform),
        cmocka_unit_test(a_million),
        cmocka_unit_test(subset),
    };
    return RUN_TESTS(tests);
}
