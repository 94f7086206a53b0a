// SPDX-License-Identifier: Apache-2.0
// Broadcasting as numpy and PyTorch define it: shapes are aligned at their last dimension, and a
// dimension of 1 or a missing one stretches.
#ifndef RUNGI_OPS_BROADCAST_H
#define RUNGI_OPS_BROADCAST_H

#include <stdbool.h>

#include "rung/tensor.h"

// The shape that `a` and `b` stretch to; false when they do not fit.
bool rungi_broadcast_shape(const rung_shape *a, const rung_shape *b, rung_shape *out);

// Strides of `in` seen as `out`: 0 where it stretches.
void rungi_broadcast_strides(const rung_shape *in, const rung_shape *out,
                             int64_t strides[RUNG_MAX_RANK]);

// Offset of element i (in row-major order) of `shape` with those strides.
int64_t rungi_broadcast_offset(const rung_shape *shape, const int64_t strides[RUNG_MAX_RANK],
                               int64_t i);

// Sum of term(i) over the elements i of `full` that element `k` of `from` stretches to, in
// row-major order: for reference kernels.
double rungi_broadcast_sum(const rung_shape *full, const rung_shape *from, int64_t k,
                           double (*term)(const void *user, int64_t i), const void *user);

// Steps through all indexes of a shape in row-major order while keeping the offsets of up to three
// operands. Start from {0} with the strides set.
typedef struct rungi_walk {
    int64_t index[RUNG_MAX_RANK];
    int64_t offset[3];
    int64_t strides[3][RUNG_MAX_RANK];
} rungi_walk;

void rungi_walk_next(rungi_walk *w, const rung_shape *shape);

#endif
