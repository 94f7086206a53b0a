// SPDX-License-Identifier: Apache-2.0
// What this machine can do at most, measured: arithmetic, memory, and how far apart its cores are.
#ifndef RUNGI_MEASURE_CEILINGS_H
#define RUNGI_MEASURE_CEILINGS_H

#include "base/context.h"

typedef struct rungi_ceilings {
    rung_isa isa; // of the arithmetic
    int threads;
    // Fused multiply-adds of float32 in registers, counted as two operations each, a second: with
    // one thread and with all.
    double flops[2];
    // Triad a = b + s * c over arrays far larger than the caches, 12 bytes an element (as STREAM
    // counts: the reading of a before it is written is left out), a second.
    double bytes[2];
    double round_trip; // seconds for a flag to another core and back; 0 with one thread
} rungi_ceilings;

// Measures, in about a third of a second. Errors: RUNG_NO_MEMORY.
rung_status rungi_ceilings_measure(rung_context *context, int threads, rungi_ceilings *out);

// The round trip alone, in some milliseconds. It changes while cores of a virtual machine move:
// measurements that exchange cache lines tell it before and after. 0 with one core.
rung_status rungi_round_trip_measure(rung_context *context, double *seconds_out);

// Cores that share a cache are near; those that do not are far; what lies between is neither. One
// core (0) is neither too.
static inline bool rungi_round_trip_near(double seconds)
{
    return seconds > 0 && seconds <= 200e-9;
}

static inline bool rungi_round_trip_far(double seconds)
{
    return seconds >= 400e-9;
}

// Runs `count` rounds of independent multiply-adds, 2 * RUNGI_FMA_CHAINS * lanes operations each.
// The result keeps the compiler from leaving them out.
typedef float (*rungi_fma_fn)(int64_t count);
enum { RUNGI_FMA_CHAINS = 12 }; // enough to hide the latency of two units
float rungi_fma_plain(int64_t count);
float rungi_fma_avx2(int64_t count);
float rungi_fma_avx512(int64_t count);

#endif
