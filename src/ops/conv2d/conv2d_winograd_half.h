// SPDX-License-Identifier: Apache-2.0
// Winograd convolution, 3x3, stride 1, channels last, in bf16 with the dot products of AVX512_BF16:
// forward and the gradient of the input.
//
//     y = A^T [ sum over c of (G g G^T) . (B^T x B) ] A       (conv2d_winograd.h)
//
// Transforms are computed in float32 and rounded to bf16; the products of the points are matrix
// products of bf16 with sums in float32; y is transformed, has its bias added and is pooled in
// float32, and is rounded once (before it is compared, where it is pooled). Two sizes of tiles:
//
//     F(2x2, 3x3)  points 0, +-1, infinity           16 products instead of 36 per tile
//     F(4x4, 3x3)  points 0, +-5/8, +-3/2, infinity  36 instead of 144
//
// What rounding the transformed values costs, as the l2 norm of the error over that of the result,
// for normal values and operands that are bf16 to begin with: F(2x2) 4.2e-3, F(4x4) 1.1e-2 (2e-2 in
// the corners of its tiles, 5e-3 in the middle); a direct convolution has 1.7e-3, by rounding the
// result alone. The first is what plan.winograd takes, the second is plan.winograd_bf16: f4.
//
// Words of V and U hold two channels, which a dot product multiplies and adds at once. Channels
// beyond the last are zeros:
//
//     V[k]  tile 0  |c0 c1|c2 c3|c4 0 |      U[k]  row 0 (c0 c1)  |oooooooo|  |oooooooo|
//           tile 1  |c0 c1|c2 c3|c4 0 |            row 1 (c2 c3)  |oooooooo|  |oooooooo|
//           ...                                     ...            panel 0     panel 1
//
//     a word of V to all lanes, times a vector of U, to 16 outputs' sums:
//     12 tiles x 2 vectors, 8 x 3 or 6 x 4 of AVX-512's 32 registers are sums, 2 to 4 vectors of U,
//     one the word
//
// Blocks, threads and the order of sums are float32's (conv2d_winograd_run.c). Without AVX512_BF16
// the loops do the same by widening, slower than float32: only tests run them, and the kernels
// refuse plans whose 16 bits are not computed natively. conv2d_winograd_half_lanes.h has what the
// instructions do otherwise.
#ifndef RUNGI_OPS_CONV2D_WINOGRAD_HALF_H
#define RUNGI_OPS_CONV2D_WINOGRAD_HALF_H

#include "ops/conv2d/conv2d_winograd.h"

// Of tiles of 2x2 and of 4x4.
extern const rungi_wino_loops rungi_wino_half_plain[2];
#if defined(__x86_64__)
extern const rungi_wino_loops rungi_wino_half_avx2[2], rungi_wino_half_avx512bf16[2];
#endif

extern const rungi_kernel rungi_conv2d_forward_winograd_half, rungi_conv2d_data_winograd_half;

#endif
