// SPDX-License-Identifier: Apache-2.0
// How far the clocks of ranks are apart, for timelines side by side.
#ifndef RUNGI_COMM_CLOCK_OFFSET_H
#define RUNGI_COMM_CLOCK_OFFSET_H

#include "comm/comm.h"

typedef struct rungi_clock_offset {
    int64_t offset; // nanoseconds to add to times of this rank's clock for those of rank 0's
    int64_t error;  // at most so wrong
} rungi_clock_offset;

// Collective. Each rank in turn asks rank 0 for its time, `rounds` times; the answer that came back
// soonest counts, and is taken to be from the middle of the way (Cristian 1989). `clock`: this
// rank's; NULL: that of the communicator.
rung_status rungi_comm_clock_offset(rungi_comm *comm, const rung_clock *clock, int rounds,
                                    rungi_clock_offset *out);

#endif
