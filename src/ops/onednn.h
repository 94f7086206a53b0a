// SPDX-License-Identifier: Apache-2.0
// The adapter to oneDNN: the only place (with onednn_*.c) that sees its headers, so that versions 2
// and 3 of its C API, which differ, are served by one set of files.
//
// A kernel's `create` calls one of the functions below, which makes a primitive and the reorders
// around it; rungi_dnn_run and rungi_dnn_destroy are then its `run` and `destroy`. Scratch memory
// is always the plan's (one primitive executed from two threads with the library's own scratchpad
// gives wrong results without a word).
#ifndef RUNGI_OPS_ONEDNN_H
#define RUNGI_OPS_ONEDNN_H

#include "ops/op.h"

typedef struct rungi_dnn_conv {
    const rungi_operand *src, *weight, *bias, *dst; // bias NULL: none
    int stride[2], dilation[2], pad[2];             // dilation 1: none
    int groups;
    bool winograd; // by Winograd's method, else directly
} rungi_dnn_conv;

typedef enum rungi_dnn_pass {
    RUNGI_DNN_FORWARD,
    RUNGI_DNN_BACKWARD_DATA,
    RUNGI_DNN_BACKWARD_WEIGHT, // and bias
} rungi_dnn_pass;

// Convolution. In backward passes src, weight, bias and dst stand for their gradients where the
// pass writes or reads gradients. Operators fused into the query are applied to dst.
rung_status rungi_dnn_conv_create(const rungi_query *q, rungi_dnn_pass pass,
                                  const rungi_dnn_conv *conv, rungi_setup *setup);
// Does oneDNN have such a convolution? Directly it has all, by Winograd's method few: 3x3 in
// float32 and blocked layouts on processors with AVX-512.
bool rungi_dnn_conv_exists(const rungi_query *q, rungi_dnn_pass pass, const rungi_dnn_conv *conv);

typedef struct rungi_dnn_norm {
    const rungi_operand *x, *y;         // backward: y is its gradient
    const rungi_operand *weight, *bias; // NULL: none
    const rungi_operand *mean, *var;    // read where `frozen` or backward, else written; NULL: none
    const rungi_operand *gx;            // backward
    const rungi_operand *gweight, *gbias; // backward; NULL: not wanted
    double eps;
    bool frozen; // mean and var are given, not the batch's
} rungi_dnn_norm;

// Batch normalization, of the query's pass.
rung_status rungi_dnn_norm_create(const rungi_query *q, const rungi_dnn_norm *norm,
                                  rungi_setup *setup);

typedef struct rungi_dnn_pool {
    const rungi_operand *x, *y; // backward: their gradients
    int kernel[2], stride[2], pad[2];
    bool include_pad;
} rungi_dnn_pool;

// Average pooling, of the query's pass.
rung_status rungi_dnn_pool_create(const rungi_query *q, const rungi_dnn_pool *pool,
                                  rungi_setup *setup);

// A (batch of) matrix as a matrix product sees it: strides in elements, so that a transposed matrix
// has its last two swapped.
typedef struct rungi_dnn_matrix {
    const rungi_operand *operand;
    int64_t dims[RUNG_MAX_RANK], strides[RUNG_MAX_RANK];
} rungi_dnn_matrix;

// c = a b + bias: [..., m, n] = [..., m, k] [..., k, n] + [n]. Dimensions before the last two
// broadcast in a and b.
typedef struct rungi_dnn_matmul {
    int rank; // of all three
    rungi_dnn_matrix a, b, c;
    const rungi_operand *bias; // NULL: none
} rungi_dnn_matmul;

// The matrix rows x cols that lies row-major in `operand`, or its transpose cols x rows.
rungi_dnn_matrix rungi_dnn_matrix_of(const rungi_operand *operand, int64_t rows, int64_t cols,
                                     bool transposed);

// Matrix product. Operators fused into the query are applied to c.
rung_status rungi_dnn_matmul_create(const rungi_query *q, const rungi_dnn_matmul *matmul,
                                    rungi_setup *setup);

// Does it take the query's dtypes: float32, or bfloat16 beside it where the processor computes with
// that (rungi_query.native)?
bool rungi_dnn_takes(const rungi_query *q, rungi_reason *why);

// Can oneDNN apply the operators fused into this query (ReLU and the like)?
bool rungi_dnn_can_fuse(const rungi_query *q, rungi_reason *why);

// A copy between layouts and dtypes.
rung_status rungi_dnn_reorder_create(const rungi_query *q, const rungi_operand *from,
                                     const rungi_operand *to, rungi_setup *setup);

rung_status rungi_dnn_run(const rungi_call *c);
void rungi_dnn_destroy(void *state);

// "2.6.3".
const char *rungi_dnn_version(char *out, size_t size);

#endif
