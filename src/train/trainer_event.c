// SPDX-License-Identifier: Apache-2.0
// Windows and events: what happened since when.
#include <math.h>

#include "train/trainer.h"

void rungi_windows_begin(rung_trainer *t)
{
    for (int i = 0; i < RUNGI_WINDOWS; i++)
        t->windows[i] = (rungi_window){0};
    t->harvested = t->began;
}

void rungi_windows_harvest(rung_trainer *t)
{
    rungi_breakdown b;
    int64_t now = rungi_trainer_now(t);
    rungi_timeline_between(t->s->timeline, t->harvested, now, &b);
    for (int i = 0; i < RUNGI_WINDOWS; i++)
        for (int p = 0; p < RUNG_TIME_PARTS; p++) {
            t->windows[i].ns[p] += b.ns[p];
            t->windows[i].hidden[p] += b.hidden[p];
        }
    t->harvested = now;
}

void rungi_windows_step(rung_trainer *t, int64_t samples, double loss)
{
    for (int i = 0; i < RUNGI_WINDOWS; i++) {
        t->windows[i].steps++;
        t->windows[i].samples += samples;
        t->windows[i].loss += loss;
    }
}

rung_train_event rungi_event_now(const rung_trainer *t, rung_event_kind kind)
{
    const rungi_session *s = t->s;
    int64_t now = rungi_trainer_now(t), done = t->at.step - t->steps_before;
    rung_train_event e = {.kind = kind,
                          .step = t->at.step,
                          .steps = s->total_steps,
                          .samples = t->at.samples,
                          .lr = t->last_lr,
                          .loss = t->logged_loss,
                          .train_loss = NAN,
                          .grad_norm = t->last_norm,
                          .loss_scale = s->scales_loss ? s->loss_scale.scale : 0,
                          .skipped = s->loss_scale.skipped,
                          .seconds = (double)(now - t->began) * 1e-9};
    e.epochs = (s->total_steps + s->batches_per_epoch - 1) / s->batches_per_epoch;
    e.epoch = t->at.step ? (t->at.step - 1) / s->batches_per_epoch + 1 : 1;
    if (done > 0)
        e.remaining =
            (double)(now - t->prepared) * 1e-9 / (double)done * (double)(s->total_steps - e.step);
    return e;
}

static int window_of(rung_event_kind kind)
{
    switch (kind) {
    case RUNG_EVENT_STEP:
        return RUNGI_WINDOW_LOG;
    case RUNG_EVENT_PROGRESS:
        return RUNGI_WINDOW_SHOWN;
    case RUNG_EVENT_EPOCH:
        return RUNGI_WINDOW_EPOCH;
    case RUNG_EVENT_EVAL:
        return RUNGI_WINDOW_EVAL;
    case RUNG_EVENT_END:
        return RUNGI_WINDOW_FIT;
    default:
        return -1;
    }
}

static double mean_loss(const rungi_window *w, double otherwise)
{
    return w->steps > 0 ? w->loss / (double)w->steps : otherwise;
}

static void fill(const rungi_window *w, rung_train_event *e)
{
    double per = e->kind == RUNG_EVENT_END || !w->steps ? 1 : (double)w->steps, seconds = 0;
    for (int i = 0; i < RUNG_TIME_PARTS; i++) {
        e->ms[i] = (double)w->ns[i] * 1e-6 / per;
        e->hidden_ms[i] = (double)w->hidden[i] * 1e-6 / per;
        if (i != RUNGI_TIME_EVAL && i != RUNGI_TIME_CHECKPOINT)
            seconds += (double)w->ns[i] * 1e-9;
    }
    e->samples_per_s = seconds > 0 ? (double)w->samples / seconds : 0;
    e->wait_share = seconds > 0 ? (double)w->ns[RUNGI_TIME_WAIT] * 1e-9 / seconds : 0;
}

rung_status rungi_event_send(rung_trainer *t, rung_train_event *event)
{
    int window = window_of(event->kind);
    if (window >= 0) {
        rungi_window *w = &t->windows[window];
        rungi_windows_harvest(t);
        event->seconds = (double)(t->harvested - t->began) * 1e-9;
        if (event->kind == RUNG_EVENT_EVAL) {
            event->train_loss = mean_loss(w, t->logged_loss);
        } else {
            if (event->kind != RUNG_EVENT_END)
                event->loss = mean_loss(w, t->logged_loss);
            fill(w, event);
        }
        if (event->kind == RUNG_EVENT_STEP || event->kind == RUNG_EVENT_END)
            rungi_trainer_loader_event(t, w->steps, event);
        if (event->kind == RUNG_EVENT_STEP)
            t->logged_loss = event->loss;
        *w = (rungi_window){0};
    }
    rung_status status = rungi_trainer_record(t, event);
    if (t->observer && t->observer->event)
        t->observer->event(t->observer->user, event);
    return status;
}
