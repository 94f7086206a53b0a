// SPDX-License-Identifier: Apache-2.0
// The engine runs a model on batches: it compiles and keeps the plans that occur (full and short
// batches, training and evaluation) and, under `exact`, cuts each batch into shards.
//
// Exact: a batch of B samples is cut into S shards whose sizes differ by at most one. Each shard is
// computed with one thread, so its bits do not depend on how many threads there are; T shards run
// at once, each worker with its own arena. Shard gradients, losses and batch statistics are added
// in one fixed binary tree over the shards. Loss divisors are counted over the whole batch first.
// Not exact: one shard with all threads.
//
// Accumulation cuts a training batch into as many times more shards, which are computed in rounds:
// a round has as many as a batch would have without (one, not exact). So memory for activations is
// that of a round, divisors and random numbers are those of the whole batch, gradients are
// exchanged once, and under exact the bits are those of a batch that is cut into all these shards
// at once. Not exact, the plans of all rounds but the first add to the gradients that are there;
// the tree of exact keeps a buffer for each of its levels. Running statistics of batch
// normalization are updated once, with those of all rounds. A device of several that share batches
// has as many times more shards, too, that lie side by side; a stage of a pipeline has as many
// times more micro-batches.
//
// With R ranks each has an engine and a part of each batch: S / R shards of it that lie side by
// side, or, not exact, one shard of R. Every call is collective then, and what it gives (loss,
// gradients, running statistics) is that of the whole batch, with the same bits on all ranks; under
// exact also with the bits that any other number of ranks gives. With `synchronize` the ranks meet
// in batch normalization, which then sees the whole batch, or a round of all ranks: under exact a
// rank has one shard then.
//
// Several devices of one process share each batch in one engine: engine_replicas.h.
#ifndef RUNGI_TRAIN_ENGINE_H
#define RUNGI_TRAIN_ENGINE_H

#include "base/shard.h"
#include "base/team.h"
#include "graph/plan.h"
#include "measure/straggler.h"
#include "measure/timeline.h"
#include "rung/optim.h"
#include "train/engine_replicas.h"
#include "train/exchange.h"
#include "train/pipeline.h"

typedef struct rungi_engine rungi_engine;

typedef struct rungi_engine_options {
    bool exact;
    int shards;  // under exact: a power of two up to RUNGI_MAX_SHARDS
    int threads; // 0: the device's
    bool fuse;
    bool fuse_optimizer;
    bool allow_unused; // parameters that take no part in the loss: else told, or with ranks refused
    int accumulate;    // rounds of a training batch; 0: 1. Under exact a power of two
    rung_layout layout;
    rung_kernels kernels;
    bool winograd;
    rung_winograd_bf16 winograd_bf16;
    rung_dtype precision; // f32, or what autocast keeps activations in
    rung_compute compute;
    rung_tuning *tuning;                 // borrowed; NULL: kernels by each operator's order
    rungi_timeline *timeline;            // borrowed; NULL: none
    rung_recompute recompute;            // of training plans
    const char *const *recompute_layers; // borrowed
    int n_recompute_layers;
    uint64_t budget;  // bytes of each arena; 0: no limit
    bool synchronize; // batch normalization in training by the statistics of all ranks
    // Ranks: comm NULL: there is one. Its timeline is the engine's.
    rungi_exchange_options exchange;
    rungi_replicas_options replicas; // not with ranks
    // Ranks that are stages instead (comm not NULL): graph and state are those of one. Without
    // exact and exchange.
    rungi_pipeline_options pipeline;
} rungi_engine_options;

// A value for each input of the graph: contiguous [count, ...]. Borrowed during the call.
typedef struct rungi_feed {
    const char *input;
    const void *data;
} rungi_feed;

typedef struct rungi_batch_view {
    int64_t count;        // samples of this rank; several ranks: may be 0
    int64_t global_count; // of all ranks; 0: count
    int64_t begin;        // place of this rank's first sample among those
    // These samples are the whole batch: nothing is told to the other ranks, loss, gradients and
    // statistics are its own. Not with exact. `begin` still counts for random operators.
    bool alone;
    bool stop;      // this rank wants to end after this step
    int64_t waited; // nanoseconds that this rank waited for the batch
    const rungi_feed *feeds;
    int n_feeds;
    uint64_t seed, step; // keys of random operators
    double loss_scale;   // training: gradients become that many times theirs; 0: 1
    // Training: kernels may update parameters instead of storing gradients, as the next
    // rung_optimizer_step with this update would do; it does the rest. Backward is left out then
    // when the loss is not finite. NULL: all gradients are stored.
    // Where that step looks at all gradients first, backward may make sums for it: nobody may
    // change the gradients until then.
    // Of ranks with a fused update (exchange.h) gradients are left as they are where they can be:
    // see rungi_engine_left_gradients.
    rung_optimizer *optimizer;
    const rung_optimizer_update *update;
} rungi_batch_view;

// Makes an engine for a graph and its state. All are borrowed.
rung_status rungi_engine_create(const rung_graph *graph, rung_state *state,
                                const rungi_engine_options *options, rungi_engine **engine_out);
void rungi_engine_destroy(rungi_engine **engine);

// Forward and backward: the state's gradients hold the gradient of the loss of the whole batch.
// `loss_out` receives the loss, which may be not finite: rungi_engine_bad_rank says whose.
rung_status rungi_engine_train(rungi_engine *engine, const rungi_batch_view *batch,
                               double *loss_out);

// Has the last call left each rank's gradients as they are? Then rungi_engine_update is to take the
// step with the batch's optimizer and update, in place of rung_optimizer_step; collective.
bool rungi_engine_left_gradients(const rungi_engine *engine);
rung_status rungi_engine_update(rungi_engine *engine, rung_optimizer *optimizer,
                                const rung_optimizer_update *update,
                                rung_optimizer_report *report_out);

// Forward in evaluation mode. `loss_out` may be NULL when no loss is wanted (no labels then).
rung_status rungi_engine_eval(rungi_engine *engine, const rungi_batch_view *batch,
                              double *loss_out);

// Of the last training call: did any rank want to stop, and the first rank whose part of the loss
// was not finite, or -1.
bool rungi_engine_stop(const rungi_engine *engine);
int rungi_engine_bad_rank(const rungi_engine *engine);

// What the steps of the last training calls took on each rank before the exchange; NULL: one rank.
// Borrowed.
const rungi_straggler *rungi_engine_balance(const rungi_engine *engine);

// Compiles the plans for batches of `count` samples (of all ranks) now instead of at the first one.
rung_status rungi_engine_prepare(rungi_engine *engine, bool training, int64_t count);

// Called between the steps of plans from now on, where one thread computes: what others want of
// this rank cannot wait for a whole pass. NULL: nothing is.
typedef rung_status (*rungi_engine_between_fn)(void *user);
void rungi_engine_between(rungi_engine *engine, rungi_engine_between_fn fn, void *user);

// What ranks exchange; NULL: there is one. Borrowed.
const rungi_exchange *rungi_engine_exchange(const rungi_engine *engine);

// An output of the last call, all of this rank's samples in order. Valid until the next call.
// Errors: RUNG_UNSUPPORTED after a training step with a parallel criterion, which leaves outputs on
// their devices.
rung_status rungi_engine_output(rungi_engine *engine, const char *name, rung_view *view_out);

// Shard `index` of the last call: the plan and instance that it was run with, bound to its samples
// (which the caller still holds): for looking into them. False past the last. Of accumulated rounds
// the instance holds what the last one left.
bool rungi_engine_shard(rungi_engine *engine, int index, const rung_plan **plan_out,
                        rungi_instance **instance_out);

// What was computed in the last training call, one after the other: each shard, or micro-batch of a
// stage, and the losses of a device that computes them for all. An instance that took turns comes
// as often. False past the last.
typedef struct rungi_engine_work {
    const rung_plan *plan;
    rungi_instance *instance;
    int device;
    int64_t samples;
} rungi_engine_work;
bool rungi_engine_work_of(const rungi_engine *engine, int index, rungi_engine_work *out);

// The plan that trains on (the first shard of) batches of `count`, for listings and memory; and the
// one that adds to its gradients, NULL where there is none.
rung_status rungi_engine_plan(rungi_engine *engine, bool training, int64_t count,
                              const rung_plan **plan_out);
const rung_plan *rungi_engine_adding_plan(const rungi_engine *engine);

// With it, the plan of the loss that a device computes for all, or for the first shard under exact;
// NULL: the first shard's plan has its loss.
rung_status rungi_engine_loss_plan(rungi_engine *engine, bool training, int64_t count,
                                   const rung_plan **plan_out);

// The training plan of the largest batches so far, or NULL.
const rung_plan *rungi_engine_training_plan(const rungi_engine *engine);

// How such a plan is compiled, for others that are only to be looked at: the outputs are all.
rung_compile_options rungi_engine_plan_options(const rungi_engine *engine, bool training,
                                               int64_t count);
// How busy the stages of a pipeline were; NULL: there is none, or no step yet.
const rungi_pipeline_times *rungi_engine_pipeline(const rungi_engine *engine);

// Shards that run at once on a device, the first one, or are kept at once by a stage of a pipeline:
// each has an arena.
int rungi_engine_width(const rungi_engine *engine);
// Shards of this rank in a round; rounds of a training batch; buffers of gradients on a device, the
// state's included.
int rungi_engine_round_shards(const rungi_engine *engine);
// Shards of a round that a worker of a device computes one after the other.
int rungi_engine_turns(const rungi_engine *engine, int device);
int rungi_engine_rounds(const rungi_engine *engine);
int rungi_engine_gradient_buffers(const rungi_engine *engine);
// Under exact: does the shard at that place of a round add its gradients to those of the one before
// it, of the same worker?
bool rungi_engine_adds(const rungi_engine *engine, int slot);

// The threads that run its shards; NULL: kernels take threads of their own.
rungi_team *rungi_engine_team(const rungi_engine *engine);

// Devices that share each batch, 1 or more; what each did in training; and nanoseconds of all
// training steps together, without waiting for data.
int rungi_engine_devices(const rungi_engine *engine);
rungi_replica_use rungi_engine_use(const rungi_engine *engine, int device);
int64_t rungi_engine_spent(const rungi_engine *engine);
// Device `device` gets that part of a training batch of `count` samples.
rungi_shard rungi_engine_part_of(const rungi_engine *engine, int64_t count, int device);
// What a device has of the state, as of the last call; [0] is the engine's. Borrowed.
const rung_state *rungi_engine_replica(const rungi_engine *engine, int device);
// The optimizer's step took so long, on the first device.
void rungi_engine_note_update(rungi_engine *engine, int64_t nanoseconds);

#endif
