// SPDX-License-Identifier: Apache-2.0
// Shared by engine*.c only.
#ifndef RUNGI_TRAIN_ENGINE_INSIDE_H
#define RUNGI_TRAIN_ENGINE_INSIDE_H

#include "graph/part.h"
#include "rung/data.h"
#include "train/engine.h"
#include "train/shards.h"

enum { RUNGI_ENGINE_LEVELS = 10 };

// A plan for one size of shard, with an instance for each shard of a round that needs one.
typedef struct rungi_shard_plan {
    bool training, loss;
    bool adds; // to the gradients of earlier rounds
    int64_t count;
    int device;
    rung_plan *plan;
    rungi_instance *instances[RUNGI_MAX_SHARDS]; // that of the device's first is the plan's own
    rungi_instance *remote[RUNGI_MAX_SHARDS];    // by shard of all ranks: of those of others
    bool has_updates;                            // a kernel of it can update a parameter
    int *complete;                               // of training: see rungi_engine_note_complete
} rungi_shard_plan;

// One of the devices that share each batch.
typedef struct rungi_replica {
    rung_device *device;
    rung_state *state;   // [0]: the engine's
    rung_stream *copies; // brings it what other devices have, and them what it has; NULL: alone
    int first, shards;   // its shards
    int worker, workers; // its workers
    void *inputs[RUNG_MAX_FIELDS]; // by feed: its part of the batch, where that is copied
    uint64_t input_bytes[RUNG_MAX_FIELDS];
    int64_t samples; // trained on
} rungi_replica;

// The loss on the output device alone, of a graph that is cut before it: see engine_criterion.c.
typedef struct rungi_criterion {
    rungi_part model, loss;
    rungi_replica *output;
    rung_state *alias; // the engine's, for the part before the cut
    rung_state *state; // of the part behind it
    RUNGI_ARRAY(rungi_shard_plan *) entries;
    rung_arena *arenas[RUNGI_MAX_SHARDS]; // by piece of a round
    void *targets[RUNG_MAX_FIELDS];       // by feed: all of the batch, where that is copied
    uint64_t target_bytes[RUNG_MAX_FIELDS];
    // By device and crossing: the gradients of its part of the batch, where these are copied.
    void *seeds[RUNGI_MAX_SHARDS][RUNG_MAX_FIELDS];
    uint64_t seed_bytes[RUNGI_MAX_SHARDS][RUNG_MAX_FIELDS];
    // of the call under way
    rungi_shard_plan *now[RUNGI_MAX_SHARDS];
    bool by_shard; // each shard is a piece; else the batch is one
    int count;     // pieces; 0: no loss is wanted
} rungi_criterion;

struct rungi_engine {
    const rung_graph *graph;
    const rung_graph *model; // that shards run: `graph`, or its part before the loss
    rung_state *state;
    rungi_engine_options options;
    int slots, threads; // own shards of a round; threads that a shard is computed with
    int rounds;         // of the call under way, or the one that is prepared
    int shards;         // own shards of its batch: slots * rounds
    int total, first;   // shards of all ranks, and the first of the own ones
    // Place of own shard s among the own ones in the tree, and the shard that has a place. Own
    // shard s takes its turn in round s / slots, at place s % slots of it.
    int leaf[RUNGI_MAX_SHARDS], of_leaf[RUNGI_MAX_SHARDS];
    int devices; // that share the shards
    rungi_replica replicas[RUNGI_MAX_SHARDS];
    int device_of[RUNGI_MAX_SHARDS], worker_of[RUNGI_MAX_SHARDS]; // by place in a round
    int worker_device[RUNGI_MAX_SHARDS], workers;
    rungi_exchange *exchange; // NULL: one rank
    rungi_pipeline *pipeline; // NULL: the graph is whole
    rungi_engine_between_fn between;
    void *between_user;
    rungi_team *team; // under exact: workers that run shards at once
    rung_arena *arenas[RUNGI_MAX_SHARDS];
    // By worker, where the device is asynchronous or has delays; else kernels are called directly.
    rung_stream *streams[RUNGI_MAX_SHARDS];
    rungi_timeline_work marks[3];   // of the first worker's stream
    float *grads[RUNGI_MAX_SHARDS]; // by place in a round; that of a device's first is its state's
    // Shards of a round that lie side by side on a device and are a branch of the tree, by the
    // first one's place in a round: how many. 0: it is not the first of a block.
    int blocks[RUNGI_MAX_SHARDS];
    // Of each block: exact's tree over its rounds, see rungi_tree_carry; and, where devices copy,
    // room on the first device for its sum.
    float *levels[RUNGI_MAX_SHARDS][RUNGI_ENGINE_LEVELS];
    float *staged[RUNGI_MAX_SHARDS];
    char *room, *own_room; // statistics of all shards, `room_bytes` each; NULL: none are kept there
    size_t room_bytes, own_room_bytes;
    // By place in a round: 2 where the shard's gradients are added to by the next one of the same
    // worker, 0 where it is that one, else 1.
    int pairs[RUNGI_MAX_SHARDS];
    int64_t busy[RUNGI_MAX_SHARDS], copying[RUNGI_MAX_SHARDS]; // nanoseconds by worker
    int64_t spent;                                             // of training steps
    rungi_criterion *criterion;                                // NULL: shards compute their losses
    bool told_idle;
    RUNGI_ARRAY(rungi_shard_plan *) entries;
    double *counts;           // loss divisors by node
    RUNGI_ARRAY(int) divided; // nodes that have one
    double *numbers;          // room for those and one more
    // of the call under way
    const rungi_batch_view *batch; // &view
    rungi_batch_view view;
    rungi_feed feeds[RUNG_MAX_FIELDS];
    bool training, updating;
    bool left; // each rank's gradients are its own: rungi_engine_update adds them
    int round;
    rungi_shard_plan *now[RUNGI_MAX_SHARDS]; // by own shard; NULL: it has no samples
    float losses[RUNGI_MAX_SHARDS];
    int active;    // own shards that have samples; of one device the first ones
    int turns;     // rounds that have samples, of this rank; with synchronize of any rank
    int64_t count; // own samples of the last batch
    int64_t whole; // samples of all ranks
    bool stop;     // a rank wants to end
    bool looked;   // for parameters without a part in the loss
    int bad_rank;
    int64_t began;  // of computing, when the ranks had met; then what it took
    int64_t linked; // rungi_exchange_link_time at the last training step
    rungi_straggler balance;
    // Synchronized steps: the group (size 0: there are none), what a rank without samples gives;
    // of the call under way, nanoseconds of meeting and the first rank that was not finite.
    rungi_group group;
    RUNGI_ARRAY(double) zeros;
    int64_t met;
    int met_bad;
    char **gathered; // where shards take turns, by output: its values of all shards
    size_t *gathered_bytes;
};

// Part `device` of `count` things that are cut over the devices.
rungi_shard rungi_engine_share(const rungi_engine *e, int64_t count, int device);

// Where the own samples of the batch under way begin among those that shards are counted over.
static inline int64_t rungi_engine_origin(const rungi_engine *e)
{
    return e->batch->alone ? 0 : e->batch->begin;
}

// Place of own shard s among the own ones in the tree, of a batch of so many rounds.
int rungi_engine_leaf(const rungi_engine *e, int s, int rounds);
// Cuts batches as training or evaluation does.
void rungi_engine_cut(rungi_engine *e, bool training);
// Own shard s of a batch of all ranks; and the part of it that all shards of a device have.
rungi_shard rungi_engine_part(const rungi_engine *e, int64_t count, int s);
rungi_shard rungi_engine_device_part(const rungi_engine *e, int64_t count, int device);

// Finds or compiles the plans of a batch of all ranks: fills e->now and e->active.
rung_status rungi_engine_plans(rungi_engine *e, bool training, bool loss, int64_t count);
// A plan for shards of `count` samples, and the instance of place `slot` of a round (-1: none is
// wanted). `adds`: to the gradients of earlier rounds.
rung_status rungi_engine_find(rungi_engine *e, bool training, bool loss, bool adds, int64_t count,
                              int slot, rungi_shard_plan **entry_out);
// Own shards of a round lie in [round * slots, this); some may have no samples.
static inline int rungi_engine_round_end(const rungi_engine *e, int round)
{
    return (round + 1) * e->slots;
}
// Shards of the block at `first` that have samples in a round: its first ones.
int rungi_engine_in_block(const rungi_engine *e, int round, int first);
// The instance that own shard s of the batch under way takes its turn in.
static inline rungi_instance *rungi_engine_instance(const rungi_engine *e, int s)
{
    return e->now[s]->instances[s % e->slots];
}
// Binds the shards of a round to their samples.
rung_status rungi_engine_bind(rungi_engine *e, int round);

// Runs steps [begin, end) of an instance, through the worker's stream where it has one.
rung_status rungi_engine_run_steps(rungi_engine *e, int member, rungi_instance *instance, int begin,
                                   int end);

// engine_place.c: which device and worker runs which shard, and what they need for it.
rung_status rungi_engine_place(rungi_engine *e, int threads);
void rungi_engine_leave(rungi_engine *e);

// The arena of own shard s: of its worker, or, where all shards run forward before the loss, of its
// own.
static inline rung_arena *rungi_engine_arena(const rungi_engine *e, int s)
{
    return e->arenas[e->criterion ? s : e->worker_of[s]];
}

int64_t rungi_engine_clock_now(const rungi_engine *e);
// Marks what a worker's compute is doing: mark 0 forward, 1 backward, 2 the end.
rung_status rungi_engine_phase(rungi_engine *e, int member, int mark);
// A worker has been busy since then.
void rungi_engine_note_busy(rungi_engine *e, int member, int64_t began);
// From now on the first worker waits for those of other devices.
void rungi_engine_wait_for_others(rungi_engine *e, int member, rungi_queue queue,
                                  rungi_category category);
// Runs fn on all workers, whose first one may begin to wait.
rung_status rungi_engine_run_team(rungi_engine *e, rungi_team_fn fn);

// engine_outputs.c. Bytes of a sample of a value; room for the outputs of a batch; those of a shard
// go there, on the output device; are they put together by the call under way at all? Which output
// has a value.
size_t rungi_sample_bytes(const rung_graph *graph, int value);
int rungi_input_of(const rung_graph *graph, const char *name); // its value id; 0: there is none
int rungi_engine_output_of(const rungi_engine *e, int value);
rung_status rungi_engine_reserve_outputs(rungi_engine *e);
rung_status rungi_engine_gather(rungi_engine *e, int member, int s);
bool rungi_engine_gathers(const rungi_engine *e);
void rungi_engine_drop_output(rungi_engine *e, size_t index);

// engine_replicas.c, for several devices. Before a batch is bound: each has its part of it.
// `data_out` is where the part of feed `feed` lies for shard `shard`.
rung_status rungi_engine_scatter(rungi_engine *e);
const void *rungi_engine_input(const rungi_engine *e, int feed, int shard, size_t sample_bytes);
// Before forward: the replicas' parameters and buffers become those of the first device.
rung_status rungi_engine_broadcast(rungi_engine *e);
// Runs fn on all workers while a queue of the timeline is said to be busy with `category`.
rung_status rungi_engine_together(rungi_engine *e, rungi_queue queue, rungi_category category,
                                  rungi_team_fn fn);
// Copies from the device of a worker to another one, or to its own; and to its device from another.
rung_status rungi_engine_send(rungi_engine *e, int member, int device, void *dst, const void *src,
                              uint64_t bytes);
rung_status rungi_engine_fetch(rungi_engine *e, int member, void *dst, const void *src,
                               uint64_t bytes);
// A worker's part of the flat buffer: `index` of `workers`.
rungi_shard rungi_engine_slice(const rungi_engine *e, int index, int workers);
// After backward: the gradients of all shards are added on the first device.
rung_status rungi_engine_reduce(rungi_engine *e);
// Tells once of devices that a batch leaves without a sample.
void rungi_engine_tell_idle(rungi_engine *e);
// A training step that began then has ended.
void rungi_engine_note_step(rungi_engine *e, int64_t began);

// engine_criterion.c, for several devices with the loss on one. While they are made; plans for a
// batch of `count`; does backward give any gradient?
rung_status rungi_criterion_create(rungi_engine *e);
void rungi_criterion_destroy(rungi_engine *e);
rung_status rungi_criterion_plans(rungi_engine *e, bool training, int64_t count);
bool rungi_criterion_gradients(const rungi_criterion *c);
// A batch: targets go to the output device (by its worker); inputs of a round are bound; divisors
// counted.
rung_status rungi_criterion_scatter(rungi_engine *e, int member);
void rungi_criterion_bind(rungi_engine *e, int round);
void rungi_criterion_count(rungi_engine *e, int round);
// Piece i of a batch, of which a loss is computed: that of own shard i, or the whole.
static inline rungi_shard rungi_criterion_piece(const rungi_engine *e, int64_t count, int i)
{
    return e->criterion->by_shard ? rungi_engine_part(e, count, i) : (rungi_shard){0, count};
}
// A round: forward, the loss where it is wanted, and, in training, backward.
rung_status rungi_criterion_compute(rungi_engine *e, bool loss);

// engine_backward.c. Fills x->complete, by parameter in the order of the flat buffer: the step
// after which its gradient and those of all before it are complete; n_forward - 1 where there are
// none.
rung_status rungi_engine_note_complete(rungi_shard_plan *x);
// Backward of the one own shard, in the last round: its buckets are sent as they are completed.
rung_status rungi_engine_backward_overlapped(rungi_engine *e, rungi_instance *instance);
// After that step: starts the buckets from *next on that are complete.
rung_status rungi_engine_start_buckets(rungi_engine *e, const rungi_shard_plan *x, int step,
                                       int *next);
// Does the optimizer look at all gradients before it changes anything (to clip them by their norm,
// to leave out a step of fp16 that overflowed), and does backward itself complete them? Not where
// those of several shards or ranks are added behind it, and not where its steps are only submitted.
// Then it makes the sums for the norm as well.
bool rungi_engine_sums_gradients(const rungi_engine *e);
rung_status rungi_engine_backward_summed(rungi_engine *e, rungi_instance *instance);

// engine_unused.c: before the first training plan: tells of parameters that take no part in the
// loss. Errors: RUNG_CONFIG with several ranks.
rung_status rungi_engine_check_unused(rungi_engine *e);

// engine_statistics.c: makes room for the statistics of all shards, where those of other ranks or
// of other rounds are needed at the end; keeps those of own shard s; updates the running ones.
rung_status rungi_engine_open_statistics(rungi_engine *e);
rung_status rungi_engine_keep_statistics(rungi_engine *e, int s);
rung_status rungi_engine_finish_statistics(rungi_engine *e);

// engine_ranks.c, for several ranks. Before forward: divisors become those of the whole batch.
rung_status rungi_engine_share_counts(rungi_engine *e);
// After backward: *loss becomes that of the whole batch, and gradients become the sums over all
// ranks.
rung_status rungi_engine_share_loss(rungi_engine *e, double *loss);
rung_status rungi_engine_share_gradients(rungi_engine *e);
// Does the batch under way leave that to rungi_engine_update?
bool rungi_engine_leaves_gradients(const rungi_engine *e);
// engine_meet.c: makes e->group; goes along with the others' synchronized steps, as a rank without
// samples (`overlaps`: starting buckets where they do).
void rungi_engine_meet_init(rungi_engine *e);
rung_status rungi_engine_meet_idle(rungi_engine *e, int round, bool overlaps);
// The sum of `count` numbers as the fixed tree adds them.
double rungi_engine_tree_sum(const double *values, int count);

#endif
