// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
#include "testing.h"

#include <stdatomic.h>

#include "base/context.h"
#include "base/error.h"
#include "device/device.h"

typedef struct slow_clock {
    atomic_llong now;
} slow_clock;

static int64_t slow_now(void *user)
{
    return atomic_load(&((slow_clock *)user)->now);
}

static void slow_sleep(void *user, int64_t nanoseconds)
{
    atomic_fetch_add(&((slow_clock *)user)->now, nanoseconds);
}

static void names_and_caps(void **state)
{
    (void)state;
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    rung_device *device;
    assert_fails(RUNG_NO_DEVICE, "'gpu:0'", rung_device_create(context, "gpu:0", NULL, &device));
    assert_fails(RUNG_NO_DEVICE, "'cpu:-1'", rung_device_create(context, "cpu:-1", NULL, &device));
    assert_fails(RUNG_NO_DEVICE, "'cpu:1x'", rung_device_create(context, "cpu:1x", NULL, &device));
    rung_device_options options = {.memory_cap = 1000};
    assert_ok(rung_device_create(context, "cpu:3", &options, &device));
    void *a, *b;
    assert_ok(rung_device_alloc(device, 600, "a", &a));
    assert_int_equal((uintptr_t)a % 64, 0);
    assert_fails(RUNG_NO_MEMORY,
                 "asked for 500 B, live 600 B, cached 0 B (largest block 0 B), cap 1000 B",
                 rung_device_alloc(device, 500, "b", &b));
    assert_fails(RUNG_NO_MEMORY, "cap", rung_device_alloc(device, UINT64_MAX, "b", &b));
    rung_device_free(device, a);
    assert_ok(rung_device_alloc(device, 1000, "b", &b));
    rung_memory_stats memory = rung_device_memory(device);
    assert_int_equal(memory.live, 1000);
    assert_int_equal(memory.peak_live, 1000);
    assert_int_equal(memory.allocations, 2);
    rung_device_free(device, b);
    rung_device_memory_reset_peak(device);
    assert_int_equal(rung_device_memory(device).peak_live, 0);
    rung_device_destroy(&device);
    rung_context_destroy(&context);
}

static rung_status append(void *arg)
{
    int *values = arg;
    int count = values[0];
    values[count + 1] = count + 1;
    values[0] = count + 1;
    return RUNG_OK;
}

static rung_status fail_work(void *arg)
{
    (void)arg;
    return RUNG_FAIL(RUNG_INTERNAL, "the work failed");
}

static void run_in_order(bool async)
{
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    rung_device *device;
    assert_ok(
        rung_device_create(context, "cpu:0", &(rung_device_options){.async = async}, &device));
    rung_stream *stream;
    assert_ok(rung_stream_create(device, &stream));
    int values[2002] = {0};
    for (int i = 0; i < 2000; i++)
        assert_ok(rungi_stream_submit(stream, RUNGI_WORK_OP, append, values));
    assert_ok(rung_stream_sync(stream));
    assert_int_equal(values[0], 2000);
    for (int i = 0; i < 2000; i++)
        assert_int_equal(values[i + 1], i + 1);

    rung_status status = rungi_stream_submit(stream, RUNGI_WORK_OP, fail_work, NULL);
    if (async) {
        assert_ok(status);
        rungi_stream_submit(stream, RUNGI_WORK_OP, append, values); // skipped
        assert_fails(RUNG_INTERNAL, "the work failed", rung_stream_sync(stream));
        assert_int_equal(values[0], 2000);
    } else {
        assert_int_equal(status, RUNG_INTERNAL);
    }
    values[0] = 0;
    assert_ok(rungi_stream_submit(stream, RUNGI_WORK_OP, append, values));
    assert_ok(rung_stream_sync(stream));
    assert_int_equal(values[0], 1);
    rung_stream_destroy(&stream);
    rung_device_destroy(&device);
    rung_context_destroy(&context);
}

static void inline_runs_in_order(void **state)
{
    (void)state;
    run_in_order(false);
}

static void async_runs_in_order(void **state)
{
    (void)state;
    run_in_order(true);
}

// Case C17: a ring of two slots whose copies take 5 ms; a slot is written again only after the
// event behind its copy. Batch k holds the value k.
static void slot_reused_after_copy(void **state)
{
    (void)state;
    slow_clock slow = {0};
    rung_clock clock = {&slow, slow_now, slow_sleep};
    rung_context *context;
    assert_ok(rung_context_create(&(rung_context_options){.clock = &clock}, &context));
    rung_device *device;
    assert_ok(rung_device_create(
        context, "cpu:0", &(rung_device_options){.async = true, .delay_copy = 5000000}, &device));
    rung_stream *stream;
    assert_ok(rung_stream_create(device, &stream));
    enum { BATCHES = 1000, SIZE = 64 };
    static int slots[2][SIZE], arrived[BATCHES][SIZE];
    rung_event *events[2];
    assert_ok(rung_event_create(device, &events[0]));
    assert_ok(rung_event_create(device, &events[1]));
    for (int k = 0; k < BATCHES; k++) {
        rung_event_sync(events[k % 2]);
        for (int i = 0; i < SIZE; i++)
            slots[k % 2][i] = k;
        assert_ok(rung_stream_copy(stream, arrived[k], slots[k % 2], sizeof slots[0]));
        assert_ok(rung_event_record(events[k % 2], stream));
    }
    assert_ok(rung_stream_sync(stream));
    for (int k = 0; k < BATCHES; k++)
        for (int i = 0; i < SIZE; i++)
            assert_int_equal(arrived[k][i], k);
    assert_true(atomic_load(&slow.now) == (long long)BATCHES * 5000000);
    rung_event_destroy(&events[0]);
    rung_event_destroy(&events[1]);
    rung_stream_destroy(&stream);
    rung_device_destroy(&device);
    rung_context_destroy(&context);
}

static rung_status store_one(void *arg)
{
    *(int *)arg = 1;
    return RUNG_OK;
}

static rung_status copy_flag(void *arg)
{
    int *flags = arg;
    flags[1] = flags[0];
    return RUNG_OK;
}

static void event_orders_streams(void **state)
{
    (void)state;
    rung_context *context;
    assert_ok(rung_context_create(NULL, &context));
    rung_device *device;
    assert_ok(rung_device_create(context, "cpu:0", &(rung_device_options){.async = true}, &device));
    rung_stream *first, *second;
    assert_ok(rung_stream_create(device, &first));
    assert_ok(rung_stream_create(device, &second));
    rung_event *event;
    assert_ok(rung_event_create(device, &event));
    assert_true(rung_event_done(event));
    for (int i = 0; i < 200; i++) {
        int flags[2] = {0, 0};
        assert_ok(rungi_stream_submit(first, RUNGI_WORK_OP, store_one, flags));
        assert_ok(rung_event_record(event, first));
        assert_ok(rung_event_wait(event, second));
        assert_ok(rungi_stream_submit(second, RUNGI_WORK_OP, copy_flag, flags));
        assert_ok(rung_stream_sync(second));
        assert_int_equal(flags[1], 1);
    }
    rung_event_destroy(&event);
    rung_stream_destroy(&first);
    rung_stream_destroy(&second);
    rung_device_destroy(&device);
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_caps),       cmocka_unit_test(inline_runs_in_order),
        cmocka_unit_test(async_runs_in_order),  cmocka_unit_test(slot_reused_after_copy),
        cmocka_unit_test(event_orders_streams),
    };
    return RUN_TESTS(tests);
}
