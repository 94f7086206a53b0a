// SPDX-License-Identifier: Apache-2.0
// What the devices of an engine hold at most while it trains on batches of other sizes, or in other
// ways, than it was made for: told from plans that take no memory.
//
// This follows the engine (engine.c, engine_place.c, engine_criterion*.c, engine_statistics.c,
// pipeline.c) allocation by allocation; tests/fit_test.c and tests/fit_devices_test.c compare it
// with the devices' accounts.
#ifndef RUNGI_TRAIN_ENGINE_MEMORY_H
#define RUNGI_TRAIN_ENGINE_MEMORY_H

#include "train/engine.h"

enum { RUNGI_LOAD_BATCHES = 2 };

// What is looked at.
typedef struct rungi_engine_load {
    // Samples of a step and of a batch that is evaluated, of all ranks and devices: of full ones
    // and of the last one; 0: there is none.
    int64_t trained[RUNGI_LOAD_BATCHES], evaluated[RUNGI_LOAD_BATCHES];
    int rounds; // see rungi_engine_options.accumulate
    bool alone; // steps are those of this rank (rungi_batch_view.alone), `trained` are its samples
    bool fuse;
    rung_dtype precision;
    rung_recompute recompute;
    uint64_t budget; // of an arena; 0: none
} rungi_engine_load;

// Bytes of a device: what the engine makes beside weights and buffers.
typedef struct rungi_engine_bytes {
    uint64_t gradients; // of parameters: of all shards, rounds and micro-batches
    uint64_t activations, workspace;
    uint64_t statistics;    // that shards keep until the end of a step
    uint64_t communication; // what comes from other devices and ranks, or is sent to them
} rungi_engine_bytes;

// Fills `bytes_out`. The plan is that of the device's largest shard, or of a stage's largest
// micro-batch, in training; NULL where no batch has a sample for it. The caller destroys it.
rung_status rungi_engine_foresee(const rungi_engine *engine, const rungi_engine_load *load,
                                 int device, rungi_engine_bytes *bytes_out, rung_plan **plan_out);

#endif
