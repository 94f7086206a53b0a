// SPDX-License-Identifier: Apache-2.0
// How batches come to the device.
#include <stdlib.h>

#include "base/error.h"
#include "train/session_stages.h"

rung_status rungi_session_pin(rungi_session *s, bool *pinned_out, rung_loader_memory *memory)
{
    *pinned_out = s->c->device.copy == RUNGI_COPY_EMULATE && s->c->data.pin_memory;
    if (!*pinned_out)
        return RUNG_OK;
    if (!s->pinned) {
        s->pinned = calloc(1, sizeof *s->pinned);
        RUNG_CHECK(s->pinned, RUNG_NO_MEMORY, "no memory for batches");
        rungi_pinned_init(s->pinned, s->context, (uint64_t)s->c->data.pin_limit);
    }
    *memory = rungi_pinned_memory(s->pinned);
    return RUNG_OK;
}

rung_status rungi_session_make_feeder(rungi_session *s, rung_loader *loader,
                                      const rung_source *source, const rung_loader_options *options,
                                      bool timed, rungi_feeder **feeder_out)
{
    const rungi_device_config *d = &s->c->device;
    rungi_finish *finish = NULL;
    rung_loader_info info;
    *feeder_out = NULL;
    rung_loader_describe(loader, &info);
    if (d->copy == RUNGI_COPY_DIRECT && !options->defer)
        return RUNG_OK;
    if (options->defer)
        RUNG_TRY(rungi_finish_create(s->context, &source->fields[0], &info.fields[0],
                                     options->transforms, options->transform_count, options->seed,
                                     s->device ? rung_device_threads(s->device) : 1, &finish));
    rung_status status = rungi_feeder_create(
        s->context, loader,
        &(rungi_feeder_options){.device = d->list.data[0],
                                .copy = d->copy == RUNGI_COPY_EMULATE,
                                .copy_delay = d->copy_delay,
                                .copy_byte = d->copy_rate > 0 ? 1 / d->copy_rate : 0,
                                .non_blocking = s->c->data.non_blocking,
                                .pinned = s->pinned,
                                .finish = finish,
                                .timeline = timed ? &s->timeline : NULL},
        feeder_out);
    if (status != RUNG_OK)
        rungi_finish_destroy(&finish);
    return status;
}

// In a pipeline the first stage alone reads batches.
static bool reads(const rungi_session *s)
{
    return !s->stages || s->rank == 0;
}

rung_status rungi_session_next(rungi_session *s, int64_t step, rung_batch *batch_out)
{
    if (reads(s))
        RUNG_TRY(s->feeder ? rungi_feeder_next(s->feeder, step, batch_out)
                           : rung_loader_next(s->train_loader, batch_out));
    return s->stages ? rungi_session_share_batch(s, batch_out) : RUNG_OK;
}

void rungi_session_release(rungi_session *s, rung_batch *batch)
{
    if (!reads(s))
        *batch = (rung_batch){0};
    else if (s->feeder)
        rungi_feeder_release(s->feeder, batch);
    else
        rung_loader_release(s->train_loader, batch);
}

rung_status rungi_session_seek(rungi_session *s, int64_t epoch, int64_t position)
{
    if (!reads(s))
        return RUNG_OK;
    return s->feeder ? rungi_feeder_seek(s->feeder, epoch, position)
                     : rung_loader_seek(s->train_loader, epoch, position);
}

rung_status rungi_session_val_next(rungi_session *s, rung_batch *batch_out)
{
    if (reads(s))
        RUNG_TRY(s->val_feeder ? rungi_feeder_next(s->val_feeder, 0, batch_out)
                               : rung_loader_next(s->val_loader, batch_out));
    return s->stages ? rungi_session_share_batch(s, batch_out) : RUNG_OK;
}

void rungi_session_val_release(rungi_session *s, rung_batch *batch)
{
    if (!reads(s))
        *batch = (rung_batch){0};
    else if (s->val_feeder)
        rungi_feeder_release(s->val_feeder, batch);
    else
        rung_loader_release(s->val_loader, batch);
}

rung_status rungi_session_val_seek(rungi_session *s, int64_t epoch, int64_t position)
{
    if (!reads(s))
        return RUNG_OK;
    return s->val_feeder ? rungi_feeder_seek(s->val_feeder, epoch, position)
                         : rung_loader_seek(s->val_loader, epoch, position);
}
