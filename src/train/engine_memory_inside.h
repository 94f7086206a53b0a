// SPDX-License-Identifier: Apache-2.0
// Shared by engine_memory*.c only.
#ifndef RUNGI_TRAIN_ENGINE_MEMORY_INSIDE_H
#define RUNGI_TRAIN_ENGINE_MEMORY_INSIDE_H

#include "train/engine_memory.h"
#include "train/pipeline_inside.h"

// A plan that was looked at, and what belongs to it.
typedef struct rungi_look {
    bool training, adds;
    int64_t count;
    uint64_t arena, workspace, statistics;
    bool used[RUNGI_MAX_SHARDS]; // by place of a round, or slot: has an instance
} rungi_look;

typedef struct rungi_survey {
    const rungi_engine *e;
    const rungi_engine_load *load;
    int device;
    RUNGI_ARRAY(rungi_look *) looks;
    uint64_t arenas[RUNGI_MAX_SHARDS]; // by arena of the engine: bytes
    uint64_t room;                     // of statistics of all shards
    rungi_engine_bytes *bytes;
    rung_plan *largest; // in training
} rungi_survey;

static inline void rungi_need(uint64_t *has, uint64_t bytes)
{
    if (bytes > *has)
        *has = bytes;
}

// How batches are cut: see rungi_engine_cut.
typedef struct rungi_cut {
    int ranks, rank, rounds;
    int shards, total, first; // of this rank; of all; the first of this rank
} rungi_cut;

rungi_cut rungi_cut_of(const rungi_survey *v, bool training);
rungi_shard rungi_cut_part(const rungi_engine *e, const rungi_cut *c, int64_t count, int shard);
// Samples that the device has of a batch.
int64_t rungi_cut_samples(const rungi_survey *v, const rungi_cut *c, int64_t count);

// How a plan is compiled to be looked at.
rung_compile_options rungi_survey_options(const rungi_survey *v, bool training, bool adds,
                                          int64_t count);
// The plan of such shards, with an instance in place `slot` that has that arena; and one for the
// plan itself in place `first`, whose arena is `first_arena`.
rung_status rungi_survey_note(rungi_survey *v, bool training, bool adds, int64_t count, int slot,
                              int arena, int first, int first_arena);
// engine_memory_replica.c: what goes between several devices of one process.
rung_status rungi_survey_replica(rungi_survey *v);
// engine_memory_stage.c: a stage of a pipeline.
rung_status rungi_survey_stage(rungi_survey *v);

#endif
