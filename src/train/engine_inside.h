// SPDX-License-Identifier: Apache-2.0
// Shared by engine*.c only.
#ifndef RUNGI_TRAIN_ENGINE_INSIDE_H
#define RUNGI_TRAIN_ENGINE_INSIDE_H

#include "train/engine.h"
#include "train/shards.h"

enum { RUNGI_ENGINE_LEVELS = 10, RUNGI_ENGINE_FEEDS = 16 };

// What a plan is for.
typedef struct rungi_plan_key {
    bool training, loss;
    bool adds; // to the gradients of earlier rounds
    int64_t count;
} rungi_plan_key;

// A plan for one size of shard, with an instance for each shard of a round that needs one.
typedef struct rungi_shard_plan {
    rungi_plan_key key;
    rung_plan *plan;
    rungi_instance *instances[RUNGI_MAX_SHARDS]; // by place in the round; [0] is the plan's own
    rungi_instance *remote[RUNGI_MAX_SHARDS];    // by shard of all ranks: of those of others
    bool has_updates;                            // a kernel of it can update a parameter
    int *ready;                                  // by bucket: see rungi_exchange_ready
} rungi_shard_plan;

struct rungi_engine {
    const rung_graph *graph;
    rung_state *state;
    rungi_engine_options options;
    int slots, threads;       // own shards of a round; threads that a shard is computed with
    int rounds;               // of the call under way, or the one that is prepared
    int shards;               // own shards of its batch: slots * rounds
    int total, first;         // shards of all ranks, and the first of the own ones
    rungi_exchange *exchange; // NULL: one rank
    rungi_team *team;         // under exact: workers that run shards at once
    rung_arena *arenas[RUNGI_MAX_SHARDS];
    // By worker, where the device is asynchronous or has delays; else kernels are called directly.
    rung_stream *streams[RUNGI_MAX_SHARDS];
    rungi_timeline_work marks[3];       // of the first worker's stream
    float *grads[RUNGI_MAX_SHARDS];     // by place in the round; [0] is the state's
    float *levels[RUNGI_ENGINE_LEVELS]; // of exact's tree over rounds: see rungi_tree_carry
    char *room, *own_room; // statistics of all shards, by `room_bytes` each; NULL: none
    size_t room_bytes, own_room_bytes;
    RUNGI_ARRAY(rungi_shard_plan *) entries;
    double *counts;           // loss divisors by node
    RUNGI_ARRAY(int) divided; // nodes that have one
    double *numbers;          // room for those and one more
    // of the call under way
    const rungi_batch_view *batch; // &view
    rungi_batch_view view;
    rungi_feed feeds[RUNGI_ENGINE_FEEDS];
    bool training, updating;
    int round;
    rungi_shard_plan *now[RUNGI_MAX_SHARDS];
    float losses[RUNGI_MAX_SHARDS];
    int active;    // own shards that have samples
    int64_t count; // own samples of the last batch
    int64_t whole; // samples of all ranks
    bool stop;     // a rank wants to end
    bool looked;   // for parameters without a part in the loss
    int bad_rank;
    int64_t began; // of computing, when the ranks had met; then what it took
    rungi_straggler balance;
    char **gathered; // where shards take turns, by output: its values of all shards
    size_t *gathered_bytes;
};

// Threads that run shards at once.
static inline int rungi_engine_workers(const rungi_engine *e)
{
    return e->team ? rungi_team_size(e->team) : 1;
}

// Cuts batches as training or evaluation does.
void rungi_engine_cut(rungi_engine *e, bool training);
// Own shard s of a batch of all ranks.
static inline rungi_shard rungi_engine_part(const rungi_engine *e, int64_t count, int s)
{
    return rungi_shard_of(count, e->total, e->first + s);
}

// Finds or compiles the plans of a batch of all ranks: fills e->now and e->active.
rung_status rungi_engine_plans(rungi_engine *e, bool training, bool loss, int64_t count);
// The plan of a key, and the instance of place `slot` of a round (-1: none is wanted).
rung_status rungi_engine_find(rungi_engine *e, const rungi_plan_key *key, int slot,
                              rungi_shard_plan **entry_out);
// Own shards of a round: from round * slots up to this one.
static inline int rungi_engine_round_end(const rungi_engine *e, int round)
{
    int end = (round + 1) * e->slots;
    return end < e->active ? end : e->active;
}
// Where shards take turns in an arena, outputs are put together outside of it.
static inline bool rungi_engine_gathers(const rungi_engine *e)
{
    return e->team || e->rounds > 1;
}
// Binds the shards of a round to their samples.
rung_status rungi_engine_bind(rungi_engine *e, int round);

// Runs steps [begin, end) of an instance, through the worker's stream where it has one.
rung_status rungi_engine_run_steps(rungi_engine *e, int member, rungi_instance *instance, int begin,
                                   int end);

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
// Backward of the one own shard, its buckets sent as they are completed.
rung_status rungi_engine_backward_overlapped(rungi_engine *e, rungi_instance *instance);
// After backward: *loss becomes that of the whole batch, and gradients become the sums over all
// ranks.
rung_status rungi_engine_share_loss(rungi_engine *e, double *loss);
rung_status rungi_engine_share_gradients(rungi_engine *e);
// The sum of `count` numbers as the fixed tree adds them.
double rungi_engine_tree_sum(const double *values, int count);

#endif
