// SPDX-License-Identifier: Apache-2.0
// Vectors of the Winograd loops: 16 lanes with AVX-512, 8 with AVX2, else 4. Multiplications and
// additions are fused by name where the instruction set has it, so no compiler's choice shows.
#ifndef RUNGI_OPS_CONV2D_WINOGRAD_LANES_H
#define RUNGI_OPS_CONV2D_WINOGRAD_LANES_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#    include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { WINO_LANES = 16 };
#elif defined(__AVX2__)
enum { WINO_LANES = 8 };
#else
enum { WINO_LANES = 4 };
#endif

#define WINO_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#    define WINO_UNROLL _Pragma("clang loop unroll(full)")
#else
#    define WINO_UNROLL _Pragma("GCC unroll 36")
#endif

typedef float wino_v __attribute__((vector_size(4 * WINO_LANES)));
typedef float wino_v_any __attribute__((vector_size(4 * WINO_LANES), aligned(4), may_alias));
typedef int32_t wino_vi __attribute__((vector_size(4 * WINO_LANES)));
typedef uint8_t wino_bytes __attribute__((vector_size(WINO_LANES)));

WINO_INLINE wino_v wino_load(const float *from)
{
    return *(const wino_v_any *)from;
}

WINO_INLINE void wino_store(float *to, wino_v v)
{
    *(wino_v_any *)to = v;
}

WINO_INLINE wino_v wino_splat(float x)
{
    return x - (wino_v){0};
}

// The first n lanes, n from 1 to all; the others are 0 and not read.
WINO_INLINE wino_v wino_load_part(const float *from, int n)
{
#if defined(__AVX512F__)
    return (wino_v)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), from);
#elif defined(__AVX2__)
    static const int32_t mask[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return (wino_v)_mm256_maskload_ps(from, _mm256_loadu_si256((const void *)(mask + 8 - n)));
#else
    wino_v v = {0};
    for (int i = 0; i < n; i++)
        v[i] = from[i];
    return v;
#endif
}

// Masked stores take AVX2 machines tens of cycles: halves instead.
WINO_INLINE void wino_store_part(float *to, wino_v v, int n)
{
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << n) - 1), (__m512)v);
#elif defined(__AVX2__)
    __m128 low = _mm256_castps256_ps128((__m256)v);
    if (n & 8) {
        wino_store(to, v);
        return;
    }
    if (n & 4) {
        _mm_storeu_ps(to, low);
        low = _mm256_extractf128_ps((__m256)v, 1);
        to += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)(void *)to, low);
        low = _mm_movehl_ps(low, low);
        to += 2;
    }
    if (n & 1)
        _mm_store_ss(to, low);
#else
    for (int i = 0; i < n; i++)
        to[i] = v[i];
#endif
}

// n lanes, which are all where n says so.
WINO_INLINE wino_v wino_load_some(const float *from, int n)
{
    return n == WINO_LANES ? wino_load(from) : wino_load_part(from, n);
}

WINO_INLINE void wino_store_some(float *to, wino_v v, int n)
{
    if (n == WINO_LANES)
        wino_store(to, v);
    else
        wino_store_part(to, v, n);
}

// c + a * b and c - a * b
WINO_INLINE wino_v wino_madd(wino_v a, wino_v b, wino_v c)
{
#if defined(__AVX512F__)
    return (wino_v)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
    return (wino_v)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return c + a * b;
#endif
}

WINO_INLINE wino_v wino_msub(wino_v a, wino_v b, wino_v c)
{
#if defined(__AVX512F__)
    return (wino_v)_mm512_fnmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
    return (wino_v)_mm256_fnmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return c - a * b;
#endif
}

// Where the mask is set max(v, 0) as relu has it: NaN stays.
WINO_INLINE wino_v wino_relu(wino_v v, wino_vi mask)
{
    return (wino_v)((wino_vi)v & ~((v < (wino_v){0}) & mask));
}

// v where the gate is positive, else 0.
WINO_INLINE wino_v wino_where_positive(wino_v gate, wino_v v)
{
    return (wino_v)((wino_vi)v & (gate > (wino_v){0}));
}

// The largest of a window of four pixels, and its place. They are compared in row-major order: NaN
// wins over every number and then stays, of equal values the first does.
WINO_INLINE wino_v wino_largest(const wino_v pixel[4], wino_vi *place)
{
    wino_v best = pixel[0];
    wino_vi at = {0};
    WINO_UNROLL
    for (int k = 1; k < 4; k++) {
        wino_vi wins = ~(pixel[k] <= best) & (best == best);
        best = (wino_v)((wins & (wino_vi)pixel[k]) | (~wins & (wino_vi)best));
        at = (wins & k) | (~wins & at);
    }
    *place = at;
    return best;
}

WINO_INLINE void wino_store_places(uint8_t *to, wino_vi place, int n)
{
    wino_bytes bytes = __builtin_convertvector(place, wino_bytes);
    memcpy(to, &bytes, (size_t)n);
}

#endif
