// SPDX-License-Identifier: Apache-2.0
// Inside of communicators: what is common to all (arguments, sequence numbers, flight recorder,
// waits, deadlines, delays, failures), and what a transport does.
#ifndef RUNGI_COMM_COMM_INSIDE_H
#define RUNGI_COMM_COMM_INSIDE_H

#include "comm/combine.h"
#include "comm/comm.h"
#include "comm/recorder.h"

typedef enum rungi_comm_progress_state {
    RUNGI_COMM_FREE,
    RUNGI_COMM_MOVING, // the transport has it
    RUNGI_COMM_LANDED, // the result is there, the injected delay is not over
    RUNGI_COMM_DONE,
} rungi_comm_progress_state;

struct rungi_comm_call {
    rungi_comm_what what;
    void *data; // the caller's; of a gather the bytes that this rank gives
    int64_t count;
    uint8_t **all_out; // gather: block made by the transport
    uint64_t *offsets; // gather: size + 1 entries
    uint64_t number;   // in the flight recorder
    rungi_comm_progress_state state;
    int64_t started, ended; // clock; ended: when it is done, from LANDED on
    int64_t met;            // clock: when all ranks were seen to be there; 0: not known
    int64_t worked;         // clock: when this rank's own share was done; 0: not known
    int64_t landed;         // clock: when the result was there, before the injected delay
    // What the transport does for it, and the rank it comes from: as in `what` at the start.
    rungi_comm_kind act;
    int root;
    int patience; // deadlines to wait in place of one, 0: one
    // The transport's: zeros at the start.
    void *inner; // of calls between machines
    int part;    // of several that a call is made of
    uint32_t step;
    int seen;       // ranks that have reached the step that is waited for
    int64_t round;  // rounds of staged data that are done
    int64_t rounds; // in all; 0: not known yet
    bool entered;
    bool staged;  // this rank's data goes through its stage
    bool chunked; // somebody's does
};

// The ranks that a call waits for, and those that came.
typedef struct rungi_comm_presence {
    bool missing[RUNGI_COMBINE_RANKS];
    int count; // missing ones
} rungi_comm_presence;

typedef struct rungi_comm_transport {
    const char *name;
    // Carries a call on as far as it goes without waiting; sets its state to LANDED once the
    // result is there. Failures are told by rungi_comm_break.
    rung_status (*advance)(rungi_comm *comm, rungi_comm_call *call);
    // Which ranks keep the call from going on.
    void (*presence)(rungi_comm *comm, const rungi_comm_call *call, rungi_comm_presence *out);
    // Another rank's flight recorder; NULL where it is out of reach.
    const rungi_word *(*recorder)(rungi_comm *comm, int rank);
    // Has rank `rank` left, or died? Writes why ("has left") into `why` if so.
    bool (*gone)(rungi_comm *comm, int rank, char *why, size_t size);
    // Tells all ranks of the first failure; of several, one is kept. Never waits for ranks.
    void (*publish)(rungi_comm *comm, const rung_error *error);
    // Was a failure told? Cheap.
    bool (*broken)(rungi_comm *comm);
    // The failure that was kept, once broken.
    void (*failure)(rungi_comm *comm, rung_error *error_out);
    // After a failure: returns when no other rank touches this one's data any more.
    void (*settle)(rungi_comm *comm);
    // The part of rungi_comm_alloc that is not a call: memory of this rank.
    rung_status (*alloc)(rungi_comm *comm, uint64_t bytes, void **data_out);
    void (*free)(rungi_comm *comm, void *data);
    void (*destroy)(rungi_comm *comm);
} rungi_comm_transport;

enum {
    RUNGI_COMM_CALLS = RUNGI_COMM_STARTED + 1,
    // A collective call is over before its rank enters the one that is so many later.
    RUNGI_COMM_AHEAD = 2 * RUNGI_COMM_STARTED,
};

struct rungi_comm {
    int rank, size, local_rank, local_size;
    const rungi_comm_transport *transport;
    void *link; // the transport's
    rung_context *context;
    const rung_clock *clock;
    int64_t timeout, busy_timeout, delay;
    double delay_byte;
    bool crowded; // more ranks than cores on this machine
    const rungi_combine_loops *loops;
    rungi_recorder recorder;
    uint64_t sequence;         // of the last collective call
    uint64_t *sent, *received; // of the last call with each rank
    int64_t link_free;         // when the injected link is free again
    uint64_t moved;            // see rungi_comm_moved
    int64_t link_time;
    bool broken;
    rung_error error; // why
    rungi_comm_call calls[RUNGI_COMM_CALLS];
    int active[RUNGI_COMM_CALLS]; // indexes of the calls that are under way, oldest first
    int active_count;
};

// Fills the common part of a communicator. rungi_comm_fini frees it. `memory`: for the flight
// recorder (rungi_recorder_init), may be NULL.
rung_status rungi_comm_init(rungi_comm *comm, int rank, int size, const rungi_comm_options *options,
                            rungi_word *memory);
void rungi_comm_fini(rungi_comm *comm);

// Breaks the communicator: tells all ranks, unless another failure was told before, and returns the
// status of the first failure, with its message in the thread's error record.
rung_status rungi_comm_break(rungi_comm *comm, rung_status status, const char *fmt, ...)
    RUNG_PRINTF(3, 4);
// Takes over the failure that was told; returns its status.
rung_status rungi_comm_adopt(rungi_comm *comm);

// All ranks are there for the call. Not noted where there is little data, for which looking at the
// clock takes too long.
void rungi_comm_met(const rungi_comm *comm, rungi_comm_call *call);
// This rank has done its share of it.
void rungi_comm_worked(const rungi_comm *comm, rungi_comm_call *call);

// Runs a call to its end: enter, wait, free. `call` is a description; what the transport wrote
// comes back through its pointers.
rung_status rungi_comm_call_run(rungi_comm *comm, const rungi_comm_call *call);
// Enters a call without waiting.
rung_status rungi_comm_call_enter(rungi_comm *comm, const rungi_comm_call *call,
                                  rungi_comm_call **call_out);
// Waits for its end.
rung_status rungi_comm_call_wait(rungi_comm *comm, rungi_comm_call *call);
// Carries on all calls that are under way.
rung_status rungi_comm_advance_all(rungi_comm *comm);

// Time is up for `call`: says who is missing, breaks the communicator.
rung_status rungi_comm_time_out(rungi_comm *comm, const rungi_comm_call *call,
                                const rungi_comm_presence *presence, int64_t waited);

// Bytes of one element of the call: 1 where it has no dtype.
static inline int64_t rungi_comm_element(const rungi_comm_call *call)
{
    size_t size = rung_dtype_size(call->what.dtype);
    return size ? (int64_t)size : 1;
}

#endif
