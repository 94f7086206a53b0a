// SPDX-License-Identifier: Apache-2.0
// Inside of a model's state.
#ifndef RUNGI_GRAPH_STATE_H
#define RUNGI_GRAPH_STATE_H

#include "graph/graph.h"
#include "rung/state.h"

typedef struct rungi_entry {
    int value;      // id in the graph
    int64_t count;  // elements
    int64_t offset; // parameters: in floats from the start of the flat buffer; buffers: in bytes
} rungi_entry;

struct rung_state {
    const rung_graph *graph;
    rung_device *device;
    rungi_entry *entries; // in order of definition
    int n_entries;
    int *entry_of; // value id -> index of its entry, or -1
    float *params, *grads;
    float *own_params, *own_grads; // params and grads, unless other memory is lent
    int64_t flat_size;             // floats
    char *buffers;
    int64_t buffer_bytes;
    int *flat_order; // entry indexes of the parameters in the order of the flat buffer
    int n_params;
};

// Makes the table of a state without memory for what it lists (params, grads and buffers are NULL):
// to compile plans that are only looked at, and to know where a state of this graph keeps what.
rung_status rungi_state_describe(const rung_graph *graph, rung_device *device,
                                 rung_state **state_out);

// From now on gradients lie in `grads` (flat_size floats, zeroed, borrowed): memory that ranks
// share. Before plans are compiled.
void rungi_state_lend_grads(rung_state *state, float *grads);
// The same of parameters, which are copied there.
void rungi_state_lend_params(rung_state *state, float *params);

#endif
