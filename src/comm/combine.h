// SPDX-License-Identifier: Apache-2.0
// The arithmetic of reductions: elements of several ranks combined in a fixed binary tree.
#ifndef RUNGI_COMM_COMBINE_H
#define RUNGI_COMM_COMBINE_H

#include "comm/comm.h"

enum { RUNGI_COMBINE_RANKS = 1024 }; // most ranks of a tree

// dest[i] = a[i] op b[i]; `dest` may be `a`. 16-bit floats are widened, combined and rounded to
// nearest even. Of MIN and MAX a NaN is the result where there is one. Integers wrap.
typedef void rungi_combine_fn(void *dest, const void *a, const void *b, int64_t n);

enum { RUNGI_COMBINE_OPS = RUNGI_COMM_MAX + 1 };

typedef struct rungi_combine_loops {
    // NULL for dtypes that are not reduced.
    rungi_combine_fn *pair[RUNG_DTYPE_COUNT][RUNGI_COMBINE_OPS];
    // The sum of two ranks' f32, the commonest case, into both places at once.
    void (*both)(float *a, float *b, int64_t n);
    // A copy to where this rank will not read: past its caches, where that is possible.
    void (*copy)(float *to, const float *from, int64_t n);
} rungi_combine_loops;

// Of this instruction set.
const rungi_combine_loops *rungi_combine_loops_for(rung_isa isa);

// out[k][0, n) for all k < outs = in[0] op in[1] op ... op in[count - 1], as the tree
// ((0 1) (2 3)) ((4 5) ...) at every element. Outputs may be inputs. Results are written where they
// have been read as a rule, so that stores past the caches would save no traffic: of 64 MB on two
// cores of a Zen 3 they took a fifth longer.
void rungi_combine_tree(const rungi_combine_loops *loops, rung_dtype dtype, rungi_comm_op op,
                        const void *const *in, int count, void *const *out, int outs, int64_t n);

#endif
