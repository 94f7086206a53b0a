// SPDX-License-Identifier: Apache-2.0
// A ring's threads: start, seek, end.
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "data/ring.h"
#include "data/source.h"

#define MILLISECOND INT64_C(1000000)

// How long (of real time) destroy waits for workers in code that may never come back, and seek if
// no data.timeout is set.
#define DESTROY_LIMIT (2000 * MILLISECOND)
#define SEEK_LIMIT (30000 * MILLISECOND)

static int64_t real_now(void)
{
    return rungi_clock_monotonic()->now(NULL);
}

// ---- threads

rung_status rungi_ring_start(rungi_ring *ring)
{
    if (ring->options.num_workers == 0) {
        if (!ring->workers[0].opened && ring->failure_count == 0)
            rungi_worker_open(&ring->workers[0]);
        return RUNG_OK;
    }
    if (ring->threads == ring->options.num_workers)
        return RUNG_OK;
    // Signals are for the thread that trains.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rung_status status = RUNG_OK;
    while (status == RUNG_OK && ring->threads < ring->options.num_workers) {
        rungi_worker *worker = &ring->workers[ring->threads];
        int code = pthread_create(&worker->thread, NULL, rungi_worker_main, worker);
        if (code != 0) {
            status = RUNG_FAIL(RUNG_LIBRARY,
                               "cannot start worker %d of data.num_workers %d: %s (use fewer)",
                               worker->number, ring->options.num_workers, strerror(code));
            break;
        }
        pthread_mutex_lock(&ring->lock);
        ring->threads++;
        pthread_mutex_unlock(&ring->lock);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

// ---- seek

static bool is_at(const rungi_ring *ring, int64_t epoch, int64_t position)
{
    if (ring->failure_count > 0 || ring->opening)
        return false;
    if (ring->queue_count == 0)
        return ring->epoch == epoch && ring->position == position;
    const rung_batch *next = &ring->slots[ring->queue[ring->queue_head]].batch;
    return next->epoch == epoch && next->position == position;
}

static void forget_queue(rungi_ring *ring)
{
    for (; ring->queue_count > 0; ring->queue_count--) {
        ring->slots[ring->queue[ring->queue_head]].state = RUNGI_SLOT_FREE;
        ring->queue_head = (ring->queue_head + 1) % ring->info.slots;
    }
    ring->filling = ring->next = NULL;
    ring->failure_count = 0;
    atomic_store(&ring->failed_order, INT64_MAX);
}

// Lets the workers finish the samples that they are reading, and nothing more.
static rung_status come_to_rest(rungi_ring *ring)
{
    double timeout = ring->options.timeout;
    int64_t deadline = real_now() + (timeout > 0 ? (int64_t)(timeout * 1e9) : SEEK_LIMIT);
    ring->paused = true;
    atomic_store(&ring->cancelled, true);
    while (ring->active > 0 && real_now() < deadline)
        rungi_ring_wait(ring, 20 * MILLISECOND);
    ring->paused = false;
    atomic_store(&ring->cancelled, false);
    if (ring->active == 0)
        return RUNG_OK;
    char stuck[900];
    rungi_ring_stuck(ring, stuck, sizeof stuck);
    rung_status status =
        RUNG_FAIL(RUNG_TIMEOUT, "cannot move to another place in the data: %s", stuck);
    // Batches have been broken off: nothing may be delivered before a seek succeeds.
    ring->failure_count = 1;
    ring->failures[0] = (rungi_failure){-1, *rung_error_last()};
    atomic_store(&ring->failed_order, -1);
    return status;
}

rung_status rungi_ring_seek(rungi_ring *ring, int64_t epoch, int64_t position)
{
    rung_status status = RUNG_OK;
    RUNG_CHECK(epoch >= 0 && position >= 0 && position <= ring->sampler->count, RUNG_INVALID,
               "epoch %" PRId64 ", position %" PRId64 ": no such place, an epoch has %" PRId64
               " samples",
               epoch, position, ring->sampler->count);
    pthread_mutex_lock(&ring->lock);
    if (ring->broken)
        status = rungi_ring_tell_failures(ring);
    else if (!is_at(ring, epoch, position))
        status = come_to_rest(ring);
    if (status == RUNG_OK && !is_at(ring, epoch, position)) {
        forget_queue(ring);
        rungi_ring_place(ring, epoch, position);
        ring->finished = rungi_ring_past_end(ring);
    }
    pthread_cond_broadcast(&ring->work);
    pthread_mutex_unlock(&ring->lock);
    return status;
}

// ---- the end

// Waits for the workers; after the limit, those in code that may never come back are abandoned.
static int wait_for_workers(rungi_ring *ring)
{
    int64_t deadline = real_now() + DESTROY_LIMIT;
    int abandoned = 0;
    while (ring->exited + abandoned < ring->threads) {
        rungi_ring_wait(ring, 50 * MILLISECOND);
        if (real_now() < deadline)
            continue;
        for (int i = 0; i < ring->threads; i++) {
            int expected = RUNGI_WORKER_READING;
            rungi_worker *worker = &ring->workers[i];
            if (!worker->exited &&
                atomic_compare_exchange_strong(&worker->phase, &expected, RUNGI_WORKER_ABANDONED)) {
                abandoned++;
                ring->references++;
            }
        }
    }
    return abandoned;
}

void rungi_ring_destroy(rungi_ring **ring_)
{
    rungi_ring *ring = *ring_;
    *ring_ = NULL;
    if (ring->options.num_workers == 0)
        rungi_worker_close(&ring->workers[0]);
    pthread_mutex_lock(&ring->lock);
    ring->stopping = true;
    atomic_store(&ring->cancelled, true);
    pthread_cond_broadcast(&ring->work);
    char stuck[900];
    int abandoned = wait_for_workers(ring);
    if (abandoned > 0) {
        rungi_ring_stuck(ring, stuck, sizeof stuck);
        rungi_source_abandon(ring->source);
    }
    for (int i = 0; i < ring->threads; i++)
        if (ring->workers[i].exited) {
            pthread_mutex_unlock(&ring->lock);
            pthread_join(ring->workers[i].thread, NULL);
            pthread_mutex_lock(&ring->lock);
        } else {
            pthread_detach(ring->workers[i].thread);
        }
    rung_context *context = ring->context;
    rungi_ring_drop(ring);
    if (abandoned > 0)
        rungi_log(context, RUNG_LOG_WARNING,
                  "the loader stops and leaves %d stuck worker%s behind: %s", abandoned,
                  abandoned > 1 ? "s" : "", stuck);
}
