// SPDX-License-Identifier: Apache-2.0
// A stage of a pipeline at work: the engine of a rank that has a part of the network's layers.
//
// The ranks of the communicator are the stages, in order. A batch is cut into micro-batches, which
// go forward from stage to stage and backward again in the order of a schedule
// (pipeline_schedule.h); each in flight has an arena of its own on each stage. Values and gradients
// at the cuts are sent while the stages compute, of 16 bits where the engine's precision keeps them
// so. Gradients of micro-batches are added in their order. Loss divisors are counted over the whole
// batch first; random numbers are keyed by the place in the whole batch; running statistics are
// updated once a micro-batch, in order, as by small batches elsewhere.
//
// Accumulation (engine.h) makes as many times more micro-batches, of which no more are held at a
// time than of one batch. Where a batch is not cut (schedule none), running statistics are updated
// once a step with those of all rounds, as on one device.
//
// Calls are collective. The loss that they give is that of the whole batch, on all ranks;
// gradients, outputs and running statistics are those of the rank's own layers.
#ifndef RUNGI_TRAIN_PIPELINE_H
#define RUNGI_TRAIN_PIPELINE_H

#include "comm/comm.h"
#include "graph/part.h"
#include "train/pipeline_schedule.h"

typedef struct rungi_pipeline rungi_pipeline;

typedef struct rungi_pipeline_options {
    rungi_comm *comm;       // borrowed; NULL: no pipeline
    const rungi_part *part; // this rank's layers, whose graph is the engine's; borrowed
    int micro;              // micro-batches of a batch (of a round); smaller batches may have fewer
    rungi_pipeline_schedule schedule;
} rungi_pipeline_options;

// Sums over the training calls, of each stage.
typedef struct rungi_pipeline_times {
    int64_t steps;
    int stages, micro, most;            // micro-batches of a step, and of a round
    double busy[RUNGI_PIPELINE_STAGES]; // seconds of computing
    double wall; // seconds from the first stage's begin to the last one's end
} rungi_pipeline_times;

#endif
