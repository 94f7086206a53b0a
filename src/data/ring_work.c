// SPDX-License-Identifier: Apache-2.0
// What workers do: open batches, claim samples, read them, collate.
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/context.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/thread.h"
#include "data/ring.h"
#include "data/sample.h"
#include "data/source.h"

// ---- code that may never come back

// Enters code of sources, samplers and hooks, for `what` (a sample or RUNGI_...).
static void go_away(rungi_worker *worker, int64_t what, int64_t now)
{
    atomic_store_explicit(&worker->since, now, memory_order_relaxed);
    atomic_store_explicit(&worker->sample, what, memory_order_relaxed);
    atomic_store(&worker->phase, RUNGI_WORKER_READING);
}

// Leaves it; false when nobody waits for this worker any more: the loader, context and source are
// gone, only the ring is still there.
static bool come_back(rungi_worker *worker)
{
    int expected = RUNGI_WORKER_READING;
    return atomic_compare_exchange_strong(&worker->phase, &expected, RUNGI_WORKER_IDLE);
}

// ---- failures

// Keeps this thread's error record as the failure of sample number `order`.
static void record_failure(rungi_ring *ring, int64_t order)
{
    int i =
        ring->failure_count < RUNGI_MAX_FAILURES ? ring->failure_count++ : RUNGI_MAX_FAILURES - 1;
    if (order < atomic_load(&ring->failed_order))
        atomic_store(&ring->failed_order, order);
    for (; i > 0 && ring->failures[i - 1].order > order; i--)
        ring->failures[i] = ring->failures[i - 1];
    ring->failures[i] = (rungi_failure){order, *rung_error_last()};
}

// A hook may have returned a status without saying anything.
static void explain(rung_status status)
{
    if (rung_error_last()->status != status)
        RUNG_FAIL(status, "%s, no reason given", rung_status_text(status));
}

static void name_worker(const rungi_worker *worker, char out[48])
{
    if (worker->number < 0)
        snprintf(out, 48, "without workers");
    else
        snprintf(out, 48, "worker %d", worker->number);
}

// ---- reading

// Adds the time since *clock to *ns, and moves the former. A worker that was stuck may have been
// left behind: the context is gone then.
static void take_time(const rungi_ring *ring, int64_t *clock, int64_t *ns)
{
    if (atomic_load_explicit(&ring->cancelled, memory_order_relaxed))
        return;
    int64_t now = rungi_now(ring->context);
    *ns += now - *clock;
    *clock = now;
}

static rung_status apply(const rungi_worker *worker, int f, const rung_sample *sample,
                         const rung_view *in, void *out, int64_t *clock, rungi_run_time *time)
{
    rungi_chain_worker *own = worker->chains[f];
    rung_status status = rungi_chain_apply(worker->ring->chains[f], sample, in, own, out);
    take_time(worker->ring, clock, &time->ns[RUNG_STAGE_TRANSFORM]);
    int64_t decoding = rungi_chain_worker_decoding(own);
    time->ns[RUNG_STAGE_TRANSFORM] -= decoding;
    time->ns[RUNG_STAGE_DECODE] += decoding;
    return status;
}

// Reads sample i of a slot, which begins at *clock; moves that to its end.
static rung_status read_sample(rungi_worker *worker, rungi_slot *slot, int64_t i, int64_t *clock,
                               rungi_run_time *time)
{
    const rungi_ring *ring = worker->ring;
    const rung_source *source = ring->source;
    const rung_draw *draw = &slot->draws[i];
    rung_sample sample = {
        .index = draw->sample,
        .epoch = slot->batch.epoch,
        .occurrence = draw->occurrence,
        .worker = worker->number,
        .random = rungi_sample_random(ring->options.seed, slot->batch.epoch, draw->sample,
                                      draw->occurrence),
        .cancelled = &ring->cancelled,
    };
    rung_view views[RUNG_MAX_FIELDS];
    void *places[RUNG_MAX_FIELDS];
    for (int f = 0; f < source->field_count; f++) {
        places[f] = (char *)slot->data[f] + (size_t)i * ring->field_bytes[f];
        views[f] = (rung_view){source->fields[f].dtype, source->fields[f].shape,
                               ring->chains[f] ? worker->raw[f] : places[f]};
        sample.may_borrow |= ring->chains[f] ? 1u << f : 0;
    }
    rung_status read = source->read(source->self, worker->state, &sample, views);
    take_time(ring, clock, &time->ns[RUNG_STAGE_READ]);
    RUNG_TRY(read);
    time->bytes += (int64_t)ring->plain_bytes;
    for (int f = 0; f < source->field_count; f++) {
        bool file = source->fields[f].pixels == RUNG_PIXELS_FILE;
        RUNG_CHECK(!file || (views[f].data && views[f].data != worker->raw[f] &&
                             views[f].shape.dim[0] >= 0),
                   RUNG_INVALID, "field %s: the source gave no picture", source->fields[f].name);
        time->bytes += file ? views[f].shape.dim[0] : 0;
        if (ring->chains[f])
            RUNG_TRY(apply(worker, f, &sample, &views[f], places[f], clock, time));
        else
            RUNG_CHECK(views[f].data == places[f], RUNG_INVALID,
                       "field %s: the source may not borrow here", source->fields[f].name);
    }
    return RUNG_OK;
}

static void explain_sample(const rungi_worker *worker, const rungi_slot *slot, int64_t i,
                           rung_status status)
{
    char what[640], who[48];
    explain(status);
    rungi_source_describe(worker->ring->source, slot->draws[i].sample, what, sizeof what);
    name_worker(worker, who);
    rungi_fail_prefix("%s, epoch %" PRId64 ", %s", what, slot->batch.epoch, who);
}

// Reads samples begin ... end - 1 of a slot, without the lock. Samples after the first failure are
// left out, those before it are not, so that the failure told is the same for any number of
// workers. Returns false when the worker was abandoned. The lock is held at return.
static bool read_run(rungi_worker *worker, rungi_slot *slot, int64_t begin, int64_t end)
{
    rungi_ring *ring = worker->ring;
    int64_t i = begin, failed = -1, bad = 0, now = rungi_now(ring->context);
    rungi_run_time time = {0};
    for (; i < end && failed < 0; i++) {
        if (atomic_load_explicit(&ring->cancelled, memory_order_relaxed) ||
            slot->first + i > atomic_load_explicit(&ring->failed_order, memory_order_relaxed))
            break;
        go_away(worker, slot->draws[i].sample, now);
        rung_status status = read_sample(worker, slot, i, &now, &time);
        if (status != RUNG_OK) {
            explain_sample(worker, slot, i, status);
            if (rungi_ring_may_skip(ring, status))
                slot->bad[i] = strdup(rung_error_last()->message);
            bad += slot->bad && slot->bad[i];
            failed = slot->bad && slot->bad[i] ? -1 : i;
        }
        if (!come_back(worker)) {
            pthread_mutex_lock(&ring->lock);
            return false;
        }
    }
    pthread_mutex_lock(&ring->lock);
    atomic_store_explicit(&worker->sample, RUNGI_NO_SAMPLE, memory_order_relaxed);
    slot->done += i - begin - (failed >= 0);
    slot->bad_count += bad;
    rungi_worker_add(worker, &time, i - begin);
    if (failed >= 0)
        record_failure(ring, slot->first + failed);
    return true;
}

// Collates a batch whose samples have all been read. The lock is held at call and return.
static bool collate(rungi_worker *worker, rungi_slot *slot)
{
    rungi_ring *ring = worker->ring;
    const rung_loader_options *options = &ring->options;
    rung_batch *batch = &slot->batch;
    if ((options->collate || options->mix) && batch->count > 0) {
        slot->running++;
        pthread_mutex_unlock(&ring->lock);
        int64_t start = rungi_now(ring->context);
        rung_random random = rungi_batch_random(options->seed, batch->epoch, batch->position);
        go_away(worker, RUNGI_COLLATING, start);
        rung_status status = options->mix ? rungi_ring_mix(ring, batch) : RUNG_OK;
        if (status == RUNG_OK && options->collate)
            status = options->collate(options->collate_user, &random, batch);
        if (status != RUNG_OK) {
            char who[48];
            explain(status);
            name_worker(worker, who);
            rungi_fail_prefix("collating the batch at position %" PRId64 " of epoch %" PRId64
                              ", %s",
                              batch->position, batch->epoch, who);
        }
        bool back = come_back(worker);
        int64_t end = back ? rungi_now(ring->context) : start;
        pthread_mutex_lock(&ring->lock);
        if (!back)
            return false;
        slot->running--;
        worker->ns[RUNG_STAGE_COLLATE] += end - start;
        atomic_store(&worker->sample, RUNGI_NO_SAMPLE);
        if (status != RUNG_OK) {
            record_failure(ring, slot->first + batch->count - 1);
            return true;
        }
    }
    slot->state = RUNGI_SLOT_READY;
    return true;
}

static bool finish_if_complete(rungi_worker *worker, rungi_slot *slot)
{
    if (slot->running != 0 || slot->done != slot->batch.count)
        return true;
    if (slot->bad_count > 0 && rungi_slot_leave_out(worker->ring, slot) != RUNG_OK) {
        record_failure(worker->ring, slot->first);
        slot->done = -1; // never complete
        return true;
    }
    return collate(worker, slot);
}

// ---- one turn of a worker

static void forget_places(const rungi_ring *ring, rungi_slot *slot)
{
    slot->bad_count = ring->capacity; // a batch that was broken off has them anywhere
    rungi_slot_forget_bad(slot);
}

// Takes a free slot and opens the next batch in it. Returns false when the worker was abandoned.
// The lock is held at call and return.
static bool open_next(rungi_worker *worker, rungi_slot *slot)
{
    rungi_ring *ring = worker->ring;
    slot->state = RUNGI_SLOT_FILLING;
    slot->claimed = slot->done = 0;
    if (slot->bad)
        forget_places(ring, slot);
    slot->running = 0;
    ring->queue[(ring->queue_head + ring->queue_count++) % ring->info.slots] =
        (int)(slot - ring->slots);
    ring->opening = true;
    pthread_mutex_unlock(&ring->lock);
    go_away(worker, RUNGI_ORDERING, rungi_now(ring->context));
    rung_status status = rungi_ring_open_batch(ring, slot);
    if (status != RUNG_OK)
        explain(status);
    bool back = come_back(worker);
    pthread_mutex_lock(&ring->lock);
    if (!back)
        return false;
    ring->opening = false;
    if (status != RUNG_OK) {
        slot->done = -1; // never complete
        record_failure(ring, slot->first);
        return true;
    }
    ring->finished = rungi_ring_past_end(ring);
    if (slot->batch.count == 0)
        slot->state = RUNGI_SLOT_READY; // this rank has no part in it
    else if (!ring->filling)
        ring->filling = slot;
    else
        ring->next = slot;
    return true;
}

// Claims a run of samples: large ones first, single ones at the end, so that the workers finish a
// batch together. Returns false when the worker was abandoned.
static bool read_next(rungi_worker *worker, rungi_slot *slot)
{
    rungi_ring *ring = worker->ring;
    int workers = ring->options.num_workers > 0 ? ring->options.num_workers : 1;
    int64_t begin = slot->claimed, left = slot->batch.count - begin;
    int64_t count = workers == 1 ? left : left / (2 * workers);
    count = count > 0 ? count : 1;
    slot->claimed += count;
    slot->running++;
    if (slot->claimed == slot->batch.count) {
        ring->filling = ring->next;
        ring->next = NULL;
    }
    pthread_mutex_unlock(&ring->lock);
    if (!read_run(worker, slot, begin, begin + count))
        return false;
    slot->running--;
    return finish_if_complete(worker, slot);
}

bool rungi_worker_open(rungi_worker *worker)
{
    rungi_ring *ring = worker->ring;
    const rung_source *source = ring->source;
    rung_status status = RUNG_OK;
    go_away(worker, RUNGI_OPENING, rungi_now(ring->context));
    if (source->open)
        status = source->open(source->self, worker->number, &worker->state);
    if (status != RUNG_OK) {
        char who[48];
        explain(status);
        name_worker(worker, who);
        rungi_fail_prefix("opening the source %s, %s", source->name ? source->name : "", who);
    }
    bool back = come_back(worker);
    pthread_mutex_lock(&ring->lock);
    worker->opened = status == RUNG_OK;
    if (back && status != RUNG_OK) {
        record_failure(ring, -1);
        ring->broken = worker->number >= 0; // without workers, next() tries again
    }
    pthread_mutex_unlock(&ring->lock);
    return back;
}

bool rungi_worker_close(rungi_worker *worker)
{
    const rung_source *source = worker->ring->source;
    if (!worker->opened || !source->open || !source->close)
        return true;
    go_away(worker, RUNGI_OPENING, rungi_now(worker->ring->context));
    source->close(source->self, worker->state);
    return come_back(worker);
}

void rungi_worker_fill_slot(rungi_worker *worker, rungi_slot *slot)
{
    rungi_ring *ring = worker->ring;
    open_next(worker, slot);
    while (ring->filling && ring->failure_count == 0)
        read_next(worker, slot);
}

// Wakes the consumer when there is something for it: not after every run of samples.
static void tell_consumer(rungi_ring *ring)
{
    bool head_ready = ring->queue_count > 0 &&
                      ring->slots[ring->queue[ring->queue_head]].state == RUNGI_SLOT_READY;
    if (head_ready || ring->failure_count > 0 || ring->paused || ring->finished)
        pthread_cond_broadcast(&ring->ready);
}

bool rungi_ring_claimable(const rungi_ring *ring)
{
    const rungi_slot *slot = ring->filling;
    return slot && !ring->paused && slot->first + slot->claimed < atomic_load(&ring->failed_order);
}

// Works until told to stop. Returns false when the worker was abandoned. The lock is held at call
// and return.
static bool work(rungi_worker *worker)
{
    rungi_ring *ring = worker->ring;
    while (!ring->stopping) {
        rungi_slot *free_slot = NULL;
        bool claim = worker->opened && rungi_ring_claimable(ring);
        bool wanted = worker->opened && !ring->paused && ring->failure_count == 0 && !ring->next &&
                      !ring->opening && !ring->finished;
        if (wanted)
            free_slot = rungi_ring_free_slot(ring);
        if (!claim && !free_slot) {
            rungi_worker_wait(worker, wanted ? RUNG_STAGE_SLOT : RUNG_STAGE_IDLE);
            continue;
        }
        ring->active++;
        bool back = free_slot ? open_next(worker, free_slot) : read_next(worker, ring->filling);
        if (!back)
            return false;
        ring->active--;
        if (free_slot)
            pthread_cond_broadcast(&ring->work);
        tell_consumer(ring);
    }
    return true;
}

void *rungi_worker_main(void *worker_)
{
    rungi_worker *worker = worker_;
    rungi_ring *ring = worker->ring;
    rungi_cores_unbind();
    rungi_thread_nice(ring->options.worker_nice);
    int64_t began = rungi_now(ring->context);
    bool here = rungi_worker_open(worker);
    pthread_mutex_lock(&ring->lock);
    worker->began = began;
    if (here) {
        tell_consumer(ring);
        here = work(worker);
    }
    if (here) {
        pthread_mutex_unlock(&ring->lock);
        here = rungi_worker_close(worker);
        pthread_mutex_lock(&ring->lock);
    }
    if (!here) {
        rungi_ring_drop(ring);
        return NULL;
    }
    worker->exited = true;
    worker->ended = rungi_now(ring->context);
    ring->exited++;
    pthread_cond_broadcast(&ring->ready);
    pthread_mutex_unlock(&ring->lock);
    return NULL;
}
