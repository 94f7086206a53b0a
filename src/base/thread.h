// SPDX-License-Identifier: Apache-2.0
// Threads that hand their error record to whoever joins them, and waits with a deadline.
#ifndef RUNGI_BASE_THREAD_H
#define RUNGI_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "rung/context.h"

typedef rung_status (*rungi_thread_fn)(void *arg);

// Starts from {0}. Must stay in place from start to join.
typedef struct rungi_thread {
    pthread_t id;
    bool started;
    rungi_thread_fn fn;
    void *arg;
    rung_status status;
    rung_error error;
} rungi_thread;

// Runs fn(arg) on a new thread named `name` (cut at 15 bytes; seen in top and debuggers). Signals
// such as SIGINT stay with the threads that the program made itself.
// Errors: RUNG_NO_MEMORY when the system has no room for another thread.
rung_status rungi_thread_start(rungi_thread *thread, const char *name, rungi_thread_fn fn,
                               void *arg);

// Waits for the thread's end and returns what fn returned; its error record becomes the caller's.
// A thread that was not started, or was joined before, gives RUNG_OK.
rung_status rungi_thread_join(rungi_thread *thread);

// Makes the calling thread `more` (0 or more) nicer than it is; at most 19, the system's limit.
void rungi_thread_nice(int more);

typedef struct rungi_mutex {
    pthread_mutex_t lock;
} rungi_mutex;

typedef struct rungi_cond {
    pthread_cond_t cond;
} rungi_cond;

void rungi_mutex_init(rungi_mutex *mutex);
void rungi_mutex_fini(rungi_mutex *mutex);
void rungi_mutex_lock(rungi_mutex *mutex);
void rungi_mutex_unlock(rungi_mutex *mutex);

void rungi_cond_init(rungi_cond *cond);
void rungi_cond_fini(rungi_cond *cond);
void rungi_cond_signal(rungi_cond *cond);    // wakes one waiter
void rungi_cond_broadcast(rungi_cond *cond); // wakes all

// Waits without a limit: only for idle workers that a shutdown is sure to wake. May return early.
void rungi_cond_wait(rungi_cond *cond, rungi_mutex *mutex);

// Waits until woken or until `clock` reaches `deadline` (nanoseconds). False when the deadline has
// passed; true otherwise, maybe early, so that callers loop:
//
//   while (!ready)
//       if (!rungi_cond_wait_until(&cond, &mutex, clock, deadline))
//           fail with RUNG_TIMEOUT;
//
// A clock that is not the system's (rungi_fake_clock) is looked at every millisecond.
bool rungi_cond_wait_until(rungi_cond *cond, rungi_mutex *mutex, const rung_clock *clock,
                           int64_t deadline);

// Now plus `nanoseconds`, INT64_MAX when that overflows: a deadline.
int64_t rungi_deadline(const rung_clock *clock, int64_t nanoseconds);

#endif
