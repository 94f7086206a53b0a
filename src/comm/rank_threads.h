// SPDX-License-Identifier: Apache-2.0
// Runs a function on all ranks of a local communicator, each in a thread. For tests.
#ifndef RUNGI_COMM_RANK_THREADS_H
#define RUNGI_COMM_RANK_THREADS_H

#include "base/error.h"
#include "base/thread.h"
#include "comm/comm.h"

enum { RANK_THREADS = 16 };

typedef rung_status (*rank_fn)(rungi_comm *comm, void *arg);

typedef struct rank_thread {
    rungi_thread thread;
    rungi_comm *comm;
    rank_fn fn;
    void *arg;
    rung_status status;
    rung_error error;
} rank_thread;

static inline rung_status rank_main(void *arg)
{
    rank_thread *t = arg;
    t->status = t->fn(t->comm, t->arg);
    if (t->status != RUNG_OK) {
        t->error = *rung_error_last();
        rungi_comm_fail(t->comm); // the others need not wait for it
    }
    rungi_comm_destroy(&t->comm);
    return RUNG_OK;
}

// Starts `size` ranks into `threads`; rank_threads_join waits for them.
static inline rung_status rank_threads_start(rank_thread *threads, int size,
                                             const rungi_comm_options *options, rank_fn fn,
                                             void *arg)
{
    rungi_comm *comms[RANK_THREADS];
    rungi_comm_options plain = {0};
    RUNG_TRY(rungi_comm_local_create(size, options ? options : &plain, comms));
    for (int i = 0; i < size; i++) {
        threads[i] = (rank_thread){.comm = comms[i], .fn = fn, .arg = arg};
        RUNG_TRY(rungi_thread_start(&threads[i].thread, "rank", rank_main, &threads[i]));
    }
    return RUNG_OK;
}

static inline void rank_threads_join(rank_thread *threads, int size)
{
    for (int i = 0; i < size; i++)
        rungi_thread_join(&threads[i].thread);
}

// All ranks to their end; gives the failure of the lowest rank that failed for itself (rather than
// because another one did).
static inline rung_status rank_threads(int size, const rungi_comm_options *options, rank_fn fn,
                                       void *arg)
{
    rank_thread threads[RANK_THREADS];
    RUNG_TRY(rank_threads_start(threads, size, options, fn, arg));
    rank_threads_join(threads, size);
    const rung_error *first = NULL;
    for (int i = 0; i < size; i++)
        if (threads[i].status && (!first || first->status == RUNG_CANCELLED))
            first = &threads[i].error;
    return first ? rungi_fail_adopt(first) : RUNG_OK;
}

#endif
