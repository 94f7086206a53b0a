// SPDX-License-Identifier: Apache-2.0
// The loops of linear_packed.c's forward and data gradient, one table per instruction set. A tile
// of the product, some rows by one panel of vectors, stays in registers while k runs:
//
//                    panel: up to `most` vectors
//                 k |bbbbbbbb|
//                   |bbbbbbbb|
//     a a a a a  x  |  ...   |     rows in blocks of nearly equal size: 6 rows x 2 vectors of
//     a a a a a                    AVX2's sixteen registers, or 12 x 1; 6 x 4 and 6 x 3, 12 x 2
//                                  and 12 x 1 of AVX-512's 32
#ifndef RUNGI_OPS_LINEAR_TILES_H
#define RUNGI_OPS_LINEAR_TILES_H

#include <stdbool.h>
#include <stdint.h>

// c[r][j] = or += sum over k of a[r * a_row + k] * b[k][j] for one panel; k in its order, with one
// accumulator that begins with c where it is added to.
typedef struct rungi_linear_tile {
    int64_t k, rows;
    int vectors;
    const float *a;
    int64_t a_row;
    float *b; // [k][vectors], contiguous
    // b lies here, in rows that are from_row apart, and is copied to `b` by the first rows. NULL:
    // it is there.
    const float *from;
    int64_t from_row;
    float *c;
    int64_t c_row;
    bool add;
    // What is wanted next and asked for meanwhile, evenly: for each 16 k `ahead_rows` rows of
    // `ahead_lines` lines, `ahead_row` floats apart; then `ahead_next` floats on.
    const float *ahead;
    int64_t ahead_row, ahead_next;
    int ahead_rows, ahead_lines;
} rungi_linear_tile;

typedef struct rungi_linear_tile_loops {
    int lanes;
    int most; // vectors of a panel
    void (*tile)(const rungi_linear_tile *t);
    // Turns n rows of `count` floats, n up to a vector: lane r of to[k * step] is from[r * stride +
    // k], 0 from n on.
    void (*turn)(const float *from, int64_t stride, int n, int64_t count, float *to, int64_t step);
} rungi_linear_tile_loops;

extern const rungi_linear_tile_loops rungi_linear_tile_loops_plain;
#if defined(__x86_64__)
extern const rungi_linear_tile_loops rungi_linear_tile_loops_avx2, rungi_linear_tile_loops_avx512;
#endif

#endif
