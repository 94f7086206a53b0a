// SPDX-License-Identifier: Apache-2.0
// Operators that work along one dimension see a tensor as [outer, n, inner]: outer * inner rows of
// n elements. Rows that do not lie side by side (inner above 1) are copied into a buffer and back,
// sixteen at a time, so that every row function sees contiguous elements.
#ifndef RUNGI_OPS_ROWS_H
#define RUNGI_OPS_ROWS_H

#include "ops/op.h"

typedef struct rungi_rows {
    int dim; // 0 or more
    int64_t outer, n, inner;
} rungi_rows;

// `dim` counts from the end where negative; it is in range.
static inline rungi_rows rungi_rows_of(const rung_shape *shape, int dim)
{
    rungi_rows r = {.dim = dim < 0 ? dim + shape->rank : dim, .outer = 1, .n = 1, .inner = 1};
    for (int d = 0; d < shape->rank; d++)
        *(d < r.dim ? &r.outer : d == r.dim ? &r.n : &r.inner) *= shape->dim[d];
    return r;
}

// Is `dim` in range? For shape rules.
rung_status rungi_rows_check(const rung_shape *shape, int dim);

// Element i of row k lies at rungi_rows_begin(r, k) + i * r->inner.
static inline int64_t rungi_rows_begin(const rungi_rows *r, int64_t row)
{
    return row / r->inner * r->n * r->inner + row % r->inner;
}

// One row: reads in[0] and in[1], writes out (each NULL where it was not given). `out` may be
// in[0].
typedef void rungi_row_fn(void *user, int64_t row, const float *const in[2], float *out);

// Calls `fn` for every row, by several threads at once.
void rungi_rows_each(const rungi_rows *r, const float *in0, const float *in1, float *out,
                     rungi_row_fn *fn, void *user, int threads, void *workspace);
size_t rungi_rows_workspace(const rungi_rows *r, int threads);

// ---- loops ------------------------------------------------------------------------------------

// Sums are made as ops/pieces.h makes them.
typedef struct rungi_row_loops {
    float (*max)(const float *x, int64_t n); // NaN is larger than all
    // Sum of e^(x - shift); the terms are written to y unless it is NULL. y may be x.
    double (*exp_sum)(const float *x, float shift, float *y, int64_t n);
    double (*sum)(const float *x, int64_t n);
    double (*dot)(const float *a, const float *b, int64_t n);
    void (*scale)(const float *x, float factor, float *y, int64_t n);                   // factor x
    void (*subtract)(const float *x, float shift, float *y, int64_t n);                 // x - shift
    void (*exp)(const float *x, float shift, float factor, float *y, int64_t n);        // factor e^
    void (*softmax)(const float *y, const float *g, float s, float *gx, int64_t n);     // y (g - s)
    void (*log_softmax)(const float *y, const float *g, float s, float *gx, int64_t n); // g - s e^y
} rungi_row_loops;

extern const rungi_row_loops rungi_row_loops_plain;
#if defined(__x86_64__)
extern const rungi_row_loops rungi_row_loops_avx2;
#endif

#endif
