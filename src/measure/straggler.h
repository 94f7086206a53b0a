// SPDX-License-Identifier: Apache-2.0
// Finds the rank that the others wait for, from what each rank's steps took: for its data and its
// computing before the exchange, and for its link: what calls took it, but for waiting for others.
//
// In each step a rank's slowness is its time over the median of the others' times. A rank is a
// straggler when its slowness was above 1.1 in three quarters of the last 20 steps and more: one
// that takes 1.2 times as long is found within 20 steps, while ranks whose times vary by a tenth
// around the same mean are not once in 10^6 steps.
#ifndef RUNGI_MEASURE_STRAGGLER_H
#define RUNGI_MEASURE_STRAGGLER_H

#include <stdbool.h>
#include <stdint.h>

enum { RUNGI_STRAGGLER_RANKS = 64, RUNGI_STRAGGLER_STEPS = 20, RUNGI_STRAGGLER_QUORUM = 16 };
#define RUNGI_STRAGGLER_RATIO 1.1

// What a rank's time went to, but for waiting for other ranks.
enum {
    RUNGI_STRAGGLER_DATA,
    RUNGI_STRAGGLER_COMPUTE,
    RUNGI_STRAGGLER_LINK,
    RUNGI_STRAGGLER_CAUSES
};

typedef struct rungi_straggler {
    int ranks;
    int64_t steps; // fed so far
    // of the last steps, by rank: seconds
    double times[RUNGI_STRAGGLER_STEPS][RUNGI_STRAGGLER_RANKS][RUNGI_STRAGGLER_CAUSES];
    // since the beginning, by rank: seconds
    double sums[RUNGI_STRAGGLER_RANKS][RUNGI_STRAGGLER_CAUSES];
} rungi_straggler;

typedef struct rungi_straggler_verdict {
    int rank;
    double slowness;    // median over the steps
    int cause;          // what most of the difference went to
    double own, others; // seconds of it in a step: of the rank, and of the others (medians)
} rungi_straggler_verdict;

// `ranks` is 2 to RUNGI_STRAGGLER_RANKS.
void rungi_straggler_init(rungi_straggler *s, int ranks);

// Takes a step: times[ranks][RUNGI_STRAGGLER_CAUSES] in seconds.
void rungi_straggler_feed(rungi_straggler *s, const double (*times)[RUNGI_STRAGGLER_CAUSES]);

// Is there a straggler now? The slowest, when there are several.
bool rungi_straggler_find(const rungi_straggler *s, rungi_straggler_verdict *out);

// How unequal ranks were since the beginning: the largest sum of a rank's times over their mean, 1
// where all are equal.
double rungi_straggler_imbalance(const rungi_straggler *s);

#endif
