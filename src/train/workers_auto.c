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
    *samples += batch.count;
    if (feeder)
        rungi_feeder_release(feeder, &batch);
    else
        rung_loader_release(loader, &batch);
    return status;
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
    for (; status == RUNG_OK && (taken < STEPS_MIN || now - begin < window_ns); taken++) {
        status = step(s, loader, feeder, &samples, &wait);
        now = rungi_now(s->context);
    }
    double seconds = now > begin ? (double)(now - begin) * 1e-9 : 1e-9;
    *out = (rungi_trial){.workers = workers,
                         .samples_per_s = (double)samples / seconds,
                         .wait_share = (double)wait * 1e-9 / seconds,
                         .cpu_share = (rungi_cpu_seconds() - cpu) / seconds / rungi_core_count(),
                         .resident = rungi_resident()};
    rungi_feeder_destroy(&feeder);
    rung_loader_destroy(&loader);
    return status;
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
        tell(s, &trials[count++]);
    }
    *workers_out = trials[best].workers;
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
