// SPDX-License-Identifier: Apache-2.0
// The account of a device and its cache: cases C66, C90.
#include "testing.h"

#include <stdio.h>

#include "base/philox.h"
#include "device/device.h"

typedef struct world {
    rung_context *context;
    rung_device *device;
    char log[4096];
} world;

static void keep_line(void *user, rung_log_level level, const char *line)
{
    world *w = user;
    size_t used = strlen(w->log);
    if (level >= RUNG_LOG_ERROR)
        snprintf(w->log + used, sizeof w->log - used, "%s\n", line);
}

static void make(world *w, uint64_t cap)
{
    *w = (world){0};
    assert_ok(
        rung_context_create(&(rung_context_options){.log = keep_line, .log_user = w}, &w->context));
    assert_ok(rung_device_create(w->context, "cpu:2", &(rung_device_options){.memory_cap = cap},
                                 &w->device));
}

static void drop(world *w)
{
    rung_device_destroy(&w->device);
    rung_context_destroy(&w->context);
}

static void check_account(const world *w)
{
    rung_memory_stats m = rung_device_memory(w->device);
    assert_int_equal(m.active + m.cached, m.reserved);
    assert_true(m.live <= m.active && m.largest_cached <= m.cached);
    assert_true(m.peak_live >= m.live && m.peak_active >= m.active &&
                m.peak_reserved >= m.reserved);
    assert_true(!m.cap || m.peak_reserved <= m.cap);
}

static void freed_blocks_are_used_again(void **state)
{
    (void)state;
    world w;
    void *a, *b;
    make(&w, 0);
    assert_ok(rung_device_alloc(w.device, 1000, "a", &a));
    rung_device_free(w.device, a);
    rung_memory_stats m = rung_device_memory(w.device);
    assert_int_equal(m.live, 0);
    assert_int_equal(m.cached, 1000);
    assert_ok(rung_device_alloc(w.device, 800, "b", &b)); // four fifths
    assert_ptr_equal(a, b);
    m = rung_device_memory(w.device);
    assert_int_equal(m.live, 800);
    assert_int_equal(m.active, 1000);
    assert_int_equal(m.reused, 1);
    rung_device_free(w.device, b);
    assert_ok(rung_device_alloc(w.device, 799, "c", &b)); // less
    m = rung_device_memory(w.device);
    assert_int_equal(m.reserved, 1799);
    assert_int_equal(m.reused, 1);
    assert_int_equal(m.peak_live, 1000);
    check_account(&w);
    assert_int_equal(rung_device_memory_release(w.device), 1000);
    m = rung_device_memory(w.device);
    assert_int_equal(m.reserved, 799);
    assert_int_equal(m.cached, 0);
    drop(&w);
}

// C90: a second round needs no more than the first; when all is freed and the cache emptied,
// nothing is left.
static void rounds_need_the_same(void **state)
{
    (void)state;
    world w;
    uint64_t after[2];
    make(&w, 0);
    for (int round = 0; round < 2; round++) {
        void *blocks[20];
        for (int i = 0; i < 20; i++) {
            assert_ok(rung_device_alloc(w.device, (uint64_t)(i * 977 + 5), "round", &blocks[i]));
            check_account(&w);
        }
        for (int i = 0; i < 20; i++) {
            rung_device_free(w.device, blocks[(i * 7) % 20]);
            check_account(&w);
        }
        after[round] = rung_device_memory(w.device).reserved;
    }
    assert_true(after[0] > 0);
    assert_int_equal(after[0], after[1]);
    assert_int_equal(rung_device_memory_release(w.device), after[0]);
    rung_memory_stats m = rung_device_memory(w.device);
    assert_int_equal(m.live, 0);
    assert_int_equal(m.reserved, 0);
    rung_device_memory_reset_peak(w.device);
    assert_int_equal(rung_device_memory(w.device).peak_reserved, 0);
    drop(&w);
}

// C66: 2000 rounds of random sizes under a cap of 1.3 times the largest set that is live.
static void random_sizes_under_a_cap(void **state)
{
    (void)state;
    enum { BLOCKS = 6, LARGEST = 10000 };
    world w;
    void *blocks[BLOCKS] = {0};
    make(&w, (uint64_t)(1.3 * BLOCKS * LARGEST));
    rungi_random random = rungi_random_make(4, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (uint64_t i = 0; i < 2000; i++) {
        uint64_t draw = rungi_random_u64(&random, i);
        void **block = &blocks[draw % BLOCKS];
        rung_device_free(w.device, *block);
        *block = NULL;
        assert_ok(rung_device_alloc(w.device, draw / 64 % LARGEST + 1, "random", block));
        memset(*block, 1, draw / 64 % LARGEST + 1);
        check_account(&w);
    }
    rung_memory_stats m = rung_device_memory(w.device);
    assert_int_equal(m.failures, 0);
    assert_true(m.reused > 0 && m.retries > 0);
    assert_int_equal(m.allocations, 2000);
    drop(&w);
}

static void a_refusal_tells_all(void **state)
{
    (void)state;
    world w;
    void *a, *b, *c;
    make(&w, 1000);
    assert_ok(rung_device_alloc(w.device, 400, "a", &a));
    assert_ok(rung_device_alloc(w.device, 300, "b", &b));
    rung_device_free(w.device, b);
    assert_fails(RUNG_NO_MEMORY,
                 "cpu:2: no memory for c: asked for 700 B, live 400 B, cached 300 B (largest block "
                 "300 B), cap 1000 B",
                 rung_device_alloc(w.device, 700, "c", &c));
    rung_memory_stats m = rung_device_memory(w.device);
    assert_int_equal(m.live, 400);
    assert_int_equal(m.failures, 1);
    assert_int_equal(m.retries, 1); // the cache was given back first
    assert_int_equal(m.cached, 0);
    assert_ok(rung_device_alloc(w.device, 600, "c", &c));
    char *text;
    assert_ok(rung_device_memory_text(w.device, &text));
    assert_string_equal(text, "600 B c\n400 B a\n");
    free(text);
    drop(&w);
}

static void misuse_is_named(void **state)
{
    (void)state;
    world w;
    void *a, *b;
    make(&w, 0);
    assert_ok(rung_device_alloc(w.device, 100, "the mask of layer 3", &a));
    rung_device_free(w.device, a);
    rung_device_free(w.device, a);
    assert_string_equal(w.log, "cpu:2: the mask of layer 3 was freed twice\n");
    assert_int_equal(rung_device_memory(w.device).misuses, 1);
#if !defined NDEBUG && !defined __SANITIZE_ADDRESS__ // which would stop here
    ((char *)a)[50] = 1;
    assert_ok(rung_device_alloc(w.device, 100, "b", &b));
    assert_ptr_equal(a, b);
    assert_non_null(strstr(w.log, "the mask of layer 3 was written to after it was freed"));
    assert_int_equal(rung_device_memory(w.device).misuses, 2);
#else
    (void)b;
#endif
    drop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(freed_blocks_are_used_again),
        cmocka_unit_test(rounds_need_the_same),
        cmocka_unit_test(random_sizes_under_a_cap),
        cmocka_unit_test(a_refusal_tells_all),
        cmocka_unit_test(misuse_is_named),
    };
    return RUN_TESTS(tests);
}
