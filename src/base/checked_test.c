// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include "base/checked.h"

static void results(void **state)
{
    (void)state;
    size_t size = 0;
    int64_t number = 0;
    assert_true(rungi_size_mul(3, 4, &size) && size == 12);
    assert_true(rungi_size_add(SIZE_MAX - 1, 1, &size) && size == SIZE_MAX);
    assert_true(rungi_i64_mul(-3, 4, &number) && number == -12);
    assert_true(rungi_i64_add(INT64_MAX, -1, &number) && number == INT64_MAX - 1);
    assert_true(rungi_size_round(65, 64, &size) && size == 128);
    assert_true(rungi_size_round(0, 64, &size) && size == 0);
}

static void overflow_leaves_the_output_alone(void **state)
{
    (void)state;
    size_t size = 77;
    int64_t number = 77;
    assert_false(rungi_size_mul(SIZE_MAX / 2, 3, &size));
    assert_false(rungi_size_add(SIZE_MAX, 1, &size));
    assert_false(rungi_size_round(SIZE_MAX - 3, 64, &size));
    assert_false(rungi_i64_mul(INT64_MIN, -1, &number));
    assert_false(rungi_i64_add(INT64_MAX, 1, &number));
    assert_int_equal(size, 77);
    assert_int_equal(number, 77);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results),
        cmocka_unit_test(overflow_leaves_the_output_alone),
    };
    return RUN_TESTS(tests);
}
