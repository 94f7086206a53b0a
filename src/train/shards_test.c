// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include <stdlib.h>

#include "base/philox.h"
#include "train/shards.h"

// Sums that come one after the other are added as if all of them were there.
static void carry_is_the_tree(void **state)
{
    (void)state;
    enum { MOST = 17, SIZE = RUNGI_TREE_BLOCK + 77 };

    static float terms[MOST][SIZE], levels[5][SIZE], sum[SIZE];
    float *all[MOST], *kept[5];
    rungi_random random = rungi_random_make(7, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (int i = 0; i < 5; i++)
        kept[i] = levels[i];
    for (int count = 1; count <= MOST; count++) {
        assert_true(rungi_tree_levels(count) <= 5);
        for (int i = 0; i < MOST; i++) {
            all[i] = terms[i];
            for (int k = 0; k < SIZE; k++)
                terms[i][k] = (float)rungi_random_normal(&random, (uint64_t)(i * SIZE + k));
        }
        for (int i = 0; i < count; i++) {
            memcpy(sum, terms[i], sizeof sum);
            // two threads' ranges
            rungi_tree_carry(sum, kept, i, i == count - 1, 0, 100);
            rungi_tree_carry(sum, kept, i, i == count - 1, 100, SIZE);
        }
        rungi_tree_add(all, count, 0, SIZE);
        assert_memory_equal(sum, terms[0], sizeof sum);
    }
}

static void levels_are_as_many_as_needed(void **state)
{
    (void)state;
    static const int wanted[] = {0, 0, 1, 2, 2, 3, 3, 3, 3, 4};
    for (int rounds = 1; rounds < 10; rounds++)
        assert_int_equal(rungi_tree_levels(rounds), wanted[rounds]);
    assert_int_equal(rungi_tree_levels(1024), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(carry_is_the_tree),
        cmocka_unit_test(levels_are_as_many_as_needed),
    };
    return RUN_TESTS(tests);
}
