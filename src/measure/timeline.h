// SPDX-License-Identifier: Apache-2.0
// The timeline: where every instant of a training step went.
//
// Work is recorded as spans of queues (compute, communication, copy, host, loader workers), each in
// a ring allocated beforehand and written by one thread at a time. An instant has exactly one
// category: that of the highest queue that is busy then, in the order of the enum. So an instant of
// the compute queue is its phase; when that queue is idle it is what is being waited for: exchange,
// copy, or what the host says it is doing (waiting for data, optimizer, evaluation, ...). The parts
// of a step therefore add up to its duration. What ran hidden behind a higher queue is reported
// apart.
#ifndef RUNGI_MEASURE_TIMELINE_H
#define RUNGI_MEASURE_TIMELINE_H

#include <stdint.h>

#include "base/context.h"

// id, name in metrics.jsonl
#define RUNGI_CATEGORY_MAP(X)   \
    X(WAIT, "wait")             \
    X(COPY, "copy")             \
    X(FORWARD, "forward")       \
    X(BACKWARD, "backward")     \
    X(EXCHANGE, "exchange")     \
    X(OPTIMIZER, "optimizer")   \
    X(EVAL, "eval")             \
    X(CHECKPOINT, "checkpoint") \
    X(OTHER, "other")

typedef enum rungi_category {
#define RUNGI_CATEGORY_ENUM(id, name) RUNGI_TIME_##id,
    RUNGI_CATEGORY_MAP(RUNGI_CATEGORY_ENUM)
#undef RUNGI_CATEGORY_ENUM
        RUNGI_CATEGORIES
} rungi_category;

const char *rungi_category_name(rungi_category category);

// In order of precedence: see above.
typedef enum rungi_queue {
    RUNGI_QUEUE_COMPUTE,
    RUNGI_QUEUE_EXCHANGE,
    RUNGI_QUEUE_COPY,
    RUNGI_QUEUE_HOST,
    RUNGI_QUEUE_LINK, // what is under way between ranks, waited for or not
    RUNGI_QUEUES
} rungi_queue;

typedef struct rungi_span {
    int64_t begin, end; // nanoseconds of the context's clock
    rungi_category category;
    int64_t step;
} rungi_span;

typedef struct rungi_breakdown {
    int64_t step;
    int64_t begin, end;           // of the step
    int64_t ns[RUNGI_CATEGORIES]; // add up to end - begin
    // Busy time of queues behind one that was at something else.
    int64_t hidden[RUNGI_CATEGORIES];
} rungi_breakdown;

typedef struct rungi_timeline rungi_timeline;

// `spans` is the room of each queue's ring; the oldest are overwritten. `off` makes every call do
// nothing but count (to measure what attribution costs).
rung_status rungi_timeline_create(rung_context *context, int64_t spans, bool off,
                                  rungi_timeline **timeline_out);
void rungi_timeline_destroy(rungi_timeline **timeline);

// From now on queue `queue` is busy with `category` for `step`; ends what it was busy with.
void rungi_timeline_begin(rungi_timeline *t, rungi_queue queue, rungi_category category,
                          int64_t step);
// From now on the queue is idle.
void rungi_timeline_end(rungi_timeline *t, rungi_queue queue);

// Adds a span that is over. The spans of a queue must be added in their order, without overlap.
void rungi_timeline_add(rungi_timeline *t, rungi_queue queue, const rungi_span *span);

// What the queue is busy with now, without an end; false: nothing. By the thread that writes it.
bool rungi_timeline_busy(const rungi_timeline *t, rungi_queue queue, rungi_span *span_out);

// The step ends now (called where its compute ends; the next one begins).
void rungi_timeline_mark(rungi_timeline *t, int64_t step);

// Where the time of a marked step went. The queues must have come to rest up to that step's end
// (the caller has waited for it). False when the step was not marked or its spans are overwritten.
bool rungi_timeline_step(const rungi_timeline *t, int64_t step, rungi_breakdown *out);

// The breakdown of any interval.
void rungi_timeline_between(const rungi_timeline *t, int64_t begin, int64_t end,
                            rungi_breakdown *out);

// Recorded spans of a queue that are still there, oldest first, for the trace.
int64_t rungi_timeline_count(const rungi_timeline *t, rungi_queue queue);
rungi_span rungi_timeline_span(const rungi_timeline *t, rungi_queue queue, int64_t index);

// The same begin/end/mark as work for a stream (rungi_stream_submit): the argument must live until
// it has run.
typedef struct rungi_timeline_work {
    rungi_timeline *timeline;
    rungi_queue queue;
    rungi_category category;
    int64_t step;
} rungi_timeline_work;

rung_status rungi_timeline_begin_work(void *arg);
rung_status rungi_timeline_end_work(void *arg);
rung_status rungi_timeline_mark_work(void *arg);

#endif
