// SPDX-License-Identifier: Apache-2.0
// Inside of the trainer, shared by trainer_*.c.
#ifndef RUNGI_TRAIN_TRAINER_H
#define RUNGI_TRAIN_TRAINER_H

#include <stdatomic.h>

#include "formats/checkpoint_folder.h"
#include "formats/jsonl.h"
#include "formats/tfevents.h"
#include "rung/train.h"
#include "train/session.h"

// Where training stands: what a checkpoint must bring back besides tensors.
typedef struct rungi_progress {
    int64_t step;     // steps done
    int64_t epoch;    // from 0
    int64_t position; // samples of this epoch that were trained on
    int64_t samples;  // since the start
    rung_schedule_state schedule;
    double best; // best validation metric; NaN before the first
    int64_t best_step;
    double stop_best;   // early stopping's
    int64_t stop_count; // validations without progress
    bool stopped_early;
} rungi_progress;

// Sums since the last record.
typedef struct rungi_window {
    int64_t begin; // clock
    int64_t steps, samples;
    double loss;
} rungi_window;

struct rung_trainer {
    rung_context *context;
    rungi_session *s;
    char *run; // folder, or NULL
    bool resumed;
    rungi_progress at;
    atomic_int stop;

    // during fit
    const rung_observer *observer;
    int64_t began, shown; // clock: of fit, of the last progress event
    int64_t steps_before; // steps done when fit began
    rungi_window window, shown_window;
    double last_lr, last_norm, last_loss;
    int64_t saved_step, evaluated_step; // -1
    rungi_checkpoints *checkpoints;
    rungi_jsonl *metrics;
    rungi_tfevents *events;

    unsigned char *seen; // by sample: how often this epoch trained on it
    bool covered;        // `seen` counts the whole epoch

    int64_t *confusion;
    int64_t classes;
};

static inline int64_t rungi_trainer_now(const rung_trainer *t)
{
    return rungi_now(t->context);
}

// The metric that `which` means, as a number of which smaller is better.
double rungi_trainer_metric(const rung_train_event *eval, rungi_metric which);

// trainer_state.c: checkpoints.
rung_status rungi_trainer_save(rung_trainer *t, bool best);
// Loads weights, and with `all` optimizer and progress.
rung_status rungi_trainer_load(rung_trainer *t, rungi_checkpoint *checkpoint, bool all);

// trainer_record.c: the run folder.
rung_status rungi_trainer_open_run(rung_trainer *t);
rung_status rungi_trainer_record(rung_trainer *t, const rung_train_event *event);
rung_status rungi_trainer_close_run(rung_trainer *t);

// trainer_eval.c
rung_status rungi_trainer_validate(rung_trainer *t, rung_train_event *event);

// trainer_check.c: names what is not finite after a bad step.
rung_status rungi_trainer_diverged(rung_trainer *t, const rung_batch *batch, double loss);

#endif
