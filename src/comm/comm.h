// SPDX-License-Identifier: Apache-2.0
// Communicators: what the ranks of a run say to each other.
//
// A rungi_comm is one rank's end of a group of `size` ranks. Ranks are threads of one process
// (comm_local.c), processes started by mpirun or srun (comm_mpi.c), or both. A handle belongs to
// its rank's thread; calls on it come from that thread alone.
//
// Every call is collective unless said otherwise: all ranks make the same calls, with the same
// kind, count, dtype and label, in the same order. Each call has a sequence number, a label (a
// string that outlives the communicator, such as a literal) and a deadline, and is written into the
// rank's flight recorder (recorder.h). A rank that calls something else than its peers, that fails,
// or that does not come before the deadline, is named in the error that all ranks get; after an
// error the communicator is broken and every later call fails at once with the first one's message.
//
// Sums are a fixed binary tree over the ranks, (0 + 1) + (2 + 3), ..., at every element, whatever
// the algorithm, the transport or the cut into pieces: a sum has the same bits on threads and
// processes, and for a power of two of ranks it continues the tree that rungi_tree_add makes over
// the shards of a rank.
//
// Errors of all calls: RUNG_TIMEOUT (label, sequence number, ranks present and missing, and what
// the missing ones last called), RUNG_MISMATCH (both ranks' calls), RUNG_CANCELLED (another rank
// failed: its number and message), RUNG_LIBRARY (MPI).
#ifndef RUNGI_COMM_COMM_H
#define RUNGI_COMM_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include "rung/context.h"
#include "rung/tensor.h"

typedef struct rungi_comm rungi_comm;
typedef struct rungi_comm_call rungi_comm_call; // a call that was started

typedef enum rungi_comm_op { RUNGI_COMM_SUM, RUNGI_COMM_MIN, RUNGI_COMM_MAX } rungi_comm_op;

typedef struct rungi_comm_options {
    rung_context *context; // clock and log; borrowed
    int64_t timeout;       // nanoseconds that a call waits for its peers; 0: 60 s
    // Nanoseconds of a wait that may pass while a missing peer is busy (rungi_comm_busy); 0: 1 h.
    int64_t busy_timeout;
    // A link for tests and studies: a call is done this much later than without. Calls that are
    // under way at once share the link: their delays add up.
    int64_t delay;     // nanoseconds of each call
    double delay_byte; // nanoseconds of each byte of its data
    bool delay_one;    // only the link of rank `delay_rank` is like that
    int delay_rank;
    // Folder in which each rank's flight recorder lies as a mapped file, rank-N.calls; NULL: none
    // is kept on disk.
    const char *recorder;
} rungi_comm_options;

// Makes the ends of `size` ranks of this process: comms_out[size]. Each is destroyed by its rank;
// the last one takes the group with it.
rung_status rungi_comm_local_create(int size, const rungi_comm_options *options,
                                    rungi_comm **comms_out);
// Not collective: a rank may leave while others are still calling (they are told).
void rungi_comm_destroy(rungi_comm **comm);

int rungi_comm_rank(const rungi_comm *comm);
int rungi_comm_size(const rungi_comm *comm);
// Rank among those of the same machine, and their number.
int rungi_comm_local_rank(const rungi_comm *comm);
int rungi_comm_local_size(const rungi_comm *comm);

// Tells all ranks that this one failed, with the calling thread's error record: their calls, those
// that are waiting included, return RUNG_CANCELLED with this rank's number and message. Not
// collective, never waits.
void rungi_comm_fail(rungi_comm *comm);

// Tells the others that this rank will be at work of its own for long (a save, an evaluation):
// while it is, the deadlines of those that wait for it stand still (busy_timeout is theirs then).
// `label` is copied; NULL ends it. Not collective, never waits.
void rungi_comm_busy(rungi_comm *comm, const char *label);

// Memory for data that is exchanged often: zeroed, aligned to 64, in a mapping that all ranks of
// the machine see, so that calls on it (or on a part of it) work in place without a copy.
// Collective, with equal `bytes`. Other memory may be given to every call too and is staged.
rung_status rungi_comm_alloc(rungi_comm *comm, uint64_t bytes, const char *label, void **data_out);
void rungi_comm_free(rungi_comm *comm, void *data); // not collective, NULL accepted

// Where others find memory of rungi_comm_alloc: rank's `rungi_comm_at(its comm, r, address)` is
// what rank r, which tells it, has at `data`. 0: no such memory. rungi_comm_at gives NULL where
// rank r is on another machine. Whoever reads and writes there sees to the order
// (rungi_comm_await).
uint64_t rungi_comm_address(const rungi_comm *comm, const void *data, uint64_t bytes);
void *rungi_comm_at(const rungi_comm *comm, int rank, uint64_t address);
// Around every access to such memory of another rank, which after a failure frees it when nobody is
// at it. False: the communicator is broken, keep off. Nothing in between may wait.
bool rungi_comm_touch_begin(rungi_comm *comm);
void rungi_comm_touch_end(rungi_comm *comm);
// Where every rank has what this one has at `data`: at_out[size]; NULL where that is out of reach.
// Collective, with equal `bytes`.
rung_status rungi_comm_reach(rungi_comm *comm, const void *data, uint64_t bytes, const char *label,
                             void **at_out);
// Floats [begin, begin + count) of such memory, which all are within reach of, of any thread
// between touch_begin and touch_end: their sum over the ranks, with the bits of a call, goes to
// sum_out; this rank's go to all others. What was moved is told afterwards, in bytes.
void rungi_comm_sum_reached(const rungi_comm *comm, float *const *at, int64_t begin, int64_t count,
                            float *sum_out);
void rungi_comm_give_reached(const rungi_comm *comm, float *const *at, int64_t begin,
                             int64_t count);
void rungi_comm_note_reached(rungi_comm *comm, uint64_t bytes);

// Part `rank` of `count` elements cut among `size` ranks: begins are multiples of 16 elements, so
// that parts are whole cache lines; the last parts may be short or empty.
typedef struct rungi_comm_part {
    int64_t begin, count;
} rungi_comm_part;
rungi_comm_part rungi_comm_part_of(int64_t count, int size, int rank);

rung_status rungi_comm_barrier(rungi_comm *comm, const char *label);
// root's `bytes` come to all.
rung_status rungi_comm_broadcast(rungi_comm *comm, void *data, uint64_t bytes, int root,
                                 const char *label);
// In place. dtype: f32, f64, i64, bf16 and f16 (added in f32, rounded once at each node of the
// tree).
rung_status rungi_comm_all_reduce(rungi_comm *comm, void *data, int64_t count, rung_dtype dtype,
                                  rungi_comm_op op, const char *label);
// In place: of `data[count]`, this rank's part (rungi_comm_part_of) becomes the result; the rest is
// undefined afterwards.
rung_status rungi_comm_reduce_scatter(rungi_comm *comm, void *data, int64_t count, rung_dtype dtype,
                                      rungi_comm_op op, const char *label);
// In place: root's data becomes the result, that of the others is undefined afterwards.
rung_status rungi_comm_reduce(rungi_comm *comm, void *data, int64_t count, rung_dtype dtype,
                              rungi_comm_op op, int root, const char *label);
// In place: each rank's own part of `data[count]` comes to all.
rung_status rungi_comm_all_gather(rungi_comm *comm, void *data, int64_t count, rung_dtype dtype,
                                  const char *label);
// An object of each rank, sizes may differ: `all_out` becomes one block (freed by the caller) in
// which rank r's bytes begin at offsets_out[r]; offsets_out has size + 1 entries.
rung_status rungi_comm_gather_objects(rungi_comm *comm, const void *data, uint64_t bytes,
                                      const char *label, void **all_out, uint64_t *offsets_out);

// A wait for what ranks tell each other in memory that they share. Not collective, and no call of
// the others belongs to it; calls that were started are carried on meanwhile.
typedef struct rungi_comm_condition {
    void *user;
    // Is it met? Asked again and again; may do work of its own (but no calls that wait), and fail.
    rung_status (*met)(void *user, bool *met_out);
    // Sets missing[r] for each rank r that it takes, and gives a number that changes when they get
    // on: the deadline is for the time between two changes.
    int64_t (*missing)(void *user, bool *missing);
} rungi_comm_condition;
rung_status rungi_comm_await(rungi_comm *comm, const char *label,
                             const rungi_comm_condition *condition);

// Between two ranks, in order; both name the same number of bytes and the same label. Only these
// two take part. A send is over when the data was received. Sequence numbers are the pair's own.
rung_status rungi_comm_send(rungi_comm *comm, const void *data, uint64_t bytes, int to,
                            const char *label);
rung_status rungi_comm_receive(rungi_comm *comm, void *data, uint64_t bytes, int from,
                               const char *label);

// The same calls, started and finished apart: the data must be left alone in between. Calls
// are carried on whenever this rank is inside of any call of the communicator, above all in
// rungi_comm_progress, which never waits: a rank that computes calls it between steps. Started
// calls finish in any order; several may be under way (at most RUNGI_COMM_STARTED).
enum { RUNGI_COMM_STARTED = 64 };
rung_status rungi_comm_start_all_reduce(rungi_comm *comm, void *data, int64_t count,
                                        rung_dtype dtype, rungi_comm_op op, const char *label,
                                        rungi_comm_call **call_out);
rung_status rungi_comm_start_reduce(rungi_comm *comm, void *data, int64_t count, rung_dtype dtype,
                                    rungi_comm_op op, int root, const char *label,
                                    rungi_comm_call **call_out);
rung_status rungi_comm_start_send(rungi_comm *comm, const void *data, uint64_t bytes, int to,
                                  const char *label, rungi_comm_call **call_out);
rung_status rungi_comm_start_receive(rungi_comm *comm, void *data, uint64_t bytes, int from,
                                     const char *label, rungi_comm_call **call_out);
rung_status rungi_comm_progress(rungi_comm *comm);
// Waits for its end and frees the call (*call becomes NULL, also on failure). `times_out` may be
// NULL.
typedef struct rungi_comm_times {
    int64_t started, ended; // nanoseconds of the context's clock; ended: when the result was there
    int64_t met;            // when all ranks were seen to have come; started: not known
    uint64_t bytes;
} rungi_comm_times;
rung_status rungi_comm_finish(rungi_comm *comm, rungi_comm_call **call,
                              rungi_comm_times *times_out);
// Is it done? Does not wait.
bool rungi_comm_done(rungi_comm *comm, const rungi_comm_call *call);

// The clock that times are of: the context's.
int64_t rungi_comm_now(const rungi_comm *comm);

// Since creation: bytes that this rank read from other ranks' memory and wrote to it, or sent and
// received; nanoseconds that calls kept it from its work, but for waiting for others: its share of
// them (between machines: not counted) and the injected link.
uint64_t rungi_comm_moved(const rungi_comm *comm);
int64_t rungi_comm_link_time(const rungi_comm *comm);

#endif
