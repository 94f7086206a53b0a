// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
#include "testing.h"

#include <sched.h>
#include <unistd.h>

#include "base/context.h"
#include "base/fake_clock.h"
#include "comm/comm_testing.h"
#include "comm/rank_threads.h"
#include "comm/recorder.h"

static const int64_t SECOND = 1000000000;

// What a rank got, and what it gets from then on.
static void assert_rank(const rank_thread *t, rung_status status, const char *text)
{
    if (t->status != status || !strstr(t->error.message, text))
        fail_msg("got %s (%s), expected %s with \"%s\"", rung_status_text(t->status),
                 t->error.message, rung_status_text(status), text);
}

static rung_status stays_broken(rungi_comm *comm, rung_status status)
{
    rung_error first = *rung_error_last();
    RUNG_CHECK(rungi_comm_barrier(comm, "later") == first.status &&
                   strcmp(rung_error_last()->message, first.message) == 0,
               RUNG_GATE, "a broken communicator says something else: %s",
               rung_error_last()->message);
    float value = 1;
    rungi_comm_call *call;
    RUNG_CHECK(rungi_comm_start_all_reduce(comm, &value, 1, RUNG_F32, RUNGI_COMM_SUM, "later",
                                           &call) == first.status,
               RUNG_GATE, "a broken communicator starts calls");
    RUNG_CHECK(rungi_comm_progress(comm) == first.status, RUNG_GATE, "it makes progress");
    rungi_fail_adopt(&first);
    return status;
}

// ---- different calls --------------------------------------------------------------------------

static rung_status other_call(rungi_comm *comm, void *arg)
{
    (void)arg;
    float data[100] = {0};
    RUNG_TRY(rungi_comm_barrier(comm, "start"));
    if (rungi_comm_rank(comm) == 1)
        return stays_broken(comm, rungi_comm_barrier(comm, "epoch"));
    return stays_broken(
        comm, rungi_comm_all_reduce(comm, data, 100, RUNG_F32, RUNGI_COMM_SUM, "gradients"));
}

static rung_status other_count(rungi_comm *comm, void *arg)
{
    (void)arg;
    float data[100] = {0};
    return rungi_comm_all_reduce(comm, data, rungi_comm_rank(comm) == 2 ? 99 : 100, RUNG_F32,
                                 RUNGI_COMM_SUM, "gradients");
}

static rung_status other_label(rungi_comm *comm, void *arg)
{
    (void)arg;
    return rungi_comm_barrier(comm, rungi_comm_rank(comm) == 0 ? "save" : "evaluate");
}

static rung_status other_bytes(rungi_comm *comm, void *arg)
{
    (void)arg;
    char data[8] = "";
    return rungi_comm_rank(comm) == 0 ? rungi_comm_send(comm, data, 8, 1, "activations")
                                      : rungi_comm_receive(comm, data, 7, 0, "activations");
}

static void different_calls_are_told_with_both(void **state)
{
    (void)state;
    rank_thread t[3];
    assert_ok(rank_threads_start(t, 2, NULL, other_call, NULL));
    rank_threads_join(t, 2);
    for (int i = 0; i < 2; i++) {
        assert_rank(&t[i], RUNG_MISMATCH, "all-reduce #2 \"gradients\" of 100 f32 (sum)");
        assert_rank(&t[i], RUNG_MISMATCH, "rank 1 calls barrier #2 \"epoch\"");
    }
    assert_string_equal(t[0].error.message, t[1].error.message);

    assert_ok(rank_threads_start(t, 3, NULL, other_count, NULL));
    rank_threads_join(t, 3);
    for (int i = 0; i < 3; i++) {
        assert_rank(&t[i], RUNG_MISMATCH, "of 100 f32");
        assert_rank(&t[i], RUNG_MISMATCH, "rank 2 calls all-reduce #1 \"gradients\" of 99 f32");
    }
    assert_ok(rank_threads_start(t, 2, NULL, other_label, NULL));
    rank_threads_join(t, 2);
    assert_rank(&t[0], RUNG_MISMATCH, "barrier #1 \"save\"");
    assert_rank(&t[1], RUNG_MISMATCH, "barrier #1 \"evaluate\"");

    assert_ok(rank_threads_start(t, 2, NULL, other_bytes, NULL));
    rank_threads_join(t, 2);
    for (int i = 0; i < 2; i++) {
        assert_rank(&t[i], RUNG_MISMATCH, "send #1 \"activations\" of 8 bytes to rank 1");
        assert_rank(&t[i], RUNG_MISMATCH, "receive #1 \"activations\" of 7 bytes from rank 0");
    }
}

// ---- time -------------------------------------------------------------------------------------

typedef struct timed {
    rungi_fake_clock clock;
    rung_context *context;
    rungi_comm_options options;
    rungi_word arrived, go, ended;
} timed;

static void timed_init(timed *t)
{
    *t = (timed){0};
    rungi_fake_clock_init(&t->clock, false);
    rungi_fake_clock_advance(&t->clock, SECOND);
    assert_ok(rung_context_create(&(rung_context_options){.clock = &t->clock.clock}, &t->context));
    t->options = (rungi_comm_options){.context = t->context, .timeout = 5 * SECOND};
}

static void timed_fini(timed *t)
{
    rung_context_destroy(&t->context);
    rungi_fake_clock_fini(&t->clock);
}

// Moves the clock on in small steps.
static void pass(timed *t, int64_t nanoseconds)
{
    for (int64_t passed = 0; passed < nanoseconds; passed += SECOND / 5) {
        rungi_fake_clock_advance(&t->clock, SECOND / 5);
        usleep(1500);
    }
}

// Moves it on until so many ranks have ended their wait, however late they are to look at it.
static void pass_until_ended(timed *t, uint64_t ranks)
{
    while (atomic_load(&t->ended) < ranks)
        pass(t, SECOND);
}

static rung_status ended(timed *t, rung_status status)
{
    atomic_fetch_add(&t->ended, 1);
    return status;
}

static void await(rungi_word *word, uint64_t value)
{
    while (atomic_load(word) < value)
        usleep(100);
}

static rung_status missing_rank(rungi_comm *comm, void *arg)
{
    timed *t = arg;
    RUNG_TRY(rungi_comm_barrier(comm, "step"));
    atomic_fetch_add(&t->arrived, 1);
    if (rungi_comm_rank(comm) == 1)
        await(&t->go, 1);
    return ended(t, rungi_comm_barrier(comm, "checkpoint"));
}

static void a_rank_that_does_not_come_is_named(void **state)
{
    (void)state;
    timed t;
    timed_init(&t);
    rank_thread threads[3];
    assert_ok(rank_threads_start(threads, 3, &t.options, missing_rank, &t));
    await(&t.arrived, 3);
    pass_until_ended(&t, 2);
    rungi_thread_join(&threads[0].thread);
    rungi_thread_join(&threads[2].thread);
    atomic_store(&t.go, 1);
    rungi_thread_join(&threads[1].thread);
    for (int i = 0; i < 3; i++) {
        assert_rank(&threads[i], RUNG_TIMEOUT, "barrier #2 \"checkpoint\"");
        assert_rank(&threads[i], RUNG_TIMEOUT,
                    "present: 0, 2; missing: 1; "
                    "rank 1's last call: barrier #1 \"step\": done in");
    }
    timed_fini(&t);
}

static rung_status busy_rank(rungi_comm *comm, void *arg)
{
    timed *t = arg;
    int rank = rungi_comm_rank(comm);
    if (rank == 0)
        rungi_comm_busy(comm, "save");
    atomic_fetch_add(&t->arrived, 1);
    if (rank == 0) {
        await(&t->go, 1);
        rungi_comm_busy(comm, NULL);
        await(&t->go, 2);
    }
    return ended(t, rungi_comm_barrier(comm, "saved"));
}

static void busy_again(timed *t)
{
    atomic_store(&t->arrived, 0);
    atomic_store(&t->go, 0);
    atomic_store(&t->ended, 0);
}

static void a_long_save_does_not_trip_the_limit(void **state)
{
    (void)state;
    timed t;
    timed_init(&t);
    rank_thread threads[2];
    assert_ok(rank_threads_start(threads, 2, &t.options, busy_rank, &t));
    await(&t.arrived, 2);
    pass(&t, 20 * SECOND);
    atomic_store(&t.go, 2);
    rank_threads_join(threads, 2);
    assert_rank(&threads[0], RUNG_OK, "");
    assert_rank(&threads[1], RUNG_OK, "");

    // What is not over when the work is counts again.
    busy_again(&t);
    assert_ok(rank_threads_start(threads, 2, &t.options, busy_rank, &t));
    await(&t.arrived, 2);
    pass(&t, 20 * SECOND);
    atomic_store(&t.go, 1);
    pass_until_ended(&t, 1);
    rungi_thread_join(&threads[1].thread);
    atomic_store(&t.go, 2);
    rungi_thread_join(&threads[0].thread);
    assert_rank(&threads[1], RUNG_TIMEOUT, "missing: 0");

    // And work of its own has an end, too.
    busy_again(&t);
    t.options.busy_timeout = 30 * SECOND;
    assert_ok(rank_threads_start(threads, 2, &t.options, busy_rank, &t));
    await(&t.arrived, 2);
    pass_until_ended(&t, 1);
    rungi_thread_join(&threads[1].thread);
    atomic_store(&t.go, 2);
    rungi_thread_join(&threads[0].thread);
    assert_rank(&threads[1], RUNG_TIMEOUT, "missing: 0");
    timed_fini(&t);
}

static void an_injected_link_has_its_time(void **state)
{
    (void)state;
    timed t;
    timed_init(&t);
    t.options.delay = 1000;
    t.options.delay_byte = 2;
    rungi_comm *comm;
    assert_ok(rungi_comm_local_create(1, &t.options, &comm));
    float data[10] = {0};
    rungi_comm_call *a, *b;
    assert_ok(
        rungi_comm_start_all_reduce(comm, data, 5, RUNG_F32, RUNGI_COMM_SUM, "a", &a)); // 1,040
    assert_ok(rungi_comm_start_all_reduce(comm, data + 5, 5, RUNG_F32, RUNGI_COMM_SUM, "b", &b));
    rungi_fake_clock_advance(&t.clock, 1039);
    assert_ok(rungi_comm_progress(comm));
    assert_false(rungi_comm_done(comm, a));
    rungi_fake_clock_advance(&t.clock, 1);
    assert_true(rungi_comm_done(comm, a));
    assert_false(rungi_comm_done(comm, b));
    rungi_fake_clock_advance(&t.clock, 1039);
    assert_false(rungi_comm_done(comm, b));
    rungi_fake_clock_advance(&t.clock, 500);
    assert_true(rungi_comm_done(comm, b));
    rungi_comm_times times;
    assert_ok(rungi_comm_finish(comm, &b, &times));
    assert_int_equal(times.ended - times.started, 2080);
    assert_int_equal(times.bytes, 20);
    assert_ok(rungi_comm_finish(comm, &a, NULL));
    rungi_comm_destroy(&comm);
    timed_fini(&t);
}

// ---- ranks that fail or leave -----------------------------------------------------------------

enum { MANY = 1 << 20 };

// Rank `arg` fails at some time while calls on large data are under way; everybody frees its data
// at once.
static rung_status failing_rank(rungi_comm *comm, void *arg)
{
    rung_status status = RUNG_OK;
    rungi_comm_call *call = NULL;
    for (int i = 0; status == RUNG_OK; i++) {
        float *data = calloc(MANY, sizeof *data), *more = calloc(MANY, sizeof *more);
        if (!data || !more)
            status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory");
        if (status == RUNG_OK)
            status = rungi_comm_start_all_reduce(comm, more, MANY, RUNG_F32, RUNGI_COMM_SUM, "more",
                                                 &call);
        if (status == RUNG_OK)
            status = rungi_comm_all_reduce(comm, data, MANY, RUNG_F32, RUNGI_COMM_SUM, "gradients");
        if (status == RUNG_OK && i == 3 && rungi_comm_rank(comm) == *(int *)arg) {
            status = RUNG_FAIL(RUNG_DATA, "sample 7: cannot be read");
            rungi_comm_fail(comm);
        }
        if (status == RUNG_OK)
            status = rungi_comm_finish(comm, &call, NULL);
        free(data);
        free(more);
    }
    return status;
}

static void a_failing_rank_is_told_to_all(void **state)
{
    (void)state;
    for (int failing = 0; failing < 4; failing++) {
        rank_thread t[4];
        assert_ok(rank_threads_start(t, 4, NULL, failing_rank, &failing));
        rank_threads_join(t, 4);
        char text[64];
        snprintf(text, sizeof text, "rank %d failed: sample 7: cannot be read", failing);
        for (int i = 0; i < 4; i++) {
            if (i == failing)
                assert_rank(&t[i], RUNG_DATA, "sample 7: cannot be read");
            else
                assert_rank(&t[i], RUNG_CANCELLED, text);
        }
    }
}

static rung_status leaving_rank(rungi_comm *comm, void *arg)
{
    RUNG_TRY(rungi_comm_barrier(comm, "step"));
    if (rungi_comm_rank(comm) == *(int *)arg)
        return RUNG_OK;
    return rungi_comm_barrier(comm, "checkpoint");
}

static void a_leaving_rank_is_told_to_those_that_wait(void **state)
{
    (void)state;
    int leaving = 2;
    rank_thread t[3];
    assert_ok(rank_threads_start(t, 3, NULL, leaving_rank, &leaving));
    rank_threads_join(t, 3);
    assert_rank(&t[2], RUNG_OK, "");
    for (int i = 0; i < 2; i++) {
        assert_rank(&t[i], RUNG_CANCELLED, "rank 2 has left");
        assert_rank(&t[i], RUNG_CANCELLED, "barrier #2 \"checkpoint\"");
    }
}

// Rank 1 leaves while a started call is not over.
static rung_status leaving_inside(rungi_comm *comm, void *arg)
{
    (void)arg;
    float *data = calloc(MANY, sizeof *data);
    RUNG_CHECK(data, RUNG_NO_MEMORY, "no memory");
    rungi_comm_call *call;
    rung_status status =
        rungi_comm_start_all_reduce(comm, data, MANY, RUNG_F32, RUNGI_COMM_SUM, "left", &call);
    if (status == RUNG_OK && rungi_comm_rank(comm) == 0)
        status = rungi_comm_finish(comm, &call, NULL);
    if (rungi_comm_rank(comm) == 1)
        rungi_comm_destroy(&comm);
    free(data);
    return status;
}

static void leaving_inside_of_a_call_is_a_failure(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        rungi_comm *comms[2];
        rungi_comm_options options = {0};
        assert_ok(rungi_comm_local_create(2, &options, comms));
        rank_thread t = {.comm = comms[0], .fn = leaving_inside};
        assert_ok(rungi_thread_start(&t.thread, "rank", rank_main, &t));
        assert_ok(leaving_inside(comms[1], NULL));
        rungi_thread_join(&t.thread);
        if (t.status)
            assert_rank(&t, RUNG_CANCELLED, "rank 1 left with 1 calls under way");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(different_calls_are_told_with_both),
        cmocka_unit_test(a_rank_that_does_not_come_is_named),
        cmocka_unit_test(a_long_save_does_not_trip_the_limit),
        cmocka_unit_test(an_injected_link_has_its_time),
        cmocka_unit_test(a_failing_rank_is_told_to_all),
        cmocka_unit_test(a_leaving_rank_is_told_to_those_that_wait),
        cmocka_unit_test(leaving_inside_of_a_call_is_a_failure),
    };
    return RUN_TESTS(tests);
}
