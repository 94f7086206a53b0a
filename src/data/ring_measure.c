// SPDX-License-Identifier: Apache-2.0
// Where the time of a ring's workers went.
#include "base/context.h"
#include "data/ring.h"

const char *rung_loader_stage_name(int stage)
{
    static const char *const names[RUNG_STAGES] = {"read", "decode", "transform", "collate",
                                                   "slot", "idle",   "copy"};
    return stage >= 0 && stage < RUNG_STAGES ? names[stage] : NULL;
}

void rungi_worker_add(rungi_worker *worker, const rungi_run_time *time, int64_t reads)
{
    for (int i = 0; i < RUNG_STAGES; i++)
        worker->ns[i] += time->ns[i];
    worker->reads += reads;
    worker->read_bytes += time->bytes;
}

void rungi_worker_wait(rungi_worker *worker, rung_loader_stage stage)
{
    rungi_ring *ring = worker->ring;
    worker->waiting = (int)stage;
    worker->waiting_since = rungi_now(ring->context);
    pthread_cond_wait(&ring->work, &ring->lock);
    worker->ns[stage] += rungi_now(ring->context) - worker->waiting_since;
    worker->waiting = -1;
}

static int64_t busy_of(const int64_t ns[RUNG_STAGES])
{
    return ns[RUNG_STAGE_READ] + ns[RUNG_STAGE_DECODE] + ns[RUNG_STAGE_TRANSFORM] +
           ns[RUNG_STAGE_COLLATE];
}

// A worker's times until now, a wait under way included.
static void times_of(const rungi_worker *w, int64_t now, int64_t ns[RUNG_STAGES], int64_t *there)
{
    for (int i = 0; i < RUNG_STAGES; i++)
        ns[i] = w->ns[i];
    if (w->waiting >= 0 && now > w->waiting_since)
        ns[w->waiting] += now - w->waiting_since;
    *there = w->began ? (w->ended ? w->ended : now) - w->began : 0;
}

static int workers_of(const rungi_ring *ring)
{
    return ring->options.num_workers > 0 ? ring->options.num_workers : 1;
}

void rungi_ring_measure(rungi_ring *ring, rung_loader_statistics *out)
{
    pthread_mutex_lock(&ring->lock);
    int64_t now = rungi_now(ring->context), busy = 0, ns[RUNG_STAGES], there;
    *out = ring->statistics;
    for (int i = 0; i < workers_of(ring); i++) {
        times_of(&ring->workers[i], now, ns, &there);
        for (int k = 0; k < RUNG_STAGES; k++)
            out->seconds[k] += (double)ns[k] * 1e-9;
        busy += busy_of(ns);
        out->worker_seconds += (double)there * 1e-9;
        out->reads += ring->workers[i].reads;
        out->read_bytes += ring->workers[i].read_bytes;
    }
    out->busy_seconds = (double)busy * 1e-9;
    for (int i = 0; i < ring->queue_count; i++)
        out->queue_depth +=
            ring->slots[ring->queue[(ring->queue_head + i) % ring->info.slots]].state ==
            RUNGI_SLOT_READY;
    if (ring->depth_count > 0)
        out->mean_queue_depth = (double)ring->depth_sum / (double)ring->depth_count;
    pthread_mutex_unlock(&ring->lock);
}

bool rungi_ring_measure_worker(rungi_ring *ring, int worker, rung_worker_statistics *out)
{
    if (worker < 0 || worker >= workers_of(ring))
        return false;
    pthread_mutex_lock(&ring->lock);
    const rungi_worker *w = &ring->workers[worker];
    int64_t ns[RUNG_STAGES], there;
    times_of(w, rungi_now(ring->context), ns, &there);
    *out = (rung_worker_statistics){
        .reads = w->reads, .read_bytes = w->read_bytes, .worker_seconds = (double)there * 1e-9};
    for (int k = 0; k < RUNG_STAGES; k++)
        out->seconds[k] = (double)ns[k] * 1e-9;
    out->busy_share = there > 0 ? (double)busy_of(ns) / (double)there : 0;
    pthread_mutex_unlock(&ring->lock);
    return true;
}
