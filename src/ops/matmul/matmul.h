// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_MATMUL_H
#define RUNGI_OPS_MATMUL_H

#include "ops/cases.h"

typedef struct rungi_matmul_attr {
    bool transpose_a, transpose_b; // the last two dimensions
} rungi_matmul_attr;

enum { RUNGI_MATMUL_BACK_A, RUNGI_MATMUL_BACK_B };

// The product that a pass computes: out = left right for every matrix of the batch, each side as it
// lies in memory or transposed. Where `out` has fewer matrices than the batch they are summed.
typedef struct rungi_product {
    const rungi_operand *left, *right, *out;
    bool turn_left, turn_right;
    int64_t m, n, k;
    rung_shape batch; // the dimensions before the last two, of the whole batch
} rungi_product;

rungi_product rungi_matmul_product(const rungi_query *q);

// Distance between the matrices of an operand along each dimension of the batch; 0 where it
// stretches.
void rungi_matmul_strides(const rungi_product *p, const rungi_operand *o,
                          int64_t strides[RUNG_MAX_RANK]);

// Makes one product of many where that is possible: one matrix on the right for all, or a sum over
// all of the batch.
void rungi_matmul_fold(rungi_product *p);

extern const rungi_kernel *const rungi_matmul_kernels[];

#endif
