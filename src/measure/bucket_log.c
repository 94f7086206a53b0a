// SPDX-License-Identifier: Apache-2.0
#include "measure/bucket_log.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"

struct rungi_bucket_log {
    int buckets;
    rungi_bucket_sums *sums;
    rungi_bucket_span *spans; // a ring
    int64_t room, written;
    int64_t began; // of the step
    int64_t busy;  // the link was, until then
};

rung_status rungi_bucket_log_create(int buckets, int64_t spans, rungi_bucket_log **log_out)
{
    rungi_bucket_log *log = calloc(1, sizeof *log);
    RUNG_CHECK(log, RUNG_NO_MEMORY, "no memory for a log of buckets");
    log->buckets = buckets;
    log->room = spans;
    log->sums = calloc((size_t)buckets + 1, sizeof *log->sums);
    log->spans = calloc((size_t)spans, sizeof *log->spans);
    if (!log->sums || !log->spans) {
        rungi_bucket_log_destroy(&log);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a log of buckets");
    }
    *log_out = log;
    return RUNG_OK;
}

void rungi_bucket_log_destroy(rungi_bucket_log **log)
{
    if (!log || !*log)
        return;
    free((*log)->sums);
    free((*log)->spans);
    free(*log);
    *log = NULL;
}

void rungi_bucket_log_step(rungi_bucket_log *log, int64_t began)
{
    log->began = log->busy = began;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void rungi_bucket_log_add(rungi_bucket_log *log, const rungi_bucket_span *s, int64_t waited_from,
                          int64_t *from_out)
{
    double *sums = log->sums[s->bucket];
    int64_t from = later(s->started, log->busy);
    from = from < s->ended ? from : s->ended;
    int64_t seen = later(from, waited_from < s->ended ? waited_from : s->ended);
    log->busy = later(log->busy, s->ended);
    sums[RUNGI_BUCKET_COUNT] += 1;
    sums[RUNGI_BUCKET_BYTES] += (double)s->bytes;
    sums[RUNGI_BUCKET_READY] += (double)(s->ready - log->began);
    sums[RUNGI_BUCKET_STARTED] += (double)(s->started - log->began);
    sums[RUNGI_BUCKET_ENDED] += (double)(s->ended - log->began);
    sums[RUNGI_BUCKET_MOVING] += (double)(s->ended - later(s->started, s->met));
    sums[RUNGI_BUCKET_HIDDEN] += (double)(seen - from);
    sums[RUNGI_BUCKET_EXPOSED] += (double)(s->ended - seen);
    log->spans[log->written++ % log->room] = *s;
    *from_out = from;
}

int rungi_bucket_log_buckets(const rungi_bucket_log *log)
{
    return log->buckets;
}

const rungi_bucket_sums *rungi_bucket_log_sums(const rungi_bucket_log *log)
{
    return (const rungi_bucket_sums *)log->sums;
}

int64_t rungi_bucket_log_count(const rungi_bucket_log *log)
{
    return log->written < log->room ? log->written : log->room;
}

rungi_bucket_span rungi_bucket_log_span(const rungi_bucket_log *log, int64_t index)
{
    return log->spans[(log->written - rungi_bucket_log_count(log) + index) % log->room];
}

double rungi_bus_bandwidth(double bytes, double nanoseconds, int ranks, bool reduce)
{
    double factor = reduce ? 1 : 2 * (ranks - 1.0) / ranks;
    return nanoseconds > 0 ? bytes / nanoseconds * factor : NAN;
}
