// SPDX-License-Identifier: Apache-2.0
// A step of a session.
#include "base/error.h"
#include "train/session.h"

rung_status rungi_session_gradients(rungi_session *s, const rung_batch *batch, int64_t step,
                                    const rung_optimizer_update *update, double *loss_out)
{
    rungi_feed feeds[RUNG_MAX_FIELDS];
    s->batch_count = batch->count;
    if (s->servers && !batch->count) { // a short batch may leave a worker without samples
        *loss_out = 0;
        return RUNG_OK;
    }
    rungi_batch_view view = {.count = batch->count,
                             .global_count = batch->global_count,
                             .begin = batch->begin,
                             .alone = s->servers != NULL,
                             .stop = s->want_stop,
                             .waited = s->waited,
                             .feeds = feeds,
                             .n_feeds = rungi_session_feeds(s, batch, feeds),
                             .seed = (uint64_t)s->c->seed,
                             .step = (uint64_t)step,
                             .loss_scale = s->scales_loss ? s->loss_scale.scale : 1,
                             .optimizer = s->optimizer,
                             .update = update};
    return rungi_engine_train(s->engine, &view, loss_out);
}

rung_optimizer_update rungi_session_update(const rungi_session *s, int64_t step)
{
    rung_schedule_state schedule = rung_schedule_start(&s->schedule);
    return (rung_optimizer_update){
        .rates = rung_schedule_rates(&s->schedule, &schedule, step - s->loss_scale.skipped),
        .max_grad_norm = s->c->train.max_grad_norm,
        .max_grad_value = s->c->train.max_grad_value,
        .skip_nonfinite = s->scales_loss,
        .threads = rung_device_threads(s->device)};
}

rung_status rungi_session_step(rungi_session *s, const rung_batch *batch, int64_t step,
                               double *loss_out)
{
    rung_optimizer_update update = rungi_session_update(s, step);
    bool go;
    RUNG_TRY(rungi_session_begin_step(s, step, &go));
    s->stopped = !go;
    if (!go)
        return RUNG_OK;
    RUNG_TRY(rungi_session_gradients(s, batch, step, &update, loss_out));
    rungi_timeline_begin(s->timeline, RUNGI_QUEUE_HOST, RUNGI_TIME_OPTIMIZER, step);
    rung_status status = rungi_session_update_params(s, &update, step, NULL);
    rungi_timeline_end(s->timeline, RUNGI_QUEUE_HOST);
    rungi_timeline_mark(s->timeline, step);
    return status;
}
