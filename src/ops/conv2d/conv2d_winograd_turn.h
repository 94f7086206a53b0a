// SPDX-License-Identifier: Apache-2.0
// Weights lie output by output, [outputs][inputs][9]; transforms take a vector of outputs at a
// time. What turns the one into the other and back:
//
//     output 0  k k k k ...           k 0  o o o o o o o o
//     output 1  k k k k ...    <->    k 1  o o o o o o o o
//     ...                             ...
//
// by blocks of 8 x 8 in registers where there is AVX2.
#ifndef RUNGI_OPS_CONV2D_WINOGRAD_TURN_H
#define RUNGI_OPS_CONV2D_WINOGRAD_TURN_H

#include <stdbool.h>

#include "ops/conv2d/conv2d_winograd_lanes.h"

#if defined(__AVX2__)

enum { WINO_TURNED = 8 }; // rows and columns of a block

// Lane j of row i becomes lane i of row j.
WINO_INLINE void wino_turn_block(__m256 row[8])
{
    __m256 pair[8], four[8];
    WINO_UNROLL
    for (int i = 0; i < 4; i++) {
        pair[2 * i] = _mm256_unpacklo_ps(row[2 * i], row[2 * i + 1]);
        pair[2 * i + 1] = _mm256_unpackhi_ps(row[2 * i], row[2 * i + 1]);
    }
    WINO_UNROLL
    for (int i = 0; i < 2; i++) {
        const __m256 *p = pair + 4 * i;
        four[4 * i] = _mm256_shuffle_ps(p[0], p[2], 0x44);
        four[4 * i + 1] = _mm256_shuffle_ps(p[0], p[2], 0xee);
        four[4 * i + 2] = _mm256_shuffle_ps(p[1], p[3], 0x44);
        four[4 * i + 3] = _mm256_shuffle_ps(p[1], p[3], 0xee);
    }
    WINO_UNROLL
    for (int i = 0; i < 4; i++) {
        row[i] = _mm256_permute2f128_ps(four[i], four[4 + i], 0x20);
        row[4 + i] = _mm256_permute2f128_ps(four[i], four[4 + i], 0x31);
    }
}

#else

enum { WINO_TURNED = 1 };

#endif

// to[k * step + o] of k in [0, count) from n outputs (up to a vector; zeros for the others) that
// lie `stride` apart.
WINO_INLINE void wino_turn_in(const float *from, int64_t stride, int n, int count, int64_t step,
                              float *to)
{
    int k = 0;
#if defined(__AVX2__)
    for (; k + WINO_TURNED <= count; k += WINO_TURNED)
        for (int o = 0; o < WINO_LANES; o += WINO_TURNED) {
            __m256 row[WINO_TURNED];
            for (int i = 0; i < WINO_TURNED; i++)
                row[i] =
                    o + i < n ? _mm256_loadu_ps(from + (o + i) * stride + k) : _mm256_setzero_ps();
            wino_turn_block(row);
            for (int i = 0; i < WINO_TURNED; i++)
                _mm256_storeu_ps(to + (k + i) * step + o, row[i]);
        }
#endif
    for (; k < count; k++)
        for (int o = 0; o < WINO_LANES; o++)
            to[k * step + o] = o < n ? from[o * stride + k] : 0;
}

// The way back: n outputs, `stride` apart, become from[k][o], or that is added to them.
WINO_INLINE void wino_turn_out(const float *from, int64_t stride, int n, int count, bool add,
                               float *to)
{
    int k = 0;
#if defined(__AVX2__)
    for (; k + WINO_TURNED <= count; k += WINO_TURNED)
        for (int o = 0; o < n; o += WINO_TURNED) {
            __m256 row[WINO_TURNED];
            for (int i = 0; i < WINO_TURNED; i++)
                row[i] = _mm256_loadu_ps(from + (k + i) * WINO_LANES + o);
            wino_turn_block(row);
            for (int i = 0; i < WINO_TURNED && o + i < n; i++) {
                float *at = to + (o + i) * stride + k;
                _mm256_storeu_ps(at, add ? _mm256_add_ps(_mm256_loadu_ps(at), row[i]) : row[i]);
            }
        }
#endif
    for (; k < count; k++)
        for (int o = 0; o < n; o++) {
            float *at = to + o * stride + k;
            *at = add ? *at + from[k * WINO_LANES + o] : from[k * WINO_LANES + o];
        }
}

#endif
