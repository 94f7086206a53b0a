// SPDX-License-Identifier: Apache-2.0
// Shared by engine.c and engine_run.c only.
#ifndef RUNGI_TRAIN_ENGINE_INSIDE_H
#define RUNGI_TRAIN_ENGINE_INSIDE_H

#include "train/engine.h"
#include "train/shards.h"

// A plan for one size of shard, with an instance for each shard that needs one.
typedef struct rungi_shard_plan {
    bool training, loss;
    int64_t count;
    rung_plan *plan;
    rungi_instance *instances[RUNGI_MAX_SHARDS]; // [0] is the plan's own
    rungi_instance *remote[RUNGI_MAX_SHARDS];    // by shard of all ranks: of those of others
    bool has_updates;                            // a kernel of it can update a parameter
    int *ready;                                  // by bucket: see rungi_exchange_ready
} rungi_shard_plan;

struct rungi_engine {
    const rung_graph *graph;
    rung_state *state;
    rungi_engine_options options;
    int shards, threads;      // own shards of a batch; threads that a shard is computed with
    int total, first;         // shards of all ranks, and the first of the own ones
    rungi_exchange *exchange; // NULL: one rank
    rungi_team *team;         // under exact: workers that run shards at once
    rung_arena *arenas[RUNGI_MAX_SHARDS];
    // By worker, where the device is asynchronous or has delays; else kernels are called directly.
    rung_stream *streams[RUNGI_MAX_SHARDS];
    rungi_timeline_work marks[3];   // of the first worker's stream
    float *grads[RUNGI_MAX_SHARDS]; // [0] is the state's
    RUNGI_ARRAY(rungi_shard_plan *) entries;
    double *counts;           // loss divisors by node
    RUNGI_ARRAY(int) divided; // nodes that have one
    double *numbers;          // room for those and one more
    // of the call under way
    const rungi_batch_view *batch;
    bool training, updating;
    rungi_shard_plan *now[RUNGI_MAX_SHARDS];
    float losses[RUNGI_MAX_SHARDS];
    int active;    // own shards that have samples
    int64_t count; // own samples of the last batch
    int64_t whole; // samples of all ranks
    bool stop;     // a rank wants to end
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
    char **gathered; // under exact, by output: its values of all shards
    size_t *gathered_bytes;
};

// Threads that run shards at once.
static inline int rungi_engine_workers(const rungi_engine *e)
{
    return e->team ? rungi_team_size(e->team) : 1;
}

// Own shard s of a batch of all ranks.
static inline rungi_shard rungi_engine_part(const rungi_engine *e, int64_t count, int s)
{
    return rungi_shard_of(count, e->total, e->first + s);
}

// Finds or compiles the plans of a batch of all ranks: fills e->now and e->active.
rung_status rungi_engine_plans(rungi_engine *e, bool training, bool loss, int64_t count);
// A plan for shards of `count` samples, and the instance of own shard `shard` (-1: none is wanted).
rung_status rungi_engine_find(rungi_engine *e, bool training, bool loss, int64_t count, int shard,
                              rungi_shard_plan **entry_out);

// Runs steps [begin, end) of an instance, through the worker's stream where it has one.
rung_status rungi_engine_run_steps(rungi_engine *e, int member, rungi_instance *instance, int begin,
                                   int end);

// engine_ranks.c, for several ranks. Before forward: divisors become those of the whole batch.
rung_status rungi_engine_share_counts(rungi_engine *e);
// Backward of the one own shard, its buckets sent as they are completed.
rung_status rungi_engine_backward_overlapped(rungi_engine *e, rungi_instance *instance);
// After backward: *loss becomes that of the whole batch, running statistics are updated with those
// of all shards, and gradients become the sums over all ranks.
rung_status rungi_engine_share_loss(rungi_engine *e, double *loss);
rung_status rungi_engine_share_statistics(rungi_engine *e);
rung_status rungi_engine_share_gradients(rungi_engine *e);
// engine_meet.c: makes e->group; goes along with the others' synchronized steps, as a rank without
// samples (`overlaps`: starting buckets where they do).
void rungi_engine_meet_init(rungi_engine *e);
rung_status rungi_engine_meet_idle(rungi_engine *e, bool overlaps);
// The sum of `count` numbers as the fixed tree adds them.
double rungi_engine_tree_sum(const double *values, int count);

#endif
