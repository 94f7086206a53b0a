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
//   metrics.jsonl    one object a line; metrics.csv, loss.svg, confusion.csv at the end, and with
//   fp16
//                    loss_scale.svg
//   events.out.tfevents...
//   memory.json      what a step holds at each of its operators, and whose; memory.svg
//   trace.json       spans of the last steps, of all ranks, for Perfetto or chrome://tracing
//   ranks/           of several ranks: the last calls of each; ranks.json: how their time was
//   spent,
//                    and what became of each bucket of gradients
//   checkpoints/     step-00000100/, ..., and the marks latest and best
#ifndef RUNG_TRAIN_H
#define RUNG_TRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "rung/config.h"
#include "rung/context.h"
#include "rung/data.h"

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
    RUNG_EVENT_STEP,       // every train.log_every steps, and before the end
    RUNG_EVENT_EVAL,       // validation has ended
    RUNG_EVENT_CHECKPOINT, // a checkpoint is in place
    RUNG_EVENT_EPOCH,      // an epoch has ended
    RUNG_EVENT_END,        // nothing comes after it
} rung_event_kind;

// Shares and means are over a window: the time since the last event of the same kind (END: since
// fit began). Every instant of a window is in exactly one part, so the parts add up to its
// duration.
typedef struct rung_train_event {
    rung_event_kind kind;
    int64_t step, steps;   // done, and in the whole run
    int64_t epoch, epochs; // epoch under way from 1, and in the whole run
    int64_t samples;       // since the start of the run
    double loss;           // of training: mean over the window's steps; EVAL: of validation
    double train_loss;     // EVAL: mean of training since the last validation
    double lr;             // of the last step; NaN before it
    double grad_norm;      // of the last step that computed it; NaN: none did
    double loss_scale;     // with fp16: of the next step; else 0
    int64_t skipped;       // steps that fp16 has left out since the start
    double samples_per_s;  // over the window without validation and checkpoints; EVAL: validated
    double seconds, remaining;  // since fit began; estimate until the end
    double ms[RUNG_TIME_PARTS]; // STEP, PROGRESS, EPOCH: mean per step, validation and checkpoints
                                // that fell into the window included; END: the whole window;
                                // EVAL, CHECKPOINT: what it took itself, in its own part
    double
        hidden_ms[RUNG_TIME_PARTS]; // STEP, PROGRESS, EPOCH, END: like ms, of what went on behind
                                    // another part: copies and exchanges that computing hid
    double wait_share;              // of the window without validation and checkpoints, in [0, 1]
    double loader_ms[RUNG_STAGES];  // STEP: workers' time per step by stage, all workers together;
                                    // END: in all
    double loader_busy;             // STEP, END: share of the workers' time that was work
    double queue_depth;             // STEP, END: mean of the batches that were ready when asked for
    double accuracy, top5;          // EVAL: shares of the samples
    int64_t correct, evaluated;     // EVAL: samples
    int64_t seen_once, seen_again;  // EPOCH: samples trained on once, and more often; -1: unknown
    bool best;                      // EVAL: the best so far; CHECKPOINT: of the best validation
    const char *path;               // CHECKPOINT: in the run folder
    // END, in bytes: the most that was live and reserved on the device, and resident of the
    // process.
    uint64_t peak_live, peak_reserved, peak_resident;
    const char *devices; // END: of data_parallel what each device held and did; else NULL
    rung_status status;  // END
    const char *note;    // END: why, when it is not the planned end; else NULL
    const char *workers; // END: of ps.mode async, what each did, a line each; else NULL
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

// Reads the configuration of a run folder and takes `overrides` (count of "key=value"), for
// rung_config_isa: the context that a run goes on in needs the cap that it was begun with. The
// caller owns it. Errors: RUNG_NOT_FOUND when `run` is no run folder; those of rung_config_load.
RUNG_API rung_status rung_run_config(rung_context *context, const char *run,
                                     const char *const *overrides, int count,
                                     rung_config **config_out);

// Prepares to go on with a run from its newest checkpoint that verifies, or from the start when it
// has none; checkpoints that are passed over are told to the log with the reason. `overrides` are
// changes to its configuration: what makes another run of it (train.shards, model, optim.name,
// seed) is refused, a change of its length, its schedule or its data is told to the log.
// *finished_out is set when there is nothing left to do; the trainer is made all the same.
// Errors: those of rung_run_config and create; RUNG_CORRUPT when there are checkpoints and none
// verifies; RUNG_FORMAT for a checkpoint of weights only.
RUNG_API rung_status rung_trainer_resume(rung_context *context, const char *run,
                                         const char *const *overrides, int count,
                                         bool *finished_out, rung_trainer **trainer_out);

// Opens a run to evaluate it: weights of `checkpoint` ("latest", "best", a name).
RUNG_API rung_status rung_trainer_open(rung_context *context, const char *run,
                                       const char *checkpoint, const char *const *overrides,
                                       int count, rung_trainer **trainer_out);

// This trainer's rank: 0 where there is one, or where the others are threads of this process; of
// several processes each has one (see rung_ranks_end). Rank 0 writes the run folder and has the
// events.
RUNG_API int rung_trainer_rank(const rung_trainer *trainer);

// Did mpirun or srun start this program as one of several processes?
RUNG_API bool rung_ranks_launched(void);
// The number of this process among them; 0 where it was started by itself.
RUNG_API int rung_ranks_process(void);

// What each rank of a run last did, a line each, for people: after processes have died. The rank at
// fault comes first. Freed with free(). Errors: RUNG_NOT_FOUND when the run had one rank.
RUNG_API rung_status rung_ranks_text(const char *run, char **text_out);

// Programs that mpirun or srun starts as several processes train together: every process makes a
// trainer, whose calls are collective then. Each calls this at its end, after its last trainer is
// gone; with `failed` it waits for nobody. Does nothing in other programs.
RUNG_API void rung_ranks_end(bool failed);

// Where a run stands: steps done, steps in the whole run, and whether early stopping ended it.
typedef struct rung_train_place {
    int64_t step, steps;
    bool stopped_early;
} rung_train_place;

RUNG_API rung_train_place rung_trainer_place(const rung_trainer *trainer);

RUNG_API void rung_trainer_destroy(rung_trainer **trainer);

// Trains to the end. `observer` may be NULL.
// Errors: RUNG_CANCELLED after rung_trainer_stop (a checkpoint is written first); RUNG_DIVERGED for
// a loss or gradient that is not finite, naming step and tensor (checkpoints stay as they are);
// those of data, disk and memory.
RUNG_API rung_status rung_trainer_fit(rung_trainer *trainer, const rung_observer *observer);

// Did fit end because it was asked to?
RUNG_API bool rung_trainer_stopped(const rung_trainer *trainer);

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

// A table for people of what several ranks exchanged, once fit has ended: each bucket of gradients,
// and the time of each rank that computing did not hide. Freed with free(); NULL where there is
// nothing to tell.
RUNG_API rung_status rung_trainer_exchange_text(const rung_trainer *trainer, char **text_out);

// Names of the classes, or NULL; borrowed.
RUNG_API const char *const *rung_trainer_classes(const rung_trainer *trainer, int64_t *count_out);

#ifdef __cplusplus
}
#endif

#endif
