// SPDX-License-Identifier: Apache-2.0
// Float32 functions of broadcast operands, elementwise or summed over dimensions.
//
// Dimensions that all operands treat alike are merged, and the last one is cut into pieces of at
// most RUNGI_PIECE elements. A function computes one piece; the loops around it are the same for
// all. Sums have a fixed shape: a piece is added in 32 lanes, pieces in float64 within blocks, and
// blocks in order. How many blocks there are depends on the shapes only.
#ifndef RUNGI_OPS_PIECES_H
#define RUNGI_OPS_PIECES_H

#include "ops/op.h"

enum { RUNGI_PIECE = 1024, RUNGI_PIECE_OPERANDS = 4 };

// `in[k]` are n elements, or one where step[k] is 0; absent (a factor of 1) where NULL.
typedef struct rungi_piece {
    const float *in[RUNGI_PIECE_OPERANDS];
    int step[RUNGI_PIECE_OPERANDS];
    int64_t n;
    float factor;
} rungi_piece;

// Writes n elements; `out` may be in[0].
typedef void rungi_piece_fn(const rungi_piece *p, float *out);

// The functions of pieces_loops.h, of in[0], in[1], ... and `factor`.
#define RUNGI_PIECE_FUNCTIONS(X)                          \
    X(add)          /* in[0] + in[1] */                   \
    X(sub)          /* in[0] - in[1] */                   \
    X(mul)          /* in[0] * in[1] */                   \
    X(div)          /* in[0] / in[1] */                   \
    X(div_gradient) /* -in[0] * in[1] / in[2] */          \
    X(scaled)       /* factor * in[0] */                  \
    X(square)       /* (in[0] - in[1])^2 */               \
    X(difference)   /* factor * (in[0] - in[1]) */        \
    X(bce)          /* binary cross-entropy, see there */ \
    X(bce_gradient)

typedef enum rungi_piece_function {
#define RUNGI_PIECE_ENUM(name) RUNGI_PIECE_##name,
    RUNGI_PIECE_FUNCTIONS(RUNGI_PIECE_ENUM)
#undef RUNGI_PIECE_ENUM
        RUNGI_PIECE_COUNT,
    RUNGI_PIECE_IN0 = RUNGI_PIECE_COUNT, // in[0] itself, of the full shape; for sums only
} rungi_piece_function;

// What is computed: a function of operands that stretch to `shape`. All are contiguous.
typedef struct rungi_pieces {
    rungi_piece_function function;
    rung_shape shape;
    const float *in[RUNGI_PIECE_OPERANDS];
    rung_shape in_shape[RUNGI_PIECE_OPERANDS];
    float factor;
} rungi_pieces;

// out[i] = function at i, for all elements of the shape; `out` may be in[0] if that has it too.
void rungi_pieces_map(const rungi_pieces *p, rung_isa isa, int threads, float *out);

// Sums the function over the dimensions that `to` lacks (where it has 1 or none) and multiplies
// with `scale`. `workspace` has the bytes that rungi_pieces_sum_workspace says.
void rungi_pieces_sum(const rungi_pieces *p, const rung_shape *to, double scale, rung_isa isa,
                      int threads, void *workspace, float *out);
size_t rungi_pieces_sum_workspace(const rungi_pieces *p, const rung_shape *to);

// ---- loops ------------------------------------------------------------------------------------

typedef struct rungi_piece_loops {
    rungi_piece_fn *function[RUNGI_PIECE_COUNT];
    float (*sum)(const float *x, int64_t n); // in 32 lanes, n up to RUNGI_PIECE
    // Sums of columns: narrow[j] += x[j]; wide[j] += narrow[j], narrow[j] = 0.
    void (*add)(const float *x, float *narrow, int64_t n);
    void (*widen)(float *narrow, double *wide, int64_t n);
} rungi_piece_loops;

extern const rungi_piece_loops rungi_piece_loops_plain;
#if defined(__x86_64__)
extern const rungi_piece_loops rungi_piece_loops_avx2;
#endif

#endif
