// SPDX-License-Identifier: Apache-2.0
// The training loop: from a configuration to a run folder.
//
//   rung_trainer *trainer;
//   rung_trainer_create(context, config, "runs/first", &trainer);
//   rung_trainer_fit(trainer, &(rung_observer){.event = print_event});
//   rung_trainer_destroy(&trainer);
//
// A run folder holds
//   config.yaml      the resolved configuration
//   environment.txt  machine, libraries, compiler
//   metrics.jsonl    one object a line; metrics.csv, loss.svg, confusion.csv at the end
//   events.out.tfevents...
//   trace.json       spans of the last steps, for Perfetto or chrome://tracing
//   checkpoints/     step-00000100/, ..., and the marks latest and best
#ifndef RUNG_TRAIN_H
#define RUNG_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "rung/config.h"
#include "rung/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rung_trainer rung_trainer;

// Parts that a step's time is divided into: wait, copy, forward, backward, exchange, optimizer,
// eval, checkpoint, other.
enum { RUNG_TIME_PARTS = 9 };
// Name of part 0 .. RUNG_TIME_PARTS - 1.
RUNG_API const char *rung_time_part(int index);

typedef enum rung_event_kind {
    RUNG_EVENT_START,      // everything is prepared; the first step comes next
    RUNG_EVENT_PROGRESS,   // some time has passed: for a line on a terminal; not in metrics.jsonl
    RUNG_EVENT_STEP,       // every train.log_every steps, and after the last
    RUNG_EVENT_EVAL,       // validation has ended
    RUNG_EVENT_CHECKPOINT, // a checkpoint is in place
    RUNG_EVENT_EPOCH,      // an epoch has ended
    RUNG_EVENT_END,        // nothing comes after it
} rung_event_kind;

typedef struct rung_train_event {
    rung_event_kind kind;
    int64_t step, steps;   // done, and in the whole run
    int64_t epoch, epochs; // epoch under way from 1; epochs 0: unknown
    int64_t samples;       // since the start of the run
    double loss;           // STEP: mean over the steps since the last; EVAL: of validation
    double lr;
    double grad_norm; // NaN where it was not computed
    double samples_per_s;
    double seconds, remaining;     // since fit began; estimate until the end
    double ms[RUNG_TIME_PARTS];    // mean per step since the last event of this kind; for EVAL,
                                   // CHECKPOINT: the whole
    double wait_share;             // of the time since the last event, in [0, 1]
    double accuracy, top5;         // EVAL: shares of the samples
    int64_t correct, evaluated;    // EVAL: samples
    int64_t seen_once, seen_again; // EPOCH: samples trained on once, and more often; -1: unknown
    bool best;                     // EVAL: the best so far; CHECKPOINT: of the best validation
    const char *path;              // CHECKPOINT
    rung_status status;            // END
    const char *note;              // END: why, when it is not the planned end; else NULL
} rung_train_event;

// Called on the thread that trains.
typedef struct rung_observer {
    void *user;
    void (*event)(void *user, const rung_train_event *event);
} rung_observer;

// Prepares a run: data sets opened, network built and planned, weights initialised. `run` is the
// run folder to make (NULL: nothing is written); the configuration is copied. The caller owns the
// trainer and destroys it before the context.
// Errors: those of the configuration, the data and the plan; RUNG_INVALID when `run` holds a run.
RUNG_API rung_status rung_trainer_create(rung_context *context, const rung_config *config,
                                         const char *run, rung_trainer **trainer_out);

// Prepares to go on with a run from its newest checkpoint that verifies, or from the start when it
// has none. `overrides` (count of "key=value") are changes to its configuration; what training
// depends on to be the same (train.shards, model, seed) is refused, a change of its length or
// schedule is told to the log.
// *finished_out is set when there is nothing left to do; the trainer is made all the same.
// Errors: RUNG_NOT_FOUND when `run` is no run folder; those of create.
RUNG_API rung_status rung_trainer_resume(rung_context *context, const char *run,
                                         const char *const *overrides, int count,
                                         bool *finished_out, rung_trainer **trainer_out);

// Opens a run to evaluate it: weights of `checkpoint` ("latest", "best", a name).
RUNG_API rung_status rung_trainer_open(rung_context *context, const char *run,
                                       const char *checkpoint, const char *const *overrides,
                                       int count, rung_trainer **trainer_out);

RUNG_API void rung_trainer_destroy(rung_trainer **trainer);

// Trains to the end. `observer` may be NULL.
// Errors: RUNG_CANCELLED after rung_trainer_stop (a checkpoint is written first); RUNG_DIVERGED for
// a loss or gradient that is not finite, naming step and tensor (checkpoints stay as they are);
// those of data, disk and memory.
RUNG_API rung_status rung_trainer_fit(rung_trainer *trainer, const rung_observer *observer);

// Asks fit to end after the step under way. May be called from a signal handler.
RUNG_API void rung_trainer_stop(rung_trainer *trainer);

typedef struct rung_eval_result {
    double loss;
    int64_t samples, correct, correct5;
    int64_t classes;
    const int64_t *confusion; // [true class][predicted class]; the trainer's, until the next call
} rung_eval_result;

// Runs the validation set through the network in evaluation mode.
RUNG_API rung_status rung_trainer_evaluate(rung_trainer *trainer, rung_eval_result *result_out);

// Texts for people, freed with free(): what is about to run (batch, steps, threads, workers,
// switches); the plan step by step; the table of layers.
RUNG_API rung_status rung_trainer_banner(rung_trainer *trainer, char **text_out);
RUNG_API rung_status rung_trainer_explain(rung_trainer *trainer, char **text_out);
RUNG_API rung_status rung_trainer_summary(rung_trainer *trainer, char **text_out);

// Names of the classes, or NULL; borrowed.
RUNG_API const char *const *rung_trainer_classes(const rung_trainer *trainer, int64_t *count_out);

#ifdef __cplusplus
}
#endif

#endif
