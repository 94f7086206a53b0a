// SPDX-License-Identifier: Apache-2.0
// How a direct forward convolution, or a gradient of the input, is cut: classes of outputs, bands,
// workspace. For the picture see conv2d_direct.h.
#ifndef RUNGI_OPS_CONV2D_DIRECT_PLAN_H
#define RUNGI_OPS_CONV2D_DIRECT_PLAN_H

#include "ops/conv2d/conv2d_direct.h"
#include "ops/conv2d/conv2d_winograd.h"

// Outputs whose windows have the same taps: all in forward; in the gradient of the input those of
// one remainder by the stride in each direction.
typedef struct rungi_direct_class {
    int64_t rows, cols;       // outputs of it
    int64_t out_row, out_col; // the first; the others follow out_step apart
    int64_t top, left;        // first window, from the band's first row and column
    int runs, window;         // rows and columns of the window; 0: the outputs are 0
    int32_t tap[RUNGI_DIRECT_TAPS];
    rungi_direct_panels panels;
    int64_t at; // of its packed weight
} rungi_direct_class;

typedef struct rungi_direct_plan {
    const rungi_direct_loops *loops;
    rungi_direct_band band;
    int64_t step[2];  // rows and columns of the band from output to output
    int64_t row_step; // rows of the image from band to band, for each row of outputs
    int64_t out_step[2];
    int64_t images, y_h, y_w, y_c, in_c;
    int64_t rows, block; // rows of outputs of a class, of a band
    int64_t group;       // images of a band
    int64_t packed;      // floats of all weights
    int threads, classes;
    rungi_direct_class class[];
} rungi_direct_plan;

// Rows of a band for that many rows of outputs.
int64_t rungi_direct_band_rows(const rungi_direct_plan *p, int64_t rows);

typedef struct rungi_direct_space {
    float *weights, *band;
    int64_t band_size;
} rungi_direct_space;

rungi_direct_space rungi_direct_space_of(const rungi_direct_plan *p, rungi_wino_space *space);

// Makes the plan, which free() frees, and asks for its workspace.
rung_status rungi_direct_create(const rungi_query *q, const rungi_operand *x,
                                const rungi_operand *y, rungi_setup *setup);

#endif
