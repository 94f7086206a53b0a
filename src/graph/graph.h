// SPDX-License-Identifier: Apache-2.0
// Inside of a graph.
#ifndef RUNGI_GRAPH_GRAPH_H
#define RUNGI_GRAPH_GRAPH_H

#include "base/array.h"
#include "ops/op.h"
#include "rung/graph.h"

typedef enum rungi_value_kind {
    RUNGI_VALUE_NONE,
    RUNGI_VALUE_INPUT,
    RUNGI_VALUE_PARAM,
    RUNGI_VALUE_BUFFER,
    RUNGI_VALUE_NODE, // what a node gives
} rungi_value_kind;

// Shape rules run on numbers. While a graph is built each symbol has two probe values; a dimension
// that is the same under both is fixed, one that equals a symbol under both is that symbol.
enum { RUNGI_PROBES = 2, RUNGI_MAX_SYMBOLS = 8 };

typedef struct rungi_value {
    rungi_value_kind kind;
    const char *name; // a hidden or unnamed value has its node's name
    rung_dtype dtype;
    rung_shape shape;               // symbolic
    rung_shape probe[RUNGI_PROBES]; // numbers
    int node, out;                  // producer and which of its outputs, for NODE
    rung_param_options param;       // for PARAM
    double initial;                 // for BUFFER
    bool frozen;                    // for PARAM
    uint64_t key;                   // for PARAM and BUFFER: keys initial values
    bool wants_grad;                // for INPUT: backward gives its gradient
    // It crosses a cut (part.h), in 16 bits where a plan keeps it so: that is how it is bound, how
    // callers see it, and how its gradient is given.
    bool low;
} rungi_value;

typedef struct rungi_node {
    const rungi_op *op;
    const void *attr;
    const char *name;
    int *in;  // value ids; 0 for an absent optional input
    int *out; // value ids, hidden ones included
    int n_in, n_out;
    uint64_t key; // keys its random numbers
    bool eval;    // behaves as in evaluation in every plan
} rungi_node;

typedef struct rungi_output {
    const char *name;
    int value;
    bool seeded; // its gradient is given before backward
} rungi_output;

typedef struct rungi_chunk rungi_chunk;

struct rung_graph {
    rung_context *context;
    RUNGI_ARRAY(rungi_value) values; // [0] is "no value"
    RUNGI_ARRAY(rungi_node) nodes;   // in order of building, so producers come first
    RUNGI_ARRAY(rungi_output) outputs;
    RUNGI_ARRAY(const char *) scopes;
    const char *symbols[RUNGI_MAX_SYMBOLS]; // [0] is the batch
    int n_symbols;
    int loss;            // value id, 0: none
    rung_error error;    // the first mistake
    rungi_chunk *chunks; // memory of names, attributes and lists
};

// Memory that lives as long as the graph, zeroed; NULL (and the sticky error) when there is none.
void *rungi_graph_alloc(rung_graph *g, size_t bytes);
const char *rungi_graph_text(rung_graph *g, const char *text);

// Adds a use of an operator. `attr` is copied. `inputs` are n values, {0} where an optional one is
// absent. `name` NULL or "" gives a name made from the operator's. Visible outputs are written to
// `outputs` (op->n_out of them); {0} after a mistake.
void rungi_graph_add(rung_graph *g, const rungi_op *op, const char *name, const void *attr,
                     const rung_value *inputs, int n, rung_value *outputs);
// The same for an operator with one output.
rung_value rungi_graph_add1(rung_graph *g, const rungi_op *op, const char *name, const void *attr,
                            const rung_value *inputs, int n);

// Keeps the calling thread's last error as the graph's first mistake, prefixed with `name`.
void rungi_graph_stick(rung_graph *g, const char *name);

// Is the graph still without a mistake?
bool rungi_graph_ok(const rung_graph *g);

// The fixed size of a dimension; a mistake (sticky, -1 returned) when it depends on a symbol.
int64_t rungi_graph_fixed_dim(rung_graph *g, rung_value value, int dim, const char *layer,
                              const char *what);

// Replaces the symbols in `shape` by `values` (n_symbols of them).
rung_shape rungi_shape_resolve(const rung_graph *g, const rung_shape *shape, const int64_t *values);

// Index of the symbol that a dimension stands for, or -1.
int rungi_symbol_index(const rung_graph *g, int64_t dim);

// By value: does the loss's gradient, or one that is given to an output, reach it? The caller frees
// *reached_out.
rung_status rungi_graph_gradients(const rung_graph *g, bool **reached_out);
// By value id: does a trainable parameter, or an input whose gradient is wanted, lie behind it?
void rungi_graph_wanted(const rung_graph *g, bool *wanted);

// passes/autocast.c: which values plans of precision `low` keep in these 16 bits: changes their
// dtypes in types[value id], which are those of float32.
void rungi_autocast(const rung_graph *g, rung_dtype low, rungi_type *types);

// Runs the shape rules of all nodes with numbers for the symbols: fills types[value id].
rung_status rungi_graph_infer(const rung_graph *g, const int64_t *symbols, rungi_type *types);

#endif
