// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
#include "testing.h"

#include <signal.h>

#include "base/context.h"
#include "base/error.h"
#include "base/fake_clock.h"

static rung_status succeed(void *arg)
{
    *(int *)arg = 7;
    return RUNG_OK;
}

static rung_status fail_with_record(void *arg)
{
    return RUNG_FAIL(RUNG_DATA, "sample %d is damaged", *(int *)arg);
}

static rung_status fail_silently(void *arg)
{
    (void)arg;
    return RUNG_IO;
}

static void join_takes_over_status_and_record(void **state)
{
    (void)state;
    int value = 0, sample = 37;
    rungi_thread threads[3] = {{0}};
    assert_ok(rungi_thread_start(&threads[0], "succeed", succeed, &value));
    assert_ok(
        rungi_thread_start(&threads[1], "a name longer than fifteen", fail_with_record, &sample));
    assert_ok(rungi_thread_start(&threads[2], "silent", fail_silently, NULL));
    assert_ok(rungi_thread_join(&threads[0]));
    assert_int_equal(value, 7);
    rung_error_clear();
    assert_fails(RUNG_DATA, "sample 37 is damaged", rungi_thread_join(&threads[1]));
    assert_non_null(strstr(rung_error_last()->file, "thread_test.c"));
    assert_fails(RUNG_IO, "without saying why", rungi_thread_join(&threads[2]));
    assert_ok(rungi_thread_join(&threads[1]));
    rungi_thread never = {0};
    assert_ok(rungi_thread_join(&never));
}

static rung_status read_mask(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
    return RUNG_OK;
}

static void threads_leave_signals_to_the_program(void **state)
{
    (void)state;
    sigset_t mask, own;
    rungi_thread thread = {0};
    assert_ok(rungi_thread_start(&thread, "mask", read_mask, &mask));
    assert_ok(rungi_thread_join(&thread));
    assert_true(sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM));
    assert_false(sigismember(&mask, SIGSEGV) || sigismember(&mask, SIGPROF));
    pthread_sigmask(SIG_SETMASK, NULL, &own);
    assert_false(sigismember(&own, SIGINT));
}

typedef struct gate {
    rungi_mutex mutex;
    rungi_cond cond;
    const rung_clock *clock;
    int64_t deadline;
    bool open;
} gate;

static void gate_init(gate *g, const rung_clock *clock, int64_t deadline)
{
    *g = (gate){.clock = clock, .deadline = deadline};
    rungi_mutex_init(&g->mutex);
    rungi_cond_init(&g->cond);
}

static void gate_fini(gate *g)
{
    rungi_cond_fini(&g->cond);
    rungi_mutex_fini(&g->mutex);
}

static rung_status gate_pass(void *arg)
{
    gate *g = arg;
    rung_status status = RUNG_OK;
    rungi_mutex_lock(&g->mutex);
    while (!g->open && status == RUNG_OK)
        if (!rungi_cond_wait_until(&g->cond, &g->mutex, g->clock, g->deadline))
            status = RUNG_FAIL(RUNG_TIMEOUT, "the gate stayed shut");
    rungi_mutex_unlock(&g->mutex);
    return status;
}

static void gate_open(gate *g)
{
    rungi_mutex_lock(&g->mutex);
    g->open = true;
    rungi_cond_broadcast(&g->cond);
    rungi_mutex_unlock(&g->mutex);
}

static void waits_end_by_waking_or_by_deadline(void **state)
{
    (void)state;
    gate g;
    gate_init(&g, rungi_clock_monotonic(), rungi_deadline(rungi_clock_monotonic(), 1000000));
    assert_fails(RUNG_TIMEOUT, "stayed shut", gate_pass(&g));
    g.deadline = INT64_MAX;
    rungi_thread thread = {0};
    assert_ok(rungi_thread_start(&thread, "gate", gate_pass, &g));
    gate_open(&g);
    assert_ok(rungi_thread_join(&thread));
    gate_fini(&g);
}

static void waits_follow_an_injected_clock(void **state)
{
    (void)state;
    rungi_fake_clock fake;
    rungi_fake_clock_init(&fake, false);
    gate g;
    gate_init(&g, &fake.clock, 3600000000000);
    rungi_thread thread = {0};
    assert_ok(rungi_thread_start(&thread, "gate", gate_pass, &g));
    rungi_fake_clock_advance(&fake, 3599999999999);
    gate_open(&g);
    assert_ok(rungi_thread_join(&thread));
    g.open = false;
    assert_ok(rungi_thread_start(&thread, "gate", gate_pass, &g));
    rungi_fake_clock_advance(&fake, 1);
    assert_fails(RUNG_TIMEOUT, "stayed shut", rungi_thread_join(&thread));
    gate_fini(&g);
    rungi_fake_clock_fini(&fake);
}

static rung_status sleep_an_hour(void *arg)
{
    const rung_clock *clock = arg;
    clock->sleep(clock->user, 3600000000000);
    return RUNG_OK;
}

static void fake_sleep_waits_for_the_advance(void **state)
{
    (void)state;
    rungi_fake_clock fake;
    rungi_fake_clock_init(&fake, false);
    rungi_thread threads[2] = {{0}};
    for (int i = 0; i < 2; i++)
        assert_ok(rungi_thread_start(&threads[i], "sleeper", sleep_an_hour, &fake.clock));
    assert_true(rungi_fake_clock_await_sleepers(&fake, 2));
    rungi_fake_clock_advance(&fake, 3599999999999);
    assert_true(rungi_fake_clock_await_sleepers(&fake, 2));
    rungi_fake_clock_advance(&fake, 1);
    for (int i = 0; i < 2; i++)
        assert_ok(rungi_thread_join(&threads[i]));
    assert_int_equal(fake.sleepers, 0);
    rungi_fake_clock_fini(&fake);
}

static void automatic_clock_moves_by_sleeping(void **state)
{
    (void)state;
    rungi_fake_clock fake;
    rungi_fake_clock_init(&fake, true);
    rung_context *context = NULL;
    assert_ok(rung_context_create(&(rung_context_options){.clock = &fake.clock}, &context));
    assert_int_equal(rungi_now(context), 0);
    rungi_sleep(context, 5000000000);
    rungi_sleep(context, -1);
    assert_int_equal(rungi_now(context), 5000000000);
    assert_int_equal(rungi_deadline(&fake.clock, INT64_MAX), INT64_MAX);
    rung_context_destroy(&context);
    rungi_fake_clock_fini(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(join_takes_over_status_and_record),
        cmocka_unit_test(threads_leave_signals_to_the_program),
        cmocka_unit_test(waits_end_by_waking_or_by_deadline),
        cmocka_unit_test(waits_follow_an_injected_clock),
        cmocka_unit_test(fake_sleep_waits_for_the_advance),
        cmocka_unit_test(automatic_clock_moves_by_sleeping),
    };
    return RUN_TESTS(tests);
}
