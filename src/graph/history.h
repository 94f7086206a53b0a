// SPDX-License-Identifier: Apache-2.0
// What of a plan's arena is in use during each of its steps, and by whom.
#ifndef RUNGI_GRAPH_HISTORY_H
#define RUNGI_GRAPH_HISTORY_H

#include "graph/plan.h"

typedef enum rungi_memory_kind {
    RUNGI_MEMORY_ACTIVATIONS,
    RUNGI_MEMORY_GRADIENTS, // of activations
    RUNGI_MEMORY_WORKSPACE,
    RUNGI_MEMORY_KINDS
} rungi_memory_kind;

// "activations", "activation gradients", "workspace".
const char *rungi_memory_kind_name(rungi_memory_kind kind);

// Adds the bytes that live during each step to live[step][kind], which are zero before.
void rungi_plan_live(const rung_plan *plan, uint64_t (*live)[RUNGI_MEMORY_KINDS]);

// A tensor that is held.
typedef struct rungi_held {
    const char *layer; // that gives it; of workspace, that uses it
    const char *op;
    rungi_memory_kind kind;
    uint64_t bytes;
    rung_shape shape;
    rung_dtype dtype;
} rungi_held;

// The largest tensors that live during a step, largest first: fills up to `most`, returns how many.
int rungi_plan_largest(const rung_plan *plan, int step, rungi_held *held, int most);

#endif
