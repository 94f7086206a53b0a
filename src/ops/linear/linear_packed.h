// SPDX-License-Identifier: Apache-2.0
// Many rows: products of matrices, of which one side lies in panels as wide as some registers and a
// block of the product stays in registers while the sum runs (linear_tiles.h, and the products of
// conv2d_winograd.h).
//
//     forward          y^T = w x^T    x in panels of rows, made once; a thread takes some outputs
//     weight gradient  gw  = gy^T x   x in panels of columns; a thread takes some of these
//     data gradient    gx  = gy w     w in panels of columns; a thread takes some of these
//
//                  K ->                 64 columns at a time
//             +-----------+           +----+----+----+----+
//        rows | left      |      K |  |    |    |    |    | panels, in the caches
//             |           |        v  |    |    |    |    |
//             +-----------+           +----+----+----+----+
//
// The weight, which is the largest of the three, is read once, where it lies: in forward as the
// left side; in the data gradient the first rows of gy copy it to its panel while they use it. What
// is next of it is asked for meanwhile. gy is copied to rows that do not fall into the same sets of
// the first cache.
//
// Every sum runs over K in its order and has one accumulator, so neither blocks nor threads show.
#ifndef RUNGI_OPS_LINEAR_PACKED_H
#define RUNGI_OPS_LINEAR_PACKED_H

#include "ops/conv2d/conv2d_winograd.h"
#include "ops/linear/linear.h"
#include "ops/linear/linear_tiles.h"

enum {
    RUNGI_PACKED_COLUMNS = 64,    // of a group of panels
    RUNGI_PACKED_DEPTH = 256,     // of a block of the sum
    RUNGI_PACKED_LINE = 16,       // floats
    RUNGI_PACKED_LEAST_ROWS = 9,  // fewer are for linear_rows.c
    RUNGI_PACKED_MOST_ROWS = 64,  // of forward and the data gradient, where libraries go first
    RUNGI_PACKED_SMALL = 1 << 16, // multiplications for which a second thread does not pay
};

typedef struct rungi_packed_plan {
    const rungi_linear_tile_loops *tiles;
    rungi_linear_sizes s;
    int threads;
    int64_t width; // floats of a row of COLUMNS columns, or of as many as there are
} rungi_packed_plan;

// Makes the plan; the caller frees it.
rung_status rungi_packed_plan_create(const rungi_query *q, rungi_packed_plan **plan_out);
// Measured to be about as fast as libraries, whose bits may depend on the number of threads. On Zen
// 3 with AVX2, one thread, own time beside that of the faster one of oneDNN 2.6.3 and OpenBLAS
// 0.3.21 in milliseconds:
//
//     rows, in -> out      forward         data gradient    weight gradient
//     16, 6400 -> 512      1.50 for 2.38   2.38 for 2.12    2.78 for 2.47
//     32, 6400 -> 512      3.52 for 4.08   5.29 for 3.87    3.61 for 3.60
//     64, 6400 -> 512      7.78 for 7.34   6.45 for 6.76    6.39 for 6.32
//     64, 784 -> 512       0.85 for 0.73   0.61 for 0.56    0.64 for 0.67
//     16, 512 -> 1000      0.26 for 0.25   0.26 for 0.26    0.26 for 0.23
//     256, 768 -> 2304     12.6 for 12.8   12.1 for 12.7    12.3 for 11.0
//
// With more rows and inputs libraries are up to twice as fast; with AVX-512 it was not measured:
// plan.autotune decides there.
bool rungi_packed_prefers(const rungi_query *q);
// Can it be done so: shapes and types.
bool rungi_packed_can_run(const rungi_query *q, rungi_reason *why);

static inline int64_t rungi_packed_parts(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

// The depth of blocks that cut a sum of n evenly.
static inline int64_t rungi_packed_depth(int64_t n)
{
    return rungi_packed_parts(n, rungi_packed_parts(n, RUNGI_PACKED_DEPTH));
}

// Panels of a block of `columns` columns: how many, and the vectors of panel i.
static inline int rungi_packed_panels(const rungi_packed_plan *p, int64_t columns)
{
    return (int)rungi_packed_parts(columns, (int64_t)p->tiles->most * p->tiles->lanes);
}

static inline int rungi_packed_vectors(const rungi_packed_plan *p, int64_t columns, int i)
{
    int left = (int)rungi_packed_parts(columns, p->tiles->lanes) - i * p->tiles->most;
    return left < p->tiles->most ? left : p->tiles->most;
}

#endif
