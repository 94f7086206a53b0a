// SPDX-License-Identifier: Apache-2.0
// rung_trainer_fit: steps, logs, validation, checkpoints, and the ends that training can have.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "train/trainer.h"

enum { PROGRESS_NS = 100000000 }; // between two progress events

const char *rung_time_part(int index)
{
    return rungi_category_name((rungi_category)index);
}

// ---- events -----------------------------------------------------------------------------------

static double seconds_since(const rung_trainer *t, int64_t begin)
{
    return (double)(rungi_trainer_now(t) - begin) * 1e-9;
}

// An event with what all of them say.
static rung_train_event event_now(const rung_trainer *t, rung_event_kind kind)
{
    const rungi_session *s = t->s;
    rung_train_event e = {.kind = kind,
                          .step = t->at.step,
                          .steps = s->total_steps,
                          .samples = t->at.samples,
                          .lr = t->last_lr,
                          .loss = t->last_loss,
                          .grad_norm = t->last_norm,
                          .seconds = seconds_since(t, t->began)};
    e.epochs = (s->total_steps + s->batches_per_epoch - 1) / s->batches_per_epoch;
    e.epoch = t->at.step ? (t->at.step - 1) / s->batches_per_epoch + 1 : 1;
    int64_t done = t->at.step - t->steps_before;
    if (done > 0)
        e.remaining = e.seconds / (double)done * (double)(s->total_steps - t->at.step);
    return e;
}

static rung_status send(rung_trainer *t, const rung_train_event *event)
{
    RUNG_TRY(rungi_trainer_record(t, event));
    if (t->observer && t->observer->event)
        t->observer->event(t->observer->user, event);
    return RUNG_OK;
}

// Adds what happened since the window began.
static void fill_window(const rung_trainer *t, const rungi_window *w, rung_train_event *e)
{
    int64_t now = rungi_trainer_now(t);
    double seconds = (double)(now - w->begin) * 1e-9;
    if (w->steps > 0)
        e->loss = w->loss / (double)w->steps;
    e->samples_per_s = seconds > 0 ? (double)w->samples / seconds : 0;
    rungi_breakdown b;
    rungi_timeline_between(t->s->timeline, w->begin, now, &b);
    for (int i = 0; i < RUNG_TIME_PARTS; i++)
        e->ms[i] = (double)b.ns[i] * 1e-6 / (double)(w->steps > 0 ? w->steps : 1);
    e->wait_share = now > w->begin ? (double)b.ns[RUNGI_TIME_WAIT] / (double)(now - w->begin) : 0;
}

static void restart_window(const rung_trainer *t, rungi_window *w)
{
    *w = (rungi_window){.begin = rungi_trainer_now(t)};
}

static rung_status log_step(rung_trainer *t)
{
    rung_train_event e = event_now(t, RUNG_EVENT_STEP);
    fill_window(t, &t->window, &e);
    restart_window(t, &t->window);
    return send(t, &e);
}

static rung_status show_progress(rung_trainer *t)
{
    if (!t->observer || rungi_trainer_now(t) - t->shown < PROGRESS_NS)
        return RUNG_OK;
    t->shown = rungi_trainer_now(t);
    rung_train_event e = event_now(t, RUNG_EVENT_PROGRESS);
    fill_window(t, &t->shown_window, &e);
    restart_window(t, &t->shown_window);
    return send(t, &e);
}

// ---- validation and checkpoints ---------------------------------------------------------------

static rung_status save(rung_trainer *t, bool best)
{
    if (!t->checkpoints || t->saved_step == t->at.step)
        return RUNG_OK;
    char path[64];
    int64_t begin = rungi_trainer_now(t);
    rungi_timeline_begin(t->s->timeline, RUNGI_QUEUE_HOST, RUNGI_TIME_CHECKPOINT, t->at.step);
    rung_status status = rungi_trainer_save(t, best);
    rungi_timeline_end(t->s->timeline, RUNGI_QUEUE_HOST);
    RUNG_TRY(status);
    snprintf(path, sizeof path, "checkpoints/step-%08" PRId64, t->at.step);
    rung_train_event e = event_now(t, RUNG_EVENT_CHECKPOINT);
    e.ms[RUNGI_TIME_CHECKPOINT] = seconds_since(t, begin) * 1e3;
    e.path = path;
    e.best = best;
    return send(t, &e);
}

// Early stopping: counts validations without progress.
static void watch_progress(rung_trainer *t, const rung_train_event *e)
{
    const rungi_loop_config *c = &t->s->c->train;
    double metric = rungi_trainer_metric(e, c->early_stop_metric);
    if (isnan(t->at.stop_best) || metric < t->at.stop_best - c->early_stop_min_delta) {
        t->at.stop_best = metric;
        t->at.stop_count = 0;
    } else {
        t->at.stop_count++;
    }
    t->at.stopped_early = c->early_stop_patience > 0 && t->at.stop_count >= c->early_stop_patience;
}

static rung_status validate(rung_trainer *t)
{
    if (!t->s->val_loader || t->evaluated_step == t->at.step)
        return RUNG_OK;
    rung_train_event e = event_now(t, RUNG_EVENT_EVAL);
    RUNG_TRY(rungi_trainer_validate(t, &e));
    double metric = rungi_trainer_metric(&e, t->s->c->checkpoint.best);
    e.best = isnan(t->at.best) || metric < t->at.best;
    if (e.best) {
        t->at.best = metric;
        t->at.best_step = t->at.step;
    }
    t->evaluated_step = t->at.step;
    if (t->s->schedule.kind == RUNG_SCHEDULE_PLATEAU)
        rung_schedule_observe(&t->s->schedule, &t->at.schedule, t->at.step,
                              t->s->schedule.mode == RUNG_PLATEAU_MAX ? e.accuracy : e.loss);
    watch_progress(t, &e);
    RUNG_TRY(send(t, &e));
    return e.best ? save(t, true) : RUNG_OK;
}

static bool due(int64_t every, int64_t step, bool epoch_ended)
{
    if (every == RUNGI_NEVER)
        return false;
    return every == RUNGI_EVERY_EPOCH ? epoch_ended : step % every == 0;
}

// ---- a step -----------------------------------------------------------------------------------

static rung_status update(rung_trainer *t, const rung_batch *batch, double loss)
{
    rungi_session *s = t->s;
    const rungi_loop_config *c = &s->c->train;
    if (!isfinite(loss) && c->on_nan == RUNGI_NAN_STOP)
        return rungi_trainer_diverged(t, batch, loss);
    rung_optimizer_update u = {.rates =
                                   rung_schedule_rates(&s->schedule, &t->at.schedule, t->at.step),
                               .max_grad_norm = c->max_grad_norm,
                               .max_grad_value = c->clip_value,
                               .want_norm = (t->at.step + 1) % c->log_every == 0,
                               .skip_nonfinite = c->on_nan == RUNGI_NAN_CONTINUE,
                               .threads = rung_device_threads(s->device)};
    rung_optimizer_report report;
    if (rung_optimizer_step(s->optimizer, s->state->params, s->state->grads, &u, &report) !=
        RUNG_OK)
        return rungi_fail_prefix("step %" PRId64, t->at.step + 1);
    t->last_lr = u.rates.lr;
    t->last_loss = loss;
    if (u.want_norm || u.max_grad_norm > 0)
        t->last_norm = report.grad_norm;
    return RUNG_OK;
}

static rung_status train_step(rung_trainer *t, rung_batch *batch)
{
    rungi_session *s = t->s;
    rungi_feed feeds[RUNG_MAX_FIELDS];
    double loss;
    rungi_batch_view view = {.count = batch->count,
                             .feeds = feeds,
                             .n_feeds = rungi_session_feeds(s, batch, feeds),
                             .seed = (uint64_t)s->c->seed,
                             .step = (uint64_t)t->at.step};
    RUNG_TRY(rungi_engine_train(s->engine, &view, &loss));
    rungi_timeline_begin(s->timeline, RUNGI_QUEUE_HOST, RUNGI_TIME_OPTIMIZER, t->at.step);
    rung_status status = update(t, batch, loss);
    rungi_timeline_end(s->timeline, RUNGI_QUEUE_HOST);
    RUNG_TRY(status);
    t->window.steps++;
    t->window.samples += batch->count;
    t->window.loss += loss;
    t->shown_window.steps++;
    t->shown_window.samples += batch->count;
    t->shown_window.loss += loss;
    t->at.samples += batch->count;
    t->at.epoch = batch->epoch;
    t->at.position = batch->position + batch->count;
    t->at.step++;
    rungi_timeline_mark(s->timeline, t->at.step - 1);
    return RUNG_OK;
}

static rung_status next_batch(rung_trainer *t, rung_batch *batch)
{
    if (t->s->c->train.overfit_one_batch && batch->count)
        return RUNG_OK; // the first one is held to the end
    rungi_timeline_begin(t->s->timeline, RUNGI_QUEUE_HOST, RUNGI_TIME_WAIT, t->at.step);
    rung_status status = rung_loader_next(t->s->train_loader, batch);
    rungi_timeline_end(t->s->timeline, RUNGI_QUEUE_HOST);
    return status;
}

// Counts which samples an epoch has trained on.
static void cover(rung_trainer *t, const rung_batch *batch)
{
    if (!t->seen || t->s->c->train.overfit_one_batch)
        return;
    if (batch->position == 0) {
        memset(t->seen, 0, (size_t)t->s->train_source->count);
        t->covered = true;
    }
    for (int64_t i = 0; i < batch->count; i++)
        t->seen[batch->samples[i]] += t->seen[batch->samples[i]] < 255;
}

// How often the samples of the epoch that has ended were seen. An epoch that was resumed in its
// middle is not known whole: -1.
static void fill_coverage(const rung_trainer *t, rung_train_event *e)
{
    e->seen_once = e->seen_again = -1;
    if (!t->covered)
        return;
    e->seen_once = e->seen_again = 0;
    for (int64_t i = 0; i < t->s->train_source->count; i++) {
        e->seen_once += t->seen[i] == 1;
        e->seen_again += t->seen[i] > 1;
    }
}

// What comes after a step: logs, validation, checkpoints.
static rung_status after_step(rung_trainer *t, bool epoch_ended)
{
    const rungi_train_config *c = t->s->c;
    bool last = t->at.step == t->s->total_steps;
    if (t->at.step % c->train.log_every == 0 || last)
        RUNG_TRY(log_step(t));
    else
        RUNG_TRY(show_progress(t));
    if (epoch_ended) {
        rung_train_event e = event_now(t, RUNG_EVENT_EPOCH);
        fill_coverage(t, &e);
        t->covered = false;
        RUNG_TRY(send(t, &e));
    }
    if (due(c->train.eval_every, t->at.step, epoch_ended)) {
        RUNG_TRY(validate(t));
        restart_window(t, &t->window);
        restart_window(t, &t->shown_window);
    }
    if (due(c->checkpoint.every, t->at.step, epoch_ended))
        RUNG_TRY(save(t, false));
    return RUNG_OK;
}

static rung_status steps(rung_trainer *t)
{
    rung_batch batch = {0};
    rung_status status = RUNG_OK;
    bool overfit = t->s->c->train.overfit_one_batch;
    while (status == RUNG_OK && t->at.step < t->s->total_steps && !t->at.stopped_early) {
        if (atomic_load(&t->stop)) {
            status = RUNG_CANCELLED;
            break;
        }
        status = next_batch(t, &batch);
        if (status == RUNG_OK)
            status = train_step(t, &batch);
        if (status == RUNG_OK)
            cover(t, &batch);
        bool ended = batch.is_last_of_epoch && !overfit;
        if (!overfit)
            rung_loader_release(t->s->train_loader, &batch);
        if (status == RUNG_OK)
            status = after_step(t, ended);
    }
    rung_loader_release(t->s->train_loader, &batch);
    return status;
}

// ---- fit --------------------------------------------------------------------------------------

static rung_status prepare(rung_trainer *t)
{
    rung_loader_info info;
    rung_loader_describe(t->s->train_loader, &info);
    free(t->seen);
    t->seen = calloc((size_t)t->s->train_source->count, 1);
    RUNG_CHECK(t->seen, RUNG_NO_MEMORY, "no memory to count the samples of an epoch");
    RUNG_TRY(rung_loader_start(t->s->train_loader));
    RUNG_TRY(rungi_engine_prepare(t->s->engine, true, info.last_batch));
    int64_t full = t->s->c->data.batch_size;
    if (full <= info.samples_per_epoch)
        RUNG_TRY(rungi_engine_prepare(t->s->engine, true, full));
    RUNG_TRY(rungi_trainer_open_run(t));
    rung_train_event e = event_now(t, RUNG_EVENT_START);
    return send(t, &e);
}

// The planned end, or the end that the user asked for: a last validation and a checkpoint.
static rung_status conclude(rung_trainer *t, rung_status status)
{
    if (status == RUNG_OK && t->s->c->train.eval_every != RUNGI_NEVER)
        status = validate(t);
    if (status == RUNG_OK || status == RUNG_CANCELLED) {
        rung_status saved = save(t, false);
        status = saved == RUNG_OK ? status : saved;
    }
    return status;
}

rung_status rung_trainer_fit(rung_trainer *t, const rung_observer *observer)
{
    t->observer = observer;
    t->began = rungi_trainer_now(t);
    t->steps_before = t->at.step;
    t->saved_step = t->evaluated_step = -1;
    t->last_norm = NAN;
    restart_window(t, &t->window);
    restart_window(t, &t->shown_window);
    rung_status status = prepare(t);
    if (status == RUNG_OK) {
        restart_window(t, &t->window);
        status = conclude(t, steps(t));
        rung_error error = *rung_error_last();
        rung_train_event e = event_now(t, RUNG_EVENT_END);
        e.status = status;
        if (status == RUNG_CANCELLED)
            e.note = "stopped";
        else if (status != RUNG_OK)
            e.note = error.message;
        else if (t->at.stopped_early)
            e.note = "early stopping";
        rung_status sent = send(t, &e);
        if (status != RUNG_OK && status != RUNG_CANCELLED)
            rungi_fail_adopt(&error);
        else if (status == RUNG_OK)
            status = sent;
    }
    rung_error error = *rung_error_last();
    rung_status closed = rungi_trainer_close_run(t);
    if (status == RUNG_OK)
        return closed;
    if (status == RUNG_CANCELLED)
        return RUNG_FAIL(RUNG_CANCELLED, "stopped after step %" PRId64, t->at.step);
    return rungi_fail_adopt(&error);
}
