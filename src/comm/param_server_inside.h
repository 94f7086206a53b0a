// SPDX-License-Identifier: Apache-2.0
// Inside of the parameter server: what lies in memory that ranks share, and its locks.
#ifndef RUNGI_COMM_PARAM_SERVER_INSIDE_H
#define RUNGI_COMM_PARAM_SERVER_INSIDE_H

#include "comm/param_server.h"
#include "comm/recorder.h"

typedef struct rungi_ps_counts {
    rungi_word count, sum, most, counts[RUNGI_PS_COUNTS];
} rungi_ps_counts;

// Of a worker, kept by the scheduler. Written under its lock.
typedef struct rungi_ps_entry {
    _Alignas(64) rungi_word clock; // steps done
    rungi_word begun;              // steps that it was let begin
    rungi_word pulled;             // pushes of all when it last began one
    rungi_word samples, pushes;
    rungi_ps_counts staleness, ahead;
} rungi_ps_entry;

typedef struct rungi_ps_scheduler {
    _Alignas(64) rungi_word lock;
    rungi_word pushes;  // of all
    rungi_word stop_at; // 0: nobody wants to stop; else the clock at which all do, plus 1
    rungi_ps_entry workers[RUNGI_PS_WORKERS];
} rungi_ps_scheduler;

// A server's place; its weights and then its states follow, each `room` floats.
typedef struct rungi_ps_server {
    _Alignas(64) rungi_word lock;
    rungi_word updates;
} rungi_ps_server;

// What every rank has in shared memory.
typedef struct rungi_ps_block {
    rungi_ps_scheduler scheduler; // rank 0's is used
    rungi_ps_server server;
    _Alignas(64) float floats[];
} rungi_ps_block;

typedef struct rungi_ps_remote rungi_ps_remote;

struct rungi_ps {
    rungi_ps_setup o;
    int rank, ranks;
    int64_t room;            // floats of the largest range
    rungi_ps_block **blocks; // of the ranks; NULL: on another machine
    rungi_ps_block *own;
    rungi_ps_remote *remote; // NULL: all ranks are on this machine
    int64_t clock;           // of this worker
    int64_t updates;         // when the last phase ended
    bool open;
};

static inline rungi_ps_scheduler *rungi_ps_scheduler_of(const rungi_ps *ps)
{
    return ps->blocks[0] ? &ps->blocks[0]->scheduler : NULL;
}

// The block of a server's host; NULL: on another machine.
static inline rungi_ps_block *rungi_ps_block_of(const rungi_ps *ps, int server)
{
    return ps->blocks[rungi_ps_host(ps->ranks, ps->o.servers, server)];
}

static inline rungi_comm_part rungi_ps_range_of(const rungi_ps *ps, int server)
{
    return rungi_ps_range(ps->o.size, ps->o.servers, server);
}

static inline int64_t rungi_ps_get(const rungi_word *word)
{
    return (int64_t)atomic_load_explicit(word, memory_order_acquire);
}

static inline void rungi_ps_set(rungi_word *word, int64_t value)
{
    atomic_store_explicit(word, (uint64_t)value, memory_order_release);
}

// A lock word holds its holder's rank + 1.
static inline bool rungi_ps_try(const rungi_ps *ps, rungi_word *lock)
{
    uint64_t nobody = 0;
    return atomic_compare_exchange_strong_explicit(lock, &nobody, (uint64_t)ps->rank + 1,
                                                   memory_order_acquire, memory_order_relaxed);
}

static inline void rungi_ps_release(rungi_word *lock)
{
    atomic_store_explicit(lock, 0, memory_order_release);
}

// ---- the scheduler, under its lock ------------------------------------------------------------

typedef enum rungi_ps_answer { RUNGI_PS_WAIT, RUNGI_PS_GO, RUNGI_PS_STOP } rungi_ps_answer;

// May `worker` begin another step?
rungi_ps_answer rungi_ps_schedule(rungi_ps_scheduler *scheduler, const rungi_ps_setup *o,
                                  int workers, int worker, bool stop);
// `worker` has done a step; `pushed`: the servers have its gradient.
void rungi_ps_count(rungi_ps_scheduler *scheduler, int worker, bool pushed, int64_t samples);
// Have all workers done as many steps as `clock`?
bool rungi_ps_all_at(const rungi_ps_scheduler *scheduler, int workers, int64_t clock);

// ---- a server, under its lock -----------------------------------------------------------------

rung_status rungi_ps_apply(rungi_ps *ps, int server, const float *grads,
                           const rungi_ps_terms *terms);
void rungi_ps_copy(const rungi_ps *ps, int server, float *weights_out);

// ---- other machines (param_server_remote.c) ---------------------------------------------------

rung_status rungi_ps_remote_create(rungi_ps *ps);
void rungi_ps_remote_destroy(rungi_ps *ps);
rung_status rungi_ps_remote_open(rungi_ps *ps);
rung_status rungi_ps_remote_serve(rungi_ps *ps);
// Requests to hosts on other machines, to their end.
rung_status rungi_ps_remote_push(rungi_ps *ps, int server, const float *grads,
                                 const rungi_ps_terms *terms);
rung_status rungi_ps_remote_pull(rungi_ps *ps, int server, float *weights_out);
rung_status rungi_ps_remote_count(rungi_ps *ps, bool pushed, int64_t samples);
rung_status rungi_ps_remote_begin(rungi_ps *ps, bool stop, bool *go_out);
// Waits until all workers have come as far as this one.
rung_status rungi_ps_remote_wait(rungi_ps *ps);
// Tells hosts that this worker needs them no more, and waits until those of other machines have
// told this one so.
rung_status rungi_ps_remote_close(rungi_ps *ps);

#endif
