// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_LINEAR_H
#define RUNGI_OPS_LINEAR_H

#include "ops/op.h"

// x [rows, in], weight [out, in].
typedef struct rungi_linear_sizes {
    int64_t rows, in, out;
} rungi_linear_sizes;

rungi_linear_sizes rungi_linear_sizes_of(const rungi_query *q);

// So few multiplications that OpenBLAS, which takes one thread for them, is the fastest with
// AVX-512: on Zen 4, 64, 512 -> 10 takes 6.5, 6.1 and 6.4 us in the three passes, where oneDNN
// takes 8 to 10 with one thread and 13 to 15 with two, and own products 8 to 33.
bool rungi_linear_is_small(const rungi_query *q);

// Are all fused operators of the family of ops/unary.h, and can they so be applied to y?
bool rungi_linear_can_fuse(const rungi_query *q, rungi_reason *why);

// gb = the sum of the rows of gy.
void rungi_linear_sum_rows(const float *gy, float *gb, int64_t rows, int64_t n);

extern const rungi_kernel rungi_linear_forward_rows, rungi_linear_weight_rows,
    rungi_linear_data_rows;
extern const rungi_kernel rungi_linear_forward_packed, rungi_linear_weight_packed,
    rungi_linear_data_packed;
extern const rungi_kernel rungi_linear_forward_onednn, rungi_linear_weight_onednn,
    rungi_linear_data_onednn;
extern const rungi_kernel *const rungi_linear_forward_cpu[];
extern const rungi_kernel *const rungi_linear_weight_cpu[];
extern const rungi_kernel *const rungi_linear_data_cpu[];

#endif
