// SPDX-License-Identifier: Apache-2.0
// float32 kernels around operands of 16 bits: what makes `train.compute: storage`.
//
// A kernel that does not take operands of 16 bits is run on float32 copies of them in its
// workspace: read before it, written back, rounded, after it. Where that is possible it is done
// piece by piece, so that the copies stay small and in the cache: some samples at a time
// (rungi_op.by_sample), or some of a linear layer's outputs, where its weight is what is large
// (rungi_op.by_feature). What is a sum over the pieces, gradients of parameters in the one case and
// of the input in the other, is added in float32, in order. Nothing depends on the number of
// threads.
#ifndef RUNGI_OPS_HALVES_H
#define RUNGI_OPS_HALVES_H

#include "ops/op.h"

// What is cut into pieces.
typedef enum rungi_halves_cut {
    RUNGI_HALVES_WHOLE, // nothing
    RUNGI_HALVES_SAMPLES,
    RUNGI_HALVES_FEATURES,
} rungi_halves_cut;

// How a query's kernel is run: rungi_query.halves.
struct rungi_halves {
    const rungi_kernel *kernel; // of float32
    rungi_halves_cut cut;
    int64_t whole, part; // of samples, or of features: in all, and at a time; the last piece may be
                         // smaller
};

// As rungi_kernel_choose. A query with operands of 16 bits gets a kernel that takes them as they
// are, where there is one, else (or where that outruns it) one of float32: *halves_out is filled
// then (its kernel is the result), else its kernel is NULL. NULL also when there is no memory to
// look.
const rungi_kernel *rungi_halves_choose(const rungi_query *q, rungi_device_kind kind,
                                        rungi_policy policy, rungi_string *log,
                                        struct rungi_halves *halves_out);

// The kernel of float32 that would do a query whose kernel takes 16 bits as they are: plan.autotune
// measures the one beside the other. *halves_out as there; its kernel is NULL where there is none,
// or where that is one of those.
void rungi_halves_around(const rungi_query *q, rungi_device_kind kind, rungi_policy policy,
                         struct rungi_halves *halves_out);

// The kernel that does it, for queries whose `halves` says how: in all but what it runs like that
// one.
rungi_kernel rungi_halves_kernel(const struct rungi_halves *halves);

// What the float32 kernel is asked for one piece: the query with float32 for 16 bits, and `part`
// samples or features.
typedef struct rungi_halves_query {
    rungi_query q;
    void *block;
} rungi_halves_query;

rung_status rungi_halves_query_init(rungi_halves_query *h, const rungi_query *q,
                                    const struct rungi_halves *how, int64_t part);
void rungi_halves_query_fini(rungi_halves_query *h);

// What becomes of a buffer in a piece.
typedef enum rungi_halves_piece {
    RUNGI_PIECE_WHOLE,   // all of it, in each piece
    RUNGI_PIECE_SLICE,   // a part of its first dimension
    RUNGI_PIECE_COLUMNS, // a part of its last dimension
    RUNGI_PIECE_SUM,     // a sum over the pieces
} rungi_halves_piece;

// One buffer that the query reads or writes.
typedef struct rungi_halves_entry {
    int buffer;
    rung_dtype dtype;
    int64_t count; // elements
    bool half, read, write;
    rungi_halves_piece piece;
    size_t copy, term; // places in the workspace: of a float32 copy, of a further piece's part of a
                       // sum
} rungi_halves_entry;

enum { RUNGI_HALVES_ENTRIES = 64 };

typedef struct rungi_halves_entries {
    rungi_halves_entry list[RUNGI_HALVES_ENTRIES];
    int n;
    bool full; // there are more
} rungi_halves_entries;

rungi_halves_entries rungi_halves_entries_of(const rungi_query *q, rungi_halves_cut cut);

#endif
