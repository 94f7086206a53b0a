// SPDX-License-Identifier: Apache-2.0
// Bf16 for the Winograd loops: a vector of as many as there are lanes, and vectors of words, each a
// pair of bf16 whose first is the low half.
//
// A float32 is rounded to the nearest bf16, of two the even one; NaN stays one. A word's product is
// added as VDPBF16PS does it, the second of the pair first, each product exact and each sum rounded
// to nearest even (Intel, Software Developer's Manual, volume 2). The instructions of AVX512_BF16
// also take denormals for zero and flush results that are, which the other versions do not.
#ifndef RUNGI_OPS_CONV2D_WINOGRAD_HALF_LANES_H
#define RUNGI_OPS_CONV2D_WINOGRAD_HALF_LANES_H

#include "ops/conv2d/conv2d_winograd_lanes.h"

#define WINO_PAIRS 1

typedef uint16_t wino_half;
typedef uint16_t wino_halves __attribute__((vector_size(2 * WINO_LANES)));
typedef uint16_t wino_halves_any
    __attribute__((vector_size(2 * WINO_LANES), aligned(2), may_alias));
typedef uint32_t wino_word __attribute__((may_alias));
typedef uint32_t wino_words __attribute__((vector_size(4 * WINO_LANES)));
typedef uint32_t wino_words_any __attribute__((vector_size(4 * WINO_LANES), aligned(4), may_alias));

// ---- bf16 and float32 ---------------------------------------------------------------------------

WINO_INLINE wino_v wino_widen(wino_halves h)
{
    return (wino_v)(__builtin_convertvector(h, wino_words) << 16);
}

// The bits of v rounded, as float32's.
WINO_INLINE wino_words wino_rounded_bits(wino_v v)
{
    wino_words bits = (wino_words)v, nan = (wino_words)(v != v);
    wino_words rounded = bits + 0x7FFF + (bits >> 16 & 1);
    return ((nan & (bits | 0x400000)) | (~nan & rounded)) & 0xFFFF0000;
}

WINO_INLINE wino_halves wino_narrow(wino_v v)
{
#if defined(__AVX512BF16__)
    return (wino_halves)_mm512_cvtneps_pbh((__m512)v);
#else
    return __builtin_convertvector(wino_rounded_bits(v) >> 16, wino_halves);
#endif
}

// n of them, from 1 to all; the other lanes are 0 and not read.
WINO_INLINE wino_halves wino_halves_load(const wino_half *from, int n)
{
    if (n == WINO_LANES)
        return *(const wino_halves_any *)from;
#if defined(__AVX512BF16__)
    return (wino_halves)_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), from);
#else
    wino_halves h = {0};
    memcpy(&h, from, (size_t)n * sizeof *from);
    return h;
#endif
}

WINO_INLINE void wino_halves_store(void *to, wino_halves h, int n)
{
    if (n == WINO_LANES)
        *(wino_halves_any *)to = h;
    else
#if defined(__AVX512BF16__)
        _mm256_mask_storeu_epi16(to, (__mmask16)((1u << n) - 1), (__m256i)h);
#else
        memcpy(to, &h, (size_t)n * sizeof(wino_half));
#endif
}

// ---- words --------------------------------------------------------------------------------------

WINO_INLINE wino_words wino_words_of(wino_v first, wino_v second)
{
    return wino_rounded_bits(first) >> 16 | wino_rounded_bits(second);
}

WINO_INLINE wino_words wino_words_load(const wino_word *from)
{
    return *(const wino_words_any *)from;
}

WINO_INLINE void wino_words_store(wino_word *to, wino_words w)
{
    *(wino_words_any *)to = w;
}

WINO_INLINE wino_words wino_words_splat(wino_word x)
{
    return x - (wino_words){0};
}

// c + a * b, summed over each pair.
WINO_INLINE wino_v wino_words_madd(wino_words a, wino_words b, wino_v c)
{
#if defined(__AVX512BF16__)
    return (wino_v)_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b);
#else
    c = wino_madd((wino_v)(a & 0xFFFF0000), (wino_v)(b & 0xFFFF0000), c);
    return wino_madd((wino_v)(a << 16), (wino_v)(b << 16), c);
#endif
}

#endif
