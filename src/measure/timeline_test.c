// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
#include "testing.h"

#include <stdatomic.h>

#include "device/device.h"
#include "measure/timeline.h"

typedef struct hand_clock {
    atomic_llong now;
} hand_clock;

static int64_t hand_now(void *user)
{
    return atomic_load(&((hand_clock *)user)->now);
}

static void hand_sleep(void *user, int64_t nanoseconds)
{
    atomic_fetch_add(&((hand_clock *)user)->now, nanoseconds);
}

typedef struct scene {
    hand_clock hand;
    rung_clock clock;
    rung_context *context;
    rungi_timeline *timeline;
} scene;

static void set_up(scene *s, int64_t spans)
{
    atomic_store(&s->hand.now, 1000);
    s->clock = (rung_clock){&s->hand, hand_now, hand_sleep};
    assert_ok(rung_context_create(&(rung_context_options){.clock = &s->clock}, &s->context));
    assert_ok(rungi_timeline_create(s->context, spans, false, &s->timeline));
}

static void tear_down(scene *s)
{
    rungi_timeline_destroy(&s->timeline);
    rung_context_destroy(&s->context);
}

static int64_t total(const rungi_breakdown *b)
{
    int64_t sum = 0;
    for (int c = 0; c < RUNGI_CATEGORIES; c++)
        sum += b->ns[c];
    return sum;
}

static void one_queue(void **state)
{
    (void)state;
    scene s;
    set_up(&s, 16);
    static const struct {
        rungi_category category;
        int64_t ns;
    } parts[] = {{RUNGI_TIME_WAIT, 5},
                 {RUNGI_TIME_FORWARD, 20},
                 {RUNGI_TIME_BACKWARD, 40},
                 {RUNGI_TIME_OPTIMIZER, 7}};
    for (int64_t step = 0; step < 5; step++) {
        for (int i = 0; i < 4; i++) {
            rungi_timeline_begin(s.timeline, RUNGI_QUEUE_HOST, parts[i].category, step);
            hand_sleep(&s.hand, parts[i].ns + step);
        }
        rungi_timeline_end(s.timeline, RUNGI_QUEUE_HOST);
        hand_sleep(&s.hand, 3); // nobody says what this is
        rungi_timeline_mark(s.timeline, step);
        rungi_breakdown b;
        assert_true(rungi_timeline_step(s.timeline, step, &b));
        for (int i = 0; i < 4; i++)
            assert_int_equal(b.ns[parts[i].category], parts[i].ns + step);
        assert_int_equal(b.ns[RUNGI_TIME_OTHER], 3);
        assert_int_equal(total(&b), b.end - b.begin);
    }
    rungi_breakdown b;
    assert_false(rungi_timeline_step(s.timeline, 0, &b)); // overwritten
    assert_false(rungi_timeline_step(s.timeline, 9, &b)); // never marked
    tear_down(&s);
}

// Copy behind compute is hidden; when compute is idle the copy is what is waited for; when nothing
// is busy, what the host says counts.
static void precedence(void **state)
{
    (void)state;
    scene s;
    set_up(&s, 16);
    rungi_timeline *t = s.timeline;
    rungi_timeline_begin(t, RUNGI_QUEUE_HOST, RUNGI_TIME_WAIT, 0);
    hand_sleep(&s.hand, 4); // host waits for data
    rungi_timeline_begin(t, RUNGI_QUEUE_COPY, RUNGI_TIME_COPY, 0);
    hand_sleep(&s.hand, 6); // copy, compute idle
    rungi_timeline_begin(t, RUNGI_QUEUE_COMPUTE, RUNGI_TIME_FORWARD, 0);
    hand_sleep(&s.hand, 10); // copy hidden behind compute
    rungi_timeline_end(t, RUNGI_QUEUE_COPY);
    hand_sleep(&s.hand, 10);
    rungi_timeline_begin(t, RUNGI_QUEUE_COMPUTE, RUNGI_TIME_BACKWARD, 0);
    rungi_timeline_begin(t, RUNGI_QUEUE_EXCHANGE, RUNGI_TIME_EXCHANGE, 0);
    hand_sleep(&s.hand, 30); // exchange hidden
    rungi_timeline_end(t, RUNGI_QUEUE_COMPUTE);
    hand_sleep(&s.hand, 8); // exchange exposed
    rungi_timeline_end(t, RUNGI_QUEUE_EXCHANGE);
    rungi_timeline_mark(t, 0);
    rungi_breakdown b;
    assert_true(rungi_timeline_step(t, 0, &b));
    assert_int_equal(b.ns[RUNGI_TIME_WAIT], 4);
    assert_int_equal(b.ns[RUNGI_TIME_COPY], 6);
    assert_int_equal(b.ns[RUNGI_TIME_FORWARD], 20);
    assert_int_equal(b.ns[RUNGI_TIME_BACKWARD], 30);
    assert_int_equal(b.ns[RUNGI_TIME_EXCHANGE], 8);
    assert_int_equal(b.hidden[RUNGI_TIME_COPY], 10);
    assert_int_equal(b.hidden[RUNGI_TIME_EXCHANGE], 30);
    assert_int_equal(total(&b), b.end - b.begin);
    tear_down(&s);
}

// What is under way between ranks is hidden while the rank computes; while it waits for that the
// same time is exchange, once.
static void link_behind_compute(void **state)
{
    (void)state;
    scene s;
    rungi_span busy;
    set_up(&s, 16);
    rungi_timeline *t = s.timeline;
    rungi_timeline_begin(t, RUNGI_QUEUE_COMPUTE, RUNGI_TIME_BACKWARD, 0);
    assert_true(rungi_timeline_busy(t, RUNGI_QUEUE_COMPUTE, &busy));
    assert_int_equal(busy.category, RUNGI_TIME_BACKWARD);
    assert_false(rungi_timeline_busy(t, RUNGI_QUEUE_COPY, &busy));
    hand_sleep(&s.hand, 40);
    rungi_timeline_end(t, RUNGI_QUEUE_COMPUTE);
    rungi_timeline_begin(t, RUNGI_QUEUE_EXCHANGE, RUNGI_TIME_EXCHANGE, 0);
    hand_sleep(&s.hand, 20);
    int64_t now = atomic_load(&s.hand.now);
    rungi_timeline_add(t, RUNGI_QUEUE_LINK,
                       &(rungi_span){now - 50, now - 30, RUNGI_TIME_EXCHANGE, 0});
    rungi_timeline_add(t, RUNGI_QUEUE_LINK,
                       &(rungi_span){now - 25, now - 5, RUNGI_TIME_EXCHANGE, 0});
    rungi_timeline_end(t, RUNGI_QUEUE_EXCHANGE);
    rungi_timeline_mark(t, 0);
    rungi_breakdown b;
    assert_true(rungi_timeline_step(t, 0, &b));
    assert_int_equal(b.ns[RUNGI_TIME_BACKWARD], 40);
    assert_int_equal(b.ns[RUNGI_TIME_EXCHANGE], 20);
    assert_int_equal(b.hidden[RUNGI_TIME_EXCHANGE], 25);
    assert_int_equal(total(&b), b.end - b.begin);
    tear_down(&s);
}

static rung_status nothing(void *arg)
{
    (void)arg;
    return RUNG_OK;
}

// Case C87: an asynchronous device takes 10 ms for each operation. The host only submits; the time
// is charged to the phase and the step in which the device spent it.
static void asynchronous_device(void **state)
{
    (void)state;
    scene s;
    set_up(&s, 64);
    rung_device *device;
    rung_stream *stream;
    assert_ok(rung_device_create(
        s.context, "cpu:0", &(rung_device_options){.async = true, .delay_op = 10000000}, &device));
    assert_ok(rung_stream_create(device, &stream));
    enum { STEPS = 4 };
    static rungi_timeline_work works[STEPS][4];
    for (int64_t step = 0; step < STEPS; step++) {
        rungi_timeline_work *w = works[step];
        w[0] = (rungi_timeline_work){s.timeline, RUNGI_QUEUE_COMPUTE, RUNGI_TIME_FORWARD, step};
        w[1] = (rungi_timeline_work){s.timeline, RUNGI_QUEUE_COMPUTE, RUNGI_TIME_BACKWARD, step};
        w[2] = w[3] = w[1];
        assert_ok(rungi_stream_submit(stream, RUNGI_WORK_MARK, rungi_timeline_begin_work, &w[0]));
        for (int i = 0; i < 2 + step; i++)
            assert_ok(rungi_stream_submit(stream, RUNGI_WORK_OP, nothing, NULL));
        assert_ok(rungi_stream_submit(stream, RUNGI_WORK_MARK, rungi_timeline_begin_work, &w[1]));
        for (int i = 0; i < 5; i++)
            assert_ok(rungi_stream_submit(stream, RUNGI_WORK_OP, nothing, NULL));
        assert_ok(rungi_stream_submit(stream, RUNGI_WORK_MARK, rungi_timeline_end_work, &w[2]));
        assert_ok(rungi_stream_submit(stream, RUNGI_WORK_MARK, rungi_timeline_mark_work, &w[3]));
    }
    assert_ok(rung_stream_sync(stream));
    for (int64_t step = 0; step < STEPS; step++) {
        rungi_breakdown b;
        assert_true(rungi_timeline_step(s.timeline, step, &b));
        assert_int_equal(b.ns[RUNGI_TIME_FORWARD], (2 + step) * 10000000);
        assert_int_equal(b.ns[RUNGI_TIME_BACKWARD], 5 * 10000000);
        assert_int_equal(total(&b), b.end - b.begin);
    }
    rung_stream_destroy(&stream);
    rung_device_destroy(&device);
    tear_down(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_queue),
        cmocka_unit_test(precedence),
        cmocka_unit_test(link_behind_compute),
        cmocka_unit_test(asynchronous_device),
    };
    return RUN_TESTS(tests);
}
