// SPDX-License-Identifier: Apache-2.0
// Averages over windows: the kernels of avg_pool2d and adaptive_avg_pool2d.
#ifndef RUNGI_OPS_AVG_POOL2D_H
#define RUNGI_OPS_AVG_POOL2D_H

#include "ops/pool_window.h"

typedef struct rungi_avg_pool_loops {
    // `count` outputs, x being `step` apart, of `lanes` channels side by side: the sum of rows x
    // cols pixels times share.
    void (*mean)(const float *x, int64_t step, int64_t count, int64_t row_stride,
                 int64_t col_stride, int64_t rows, int64_t cols, int64_t lanes, float share,
                 float *y);
    // One row of outputs in plain layout; x is the image.
    void (*mean_row)(const float *x, const rungi_pool_windows *w, int64_t row, float *y);
    // One row of inputs from one row of outputs: each takes gy * share * the column's share from
    // all columns of windows that cover it; added to gx when asked.
    void (*spread)(const float *gy, const rungi_pool_axis *cols, float share, int64_t lanes,
                   bool add, float *gx);
} rungi_avg_pool_loops;

extern const rungi_avg_pool_loops rungi_avg_pool_loops_cpu;
extern const rungi_avg_pool_loops *const rungi_avg_pool_loops_avx2; // NULL where there is no AVX2

extern const rungi_kernel *const rungi_avg_pool2d_forward_cpu[];
extern const rungi_kernel *const rungi_avg_pool2d_backward_cpu[];
extern const rungi_kernel *const rungi_adaptive_avg_pool2d_forward_cpu[];
extern const rungi_kernel *const rungi_adaptive_avg_pool2d_backward_cpu[];

extern const rungi_kernel rungi_avg_pool_forward_reference, rungi_avg_pool_backward_reference;
extern const rungi_kernel rungi_avg_pool_forward_onednn, rungi_avg_pool_backward_onednn;

// The query's windows as a pooling with one kernel size; NULL: adaptive.
const rungi_pool_attr *rungi_avg_pool_attr(const rungi_query *q);

#endif
