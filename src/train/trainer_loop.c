// SPDX-License-Identifier: Apache-2.0
// rung_trainer_fit: steps, logs, validation, checkpoints, and the ends that training can have.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "measure/resident.h"
#include "train/session_stages.h"
#include "train/trainer.h"

enum {
    PROGRESS_NS = 100000000, // between two progress events
    HARVEST_ROUNDS = 256,    // at most so many are left to the timeline
};

// Steps after which the timeline is read.
static int64_t harvest_steps(const rung_trainer *t)
{
    int64_t steps = HARVEST_ROUNDS / rungi_engine_rounds(t->s->engine);
    return steps > 0 ? steps : 1;
}

const char *rung_time_part(int index)
{
    return rungi_category_name((rungi_category)index);
}

// ---- events -----------------------------------------------------------------------------------

static rung_status tell(rung_trainer *t, rung_event_kind kind)
{
    rung_train_event e = rungi_event_now(t, kind);
    return rungi_event_send(t, &e);
}

static rung_status show_progress(rung_trainer *t)
{
    if (!t->observer || rungi_trainer_now(t) - t->shown < PROGRESS_NS)
        return RUNG_OK;
    t->shown = rungi_trainer_now(t);
    return tell(t, RUNG_EVENT_PROGRESS);
}

// ---- validation and checkpoints ---------------------------------------------------------------

// Writes a checkpoint. Under train.on_nan: continue, a state that is not finite is left out, except
// `last`, which is a failure.
static rung_status write_checkpoint(rung_trainer *t, bool best, bool last)
{
    rung_status status = rungi_trainer_check_finite(t);
    if (status != RUNG_OK && !last && t->s->c->train.on_nan == RUNGI_NAN_CONTINUE) {
        rungi_log(t->context, RUNG_LOG_WARNING, "%s", rung_error_last()->message);
        return RUNG_OK;
    }
    RUNG_TRY(status);
    char path[64] = "checkpoints/";
    size_t length = strlen(path);
    int64_t begin = rungi_trainer_now(t);
    rungi_timeline_begin(t->s->timeline, RUNGI_QUEUE_HOST, RUNGI_TIME_CHECKPOINT, t->at.step);
    status = rungi_trainer_save(t, best);
    rungi_timeline_end(t->s->timeline, RUNGI_QUEUE_HOST);
    RUNG_TRY(status);
    rungi_trainer_checkpoint_name(t, path + length, sizeof path - length);
    rung_train_event e = rungi_event_now(t, RUNG_EVENT_CHECKPOINT);
    e.ms[RUNGI_TIME_CHECKPOINT] = (double)(rungi_trainer_now(t) - begin) * 1e-6;
    e.path = path;
    e.best = best;
    return rungi_event_send(t, &e);
}

// Saves a checkpoint unless this step has one. Rank 0 writes it; an optimizer that is cut over the
// ranks is brought together before.
static rung_status save(rung_trainer *t, bool best, bool last)
{
    rungi_session *s = t->s;
    bool cut = rungi_session_shards_optimizer(s) || s->stages;
    if (!t->run || (!t->checkpoints && !cut) || t->saved_step == t->at.step)
        return RUNG_OK;
    rung_status status =
        s->stages ? rungi_session_join_stages(s, false) : rungi_session_join_optimizer(s, true);
    if (status == RUNG_OK && t->checkpoints) {
        if (s->comm)
            rungi_comm_busy(s->comm, "saving a checkpoint");
        status = write_checkpoint(t, best, last);
        if (s->comm)
            rungi_comm_busy(s->comm, NULL);
    }
    rungi_session_part_optimizer(s, false);
    if (s->stages)
        rungi_session_part_stages(s);
    if (status == RUNG_OK && cut) // the others do not know whether it was left out
        status = rungi_comm_broadcast(s->comm, &t->saved_step, sizeof t->saved_step, 0,
                                      "the last checkpoint's step");
    return status;
}

// Is `metric` progress over `best`, by more than `delta`? NaN is none; anything is over NaN.
static bool better(double metric, double best, double delta)
{
    return !isnan(metric) && (isnan(best) || metric < best - delta);
}

// Early stopping: counts validations without progress.
static void watch_progress(rung_trainer *t, const rung_train_event *e)
{
    const rungi_loop_config *c = &t->s->c->train;
    double metric = rungi_trainer_metric(e, c->early_stop_metric);
    if (better(metric, t->at.stop_best, c->early_stop_min_delta)) {
        t->at.stop_best = metric;
        t->at.stop_count = 0;
    } else {
        t->at.stop_count++;
    }
    t->at.stopped_early = c->early_stop_patience > 0 && t->at.stop_count >= c->early_stop_patience;
}

static rung_status validate(rung_trainer *t)
{
    if (!t->s->val_loader)
        return RUNG_OK;
    rung_train_event e = rungi_event_now(t, RUNG_EVENT_EVAL);
    RUNG_TRY(rungi_trainer_validate(t, &e));
    double metric = rungi_trainer_metric(&e, t->s->c->checkpoint.best);
    e.best = better(metric, t->at.best, 0);
    if (e.best) {
        t->at.best = metric;
        t->at.best_step = t->at.step;
    }
    if (t->s->schedule.kind == RUNG_SCHEDULE_PLATEAU)
        rung_schedule_observe(&t->s->schedule, &t->at.schedule, rungi_trainer_schedule_step(t),
                              t->s->schedule.mode == RUNG_PLATEAU_MAX ? e.accuracy : e.loss);
    watch_progress(t, &e);
    RUNG_TRY(rungi_event_send(t, &e));
    return e.best ? save(t, true, false) : RUNG_OK;
}

static bool due(int64_t every, int64_t step, bool epoch_ended)
{
    if (every == RUNGI_NEVER)
        return false;
    return every == RUNGI_EVERY_EPOCH ? epoch_ended : step % every == 0;
}

// ---- a step -----------------------------------------------------------------------------------

static rung_optimizer_update update_of(rung_trainer *t)
{
    const rungi_loop_config *c = &t->s->c->train;
    bool logged = (t->at.step + 1) % c->log_every == 0;
    bool skips = c->on_nan == RUNGI_NAN_CONTINUE || t->s->scales_loss;
    return (rung_optimizer_update){.rates = rung_schedule_rates(&t->s->schedule, &t->at.schedule,
                                                                rungi_trainer_schedule_step(t)),
                                   .max_grad_norm = c->max_grad_norm,
                                   .max_grad_value = c->max_grad_value,
                                   .want_norm = logged || t->at.step == t->steps_before,
                                   .measure = logged && t->s->c->gradients.log_layers,
                                   .skip_nonfinite = skips,
                                   .threads = rung_device_threads(t->s->device)};
}

// The loss is not finite: the rank whose part of it is not says why.
static rung_status lost(rung_trainer *t, const rung_batch *batch, double loss)
{
    int bad = rungi_engine_bad_rank(t->s->engine);
    bool alone = !t->s->comm || rungi_session_is_async(t->s);
    rung_status status = RUNG_DIVERGED;
    if (bad == t->s->rank || alone)
        status = rungi_trainer_diverged(t, batch, loss, NULL);
    return !alone ? rungi_trainer_share_failure(t, bad < 0 ? 0 : bad) : status;
}

static rung_status update(rung_trainer *t, const rung_batch *batch, const rung_optimizer_update *u,
                          double loss)
{
    rungi_session *s = t->s;
    if (!isfinite(loss) && s->c->train.on_nan == RUNGI_NAN_STOP)
        return lost(t, batch, loss);
    rung_optimizer_report report;
    rung_status status = rungi_session_update_params(s, u, t->at.step, &report);
    if (status == RUNG_DIVERGED)
        status = rungi_trainer_diverged(t, batch, loss, rung_error_last()->message);
    else if (status != RUNG_OK)
        rungi_fail_prefix("step %" PRId64, t->at.step + 1);
    RUNG_TRY(s->stages ? rungi_trainer_agree(t, status) : status);
    t->last_lr = u->rates.lr;
    t->last_loss = loss;
    if ((u->want_norm || u->max_grad_norm > 0) && report.applied)
        t->last_norm = report.grad_norm;
    return rungi_trainer_layers_look(t, u, &report);
}

static rung_status train_step(rung_trainer *t, rung_batch *batch)
{
    rungi_session *s = t->s;
    double loss;
    rung_optimizer_update u = update_of(t);
    RUNG_TRY(rungi_session_gradients(s, batch, t->at.step, &u, &loss));
    if (!rungi_session_is_async(s)) {
        t->agreed = rungi_engine_stop(s->engine);
        rungi_trainer_watch_balance(t);
    }
    rungi_timeline_begin(s->timeline, RUNGI_QUEUE_HOST, RUNGI_TIME_OPTIMIZER, t->at.step);
    rung_status status = update(t, batch, &u, loss);
    rungi_timeline_end(s->timeline, RUNGI_QUEUE_HOST);
    RUNG_TRY(status);
    int64_t samples = rungi_trainer_samples(t, batch);
    rungi_windows_step(t, samples, loss);
    t->at.samples += samples;
    t->at.epoch = batch->epoch;
    t->at.position = batch->position + batch->global_count + batch->left_out;
    t->at.step++;
    rungi_timeline_mark(s->timeline, t->at.step - 1);
    if (t->at.step % harvest_steps(t) == 0)
        rungi_windows_harvest(t);
    return RUNG_OK;
}

static rung_status next_batch(rung_trainer *t, rung_batch *batch)
{
    if (t->s->c->train.overfit_one_batch && batch->count)
        return RUNG_OK; // the first one is held to the end
    int64_t began = rungi_trainer_now(t);
    rungi_timeline_begin(t->s->timeline, RUNGI_QUEUE_HOST, RUNGI_TIME_WAIT, t->at.step);
    rung_status status = rungi_session_next(t->s, t->at.step, batch);
    rungi_timeline_end(t->s->timeline, RUNGI_QUEUE_HOST);
    t->s->waited = rungi_trainer_now(t) - began;
    return rungi_trainer_keep_bad(t, status);
}

// Counts which samples an epoch has trained on.
static void cover(rung_trainer *t, const rung_batch *batch)
{
    bool others = t->s->stages && t->s->rank; // all of rank 0's samples
    if (!t->seen || t->s->c->train.overfit_one_batch)
        return;
    if (batch->position == 0) {
        memset(t->seen, 0, (size_t)t->s->train_source->count);
        t->covered = true;
    }
    for (int64_t i = 0; i < batch->count && !others; i++)
        t->seen[batch->samples[i]] += t->seen[batch->samples[i]] < 255;
}

// How often the samples of the epoch that has ended were seen. An epoch that was resumed in its
// middle is not known whole: -1.
static rung_status fill_coverage(rung_trainer *t, rung_train_event *e)
{
    enum { PIECE = 4096 };
    int64_t times[PIECE], count = t->s->train_source->count;
    e->seen_once = e->seen_again = -1;
    if (!t->covered)
        return RUNG_OK;
    e->seen_once = e->seen_again = 0;
    for (int64_t at = 0; at < count; at += PIECE) {
        int64_t n = count - at < PIECE ? count - at : PIECE;
        for (int64_t i = 0; i < n; i++)
            times[i] = t->seen[at + i];
        RUNG_TRY(rungi_trainer_sum(t, times, n, "samples seen in an epoch"));
        for (int64_t i = 0; i < n; i++) {
            e->seen_once += times[i] == 1;
            e->seen_again += times[i] > 1;
        }
    }
    return RUNG_OK;
}

static rung_status tell_epoch(rung_trainer *t)
{
    rung_train_event e = rungi_event_now(t, RUNG_EVENT_EPOCH);
    RUNG_TRY(fill_coverage(t, &e));
    t->covered = false;
    return rungi_event_send(t, &e);
}

// What comes after a step: logs, validation, checkpoints. A checkpoint comes last, so that it knows
// of the validation of its step.
static rung_status after_step(rung_trainer *t, bool epoch_ended)
{
    const rungi_train_config *c = t->s->c;
    bool last = t->at.step == t->s->total_steps;
    if (t->at.step % c->train.log_every == 0 || last)
        RUNG_TRY(tell(t, RUNG_EVENT_STEP));
    else
        RUNG_TRY(show_progress(t));
    bool eval = due(c->train.eval_every, t->at.step, epoch_ended) ||
                (last && c->train.eval_every != RUNGI_NEVER);
    bool checkpoint = due(c->checkpoint.every, t->at.step, epoch_ended);
    if (epoch_ended || eval || checkpoint || last)
        RUNG_TRY(rungi_trainer_meet(t));
    if (epoch_ended)
        RUNG_TRY(tell_epoch(t));
    if (eval)
        RUNG_TRY(validate(t));
    return checkpoint ? save(t, false, last) : RUNG_OK;
}

static rung_status steps(rung_trainer *t)
{
    rung_batch batch = {0};
    rung_status status = RUNG_OK;
    bool overfit = t->s->c->train.overfit_one_batch;
    while (status == RUNG_OK && t->at.step < t->s->total_steps && !t->at.stopped_early) {
        bool go = !(t->s->comm ? t->agreed : atomic_load(&t->stop));
        t->s->want_stop = atomic_load(&t->stop);
        if (go)
            status = rungi_session_begin_step(t->s, t->at.step, &go);
        if (status != RUNG_OK)
            break;
        if (!go) {
            status = RUNG_CANCELLED;
            t->stopped = true;
            break;
        }
        status = next_batch(t, &batch);
        if (status == RUNG_OK)
            status = train_step(t, &batch);
        if (status == RUNG_OK)
            cover(t, &batch);
        bool ended = batch.is_last_of_epoch && !overfit;
        if (!overfit)
            rungi_session_release(t->s, &batch);
        if (status == RUNG_OK)
            status = after_step(t, ended);
    }
    rungi_session_release(t->s, &batch);
    return status;
}

// ---- fit --------------------------------------------------------------------------------------

// Compiles the plans of all batches that a loader gives.
static rung_status prepare_plans(rung_trainer *t, const rung_loader *loader, bool training)
{
    rung_loader_info info;
    rung_loader_describe(loader, &info);
    int64_t full = training ? rungi_session_batch(t->s) : rungi_session_micro_batch(t->s);
    rung_status status = rungi_engine_prepare(t->s->engine, training, info.last_batch);
    int64_t rounds = training ? 1 : t->s->c->gradients.accumulate; // what is told is of training
    status = rungi_session_no_memory(t->s, info.last_batch * rounds, status);
    if (status != RUNG_OK && training && info.last_batch < full)
        return rungi_fail_prefix("an epoch's last batch, of %" PRId64
                                 " sample%s, which data.drop_last=true leaves out",
                                 info.last_batch, info.last_batch == 1 ? "" : "s");
    if (status != RUNG_OK || info.batches_per_epoch == 1)
        return status;
    status = rungi_engine_prepare(t->s->engine, training, full);
    return rungi_session_no_memory(t->s, full * rounds, status);
}

static rung_status prepare(rung_trainer *t)
{
    free(t->seen);
    t->seen = calloc((size_t)t->s->train_source->count, 1);
    RUNG_CHECK(t->seen, RUNG_NO_MEMORY, "no memory to count the samples of an epoch");
    RUNG_TRY(rungi_trainer_layers_begin(t));
    rungi_trainer_loader_begin(t);
    if (!t->s->stages || t->s->rank == 0)
        RUNG_TRY(rung_loader_start(t->s->train_loader));
    if (t->s->val_loader && t->s->c->train.eval_every != RUNGI_NEVER)
        RUNG_TRY(prepare_plans(t, t->s->val_loader, false));
    RUNG_TRY(prepare_plans(t, t->s->train_loader, true));
    RUNG_TRY(rungi_trainer_open_run(t));
    // What it took to come here counts for the whole, but not for the first steps.
    rungi_windows_harvest(t);
    for (int i = 0; i < RUNGI_WINDOWS; i++)
        if (i != RUNGI_WINDOW_FIT)
            t->windows[i] = (rungi_window){0};
    t->prepared = t->harvested;
    return tell(t, RUNG_EVENT_START);
}

// The planned end, or the end that the user asked for: what is not yet logged, and a checkpoint.
static rung_status conclude(rung_trainer *t, rung_status status)
{
    if (status != RUNG_OK && !t->stopped) // RUNG_CANCELLED may be another rank's failure, too
        return status;
    RUNG_TRY(rungi_trainer_meet(t));
    if (t->windows[RUNGI_WINDOW_LOG].steps > 0)
        RUNG_TRY(tell(t, RUNG_EVENT_STEP));
    RUNG_TRY(save(t, false, true));
    RUNG_TRY(rungi_trainer_gather_exchange(t));
    RUNG_TRY(rungi_trainer_gather_trace(t));
    return status;
}

static rung_status tell_end(rung_trainer *t, rung_status status)
{
    rung_error error = *rung_error_last();
    rung_train_event e = rungi_event_now(t, RUNG_EVENT_END);
    rung_memory_stats memory = rung_device_memory(t->s->device);
    e.status = status;
    e.peak_live = memory.peak_live;
    e.peak_reserved = memory.peak_reserved;
    e.peak_resident = rungi_peak_resident();
    rungi_string devices = {0};
    if (rungi_engine_devices(t->s->engine) > 1) {
        rungi_session_balance_text(t->s, &devices);
        e.devices = rungi_string_text(&devices);
    }
    if (status == RUNG_CANCELLED && t->stopped)
        e.note = "stopped";
    else if (status != RUNG_OK)
        e.note = error.message;
    else if (t->at.stopped_early)
        e.note = "early stopping";
    char *workers = NULL;
    rung_status sent = rungi_trainer_servers_text(t, &workers);
    e.workers = workers;
    if (sent == RUNG_OK)
        sent = rungi_event_send(t, &e);
    free(workers);
    rungi_string_fini(&devices);
    if (status == RUNG_OK)
        return sent;
    return status == RUNG_CANCELLED && t->stopped ? status : rungi_fail_adopt(&error);
}

static rung_status fit(rung_trainer *t, const rung_observer *observer)
{
    t->observer = observer;
    t->began = t->shown = rungi_trainer_now(t);
    t->steps_before = t->at.step;
    t->stopped = t->agreed = false;
    rungi_exchanged_fini(&t->exchanged);
    t->trace.size = 0;
    t->last_norm = t->last_lr = t->last_loss = t->logged_loss = NAN;
    rungi_windows_begin(t);
    rung_status status = prepare(t);
    if (status == RUNG_OK)
        status = tell_end(t, conclude(t, steps(t)));
    rung_error error = *rung_error_last();
    rung_status closed = rungi_trainer_close_run(t);
    t->observer = NULL;
    if (status == RUNG_OK)
        return closed;
    if (status == RUNG_CANCELLED && t->stopped)
        return RUNG_FAIL(RUNG_CANCELLED, "stopped after step %" PRId64, t->at.step);
    return rungi_fail_adopt(&error);
}

static rung_status fit_member(void *arg, rungi_member *member)
{
    return fit(member->user, rungi_comm_rank(member->comm) ? NULL : arg);
}

rung_status rung_trainer_fit(rung_trainer *t, const rung_observer *observer)
{
    return t->crew ? rungi_crew_run(t->crew, fit_member, (void *)(uintptr_t)observer)
                   : fit(t, observer);
}
