// SPDX-License-Identifier: Apache-2.0
// Which layers are which stage of a pipeline: where the user splits the network, as its layers are
// placed, or balanced. Of placed layers the first pattern that matches counts; one that matches
// none goes with the layer before it.
//
// Balanced: of all ways to cut the layers, in their order, into the wanted number of stages, those
// whose slowest stage is within 2 % of the fastest possible (dynamic programming over the cuts, as
// in PipeDream, Narayanan et al. 2019, section 3.1, without replication), and of these the one with
// the fewest bytes across its cuts. A stage's time is what the planner predicts for its steps,
// forward and backward, on a micro-batch (or, where device.op_rate emulates a device, what that
// takes). With memory.budget, stages that would hold more are left out: parameters, gradients and
// optimizer state, and what forward keeps of each micro-batch in flight.
#ifndef RUNGI_TRAIN_PIPELINE_STAGES_H
#define RUNGI_TRAIN_PIPELINE_STAGES_H

#include "graph/part.h"
#include "rung/plan.h"
#include "train/pipeline_schedule.h"

// Layers, or those of modules, whose names match are on that stage.
typedef struct rungi_placed {
    char pattern[128];
    int stage;
} rungi_placed;

typedef struct rungi_stages_options {
    int stages, micro; // micro: micro-batches of a batch
    int rounds;        // batches whose gradients are added; 0: 1
    rungi_pipeline_schedule schedule;
    const char *const *split; // stages - 1 layers (or modules, or patterns) that begin a stage;
                              // NULL: balanced, or as `placed` says
    const struct rungi_placed *placed; // NULL: none
    int n_placed;
    rung_compile_options plan; // how a stage's plan will be compiled, for a micro-batch
    int optimizer_states;      // floats that the optimizer keeps for each parameter
    uint64_t budget;           // bytes of a device; 0: no limit
    double op_rate;            // flop/ns of an emulated device; 0: none
} rungi_stages_options;

typedef struct rungi_stage_info {
    int begin, end;       // nodes of the whole graph
    double forward;       // seconds of a micro-batch, predicted
    double backward;      //
    int64_t params;       // elements
    uint64_t fixed_bytes; // parameters, gradients, optimizer state, buffers
    uint64_t kept_bytes;  // that forward keeps of a micro-batch for backward
    int in_flight;        // micro-batches that are kept at once
    uint64_t cut_bytes;   // of a micro-batch, from this stage to the next
} rungi_stage_info;

// Fills stages_out[options->stages]. The device is only asked what it is.
// Errors: RUNG_CONFIG for a pattern that no layer matches, a stage without layers, and naming a
// layer that would go back to an earlier stage; for a split that names no layer, does not ascend or
// begins with the first layer, for fewer layers than stages, and naming the parameter that two
// stages would share; RUNG_UNSUPPORTED where a cut is not possible; RUNG_NO_MEMORY when no stages
// keep the budget.
rung_status rungi_stages_choose(const rung_graph *whole, rung_device *device,
                                const rungi_stages_options *options, rungi_stage_info *stages_out);

#endif
