// SPDX-License-Identifier: Apache-2.0
// The state of a model: its parameters, their gradients and its buffers, on one device.
//
// Parameters and gradients lie in one flat float32 buffer each, in reverse order of first use in
// forward, every parameter starting at a multiple of 64 bytes (gaps are zero and stay zero). An
// optimizer step is one pass over them. Several plans (training, evaluation, the short last batch)
// share one state.
#ifndef RUNG_STATE_H
#define RUNG_STATE_H

#include "rung/device.h"
#include "rung/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rung_state rung_state;

typedef struct rung_state_entry {
    const char *name; // as in PyTorch's state_dict
    rung_dtype dtype;
    rung_shape shape;
    void *data;     // row-major
    float *grad;    // NULL for buffers and frozen parameters
    bool trainable; // a parameter that is not frozen
    bool buffer;    // a buffer, not a parameter
    bool no_decay;
} rung_state_entry;

// Makes the state of a graph on a device. Values are zero until rung_state_init or a load. Reports
// the graph's first mistake. The caller owns the state; graph and device are borrowed for its life.
RUNG_API rung_status rung_state_create(const rung_graph *graph, rung_device *device,
                                       rung_state **state_out);
RUNG_API void rung_state_destroy(rung_state **state);

// Gives every parameter its initial distribution and every buffer its initial value. Element i of a
// parameter is a pure function of (seed, the parameter's place in the order of definition, i).
// Errors: RUNG_MISMATCH for a distribution that the parameter's shape does not fit.
RUNG_API rung_status rung_state_init(rung_state *state, uint64_t seed);

// Entries in order of definition: parameters and buffers.
RUNG_API int rung_state_count(const rung_state *state);
RUNG_API rung_state_entry rung_state_at(const rung_state *state, int index);
// The entry of that name; false when there is none.
RUNG_API bool rung_state_find(const rung_state *state, const char *name,
                              rung_state_entry *entry_out);

// Number of elements of all parameters, frozen ones included.
RUNG_API int64_t rung_state_param_count(const rung_state *state);

// The flat buffers: parameters and gradients, `*size_out` floats each (gaps included). Borrowed.
RUNG_API float *rung_state_params(const rung_state *state, int64_t *size_out);
RUNG_API float *rung_state_grads(const rung_state *state, int64_t *size_out);

#ifdef __cplusplus
}
#endif

#endif
