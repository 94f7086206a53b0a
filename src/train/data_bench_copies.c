// SPDX-License-Identifier: Apache-2.0
// Do copies to the device go on while it computes? First batches are only copied, which tells how
// long one takes; then the host waits after each as long as that, as for a step of training. When
// copies overlap, batch follows batch after one such time, else after two.
#include "base/context.h"
#include "base/error.h"
#include "train/data_bench.h"

enum { BATCHES_MIN = 4 };

static const double seconds_default = 2;

// Takes batches for `seconds`, with `step_ms` of a step after each.
static rung_status run(rungi_bench *b, rungi_feeder *feeder, double seconds, double step_ms,
                       int64_t *batches_out, double *took_out)
{
    rung_context *context = b->s->context;
    int64_t begin = rungi_now(context), now = begin, until = begin + (int64_t)(seconds * 1e9);
    int64_t batches = 0;
    for (; now < until || batches < BATCHES_MIN; batches++) {
        rung_batch batch;
        RUNG_TRY(rungi_feeder_next(feeder, 0, &batch));
        if (step_ms > 0)
            rungi_sleep(context, (int64_t)(step_ms * 1e6));
        rungi_feeder_release(feeder, &batch);
        now = rungi_now(context);
    }
    *batches_out = batches;
    *took_out = (double)(now - begin) * 1e-9;
    return RUNG_OK;
}

static rung_status measure(rungi_bench *b, rung_loader *loader, rungi_feeder *feeder)
{
    rung_loader_statistics before, after;
    rungi_copies *c = &b->copies;
    int64_t batches;
    double seconds = (b->o->seconds > 0 ? b->o->seconds : seconds_default) / 2, took;
    RUNG_TRY(run(b, feeder, 0, 0, &batches, &took)); // warm
    rung_loader_measure(loader, &before);
    RUNG_TRY(run(b, feeder, seconds, 0, &batches, &took));
    rung_loader_measure(loader, &after);
    double copied = after.seconds[RUNG_STAGE_COPY] - before.seconds[RUNG_STAGE_COPY];
    double bytes = (double)(after.copy_bytes - before.copy_bytes);
    c->ms = copied * 1e3 / (double)batches;
    c->bytes_per_s = copied > 0 ? bytes / copied : 0;
    // Where batches come more slowly than copies, waiting for them must not count: the step is as
    // long as both.
    c->step_ms = took * 1e3 / (double)batches;
    c->step_ms = c->step_ms > c->ms ? c->step_ms : c->ms;
    RUNG_TRY(run(b, feeder, seconds, c->step_ms, &batches, &took));
    c->batch_ms = took * 1e3 / (double)batches;
    double hidden = c->step_ms + c->ms - c->batch_ms;
    c->overlap = c->ms > 0 ? hidden / c->ms : 0;
    c->overlap = c->overlap < 0 ? 0 : c->overlap > 1 ? 1 : c->overlap;
    c->device_share = c->step_ms / c->batch_ms;
    c->done = true;
    return RUNG_OK;
}

rung_status rungi_bench_copies(rungi_bench *b)
{
    rung_transform steps[RUNGI_SESSION_TRANSFORMS];
    rung_loader_options options;
    rung_loader_memory memory;
    rung_source *source;
    rung_loader *loader = NULL;
    rungi_feeder *feeder = NULL;
    bool pinned;
    if (b->s->c->device.copy == RUNGI_COPY_DIRECT)
        return RUNG_OK;
    RUNG_TRY(rungi_session_loader_options(b->s, true, steps, &options, &source));
    RUNG_TRY(rungi_session_pin(b->s, &pinned, &memory));
    options.memory = pinned ? &memory : NULL;
    options.defer = b->s->c->data.augment_on == RUNGI_AUGMENT_DEVICE;
    options.on_bad = NULL;
    options.quiet = true;
    options.num_workers = b->rows[b->best].workers > 0 ? b->rows[b->best].workers : 1;
    options.timeout = (double)b->s->c->data.timeout * 1e-9;
    rung_status status = rung_loader_create(b->s->context, source, &options, &loader);
    if (status == RUNG_OK)
        status = rungi_session_make_feeder(b->s, loader, source, &options, false, &feeder);
    if (status == RUNG_OK)
        status = measure(b, loader, feeder);
    rungi_feeder_destroy(&feeder);
    rung_loader_destroy(&loader);
    return status;
}
