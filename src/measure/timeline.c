// SPDX-License-Identifier: Apache-2.0
#include "measure/timeline.h"

#include <stdlib.h>

#include "base/error.h"

enum { MARKS = 4096 };

typedef struct ring {
    rungi_span *spans;
    int64_t written; // spans ever
    rungi_span open; // what the queue is busy with; begin < 0: idle
} ring;

typedef struct mark {
    int64_t step, time;
} mark;

struct rungi_timeline {
    rung_context *context;
    bool off;
    int64_t room;
    ring queues[RUNGI_QUEUES];
    mark marks[MARKS]; // by step modulo MARKS
    int64_t started;
};

static const char *const names[RUNGI_CATEGORIES] = {
#define CATEGORY_NAME(id, name) name,
    RUNGI_CATEGORY_MAP(CATEGORY_NAME)
#undef CATEGORY_NAME
};

const char *rungi_category_name(rungi_category category)
{
    return names[category];
}

rung_status rungi_timeline_create(rung_context *context, int64_t spans, bool off,
                                  rungi_timeline **timeline_out)
{
    rungi_timeline *t = calloc(1, sizeof *t);
    RUNG_CHECK(t, RUNG_NO_MEMORY, "no memory for a timeline");
    t->context = context;
    t->room = spans;
    t->off = off;
    for (int i = 0; i < MARKS; i++)
        t->marks[i].step = -1;
    for (int q = 0; q < RUNGI_QUEUES; q++) {
        t->queues[q].open.begin = -1;
        t->queues[q].spans = calloc((size_t)spans, sizeof(rungi_span));
        if (!t->queues[q].spans) {
            rungi_timeline_destroy(&t);
            return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a timeline");
        }
    }
    t->started = rungi_now(context);
    *timeline_out = t;
    return RUNG_OK;
}

void rungi_timeline_destroy(rungi_timeline **timeline)
{
    if (!timeline || !*timeline)
        return;
    for (int q = 0; q < RUNGI_QUEUES; q++)
        free((*timeline)->queues[q].spans);
    free(*timeline);
    *timeline = NULL;
}

static void close_span(rungi_timeline *t, ring *r, int64_t now)
{
    if (r->open.begin < 0)
        return;
    r->open.end = now;
    r->spans[r->written++ % t->room] = r->open;
    r->open.begin = -1;
}

void rungi_timeline_begin(rungi_timeline *t, rungi_queue queue, rungi_category category,
                          int64_t step)
{
    if (t->off)
        return;
    ring *r = &t->queues[queue];
    int64_t now = rungi_now(t->context);
    close_span(t, r, now);
    r->open = (rungi_span){.begin = now, .category = category, .step = step};
}

void rungi_timeline_end(rungi_timeline *t, rungi_queue queue)
{
    if (!t->off)
        close_span(t, &t->queues[queue], rungi_now(t->context));
}

void rungi_timeline_add(rungi_timeline *t, rungi_queue queue, const rungi_span *span)
{
    ring *r = &t->queues[queue];
    if (!t->off)
        r->spans[r->written++ % t->room] = *span;
}

bool rungi_timeline_busy(const rungi_timeline *t, rungi_queue queue, rungi_span *span_out)
{
    *span_out = t->queues[queue].open;
    return !t->off && span_out->begin >= 0;
}

void rungi_timeline_mark(rungi_timeline *t, int64_t step)
{
    if (!t->off)
        t->marks[step % MARKS] = (mark){step, rungi_now(t->context)};
}

int64_t rungi_timeline_count(const rungi_timeline *t, rungi_queue queue)
{
    int64_t written = t->queues[queue].written;
    return written < t->room ? written : t->room;
}

rungi_span rungi_timeline_span(const rungi_timeline *t, rungi_queue queue, int64_t index)
{
    const ring *r = &t->queues[queue];
    int64_t first = r->written - rungi_timeline_count(t, queue);
    return r->spans[(first + index) % t->room];
}

// ---- attribution ------------------------------------------------------------------------------

// A queue's spans within an interval, walked from the newest backward.
typedef struct walker {
    const rungi_timeline *t;
    rungi_queue queue;
    int64_t at; // index of the span being looked at; count means the open one
} walker;

// The span at the walker, with an open one ending at `now`.
static bool look(const walker *w, int64_t now, rungi_span *out)
{
    const ring *r = &w->t->queues[w->queue];
    if (w->at == rungi_timeline_count(w->t, w->queue)) {
        *out = r->open;
        out->end = now;
        return r->open.begin >= 0;
    }
    *out = rungi_timeline_span(w->t, w->queue, w->at);
    return true;
}

// What a queue does at the instants just before `time`: its category or -1 (idle), and how far
// back that holds.
static int before(walker *w, int64_t time, int64_t *since)
{
    rungi_span s;
    *since = INT64_MIN;
    while (w->at >= 0) {
        if (!look(w, time, &s) || s.begin >= time) {
            w->at--;
            continue;
        }
        if (s.end < time) {
            *since = s.end;
            return -1;
        }
        *since = s.begin;
        return (int)s.category;
    }
    return -1;
}

void rungi_timeline_between(const rungi_timeline *t, int64_t begin, int64_t end,
                            rungi_breakdown *out)
{
    *out = (rungi_breakdown){.step = -1, .begin = begin, .end = end};
    walker walkers[RUNGI_QUEUES];
    for (int q = 0; q < RUNGI_QUEUES; q++)
        walkers[q] = (walker){t, (rungi_queue)q, rungi_timeline_count(t, (rungi_queue)q)};
    // From the end backward, one piece at a time in which no queue changes what it does.
    for (int64_t time = end; time > begin;) {
        int64_t from = begin;
        int busy[RUNGI_QUEUES];
        for (int q = 0; q < RUNGI_QUEUES; q++) {
            int64_t since;
            busy[q] = before(&walkers[q], time, &since);
            from = since > from ? since : from;
        }
        int first = -1;
        for (int q = 0; q < RUNGI_QUEUES; q++) {
            if (busy[q] < 0)
                continue;
            if (first < 0)
                first = busy[q];
            else if (q != RUNGI_QUEUE_HOST && busy[q] != first)
                out->hidden[busy[q]] += time - from;
        }
        out->ns[first < 0 ? RUNGI_TIME_OTHER : first] += time - from;
        time = from;
    }
}

bool rungi_timeline_step(const rungi_timeline *t, int64_t step, rungi_breakdown *out)
{
    const mark *end = &t->marks[step % MARKS];
    if (t->off || end->step != step)
        return false;
    int64_t begin = t->started;
    const mark *previous = step > 0 ? &t->marks[(step - 1) % MARKS] : NULL;
    if (previous && previous->step == step - 1)
        begin = previous->time;
    for (int q = 0; q < RUNGI_QUEUES; q++) {
        rungi_queue queue = (rungi_queue)q;
        if (t->queues[q].written > t->room && rungi_timeline_span(t, queue, 0).begin > begin)
            return false;
    }
    rungi_timeline_between(t, begin, end->time, out);
    out->step = step;
    return true;
}

// ---- as work of a stream ----------------------------------------------------------------------

rung_status rungi_timeline_begin_work(void *arg)
{
    const rungi_timeline_work *w = arg;
    rungi_timeline_begin(w->timeline, w->queue, w->category, w->step);
    return RUNG_OK;
}

rung_status rungi_timeline_end_work(void *arg)
{
    const rungi_timeline_work *w = arg;
    rungi_timeline_end(w->timeline, w->queue);
    return RUNG_OK;
}

rung_status rungi_timeline_mark_work(void *arg)
{
    const rungi_timeline_work *w = arg;
    rungi_timeline_mark(w->timeline, w->step);
    return RUNG_OK;
}
