// SPDX-License-Identifier: Apache-2.0
// Parts of a graph: consecutive layers as a graph of their own, for devices that hold a network in
// pieces. Parts [0, a), [a, b), [b, nodes) run one after the other compute what the whole does:
// what crosses a cut is an output of the part before it and an input, of the same name, of the part
// behind it. A value that several parts read passes through those in between, so that each part
// deals with its neighbours alone, and gradients are added in the order of the whole.
//
//     rungi_part first, second;
//     rungi_part_create(whole, 0, cut, &first);
//     rungi_part_create(whole, cut, nodes, &second);
//     ... a state and a plan of each graph ...
//     forward:  of `first`; bind its outputs to the inputs of `second`; of `second`
//     backward: of `second`; bind its inputs' gradients (plan->input_grad) to rungi_plan_seed of
//               `first`; of `first`
//
// Names, initial values, random numbers and frozen parameters are those of the whole. Values at
// cuts are contiguous and plain (NCHW), in whatever layout the parts compute. What plans of 16 bits
// (rung_compile_options.precision) keep in 16 bits crosses a cut so, its gradient too, where parts
// are made `low`; else as float32.
#ifndef RUNGI_GRAPH_PART_H
#define RUNGI_GRAPH_PART_H

#include "graph/graph.h"

// A value that crosses a cut.
typedef struct rungi_crossing {
    int whole;        // its id in the whole graph
    int part;         // and in the part
    const char *name; // of the input and output; the part's
    bool gradient;    // backward brings its gradient back across the cut
    bool low;         // of 16 bits in plans of these
} rungi_crossing;

typedef struct rungi_part {
    rung_graph *graph;
    int begin, end;           // nodes of the whole; those that no output needs are left out
    rungi_crossing *in, *out; // in the order of their ids
    int n_in, n_out;
} rungi_part;

// Makes the part of nodes [begin, end). It owns all that it holds. Inputs of the whole that it
// reads keep their names, and so do outputs (the loss among them) that are made in it. A parameter
// belongs to each part that reads it (rungi_part_tied), one that nobody reads to the first.
// Errors: the graph's first mistake; RUNG_UNSUPPORTED where the shape of a value that crosses a cut
// cannot be written with the graph's symbols.
rung_status rungi_part_create(const rung_graph *whole, int begin, int end, bool low,
                              rungi_part *part_out);
void rungi_part_fini(rungi_part *part);

// Can the graph be cut before `node` (0 < node < nodes)? On false `why` (of `size`) says what is in
// the way. Cuts that separate two readers of a parameter are possible, but see rungi_part_tied.
bool rungi_part_can_cut(const rung_graph *whole, int node, char *why, size_t size);

// The first parameter or buffer that nodes on both sides of a cut before `node` read; 0: none.
int rungi_part_tied(const rung_graph *whole, int node);

// Bytes of a crossing value in plans of that precision, with the batch as the part's only symbol.
uint64_t rungi_crossing_bytes(const rung_graph *part, const rungi_crossing *crossing, int64_t batch,
                              rung_dtype precision);

// Calls fn for each value that crosses a cut before `node`, in the order of their ids. `low`: plans
// of 16 bits keep it in these.
typedef void (*rungi_crossing_fn)(void *user, int value, bool gradient, bool low);
rung_status rungi_part_crossings(const rung_graph *whole, int node, rungi_crossing_fn fn,
                                 void *user);

#endif
