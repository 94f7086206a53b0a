// SPDX-License-Identifier: Apache-2.0
#include "train/workers_auto.h"

#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/cores.h"
#include "base/error.h"
#include "base/text.h"
#include "measure/resident.h"

enum { STEPS_WARM = 2, STEPS_MIN = 5 };
static const int64_t window_ns = 400000000;

int rungi_trials_next(const rungi_trial *trials, int count, int cores, int *best_out)
{
    double most = 0, before = 0;
    for (int i = 0; i < count; i++) {
        before = most;
        most = trials[i].samples_per_s > most ? trials[i].samples_per_s : most;
    }
    *best_out = 0;
    for (int i = 0; i < count; i++)
        if (trials[i].samples_per_s >= 0.98 * most) {
            *best_out = i;
            break;
        }
    if (count == 0)
        return 0;
    const rungi_trial *last = &trials[count - 1];
    int limit = 2 * cores > 4 ? 2 * cores : 4; // 4 is four times the devices
    bool enough = last->wait_share < 0.02 || count == RUNGI_TRIALS_MAX || last->workers >= limit ||
                  (count > 1 && last->samples_per_s < 1.05 * before);
    return enough ? -1 : last->workers ? 2 * last->workers : 1;
}

// One step without an update; the time of waiting is added to *wait.
static rung_status step(rungi_session *s, rung_loader *loader, rungi_feeder *feeder,
                        int64_t *samples, int64_t *wait)
{
    rung_batch batch;
    double loss;
    int64_t begin = rungi_now(s->context);
    RUNG_TRY(feeder ? rungi_feeder_next(feeder, 0, &batch) : rung_loader_next(loader, &batch));
    *wait += rungi_now(s->context) - begin;
    rung_status status = rungi_session_gradients(s, &batch, 0, NULL, &loss);
    *samples += batch.global_count ? batch.global_count : batch.count;
    if (feeder)
        rungi_feeder_release(feeder, &batch);
    else
        rung_loader_release(loader, &batch);
    return status;
}

// Several ranks take the same steps: rank 0 says whether one more.
static rung_status agree(const rungi_session *s, bool *more)
{
    return s->comm ? rungi_comm_broadcast(s->comm, more, sizeof *more, 0, "one more step")
                   : RUNG_OK;
}

// And judge a trial alike: by rank 0's times, and the rank that waited most for data.
static rung_status agree_on_trial(const rungi_session *s, rungi_trial *trial)
{
    double wait = trial->wait_share;
    if (!s->comm)
        return RUNG_OK;
    RUNG_TRY(
        rungi_comm_all_reduce(s->comm, &wait, 1, RUNG_F64, RUNGI_COMM_MAX, "waiting for data"));
    RUNG_TRY(rungi_comm_broadcast(s->comm, trial, sizeof *trial, 0, "a trial of workers"));
    trial->wait_share = wait;
    return RUNG_OK;
}

static rung_status try_with(rungi_session *s, int workers, rungi_trial *out)
{
    rung_transform steps[RUNGI_SESSION_TRANSFORMS];
    rung_loader_options options;
    rung_source *source;
    rung_loader *loader;
    RUNG_TRY(rungi_session_loader_options(s, true, steps, &options, &source));
    options.num_workers = workers;
    options.timeout = workers ? (double)s->c->data.timeout * 1e-9 : 0;
    options.on_bad = NULL;
    options.quiet = true;
    options.defer = s->c->data.augment_on == RUNGI_AUGMENT_DEVICE;
    RUNG_TRY(rung_loader_create(s->context, source, &options, &loader));
    int64_t samples = 0, wait = 0, taken = 0;
    rungi_feeder *feeder = NULL;
    rung_status status = rungi_session_make_feeder(s, loader, source, &options, true, &feeder);
    for (int i = 0; i < STEPS_WARM && status == RUNG_OK; i++)
        status = step(s, loader, feeder, &samples, &wait);
    samples = wait = 0;
    double cpu = rungi_cpu_seconds();
    int64_t begin = rungi_now(s->context), now = begin;
    for (bool more = true; status == RUNG_OK && more; taken++) {
        status = step(s, loader, feeder, &samples, &wait);
        now = rungi_now(s->context);
        more = taken + 1 < STEPS_MIN || now - begin < window_ns;
        if (status == RUNG_OK)
            status = agree(s, &more);
    }
    double seconds = now > begin ? (double)(now - begin) * 1e-9 : 1e-9;
    *out = (rungi_trial){.workers = workers,
                         .samples_per_s = (double)samples / seconds,
                         .wait_share = (double)wait * 1e-9 / seconds,
                         .cpu_share = (rungi_cpu_seconds() - cpu) / seconds / rungi_core_count(),
                         .resident = rungi_resident()};
    rungi_feeder_destroy(&feeder);
    rung_loader_destroy(&loader);
    return status == RUNG_OK ? agree_on_trial(s, out) : status;
}

static void tell(const rungi_session *s, const rungi_trial *t)
{
    char bytes[32];
    rungi_log(
        s->context, RUNG_LOG_NOTICE,
        "data.num_workers auto: with %d %.0f samples/s, %.1f %% of the time waiting for data, "
        "%.0f %% of the cores busy, %s",
        t->workers, t->samples_per_s, 100 * t->wait_share, 100 * t->cpu_share,
        rungi_text_bytes(t->resident, bytes, sizeof bytes));
}

static rung_status try_all(rungi_session *s, int *workers_out)
{
    rungi_trial trials[RUNGI_TRIALS_MAX];
    int count = 0, best, cores = rungi_core_count(), next;
    while ((next = rungi_trials_next(trials, count, cores, &best)) >= 0) {
        RUNG_TRY(try_with(s, next, &trials[count]));
        if (s->rank == 0)
            tell(s, &trials[count]);
        count++;
    }
    *workers_out = trials[best].workers;
    if (s->rank == 0)
        rungi_log(s->context, RUNG_LOG_NOTICE, "data.num_workers auto: chose %d", *workers_out);
    return RUNG_OK;
}

rung_status rungi_session_choose_workers(rungi_session *s)
{
    int workers = 0;
    if (s->c->data.num_workers >= 0)
        return RUNG_OK;
    size_t bytes = (size_t)s->state->buffer_bytes;
    void *buffers = malloc(bytes + 1);
    RUNG_CHECK(buffers, RUNG_NO_MEMORY, "no memory to choose data.num_workers");
    memcpy(buffers, s->state->buffers, bytes); // training moves running statistics
    rung_status status = s->c->data.source == RUNGI_DATA_PRELOADED ? RUNG_OK : try_all(s, &workers);
    memcpy(s->state->buffers, buffers, bytes);
    free(buffers);
    RUNG_TRY(status);
    return rungi_session_set_workers(s, workers);
}
