// SPDX-License-Identifier: Apache-2.0
// Inside of the trainer, shared by trainer_*.c.
#ifndef RUNGI_TRAIN_TRAINER_H
#define RUNGI_TRAIN_TRAINER_H

#include <stdatomic.h>

#include "comm/clock_offset.h"
#include "formats/checkpoint_folder.h"
#include "formats/jsonl.h"
#include "formats/tfevents.h"
#include "rung/train.h"
#include "train/crew.h"
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

// Sums over the steps and the time since a window was opened.
typedef struct rungi_window {
    int64_t steps, samples;
    double loss;
    int64_t ns[RUNG_TIME_PARTS];
    int64_t hidden[RUNG_TIME_PARTS];
} rungi_window;

// A rank's exchange since fit began.
typedef struct rungi_rank_numbers {
    double steps;
    double exposed, hidden; // nanoseconds
    double moved;           // bytes, since its communicator was made
    double clock, clock_error;
} rungi_rank_numbers;

// What several ranks exchanged, brought together at the end of fit.
typedef struct rungi_exchanged {
    rungi_clock_offset clock;  // this rank's
    int ranks, buckets;        // 0: not brought together
    rungi_rank_numbers *rank;  // [ranks]
    rungi_bucket_sums *bucket; // [buckets]: of all ranks
} rungi_exchanged;

enum {
    RUNGI_WINDOW_LOG,   // since the last STEP
    RUNGI_WINDOW_SHOWN, // since the last PROGRESS
    RUNGI_WINDOW_EPOCH, // since the last EPOCH
    RUNGI_WINDOW_EVAL,  // since the last EVAL
    RUNGI_WINDOW_FIT,   // since fit began
    RUNGI_WINDOWS
};

struct rung_trainer {
    rung_context *context;
    rungi_session *s;
    rungi_crew *crew; // of the rank that has made the others; else NULL
    char *run;        // folder, or NULL; written by rank 0 alone
    bool resumed;
    rungi_progress at;
    atomic_int stop;
    bool agreed;     // several ranks: one of them was asked to stop
    bool stopped;    // fit ends because of that
    int straggler;   // rank that was told to be slow; -1: none
    int64_t counted; // ps.mode async, rank 0: samples of all workers so far

    size_t bad_listed; // of the session's bad samples

    // during fit
    const rung_observer *observer;
    int64_t began, prepared, shown; // clock: of fit, of its first step, of the last progress event
    int64_t steps_before;           // steps done when fit began
    rungi_window windows[RUNGI_WINDOWS];
    int64_t harvested; // clock: until where the timeline was added to the windows
    rung_loader_statistics loader_begin, loader_logged; // when fit began; at the last STEP
    double last_lr, last_norm, last_loss, logged_loss;
    int64_t saved_step; // of the newest checkpoint; -1: none
    rungi_checkpoints *checkpoints;
    rungi_jsonl *metrics;
    rungi_tfevents *events;
    rungi_exchanged exchanged;
    rungi_string trace; // rank 0: events of all ranks' timelines

    struct rungi_layer_log *layers; // by segment of the optimizer
    char *stage_layers;             // of all stages, where there are some; or NULL
    int64_t layers_step;            // that they were measured at; -1: none

    unsigned char *seen; // by sample: how often this rank trained on it in this epoch
    bool covered;        // `seen` counts the whole epoch

    int64_t *confusion;
    int64_t classes;
};

static inline int64_t rungi_trainer_now(const rung_trainer *t)
{
    return rungi_now(t->context);
}

// Steps of the schedule: those that fp16 left out do not count.
static inline int64_t rungi_trainer_schedule_step(const rung_trainer *t)
{
    return t->at.step - t->s->loss_scale.skipped;
}

// The metric that `which` means, as a number of which smaller is better.
double rungi_trainer_metric(const rung_train_event *eval, rungi_metric which);

// trainer_resume.c. A batch that is said when a run goes on wins over that of each device which the
// run was begun with.
rung_status rungi_run_config_batch(rung_config *config);
// Refuses, when a run goes on with another number of ranks or devices, a batch
// that changes with it; tells when batch normalization uses other statistics. `state` is the
// checkpoint's.
rung_status rungi_trainer_compare_ranks(const rung_trainer *t, const json_t *state,
                                        const char *where);

// trainer_event.c: windows and events.
void rungi_windows_begin(rung_trainer *t);
// Adds the time since the last call to all windows; called before the timeline overwrites it.
void rungi_windows_harvest(rung_trainer *t);
// Adds a step to all windows.
void rungi_windows_step(rung_trainer *t, int64_t samples, double loss);
// An event with what all of them say.
rung_train_event rungi_event_now(const rung_trainer *t, rung_event_kind kind);
// Writes an event to the run folder and shows it to the observer. Those with a window are filled
// from it, and it begins anew.
rung_status rungi_event_send(rung_trainer *t, rung_train_event *event);

// trainer_state.c: checkpoints.
rung_status rungi_trainer_save(rung_trainer *t, bool best);
// "step-00000100"
void rungi_trainer_checkpoint_name(const rung_trainer *t, char *out, size_t size);
// RUNG_DIVERGED naming the first tensor of the state with a value that is not finite.
rung_status rungi_trainer_check_finite(const rung_trainer *t);
// Loads weights, and with `all` optimizer and progress.
rung_status rungi_trainer_load(rung_trainer *t, rungi_checkpoint *checkpoint, bool all);

// trainer_record.c: the run folder.
// RUNG_INVALID when `run` (which may be NULL) holds a run.
rung_status rungi_trainer_check_run(const char *run);
// Makes the run folder (none: does nothing) and takes its lock: one process trains there.
rung_status rungi_trainer_lock_run(rung_trainer *t);
rung_status rungi_trainer_open_run(rung_trainer *t);
rung_status rungi_trainer_record(rung_trainer *t, const rung_train_event *event);
rung_status rungi_trainer_close_run(rung_trainer *t);
// After next() gave `status`: lists the samples left out so far in bad_samples.csv, when there are
// new ones, and returns `status` or the failure to write.
rung_status rungi_trainer_keep_bad(rung_trainer *t, rung_status status);

// trainer_loader.c: what the loader's workers did. `begin` notes where fit begins; `event` fills
// a STEP of `steps` steps or END; `json` adds that to a line of metrics.jsonl; `write` makes
// loader.json, of the whole fit and each worker.
void rungi_trainer_loader_begin(rung_trainer *t);
void rungi_trainer_loader_event(rung_trainer *t, int64_t steps, rung_train_event *event);
void rungi_trainer_loader_json(const rung_train_event *e, json_t *o);
rung_status rungi_trainer_loader_write(const rung_trainer *t);

// trainer_ranks.c: what ranks do together. Each is collective, and does nothing with one rank.
// Does this trainer write the run folder?
bool rungi_trainer_writes(const rung_trainer *t);
// After a step: tells of a rank that the others wait for, once, until another one is slow or all
// are equal again. Done by rank 0; not collective.
void rungi_trainer_watch_balance(rung_trainer *t);
// Every rank goes on from the same step.
rung_status rungi_trainer_same_step(rung_trainer *t);
// `values` become the sums over the ranks.
rung_status rungi_trainer_sum(rung_trainer *t, int64_t *values, int64_t count, const char *label);
// A call returned `status`, with this rank's error record, on each rank: when one has failed, all
// do, with the first one's message.
rung_status rungi_trainer_agree(rung_trainer *t, rung_status status);
// The rank at fault, whose error record says why, tells all: they fail with its message.
rung_status rungi_trainer_share_failure(rung_trainer *t, int rank);

// trainer_pipeline.c: adds how busy the stages were to ranks.json; nothing without a pipeline.
void rungi_trainer_pipeline_json(const rung_trainer *t, json_t *o);
// RUNG_DIVERGED naming the first tensor of a joined checkpoint that is not finite.
rung_status rungi_trainer_check_stages(const rung_trainer *t);
// trainer_servers.c: workers of ps.mode async. `samples`: those of all workers since this was last
// asked, on rank 0, and this rank's in the step elsewhere; of other strategies those of the batch.
int64_t rungi_trainer_samples(rung_trainer *t, const rung_batch *batch);
// Collective: as rungi_session_meet, and what was done so far is counted.
rung_status rungi_trainer_meet(rung_trainer *t);
// Adds what the scheduler knows of the workers to a line of metrics.jsonl; writes ranks.json and
// staleness.svg. Not collective; nothing of other strategies.
void rungi_trainer_servers_json(const rung_trainer *t, json_t *o);
rung_status rungi_trainer_servers_write(const rung_trainer *t);
// The same as a line a worker; NULL of other strategies. Freed by the caller.
rung_status rungi_trainer_servers_text(const rung_trainer *t, char **text_out);
// trainer_exchange.c: brings together what the ranks exchanged, at the end of fit (collective; does
// nothing with one rank), and writes ranks.json: where each rank's time went, how unequal they
// were, what became of the buckets (not collective).
rung_status rungi_trainer_gather_exchange(rung_trainer *t);
rung_status rungi_trainer_write_ranks(const rung_trainer *t);
void rungi_exchanged_fini(rungi_exchanged *e);

// trainer_trace.c: the timelines of all ranks on rank 0 (collective, after the above; does nothing
// with one rank), and trace.json: of all ranks, or where that was not called of this one.
rung_status rungi_trainer_gather_trace(rung_trainer *t);
rung_status rungi_trainer_write_trace(const rung_trainer *t);

// trainer_eval.c
rung_status rungi_trainer_evaluate_own(rung_trainer *t, rung_eval_result *result_out);
rung_status rungi_trainer_validate(rung_trainer *t, rung_train_event *event);

// trainer_check.c: names what is not finite after a bad step. `gradient` says which gradient it is,
// when the loss is finite; else NULL.
rung_status rungi_trainer_diverged(rung_trainer *t, const rung_batch *batch, double loss,
                                   const char *gradient);

// trainer_layers.c: gradients and updates of each parameter. `look` comes after an update whose
// norm was computed, and is collective; `json` adds what was measured at this step to a line of
// metrics.jsonl; `chart` makes layers.svg.
rung_status rungi_trainer_layers_begin(rung_trainer *t);
rung_status rungi_trainer_layers_look(rung_trainer *t, const rung_optimizer_update *update,
                                      const rung_optimizer_report *report);
void rungi_trainer_layers_json(const rung_trainer *t, json_t *o);
rung_status rungi_trainer_layers_chart(const rung_trainer *t);

// trainer_memory.c: memory.json and memory.svg of the run folder; nothing before a plan was made.
rung_status rungi_trainer_memory_write(const rung_trainer *t);

// trainer_chart.c: loss.svg of a run folder, and with fp16 loss_scale.svg, from its metrics.jsonl.
rung_status rungi_trainer_chart(const char *run);

#endif
