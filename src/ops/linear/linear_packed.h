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
// The most rows for which it is the planner's choice: beyond them libraries are faster, whose bits
// may depend on the number of threads. On Zen 3 with AVX2, one and two threads, own time beside
// oneDNN 2.6.3's in milliseconds (OpenBLAS 0.3.21 was never faster than both):
//
//     rows, in -> out      forward         data gradient    weight gradient
//     16, 6400 -> 512      2.21 for 4.66   2.93 for 4.14    3.98 for 3.80
//                          1.09 for 1.62   1.22 for 1.93    1.65 for 1.74
//     32, 6400 -> 512      4.02 for 4.90   5.36 for 4.53    5.15 for 4.67
//                          2.12 for 2.69   2.64 for 2.12    2.74 for 2.48
//     64, 6400 -> 512      7.93 for 7.79   8.33 for 7.49    9.30 for 8.33
//                          3.98 for 4.04   4.36 for 3.75    4.48 for 5.03
//     64, 784 -> 512       0.92 for 0.79   0.91 for 0.71    0.80 for 0.70
//                          0.50 for 0.41   0.47 for 0.40    0.44 for 0.39
//     2048, 768 -> 768     57.2 for 37.7   39.5 for 31.2    85.5 for 32.6
//
// The same on Zen 4 with AVX-512:
//
//     16, 6400 -> 512      1.13 for 1.26   1.13 for 1.04    1.16 for 1.14
//                          0.58 for 0.63   0.57 for 0.48    0.57 for 0.55
//     32, 6400 -> 512      2.13 for 2.23   2.07 for 2.02    2.37 for 2.00
//                          1.29 for 1.16   1.08 for 0.94    1.16 for 1.00
//     64, 6400 -> 512      3.89 for 4.23   4.01 for 4.06    4.44 for 4.37
//                          2.25 for 2.17   2.05 for 1.87    2.45 for 2.15
//     64, 784 -> 512       0.48 for 0.48   0.47 for 0.44    0.49 for 0.46
//                          0.26 for 0.24   0.31 for 0.24    0.29 for 0.24
//     2048, 768 -> 768     22.8 for 21.8   22.3 for 21.6    22.7 for 22.7
//
// oneDNN's weight gradient is the one whose bits do change with the number of threads, so own goes
// on there for as long as it costs little. With AVX-512 it costs much between far cores (64, 784 ->
// 512 with two threads in a step: 0.41 for 0.26), as a thread makes columns of the gradient and the
// optimizer goes through rows.
typedef struct rungi_packed_rows {
    int64_t avx2, avx512;
} rungi_packed_rows;

#define RUNGI_PACKED_FORWARD_ROWS ((rungi_packed_rows){32, 16})
#define RUNGI_PACKED_DATA_ROWS ((rungi_packed_rows){16, 0})
#define RUNGI_PACKED_WEIGHT_ROWS ((rungi_packed_rows){256, 16})

bool rungi_packed_prefers(const rungi_query *q, rungi_packed_rows most);
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
