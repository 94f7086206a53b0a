// SPDX-License-Identifier: Apache-2.0
// Shared by pipeline*.c and engine*.c only.
#ifndef RUNGI_TRAIN_PIPELINE_INSIDE_H
#define RUNGI_TRAIN_PIPELINE_INSIDE_H

#include "train/engine_inside.h"

// The stage's plan for micro-batches of one size, with an instance for each slot.
typedef struct rungi_stage_plan {
    bool training, loss;
    int64_t count;
    rung_plan *plan;
    rungi_instance *instances[RUNGI_PIPELINE_MICRO]; // [0] is the plan's own
    rungi_instance *remote[RUNGI_MAX_SHARDS];        // stand for rounds: see pipeline_statistics.c
} rungi_stage_plan;

// What a micro-batch in flight has to itself. Micro-batch m is in slot m % slots.
typedef struct rungi_stage_slot {
    rung_arena *arena;
    char *inputs; // values from the stage before
    uint64_t input_bytes;
    rungi_comm_call **receives; // of those, by crossing; NULL: none under way
    int received_for;           // the micro-batch that they are for; -1: none
    rungi_stage_plan *now;
    rungi_instance *instance;
} rungi_stage_slot;

// Calls that were started and not yet finished.
typedef struct rungi_stage_send {
    rungi_comm_call *call;
    int slot; // of the micro-batch
    bool gradient;
} rungi_stage_send;

enum { RUNGI_STAGE_SENDS = 24, RUNGI_STAGE_SEEDS = 2 };

struct rungi_pipeline {
    rungi_engine *e; // its graph and state are the stage's
    rungi_pipeline_options o;
    int stage, stages;
    int slots;                      // of training
    int total;                      // micro-batches of a training batch, of all rounds
    rungi_pipeline_action *actions; // 2 * total
    char *kept;                     // statistics of the rounds, side by side
    size_t kept_bytes;
    rungi_stage_slot slot[RUNGI_PIPELINE_MICRO];
    RUNGI_ARRAY(rungi_stage_plan *) entries;
    float *scratch; // gradients of a micro-batch that are to be added; NULL: there is one
    // Gradients from the stage behind: of micro-batch m in seeds[m % 2].
    char *seeds[RUNGI_STAGE_SEEDS];
    uint64_t seed_bytes[RUNGI_STAGE_SEEDS];
    rungi_comm_call **seed_calls[RUNGI_STAGE_SEEDS];
    int seeded_for[RUNGI_STAGE_SEEDS];
    rungi_stage_send sends[RUNGI_STAGE_SENDS];
    int n_sends;
    char **gathered; // by named output: its values of the whole batch
    size_t *gathered_bytes;
    // of the call under way
    int active, used; // micro-batches that have samples; slots that they go through
    bool training, loss;
    int forwards, backwards; // done
    double sum;              // of losses
    int bad_micro;           // the first whose loss is not finite; -1: none
    int64_t busy;            // nanoseconds of computing
    int bad_slot;            // after a loss that is not finite: holds the micro-batch at fault
    rungi_pipeline_times times;
};

// pipeline.c
rung_status rungi_pipeline_create(rungi_engine *e, const rungi_pipeline_options *options,
                                  rungi_pipeline **pipeline_out);
void rungi_pipeline_destroy(rungi_pipeline **pipeline);
// Compiles the plans for a batch of `count`, fills slots for micro-batches 0, ... slots - 1.
rung_status rungi_pipeline_prepare(rungi_pipeline *p, bool training, bool loss, int64_t count);
// How a batch of `count` goes through, in so many rounds: micro-batches that have samples, slots
// that these take turns in.
typedef struct rungi_pipeline_use {
    int active, slots;
} rungi_pipeline_use;
rungi_pipeline_use rungi_pipeline_use_of(const rungi_pipeline *p, bool training, int64_t count,
                                         int rounds);
// Has backward anything to begin with?
bool rungi_pipeline_has_backward(const rungi_pipeline *p);
// Bytes of all that crosses a cut, of micro-batches of `count` in that precision; with `gradients`
// only of what has one.
uint64_t rungi_pipeline_crossing_bytes(const rungi_pipeline *p, const rungi_crossing *list, int n,
                                       int64_t count, rung_dtype precision, bool gradients);
// The plan of the first micro-batch of such a batch.
rung_status rungi_pipeline_plan(rungi_pipeline *p, bool training, int64_t count,
                                const rung_plan **plan_out);
// The training plan of the largest micro-batches so far, or NULL.
const rung_plan *rungi_pipeline_training_plan(const rungi_pipeline *p);
// See rungi_engine_work_of.
bool rungi_pipeline_work_of(const rungi_pipeline *p, int micro, rungi_engine_work *out);
rung_status rungi_pipeline_output(const rungi_pipeline *p, const char *name, rung_view *view_out);
// Slot of micro-batch m, with the instance that runs it.
rung_status rungi_pipeline_slot(rungi_pipeline *p, int micro, rungi_stage_slot **slot_out);
static inline rungi_shard rungi_pipeline_micro(const rungi_pipeline *p, int micro)
{
    return rungi_shard_of(p->e->whole, p->active, micro);
}
// Bytes of what crosses a cut, of a micro-batch of `count`.
static inline uint64_t rungi_pipeline_bytes(const rungi_pipeline *p, const rungi_crossing *crossing,
                                            int64_t count)
{
    return rungi_crossing_bytes(p->e->graph, crossing, count, p->e->options.precision);
}

// pipeline_run.c: a call of the engine. e->batch, e->whole and e->training are set.
rung_status rungi_pipeline_run(rungi_pipeline *p, bool loss, double *loss_out);

// pipeline_statistics.c: running statistics, after forward of a micro-batch, and after all.
rung_status rungi_pipeline_keep_statistics(rungi_pipeline *p, int micro);
rung_status rungi_pipeline_finish_statistics(rungi_pipeline *p);

// pipeline_move.c: values and gradients at the cuts.
// Receives that can be posted: of the next micro-batch's inputs, of the next gradients.
rung_status rungi_pipeline_prefetch(rungi_pipeline *p);
// Waits for them and binds them.
rung_status rungi_pipeline_take_inputs(rungi_pipeline *p, int micro);
rung_status rungi_pipeline_take_seeds(rungi_pipeline *p, int micro);
rung_status rungi_pipeline_send_outputs(rungi_pipeline *p, int micro);
rung_status rungi_pipeline_send_gradients(rungi_pipeline *p, int micro);
// Waits until no values (or gradients) of the slot are on their way any more; -1: of any.
rung_status rungi_pipeline_finish_sends(rungi_pipeline *p, int slot, bool gradients);
// Gives up calls that a failure left behind.
void rungi_pipeline_drop_calls(rungi_pipeline *p);

#endif
