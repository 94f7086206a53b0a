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
    bool has_updates;                            // a kernel of it can update a parameter
} rungi_shard_plan;

struct rungi_engine {
    const rung_graph *graph;
    rung_state *state;
    rungi_engine_options options;
    int shards, threads; // shards of a batch; threads that a shard is computed with
    rungi_team *team;    // under exact: workers that run shards at once
    rung_arena *arenas[RUNGI_MAX_SHARDS];
    // By worker, where the device is asynchronous or has delays; else kernels are called directly.
    rung_stream *streams[RUNGI_MAX_SHARDS];
    rungi_timeline_work marks[3];   // of the first worker's stream
    float *grads[RUNGI_MAX_SHARDS]; // [0] is the state's
    RUNGI_ARRAY(rungi_shard_plan *) entries;
    double *counts; // loss divisors by node
    // of the call under way
    const rungi_batch_view *batch;
    bool training, updating;
    rungi_shard_plan *now[RUNGI_MAX_SHARDS];
    float losses[RUNGI_MAX_SHARDS];
    int active;      // shards that have samples
    int64_t count;   // samples of the last batch
    char **gathered; // under exact, by output: its values of all shards
    size_t *gathered_bytes;
};

// Threads that run shards at once.
static inline int rungi_engine_workers(const rungi_engine *e)
{
    return e->team ? rungi_team_size(e->team) : 1;
}

// Finds or compiles the plans of a batch: fills e->now and e->active.
rung_status rungi_engine_plans(rungi_engine *e, bool training, bool loss, int64_t count);

#endif
