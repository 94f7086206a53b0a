// SPDX-License-Identifier: Apache-2.0
// What became of the buckets of gradients that a rank exchanged: when each was complete, sent and
// summed, how fast, and how much of it computing hid.
//
// The bus bandwidth of a call on S bytes among n ranks is NCCL's: S / time, times 2 (n - 1) / n for
// an all-reduce and 1 for a reduce (nccl-tests, doc/PERFORMANCE.md), so that it does not depend on
// n and can be compared with what the hardware does. The time is that in which all ranks were
// there: waiting for a late rank is not the link's.
#ifndef RUNGI_MEASURE_BUCKET_LOG_H
#define RUNGI_MEASURE_BUCKET_LOG_H

#include "base/array.h"
#include "base/context.h"

typedef struct rungi_bucket_span {
    int bucket;
    int64_t step;
    uint64_t bytes;
    int64_t ready, started, met, ended; // nanoseconds of the clock; met: all ranks were there
} rungi_bucket_span;

// Sums over steps, as numbers so that ranks can add them. Times are from the beginning of the
// step's computing, in nanoseconds.
enum {
    RUNGI_BUCKET_COUNT,
    RUNGI_BUCKET_BYTES,
    RUNGI_BUCKET_READY,
    RUNGI_BUCKET_STARTED,
    RUNGI_BUCKET_ENDED,
    RUNGI_BUCKET_MOVING,  // with all ranks there
    RUNGI_BUCKET_HIDDEN,  // under way while the rank computed
    RUNGI_BUCKET_EXPOSED, // under way while it waited
    RUNGI_BUCKET_SUMS,
};
typedef double rungi_bucket_sums[RUNGI_BUCKET_SUMS];

typedef struct rungi_bucket_log rungi_bucket_log;

// A log of the last `spans` spans and of the sums of `buckets` buckets.
rung_status rungi_bucket_log_create(int buckets, int64_t spans, rungi_bucket_log **log_out);
void rungi_bucket_log_destroy(rungi_bucket_log **log);

// A step's computing begins; its spans are added in the order in which they ended.
void rungi_bucket_log_step(rungi_bucket_log *log, int64_t began);
// Adds a span. The rank computed until `waited_from`, then waited. Buckets share the link: of time
// that several were under way in, the first has it. *from_out: where its own time begins; at most
// span->ended.
void rungi_bucket_log_add(rungi_bucket_log *log, const rungi_bucket_span *span, int64_t waited_from,
                          int64_t *from_out);

int rungi_bucket_log_buckets(const rungi_bucket_log *log);
// sums[buckets]; borrowed.
const rungi_bucket_sums *rungi_bucket_log_sums(const rungi_bucket_log *log);
// The spans that are still there, oldest first.
int64_t rungi_bucket_log_count(const rungi_bucket_log *log);
rungi_bucket_span rungi_bucket_log_span(const rungi_bucket_log *log, int64_t index);

// Bus bandwidth in bytes a nanosecond (GB/s): `reduce`: the calls were reduces, else all-reduces.
// NaN where nothing was measured.
double rungi_bus_bandwidth(double bytes, double nanoseconds, int ranks, bool reduce);

#endif
