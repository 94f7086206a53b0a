// SPDX-License-Identifier: Apache-2.0
// Direct convolution as products of packed matrices, float32, channels last, any window and stride:
// what its two halves share.
//
//     y[n, i, j, o] = sum over u, v, c of x[n, i*s + u - p, j*s + v - p, c] * w[o, c, u, v]
//
// A band of rows of x is copied with its padding, so that the window of an output pixel is KH runs
// of KW*C floats, whatever its place; all of them are products with the same packed weight:
//
//     band of x                               weight, packed          y
//     . . . . . . . . .      pixel 0  |kkkk|   row 0 |oooooooo| ...   pixel 0  o o o o o ...
//     . x x x x x x x .      pixel 1    |kkkk| row 1 |oooooooo| ...   pixel 1  o o o o o ...
//     . x x x x x x x .      ...               ...     panel 0        ...
//     KH runs, one for each row of the window; `row` floats apart in the band
//
// 6 pixels by 2 vectors of a panel (AVX2; 4 by 3, and wider with AVX-512) stay in registers while k
// runs over a piece of a run whose part of the panel stays in the first cache; the band lies in the
// second.
//
// The gradient of x is s*s convolutions of dy without stride, one for each remainder of the input
// pixel's row and column by s, with those taps of the weight that meet such pixels, in opposite
// order:   dx[r] = sum over u with (r + p - u) divisible by s of dy[(r + p - u) / s] * w[u].
//
// The gradient of the weight is a product over pixels (conv2d_direct_weight.c).
//
// Each sum has one order, given by the shapes alone, and one accumulator a part, so any number of
// threads gives the same bits; AVX2 and AVX-512 give the same bits too.
#ifndef RUNGI_OPS_CONV2D_DIRECT_H
#define RUNGI_OPS_CONV2D_DIRECT_H

#include "ops/op.h"

enum {
    RUNGI_DIRECT_PIXELS = 512,     // of a product at most
    RUNGI_DIRECT_AHEAD = 8,        // pixels that are fetched early
    RUNGI_DIRECT_BAND = 256 << 10, // bytes of a band aimed at
    RUNGI_DIRECT_STRIDE = 4,       // the largest stride
    RUNGI_DIRECT_TAPS = 121,       // of the largest window
    RUNGI_DIRECT_SMALL = 1 << 16,  // multiplications for which a second thread does not pay
};

// A band: rows [row, row + rows) of columns [col, col + cols) of an image, every `step`-th in both
// directions; what lies outside of it is 0.
typedef struct rungi_direct_band {
    int64_t h, w, c; // of the image
    int64_t row, rows, col, cols, step;
} rungi_direct_band;

// A weight packed in panels: panel i holds vectors [i * vectors / panels, (i + 1) * ...) of the
// outputs, for each run and k of it.
typedef struct rungi_direct_panels {
    int lanes, vectors, count;
    int64_t outputs;
    int64_t depth; // runs * k
} rungi_direct_panels;

// The taps of a weight [O][C][KH][KW] that a packed one has: run r, column q, channel k, output o
// is data[o * out_stride + k * in_stride + tap[r * cols + q]].
typedef struct rungi_direct_taps {
    const float *data;
    int64_t out_stride, in_stride, channels;
    int runs, cols;
    const int32_t *tap;
} rungi_direct_taps;

// A product: for each of `pixels` pixels, whose window begins at band + from[p] and whose outputs
// at y + to[p]. Behind the last pixel `from` has RUNGI_DIRECT_AHEAD more places in the band.
typedef struct rungi_direct_product {
    const float *band;
    const int32_t *from;
    int64_t row; // floats from run to run
    int64_t k;   // floats of a run
    int runs;
    const float *panels;
    float *y;
    const int64_t *to;
    int64_t pixels;
    const float *bias; // or NULL
    bool relu;
} rungi_direct_product;

// Loops, compiled once per instruction set.
typedef struct rungi_direct_loops {
    int lanes;
    int (*panel_count)(int vectors);
    void (*band)(const rungi_direct_band *band, const float *image, float *to);
    // Panels [begin, end) of a packed weight.
    void (*weights)(const rungi_direct_taps *taps, const rungi_direct_panels *panels, int begin,
                    int end, float *to);
    void (*multiply)(const rungi_direct_product *p, const rungi_direct_panels *panels);
    // Outputs of panel `panel` of dy's pixels, one after the other, to `to`; adds to sums[o] (of
    // all outputs) what is not NULL.
    void (*gradient)(const float *dy, const int64_t *at, int64_t pixels,
                     const rungi_direct_panels *panels, int panel, float *to, double *sums);
    // d[r * k + m][o] = or += sum over pixels of band[from[p] + r * row + m] * z[p][o] for the
    // outputs of panel `panel`; d has rows of `width` floats.
    void (*weight)(const rungi_direct_product *p, const rungi_direct_panels *panels, int panel,
                   const float *z, float *d, int64_t width, bool add);
} rungi_direct_loops;

extern const rungi_direct_loops rungi_direct_loops_plain;
#if defined(__x86_64__)
extern const rungi_direct_loops rungi_direct_loops_avx2, rungi_direct_loops_avx512;
#endif

static inline int64_t rungi_direct_parts(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

const rungi_direct_loops *rungi_direct_loops_for(rung_isa isa);

rungi_direct_panels rungi_direct_panels_of(const rungi_direct_loops *loops, int64_t outputs,
                                           int64_t depth);

// Vectors in front of panel i.
static inline int rungi_direct_panel_begin(const rungi_direct_panels *p, int i)
{
    return i * p->vectors / p->count;
}

// Floats of a packed weight.
static inline int64_t rungi_direct_panels_size(const rungi_direct_panels *p)
{
    return p->depth * p->vectors * p->lanes;
}

// Can a direct kernel do this at all: layouts, types, groups.
bool rungi_direct_can_run(const rungi_query *q, const rungi_operand *x, const rungi_operand *y,
                          rungi_reason *why);
// Was it measured to be faster than the library?
bool rungi_direct_pays(const rungi_query *q);

extern const rungi_kernel rungi_conv2d_forward_direct, rungi_conv2d_data_direct,
    rungi_conv2d_weight_direct;

#endif
