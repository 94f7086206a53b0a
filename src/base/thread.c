// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/checked.h"
#include "base/context.h"
#include "base/cores.h"
#include "base/error.h"

static void *thread_main(void *user)
{
    rungi_thread *thread = user;
    rungi_cores_unbind();
    thread->status = thread->fn(thread->arg);
    if (thread->status != RUNG_OK)
        thread->error = *rung_error_last();
    return NULL;
}

// Blocks the signals that ask a program to do something; those that report a fault of the running
// thread, or that profilers use, stay open. Returns the mask from before.
static sigset_t block_signals(void)
{
    static const int open[] = {SIGSEGV, SIGBUS, SIGFPE,  SIGILL,   SIGABRT,
                               SIGTRAP, SIGSYS, SIGPROF, SIGVTALRM};
    sigset_t block, before;
    sigfillset(&block);
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        sigdelset(&block, open[i]);
    pthread_sigmask(SIG_BLOCK, &block, &before);
    return before;
}

rung_status rungi_thread_start(rungi_thread *thread, const char *name, rungi_thread_fn fn,
                               void *arg)
{
    *thread = (rungi_thread){.fn = fn, .arg = arg};
    sigset_t before = block_signals();
    int error = pthread_create(&thread->id, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    RUNG_CHECK(error == 0, RUNG_NO_MEMORY, "cannot start thread %s: %s", name, strerror(error));
    thread->started = true;
    char cut[16];
    snprintf(cut, sizeof cut, "%s", name);
    pthread_setname_np(thread->id, cut);
    return RUNG_OK;
}

rung_status rungi_thread_join(rungi_thread *thread)
{
    if (!thread->started)
        return RUNG_OK;
    pthread_join(thread->id, NULL);
    thread->started = false;
    if (thread->status == RUNG_OK)
        return RUNG_OK;
    if (thread->error.status != thread->status)
        return RUNG_FAIL(thread->status, "a thread failed without saying why");
    return rungi_fail_adopt(&thread->error);
}

void rungi_thread_nice(int more)
{
    // On Linux each thread has a niceness of its own (setpriority(2), "C library/kernel
    // differences"); 0 is the calling one. To become nicer is always allowed.
    if (more > 0)
        setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + more);
}

void rungi_mutex_init(rungi_mutex *mutex)
{
    pthread_mutex_init(&mutex->lock, NULL);
}

void rungi_mutex_fini(rungi_mutex *mutex)
{
    pthread_mutex_destroy(&mutex->lock);
}

void rungi_mutex_lock(rungi_mutex *mutex)
{
    pthread_mutex_lock(&mutex->lock);
}

void rungi_mutex_unlock(rungi_mutex *mutex)
{
    pthread_mutex_unlock(&mutex->lock);
}

void rungi_cond_init(rungi_cond *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&cond->cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

void rungi_cond_fini(rungi_cond *cond)
{
    pthread_cond_destroy(&cond->cond);
}

void rungi_cond_signal(rungi_cond *cond)
{
    pthread_cond_signal(&cond->cond);
}

void rungi_cond_broadcast(rungi_cond *cond)
{
    pthread_cond_broadcast(&cond->cond);
}

void rungi_cond_wait(rungi_cond *cond, rungi_mutex *mutex)
{
    pthread_cond_wait(&cond->cond, &mutex->lock);
}

bool rungi_cond_wait_until(rungi_cond *cond, rungi_mutex *mutex, const rung_clock *clock,
                           int64_t deadline)
{
    const rung_clock *real = rungi_clock_monotonic();
    if (clock->now(clock->user) >= deadline)
        return false;
    int64_t until = clock == real ? deadline : rungi_deadline(real, 1000000);
    struct timespec t = {until / 1000000000, until % 1000000000};
    pthread_cond_timedwait(&cond->cond, &mutex->lock, &t);
    return clock->now(clock->user) < deadline;
}

int64_t rungi_deadline(const rung_clock *clock, int64_t nanoseconds)
{
    int64_t deadline = INT64_MAX;
    if (!rungi_i64_add(clock->now(clock->user), nanoseconds, &deadline) && nanoseconds < 0)
        deadline = INT64_MIN;
    return deadline;
}
