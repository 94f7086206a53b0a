// SPDX-License-Identifier: Apache-2.0
// Winograd's transforms of a line, G g, B^T x, A^T m, A dy and G^T d, for a vector of channels at a
// time, and how they are applied to columns, then to rows.
#ifndef RUNGI_OPS_CONV2D_WINOGRAD_LINES_H
#define RUNGI_OPS_CONV2D_WINOGRAD_LINES_H

#include "ops/conv2d/conv2d_winograd_lanes.h"

// ---- F(4x4, 3x3) and F(3x3, 4x4): points 0, +-P, +-Q and infinity -------------------------------

#define WINO_P 0.625f
#define WINO_Q 1.5f
#define WINO_PP (WINO_P * WINO_P)
#define WINO_QQ (WINO_Q * WINO_Q)
#define WINO_K(x) wino_splat((float)(x))

// B^T: 6 pixels to 6 points. Row i is the product of (x - p) over the other points p.
WINO_INLINE void wino_b(const wino_v d[6], wino_v t[6])
{
    const wino_v pp = WINO_K(WINO_PP), qq = WINO_K(WINO_QQ), p = WINO_K(WINO_P), q = WINO_K(WINO_Q);
    const wino_v product = WINO_K(WINO_PP * WINO_QQ), sum = WINO_K(WINO_PP + WINO_QQ);
    t[0] = wino_msub(sum, d[2], wino_madd(product, d[0], d[4]));
    t[5] = wino_msub(sum, d[3], wino_madd(product, d[1], d[5]));
    wino_v even = wino_msub(qq, d[2], d[4]), odd = wino_msub(qq, d[1], d[3]);
    t[1] = wino_madd(p, odd, even);
    t[2] = wino_msub(p, odd, even);
    even = wino_msub(pp, d[2], d[4]);
    odd = wino_msub(pp, d[1], d[3]);
    t[3] = wino_madd(q, odd, even);
    t[4] = wino_msub(q, odd, even);
}

// A^T: 6 points to 4 pixels. Row i has the points' i-th powers.
WINO_INLINE void wino_at(const wino_v m[6], wino_v y[4])
{
    const wino_v p = WINO_K(WINO_P), q = WINO_K(WINO_Q), pp = WINO_K(WINO_PP), qq = WINO_K(WINO_QQ);
    const wino_v ppp = WINO_K(WINO_PP * WINO_P), qqq = WINO_K(WINO_QQ * WINO_Q);
    wino_v s1 = m[1] + m[2], d1 = m[1] - m[2], s2 = m[3] + m[4], d2 = m[3] - m[4];
    y[0] = m[0] + s1 + s2;
    y[1] = wino_madd(q, d2, p * d1);
    y[2] = wino_madd(qq, s2, pp * s1);
    y[3] = wino_madd(qqq, d2, wino_madd(ppp, d1, m[5]));
}

// A: 4 pixels to 6 points.
WINO_INLINE void wino_a(const wino_v y[4], wino_v m[6])
{
    const wino_v p = WINO_K(WINO_P), q = WINO_K(WINO_Q), pp = WINO_K(WINO_PP), qq = WINO_K(WINO_QQ);
    const wino_v ppp = WINO_K(WINO_PP * WINO_P), qqq = WINO_K(WINO_QQ * WINO_Q);
    m[0] = y[0];
    m[5] = y[3];
    wino_v even = wino_madd(pp, y[2], y[0]), odd = wino_madd(ppp, y[3], p * y[1]);
    m[1] = even + odd;
    m[2] = even - odd;
    even = wino_madd(qq, y[2], y[0]);
    odd = wino_madd(qqq, y[3], q * y[1]);
    m[3] = even + odd;
    m[4] = even - odd;
}

// The divisors of G: the products of a point's distances to the others.
#define WINO_N0 (1 / (WINO_PP * WINO_QQ))
#define WINO_NP (1 / (2 * WINO_PP * (WINO_PP - WINO_QQ)))
#define WINO_NQ (1 / (2 * WINO_QQ * (WINO_QQ - WINO_PP)))

// G: 3 taps to 6 points.
WINO_INLINE void wino_g(const wino_v g[3], wino_v u[6])
{
    u[0] = WINO_K(WINO_N0) * g[0];
    u[5] = g[2];
    wino_v even = wino_madd(WINO_K(WINO_NP * WINO_PP), g[2], WINO_K(WINO_NP) * g[0]);
    wino_v odd = WINO_K(WINO_NP * WINO_P) * g[1];
    u[1] = even + odd;
    u[2] = even - odd;
    even = wino_madd(WINO_K(WINO_NQ * WINO_QQ), g[2], WINO_K(WINO_NQ) * g[0]);
    odd = WINO_K(WINO_NQ * WINO_Q) * g[1];
    u[3] = even + odd;
    u[4] = even - odd;
}

// G^T: 6 points to 3 taps.
WINO_INLINE void wino_gt(const wino_v u[6], wino_v g[3])
{
    wino_v s1 = u[1] + u[2], d1 = u[1] - u[2], s2 = u[3] + u[4], d2 = u[3] - u[4];
    g[0] = wino_madd(WINO_K(WINO_NQ), s2, wino_madd(WINO_K(WINO_NP), s1, WINO_K(WINO_N0) * u[0]));
    g[1] = wino_madd(WINO_K(WINO_NQ * WINO_Q), d2, WINO_K(WINO_NP * WINO_P) * d1);
    g[2] = wino_madd(WINO_K(WINO_NQ * WINO_QQ), s2, wino_madd(WINO_K(WINO_NP * WINO_PP), s1, u[5]));
}

// ---- F(2x2, 3x3): points 0, 1, -1 and infinity --------------------------------------------------

// B^T: 4 pixels to 4 points.
WINO_INLINE void wino_b2(const wino_v d[4], wino_v t[4])
{
    t[0] = d[0] - d[2];
    t[1] = d[1] + d[2];
    t[2] = d[2] - d[1];
    t[3] = d[1] - d[3];
}

// A^T: 4 points to 2 pixels.
WINO_INLINE void wino_at2(const wino_v m[4], wino_v y[2])
{
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] - m[3];
}

// G: 3 taps to 4 points.
WINO_INLINE void wino_g2(const wino_v g[3], wino_v u[4])
{
    const wino_v half = WINO_K(0.5), even = half * (g[0] + g[2]), odd = half * g[1];
    u[0] = g[0];
    u[1] = even + odd;
    u[2] = even - odd;
    u[3] = g[2];
}

// ---- two dimensions -----------------------------------------------------------------------------

// X[from][from] to Y[to][to] by `line`: columns, then rows [begin, end).
#define WINO_2D(line, from, to, X, Y) WINO_2D_LINES(line, from, to, 0, to, X, Y)
#define WINO_2D_LINES(line, from, to, begin, end, X, Y) \
    do {                                                \
        wino_v half_[to][from];                         \
        WINO_UNROLL                                     \
        for (int j_ = 0; j_ < (from); j_++) {           \
            wino_v in_[from], out_[to];                 \
            WINO_UNROLL                                 \
            for (int i_ = 0; i_ < (from); i_++)         \
                in_[i_] = X(i_, j_);                    \
            line(in_, out_);                            \
            WINO_UNROLL                                 \
            for (int i_ = 0; i_ < (to); i_++)           \
                half_[i_][j_] = out_[i_];               \
        }                                               \
        WINO_UNROLL                                     \
        for (int i_ = begin; i_ < (end); i_++) {        \
            wino_v out_[to];                            \
            line(half_[i_], out_);                      \
            WINO_UNROLL                                 \
            for (int j_ = 0; j_ < (to); j_++)           \
                Y(i_, j_, out_[j_]);                    \
        }                                               \
    } while (0)

#endif
