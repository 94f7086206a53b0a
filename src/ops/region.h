// SPDX-License-Identifier: Apache-2.0
// Copies between parts of tensors: what concat, slice, pad and permute are made of. Elements of any
// dtype are moved as they are.
#ifndef RUNGI_OPS_REGION_H
#define RUNGI_OPS_REGION_H

#include "ops/op.h"

// Part of a tensor: along dimension d the elements start[d], start[d] + step[d], ... ; as many of
// them as the shape that goes with it says. step 0 counts as 1.
typedef struct rungi_region {
    const rungi_operand *operand;
    int64_t start[RUNG_MAX_RANK], step[RUNG_MAX_RANK];
    // Dimension d of the part is dimension axis[d] of the tensor; all 0: the same.
    int axis[RUNG_MAX_RANK];
} rungi_region;

// In a blocked layout a region must begin and end with a block of channels.
bool rungi_region_fits(const rungi_region *region, const rung_shape *size, rungi_reason *why);

// Copies the region `from` of that size to `to`. Both have one layout and one dtype.
void rungi_region_copy(const rungi_call *c, const rungi_region *from, const rungi_region *to,
                       const rung_shape *size);

// Gives every element of the tensor that lies outside of the region `inside` (of step 1) a value.
void rungi_region_fill_around(const rungi_call *c, const rungi_region *inside,
                              const rung_shape *size, double value);

// Dimension `dim` of a shape of that rank, counted from the end when negative; -1 when there is
// none.
int rungi_dim_of(int dim, int rank);

// Place in memory of element i of an operand counted in plain order. Slow: for reference kernels.
int64_t rungi_place(const rungi_operand *o, int64_t i);
// The same by indexes.
int64_t rungi_place_at(const rungi_operand *o, const int64_t *index);
// Indexes of element i of a shape.
void rungi_unravel(const rung_shape *shape, int64_t i, int64_t *index);

#endif
