// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include "base/arena.h"

static void objects_are_aligned_zeroed_and_apart(void **state)
{
    (void)state;
    rungi_arena arena = {0};
    static const size_t aligns[] = {1, 2, 8, 16, 64, 4096};
    unsigned char *objects[600];
    for (size_t i = 0; i < 600; i++) {
        size_t align = aligns[i % 6], size = i * 7 % 200 + 1;
        objects[i] = rungi_arena_alloc(&arena, 1, size, align);
        assert_non_null(objects[i]);
        assert_true((uintptr_t)objects[i] % align == 0);
        for (size_t j = 0; j < size; j++)
            assert_int_equal(objects[i][j], 0);
        memset(objects[i], (int)(i % 251) + 1, size);
    }
    for (size_t i = 0; i < 600; i++)
        for (size_t j = 0; j < i * 7 % 200 + 1; j++)
            assert_int_equal(objects[i][j], i % 251 + 1);
    rungi_arena_fini(&arena);
}

static void large_objects_and_overflow(void **state)
{
    (void)state;
    rungi_arena arena = {0};
    char *large = rungi_arena_new(&arena, char, 1 << 20);
    assert_non_null(large);
    memset(large, 1, 1 << 20);
    assert_null(rungi_arena_alloc(&arena, SIZE_MAX / 2, 3, 1));
    assert_null(rungi_arena_alloc(&arena, 1, SIZE_MAX - 8, 16));
    assert_non_null(rungi_arena_alloc(&arena, 0, 8, 8));
    assert_non_null(rungi_arena_new(&arena, double, 3));
    rungi_arena_fini(&arena);
}

static void reset_keeps_the_memory(void **state)
{
    (void)state;
    rungi_arena arena = {0};
    assert_int_equal(rungi_arena_size(&arena), 0);
    int *first = rungi_arena_new(&arena, int, 10);
    for (int i = 0; i < 20; i++)
        rungi_arena_new(&arena, char, 10000);
    size_t size = rungi_arena_size(&arena);
    assert_true(size >= 200040);
    rungi_arena_reset(&arena);
    assert_int_equal(rungi_arena_size(&arena), 0);
    assert_ptr_equal(rungi_arena_new(&arena, int, 10), first);
    assert_int_equal(first[9], 0);
    for (int i = 0; i < 20; i++)
        rungi_arena_new(&arena, char, 10000);
    assert_int_equal(rungi_arena_size(&arena), size);
    // An object larger than the blocks that are left gets a new one.
    rungi_arena_reset(&arena);
    assert_non_null(rungi_arena_new(&arena, char, 100000));
    rungi_arena_fini(&arena);
    rungi_arena_fini(&arena);
}

static void texts(void **state)
{
    (void)state;
    rungi_arena arena = {0};
    char buffer[] = "layer1";
    char *copy = rungi_arena_text(&arena, buffer);
    buffer[0] = 'x';
    assert_string_equal(copy, "layer1");
    assert_string_equal(rungi_arena_format(&arena, "%s.%d", copy, 3), "layer1.3");
    assert_string_equal(rungi_arena_text(&arena, ""), "");
    static const int numbers[] = {1, 2, 3};
    assert_memory_equal(rungi_arena_copy(&arena, numbers, sizeof numbers, alignof(int)), numbers,
                        sizeof numbers);
    rungi_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_are_aligned_zeroed_and_apart),
        cmocka_unit_test(large_objects_and_overflow),
        cmocka_unit_test(reset_keeps_the_memory),
        cmocka_unit_test(texts),
    };
    return RUN_TESTS(tests);
}
