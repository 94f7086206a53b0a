// SPDX-License-Identifier: Apache-2.0
// The ring: the part of a loader that its workers share. Slots of one batch each go round
//
//   FREE -> FILLING -> READY -> HELD -> FREE
//
// One thread at a time opens the next batch (takes a free slot, looks up its samples), one ahead;
// all workers claim runs of its samples, in order, and read them straight into the slot; the one
// that finishes the batch collates it. The consumer takes batches from the head of the queue, in
// the order in which they were opened, and gives them back in any order.
//
// All members are guarded by `lock`, except where it is said otherwise. Sources, samplers,
// transforms and collate are called without the lock.
#ifndef RUNGI_DATA_RING_H
#define RUNGI_DATA_RING_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/array.h"
#include "data/transform.h"
#include "rung/data.h"

typedef struct rungi_ring rungi_ring;

typedef enum rungi_slot_state {
    RUNGI_SLOT_FREE,
    RUNGI_SLOT_FILLING, // opened or being opened
    RUNGI_SLOT_READY,
    RUNGI_SLOT_HELD,
} rungi_slot_state;

typedef struct rungi_slot {
    rungi_slot_state state;
    void *memory; // of all fields
    void *data[RUNG_MAX_FIELDS];
    rung_draw *draws;
    rung_batch batch; // as the consumer gets it, but for `ticket`
    int64_t first;    // samples opened before it: orders failures
    int64_t claimed;  // samples given to workers
    int64_t done;     // samples read
    int running;      // runs of samples that workers are reading
    uint64_t ticket;  // counts deliveries, to know a batch that is released twice
    char **bad;       // skip_bad: by place, why a sample is left out; then the first `bad_count`
    int64_t *bad_samples; // and which samples they are
    int64_t bad_count;
} rungi_slot;

// Where a worker is. A worker that is READING is in code that may never come back.
enum { RUNGI_WORKER_IDLE, RUNGI_WORKER_READING, RUNGI_WORKER_ABANDONED };

// What worker.sample holds besides an index.
enum {
    RUNGI_NO_SAMPLE = -1,
    RUNGI_COLLATING = -2,
    RUNGI_ORDERING = -3, // asking the sampler
    RUNGI_OPENING = -4,  // or closing the source
};

typedef struct rungi_worker {
    rungi_ring *ring;
    int number; // -1: the consumer itself
    pthread_t thread;
    bool exited;
    bool opened;
    void *state;                // the source's
    void *scratch;              // this thread's own
    void *raw[RUNG_MAX_FIELDS]; // in scratch: fields before their transforms
    rungi_chain_worker *chains[RUNG_MAX_FIELDS];
    atomic_int phase;
    atomic_llong sample; // being read
    atomic_llong since;  // that long, by the context's clock
    // Guarded by the ring's lock:
    int64_t began, ended; // clock; 0: not yet
    int64_t ns[RUNG_STAGES];
    int64_t reads, read_bytes;
    int waiting;           // a stage, or -1
    int64_t waiting_since; // clock
} rungi_worker;

// What a run of samples took, before it is added to its worker.
typedef struct rungi_run_time {
    int64_t ns[RUNG_STAGES];
    int64_t bytes;
} rungi_run_time;

typedef struct rungi_failure {
    int64_t order; // of the sample among all that were opened
    rung_error error;
} rungi_failure;
enum { RUNGI_MAX_FAILURES = 8 };

struct rungi_ring {
    pthread_mutex_t lock;
    pthread_cond_t work;  // for workers: there may be something to do
    pthread_cond_t ready; // for the consumer: a batch, a failure, a worker at rest
    int references;       // the loader, and workers left behind

    // Fixed after creation.
    rung_context *context;
    rung_source *source;
    const rung_sampler *sampler;
    rung_sampler *own_sampler;
    rung_loader_options options; // with defaults filled in; its pointers lead to the next two
    rung_loader_memory memory;
    rung_transform *transforms;
    rung_mix mix;                         // if options.mix
    int label_field;                      // of it
    rungi_chain *chains[RUNG_MAX_FIELDS]; // NULL: the source writes into the slot
    rung_loader_info info;
    int64_t capacity; // samples of a slot
    size_t field_bytes[RUNG_MAX_FIELDS];
    size_t scratch_bytes;

    // The place in the data. Owned by whoever has set `opening`.
    int64_t epoch, position; // of the next batch to open
    int64_t opened;          // samples, since creation
    void *order;             // of order_epoch
    int64_t order_epoch;     // -1: none

    rungi_slot *slots;
    int *queue; // slots FILLING and READY, oldest first
    int queue_head, queue_count, held;
    rungi_slot *filling; // the one with samples to claim
    rungi_slot *next;    // opened ahead: workers go on without waiting for each other
    bool opening, finished, paused, stopping;
    int active; // workers at work outside of the lock

    rungi_worker *workers; // options.num_workers, or one for the consumer
    int threads, exited;

    atomic_bool cancelled;     // reads should give up
    atomic_llong failed_order; // the first failure; INT64_MAX: none
    rungi_failure failures[RUNGI_MAX_FAILURES];
    int failure_count;
    bool broken; // a worker could not open the source: no seek helps

    RUNGI_ARRAY(int64_t) bad; // different samples left out, rising; only next() looks at it
    rung_loader_statistics statistics; // those that are the loader's as a whole
    int64_t depth_sum, depth_count;
    size_t
        plain_bytes; // of a sample's fields that are no pictures as files, as the source gives it
};

// ---- ring.c

// Makes a ring without threads. `options` has been checked.
rung_status rungi_ring_create(rung_context *context, rung_source *source,
                              const rung_loader_options *options, rungi_ring **ring_out);
// Drops one reference; the last frees. `lock` is held and released.
void rungi_ring_drop(rungi_ring *ring);

// ---- ring_control.c

// Stops the threads and drops the loader's reference: stuck workers may hold others.
void rungi_ring_destroy(rungi_ring **ring);
rung_status rungi_ring_start(rungi_ring *ring);
rung_status rungi_ring_seek(rungi_ring *ring, int64_t epoch, int64_t position);

// ---- ring_next.c

rung_status rungi_ring_next(rungi_ring *ring, rung_batch *batch_out);
void rungi_ring_release(rungi_ring *ring, rung_batch *batch);
// Waits on `ready` for at most `nanoseconds` of real time.
void rungi_ring_wait(rungi_ring *ring, int64_t nanoseconds);
// "worker 1 has been reading sample 37 (FILE) for 2.0 s" for the workers that read, longest first.
void rungi_ring_stuck(rungi_ring *ring, char *out, size_t size);
// Makes what failed the calling thread's error: the first in the order of samples, then the others.
rung_status rungi_ring_tell_failures(const rungi_ring *ring);

// ---- ring_bad.c

// May a sample that failed so be left out?
bool rungi_ring_may_skip(const rungi_ring *ring, rung_status status);
// Moves the good samples of a full slot together. RUNG_DATA when there is none. `lock` is held.
rung_status rungi_slot_leave_out(rungi_ring *ring, rungi_slot *slot);
// Forgets what was left out of a slot.
void rungi_slot_forget_bad(rungi_slot *slot);
// Tells of the samples that were left out of a batch just delivered. When the limit is passed, the
// batch goes back, and next() fails from now on. Without the lock.
rung_status rungi_ring_tell_bad(rungi_ring *ring, rung_batch *batch);

// ---- ring_work.c

void *rungi_worker_main(void *worker);
// Opens and closes the source for a worker; false when the worker was abandoned meanwhile.
// A failure to open is recorded.
bool rungi_worker_open(rungi_worker *worker);
bool rungi_worker_close(rungi_worker *worker);
// Fills one slot in the calling thread. Failures are recorded. `lock` is held at call and return.
void rungi_worker_fill_slot(rungi_worker *worker, rungi_slot *slot);
// Are there samples to claim, before the first failure? Those are read still: the batches before a
// failure are delivered.
bool rungi_ring_claimable(const rungi_ring *ring);

// ---- ring_mix.c

// Adds the field of targets to what batches hold. Errors: RUNG_MISMATCH, RUNG_INVALID.
rung_status rungi_ring_add_mix(rungi_ring *ring);
// Mixes a batch whose samples have all been read.
rung_status rungi_ring_mix(const rungi_ring *ring, rung_batch *batch);

// ---- ring_measure.c

// All workers together, and one. `lock` is taken.
void rungi_ring_measure(rungi_ring *ring, rung_loader_statistics *statistics_out);
bool rungi_ring_measure_worker(rungi_ring *ring, int worker, rung_worker_statistics *out);
// Adds to a worker's times what a run took. `lock` is held.
void rungi_worker_add(rungi_worker *worker, const rungi_run_time *time, int64_t reads);
// Waits on `work`, as RUNG_STAGE_SLOT or _IDLE. `lock` is held.
void rungi_worker_wait(rungi_worker *worker, rung_loader_stage stage);

// ---- ring_place.c

// Sets the place, skipping over the end of an epoch.
void rungi_ring_place(rungi_ring *ring, int64_t epoch, int64_t position);
// Is the place past the last epoch?
bool rungi_ring_past_end(const rungi_ring *ring);
// Looks up the samples of the next batch and moves the place behind it. Runs without the lock, in
// one thread at a time.
rung_status rungi_ring_open_batch(rungi_ring *ring, rungi_slot *slot);
// A free slot or NULL.
rungi_slot *rungi_ring_free_slot(rungi_ring *ring);
// Samples that are left in an epoch for whole batches.
int64_t rungi_ring_left(const rungi_ring *ring, int64_t position);

#endif
