// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_MAX_POOL2D_H
#define RUNGI_OPS_MAX_POOL2D_H

#include "ops/pool_window.h"

// The inner loops. Index is the winner's place in its window, row-major.
typedef struct rungi_max_pool_loops {
    // `count` outputs, x being `step` apart, of `lanes` channels side by side: the largest of
    // x + offset[k] for the `taps` pixels of a window in order, and its place. index may be NULL.
    void (*best)(const float *x, int64_t step, int64_t count, const int64_t *offset,
                 const int32_t *place, int taps, int64_t lanes, bool relu, float *y,
                 uint8_t *index);
    // For `count` windows, gx being `step` apart: gx = gy where index is place, else 0; added to gx
    // when asked.
    void (*give)(const float *gy, const uint8_t *index, int place, int64_t count, int64_t lanes,
                 int64_t step, bool add, float *gx);
    // One row of outputs in plain layout; `x` is the image.
    void (*best_row)(const float *x, const rungi_pool_windows *w, int64_t row, bool relu, float *y,
                     uint8_t *index);
} rungi_max_pool_loops;

extern const rungi_max_pool_loops rungi_max_pool_loops_cpu;
extern const rungi_max_pool_loops *const rungi_max_pool_loops_avx2; // NULL where there is no AVX2

extern const rungi_op rungi_op_max_pool2d;
extern const rungi_kernel rungi_max_pool2d_forward_reference, rungi_max_pool2d_backward_reference;
extern const rungi_kernel *const rungi_max_pool2d_forward_cpu[];
extern const rungi_kernel *const rungi_max_pool2d_backward_cpu[];

#endif
