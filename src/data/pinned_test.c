// SPDX-License-Identifier: Apache-2.0
// Pinned memory has a cap; what does not fit stays pageable and is told (case C03).
#include "data/data_testing.h"

#include "data/pinned.h"

static void above_the_cap_memory_is_pageable(void **state)
{
    test_log log;
    rungi_pinned pinned;
    void *blocks[3];
    rung_context *context = test_context(&log, NULL);
    (void)state;
    rungi_pinned_init(&pinned, context, 10 * 4096);
    pinned.system = 8 * 4096; // as of `ulimit -l 32`
    rung_loader_memory memory = rungi_pinned_memory(&pinned);
    assert_ok(memory.allocate(memory.user, 4 * 4096, &blocks[0]));
    if (!rungi_pinned_is(&pinned, blocks[0])) { // a machine that locks nothing at all
        memory.release(memory.user, blocks[0]);
        rungi_pinned_fini(&pinned);
        rung_context_destroy(&context);
        skip();
    }
    assert_int_equal(log.notices, 0);
    assert_ok(memory.allocate(memory.user, 4 * 4096 - 100, &blocks[1]));
    assert_true(rungi_pinned_is(&pinned, (char *)blocks[1] + 4 * 4096 - 101));
    assert_int_equal(pinned.locked, 8 * 4096);
    assert_ok(memory.allocate(memory.user, 1, &blocks[2]));
    assert_false(rungi_pinned_is(&pinned, blocks[2]));
    assert_int_equal(pinned.pageable, 4096);
    assert_int_equal(log.notices, 1);
    assert_non_null(strstr(log.text, "4.0 KiB more would be above data.pin_limit (40.0 KiB)"));
    assert_non_null(strstr(log.text, "(32.0 KiB, ulimit -l)"));
    memset(blocks[2], 1, 1); // it can be used all the same
    memory.release(memory.user, blocks[0]);
    assert_int_equal(pinned.locked, 4 * 4096);
    assert_false(rungi_pinned_is(&pinned, blocks[0]));
    assert_ok(memory.allocate(memory.user, 4096, &blocks[0]));
    assert_true(rungi_pinned_is(&pinned, blocks[0]));
    for (int i = 0; i < 3; i++)
        memory.release(memory.user, blocks[i]);
    assert_int_equal(pinned.locked + pinned.pageable, 0);
    assert_int_equal(log.notices, 1); // told once
    rungi_pinned_fini(&pinned);
    rung_context_destroy(&context);
}

// data.pin_limit alone.
static void the_limit_of_the_configuration(void **state)
{
    test_log log;
    rungi_pinned pinned;
    void *block;
    rung_context *context = test_context(&log, NULL);
    (void)state;
    rungi_pinned_init(&pinned, context, 0);
    rung_loader_memory memory = rungi_pinned_memory(&pinned);
    assert_ok(memory.allocate(memory.user, 100, &block));
    assert_false(rungi_pinned_is(&pinned, block));
    assert_int_equal(log.notices, 1);
    memory.release(memory.user, block);
    rungi_pinned_fini(&pinned);
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(above_the_cap_memory_is_pageable),
        cmocka_unit_test(the_limit_of_the_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
