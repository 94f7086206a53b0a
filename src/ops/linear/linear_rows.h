// SPDX-License-Identifier: Apache-2.0
// Loops over the weight's rows for few rows of x, one table per instruction set (ops/simd.h).
#ifndef RUNGI_OPS_LINEAR_ROWS_H
#define RUNGI_OPS_LINEAR_ROWS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct rungi_linear_loops {
    // y[r, o] = x[r] . w[o] + bias[o] for o in [begin, end)
    void (*forward)(const float *x, const float *w, const float *bias, float *y, int64_t rows,
                    int64_t in, int64_t out, int64_t begin, int64_t end);
    // gw[o] = sum over r of gy[r, o] * x[r] for o in [begin, end)
    void (*weight)(const float *x, const float *gy, float *gw, int64_t rows, int64_t in,
                   int64_t out, int64_t begin, int64_t end);
    // The same for one row of gw, or `count` elements of it: gw[i] = sum over r of gy[r, 0] * x[r,
    // i].
    void (*weight_row)(const float *x, const float *gy, float *gw, int64_t rows, int64_t in,
                       int64_t out, int64_t count);
    // gx[r, i] = sum over o of gy[r, o] * w[o, i] for i in [begin, end)
    void (*data)(const float *gy, const float *w, float *gx, int64_t rows, int64_t in, int64_t out,
                 int64_t begin, int64_t end);
    // The largest magnitude; NaN where one of them is.
    float (*largest)(const float *x, int64_t count);
} rungi_linear_loops;

extern const rungi_linear_loops rungi_linear_loops_plain, rungi_linear_loops_avx2,
    rungi_linear_loops_avx512;

#endif
