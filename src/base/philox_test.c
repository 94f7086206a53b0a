// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include <math.h>

#include "base/philox.h"

// Known answers from Random123 1.14, tests/kat_vectors, philox4x32 10.
static void known_answers(void **state)
{
    (void)state;
    static const uint32_t vectors[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d,
         0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
         0x94fdcceb, 0x5001e420, 0x24126ea1},
    };
    for (int i = 0; i < 3; i++) {
        rungi_philox4 block = rungi_philox(vectors[i] + 4, vectors[i]);
        for (int j = 0; j < 4; j++)
            assert_int_equal(block.v[j], vectors[i][6 + j]);
    }
}

static void keys_differ(void **state)
{
    (void)state;
    // Every argument must matter.
    rungi_random base = rungi_random_make(1, RUNGI_PURPOSE_TEST, 2, 3, 4);
    rungi_random others[] = {
        rungi_random_make(2, RUNGI_PURPOSE_TEST, 2, 3, 4),
        rungi_random_make(1, RUNGI_PURPOSE_INIT, 2, 3, 4),
        rungi_random_make(1, RUNGI_PURPOSE_TEST, 3, 2, 4),
        rungi_random_make(1, RUNGI_PURPOSE_TEST, 2, 4, 3),
        rungi_random_make(1, RUNGI_PURPOSE_TEST, 2, 3, (uint64_t)4 << 32),
        rungi_random_make((uint64_t)1 << 32, RUNGI_PURPOSE_TEST, 2, 3, 4),
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_true(rungi_random_u64(&base, 0) != rungi_random_u64(&others[i], 0));
}

// Mean and variance of 100,000 fixed draws. The generator is deterministic, so this either holds
// for ever or not; the bounds are 5 standard errors.
static void moments(void **state)
{
    (void)state;
    rungi_random random = rungi_random_make(7, RUNGI_PURPOSE_TEST, 0, 0, 0);
    enum { N = 100000 };
    double sum = 0, squares = 0, unit = 0;
    for (int i = 0; i < N; i++) {
        double x = rungi_random_normal(&random, (uint64_t)i);
        sum += x;
        squares += x * x;
        unit += rungi_unit_f32(rungi_random_block(&random, (uint64_t)i).v[0]);
    }
    assert_true(fabs(sum / N) < 5 / sqrt(N));
    assert_true(fabs(squares / N - 1) < 5 * sqrt(2.0 / N));
    assert_true(fabs(unit / N - 0.5) < 5 * sqrt(1.0 / 12 / N));
}

static void below_covers_range(void **state)
{
    (void)state;
    rungi_random random = rungi_random_make(9, RUNGI_PURPOSE_TEST, 0, 0, 0);
    uint64_t index = 0;
    int seen[7] = {0};
    for (int i = 0; i < 7000; i++)
        seen[rungi_random_below(&random, 7, &index)]++;
    for (int i = 0; i < 7; i++)
        assert_true(abs(seen[i] - 1000) < 5 * 30);
    assert_int_equal(rungi_random_below(&random, 1, &index), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(keys_differ),
        cmocka_unit_test(moments),
        cmocka_unit_test(below_covers_range),
    };
    return RUN_TESTS(tests);
}
