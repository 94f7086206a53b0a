// SPDX-License-Identifier: Apache-2.0
// The consumer's side: take the next batch, wait with a limit, tell what went wrong, give back.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/context.h"
#include "base/error.h"
#include "data/ring.h"
#include "data/source.h"

#define SECOND INT64_C(1000000000)

// How long a consumer that holds every slot may wait for its other thread to release one.
#define HOLD_LIMIT (30 * SECOND)
// How long (of real time) the first failure waits for reads that are under way: they may fail too.
#define FAILURE_GRACE (1 * SECOND)

static int64_t real_now(void)
{
    return rungi_clock_monotonic()->now(NULL);
}

void rungi_ring_wait(rungi_ring *ring, int64_t nanoseconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t at = (int64_t)until.tv_nsec + (nanoseconds > 0 ? nanoseconds : 0);
    until.tv_sec += (time_t)(at / SECOND);
    until.tv_nsec = (long)(at % SECOND);
    pthread_cond_timedwait(&ring->ready, &ring->lock, &until);
}

// Waits until `deadline` of the context's clock (INT64_MAX: none) or until something happens.
static void wait_until(rungi_ring *ring, int64_t deadline)
{
    int64_t most = SECOND; // looks around that often whatever happens
    if (deadline != INT64_MAX) {
        // An injected clock runs at a speed of its own: look at it often.
        bool real = rungi_clock(ring->context) == rungi_clock_monotonic();
        int64_t left = deadline - rungi_now(ring->context);
        most = !real ? 2 * 1000 * 1000 : left < most ? left : most;
    }
    rungi_ring_wait(ring, most);
}

// ---- what went wrong

static void describe_work(const rungi_ring *ring, int64_t what, char *out, size_t size)
{
    char sample[600];
    if (what >= 0) {
        rungi_source_describe(ring->source, what, sample, sizeof sample);
        snprintf(out, size, "reading %s", sample);
    } else if (what == RUNGI_COLLATING) {
        snprintf(out, size, "collating a batch");
    } else if (what == RUNGI_ORDERING) {
        snprintf(out, size, "asking the sampler %s",
                 ring->sampler->name ? ring->sampler->name : "");
    } else {
        snprintf(out, size, "opening the source %s", ring->source->name ? ring->source->name : "");
    }
}

// Of the workers that are away, the one that left next after `last` did.
static const rungi_worker *away_after(const rungi_ring *ring, int64_t last, int last_number)
{
    const rungi_worker *next = NULL;
    int64_t earliest = 0;
    for (int i = 0; i < ring->threads; i++) {
        const rungi_worker *w = &ring->workers[i];
        int64_t since = atomic_load(&w->since);
        bool later = since > last || (since == last && i > last_number);
        if (atomic_load(&w->phase) != RUNGI_WORKER_IDLE && later && (!next || since < earliest)) {
            next = w;
            earliest = since;
        }
    }
    return next;
}

void rungi_ring_stuck(rungi_ring *ring, char *out, size_t size)
{
    int64_t now = rungi_now(ring->context), last = INT64_MIN;
    size_t used = 0;
    const rungi_worker *w = away_after(ring, last, -1);
    snprintf(out, size, "no worker is reading");
    for (; w && used + 1 < size; w = away_after(ring, last, w->number)) {
        char what[640];
        last = atomic_load(&w->since);
        describe_work(ring, atomic_load(&w->sample), what, sizeof what);
        int length = snprintf(out + used, size - used, "%sworker %d has been %s for %.1f s",
                              used ? "; " : "", w->number, what, (double)(now - last) / 1e9);
        used += length > 0 ? (size_t)length : 0;
    }
}

static rung_status timed_out(rungi_ring *ring)
{
    char stuck[900];
    rungi_ring_stuck(ring, stuck, sizeof stuck);
    return RUNG_FAIL(RUNG_TIMEOUT, "no batch within data.timeout (%g s): %s", ring->options.timeout,
                     stuck);
}

rung_status rungi_ring_tell_failures(const rungi_ring *ring)
{
    rung_error error = ring->failures[0].error;
    size_t used = strlen(error.message), size = sizeof error.message;
    if (ring->failure_count > 1 && used > size / 2) {
        used = size / 2; // room for the others
        while (used > 0 && ((unsigned char)error.message[used] & 0xc0) == 0x80)
            used--; // not inside of a character
    }
    error.message[used] = '\0';
    for (int i = 1; i < ring->failure_count && used + 1 < size; i++) {
        int length = snprintf(error.message + used, size - used, "; also %s",
                              ring->failures[i].error.message);
        used += length > 0 ? (size_t)length : 0;
    }
    return rungi_fail_adopt(&error);
}

// ---- next

static rungi_slot *head(const rungi_ring *ring)
{
    return ring->queue_count > 0 ? &ring->slots[ring->queue[ring->queue_head]] : NULL;
}

static void deliver(rungi_ring *ring, rung_batch *batch_out)
{
    rungi_slot *slot = head(ring);
    ring->queue_head = (ring->queue_head + 1) % ring->info.slots;
    ring->queue_count--;
    slot->state = RUNGI_SLOT_HELD;
    slot->ticket++;
    ring->held++;
    slot->batch.slot = slot;
    slot->batch.ticket = slot->ticket;
    *batch_out = slot->batch;
    ring->statistics.batches++;
    ring->statistics.samples += slot->batch.count;
    ring->statistics.batch_bytes += rungi_batch_bytes(&slot->batch);
}

static void count_depth(rungi_ring *ring)
{
    int depth = 0;
    for (int i = 0; i < ring->queue_count; i++) {
        const rungi_slot *slot =
            &ring->slots[ring->queue[(ring->queue_head + i) % ring->info.slots]];
        depth += slot->state == RUNGI_SLOT_READY;
    }
    ring->depth_sum += depth;
    ring->depth_count++;
}

// Deadlines of one call of next(): each starts when its condition is first seen.
typedef struct limits {
    int64_t batch;   // data.timeout
    int64_t hold;    // all slots are held
    int64_t failure; // a failure waits for others: real time
} limits;

static int64_t start_limit(int64_t *limit, int64_t now, int64_t length)
{
    if (*limit == INT64_MAX)
        *limit = now + length;
    return *limit;
}

// Looks at the ring once: RUNG_OK with *got when a batch is delivered; a failure; or RUNG_OK
// without *got, and *until when to look again at the latest.
static rung_status look(rungi_ring *ring, limits *l, rung_batch *batch_out, bool *got,
                        int64_t *until)
{
    rungi_slot *first = head(ring);
    int64_t now = rungi_now(ring->context);
    *until = l->batch;
    if (atomic_load(&ring->failed_order) < 0) // not of a sample: no batch is good any more
        return rungi_ring_tell_failures(ring);
    if (first && first->state == RUNGI_SLOT_READY) {
        deliver(ring, batch_out);
        *got = true;
        return RUNG_OK;
    }
    if (ring->failure_count > 0) {
        int64_t real = real_now();
        bool over = ring->active == 0 || real >= start_limit(&l->failure, real, FAILURE_GRACE);
        if ((over && !rungi_ring_claimable(ring)) || now >= l->batch)
            return rungi_ring_tell_failures(ring);
        *until = now + SECOND / 100;
        return RUNG_OK;
    }
    RUNG_CHECK(first || ring->opening || !ring->finished, RUNG_INVALID,
               "no batch is left: the loader ends before epoch %" PRId64, ring->options.end_epoch);
    if (ring->held == ring->info.slots) {
        int64_t limit =
            ring->options.timeout > 0 ? (int64_t)(ring->options.timeout * 1e9) : HOLD_LIMIT;
        RUNG_CHECK(now < start_limit(&l->hold, now, limit), RUNG_INVALID,
                   "all %d batches of the loader are held: release one first, or raise `hold`",
                   ring->info.slots);
        *until = l->hold;
        return RUNG_OK;
    }
    if (ring->options.num_workers == 0) {
        rungi_worker_fill_slot(&ring->workers[0], rungi_ring_free_slot(ring));
        *until = INT64_MIN; // look at it now
        return RUNG_OK;
    }
    return now >= l->batch ? timed_out(ring) : RUNG_OK;
}

rung_status rungi_ring_next(rungi_ring *ring, rung_batch *batch_out)
{
    RUNG_TRY(rungi_ring_start(ring));
    const rung_loader_options *options = &ring->options;
    int64_t start = rungi_now(ring->context), until = INT64_MAX;
    limits l = {INT64_MAX, INT64_MAX, INT64_MAX};
    if (options->timeout > 0 && options->num_workers > 0)
        l.batch = start + (int64_t)(options->timeout * 1e9);
    bool got = false;
    pthread_mutex_lock(&ring->lock);
    count_depth(ring);
    if (options->num_workers == 0 && !ring->workers[0].began)
        ring->workers[0].began = start;
    rung_status status = look(ring, &l, batch_out, &got, &until);
    while (status == RUNG_OK && !got) {
        if (until != INT64_MIN)
            wait_until(ring, until);
        status = look(ring, &l, batch_out, &got, &until);
    }
    ring->statistics.wait_seconds += (double)(rungi_now(ring->context) - start) / 1e9;
    pthread_mutex_unlock(&ring->lock);
    return got && batch_out->left_out ? rungi_ring_tell_bad(ring, batch_out) : status;
}

void rungi_ring_release(rungi_ring *ring, rung_batch *batch)
{
    rungi_slot *slot = batch->slot;
    if (!slot)
        return;
    pthread_mutex_lock(&ring->lock);
    bool mine = slot->state == RUNGI_SLOT_HELD && slot->ticket == batch->ticket;
    if (mine) {
        slot->state = RUNGI_SLOT_FREE;
        ring->held--;
        pthread_cond_broadcast(&ring->work);
        if (ring->held + 1 == ring->info.slots)
            pthread_cond_broadcast(&ring->ready); // next() may wait for it
    }
    pthread_mutex_unlock(&ring->lock);
    if (!mine)
        rungi_log(ring->context, RUNG_LOG_ERROR,
                  "a batch (epoch %" PRId64 ", position %" PRId64 ") was released twice",
                  batch->epoch, batch->position);
    *batch = (rung_batch){0};
}
