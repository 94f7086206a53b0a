// SPDX-License-Identifier: Apache-2.0
// Loops of combine.h, compiled once per instruction set. Conversions of 16-bit floats give the bits
// of rung_f32_to_bf16 and rung_f32_to_f16.
#include <string.h>

#include "comm/combine.h"
#include "ops/simd.h"

#if defined(__SSE2__)
#    include <immintrin.h>
#endif

#define COMBINE_SUM(a, b) ((a) + (b))
#define COMBINE_MIN(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define COMBINE_MAX(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))

#define COMBINE_LOOP(name, type, operation)                                                \
    static void combine_##name(void *dest, const void *left, const void *right, int64_t n) \
    {                                                                                      \
        type *d = dest;                                                                    \
        const type *a = left, *b = right;                                                  \
        RUNGI_VECTORIZE                                                                    \
        for (int64_t i = 0; i < n; i++)                                                    \
            d[i] = operation(a[i], b[i]);                                                  \
    }

COMBINE_LOOP(f32_sum, float, COMBINE_SUM)
COMBINE_LOOP(f32_min, float, COMBINE_MIN)
COMBINE_LOOP(f32_max, float, COMBINE_MAX)
COMBINE_LOOP(f64_sum, double, COMBINE_SUM)
COMBINE_LOOP(f64_min, double, COMBINE_MIN)
COMBINE_LOOP(f64_max, double, COMBINE_MAX)
COMBINE_LOOP(i64_sum, uint64_t, COMBINE_SUM) // wraps
COMBINE_LOOP(i64_min, int64_t, COMBINE_MIN)
COMBINE_LOOP(i64_max, int64_t, COMBINE_MAX)

// ---- 16-bit floats ----------------------------------------------------------------------------

enum { COMBINE_BLOCK = 256 };

static void widen_bf16(const uint16_t *from, float *to, int64_t n)
{
    RUNGI_VECTORIZE
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

static void narrow_bf16(const float *from, uint16_t *to, int64_t n)
{
    RUNGI_VECTORIZE
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        uint32_t nan = bits >> 16 | 0x40, rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
        to[i] = (uint16_t)((bits & 0x7FFFFFFF) > 0x7F800000 ? nan : rounded);
    }
}

static void widen_f16(const uint16_t *from, float *to, int64_t n)
{
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
#endif
    for (; i < n; i++)
        to[i] = rung_f16_to_f32(from[i]);
}

static void narrow_f16(const float *from, uint16_t *to, int64_t n)
{
    int64_t i = 0;
#if defined(__F16C__)
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++)
        to[i] = rung_f32_to_f16(from[i]);
}

#define COMBINE_HALF(dtype, operation)                                                         \
    static void combine_##dtype##_##operation(void *dest, const void *left, const void *right, \
                                              int64_t n)                                       \
    {                                                                                          \
        uint16_t *d = dest;                                                                    \
        const uint16_t *a = left, *b = right;                                                  \
        float x[COMBINE_BLOCK], y[COMBINE_BLOCK];                                              \
        for (int64_t at = 0; at < n; at += COMBINE_BLOCK) {                                    \
            int64_t part = n - at < COMBINE_BLOCK ? n - at : COMBINE_BLOCK;                    \
            widen_##dtype(a + at, x, part);                                                    \
            widen_##dtype(b + at, y, part);                                                    \
            combine_f32_##operation(x, x, y, part);                                            \
            narrow_##dtype(x, d + at, part);                                                   \
        }                                                                                      \
    }
COMBINE_HALF(bf16, sum)
COMBINE_HALF(bf16, min)
COMBINE_HALF(bf16, max)
COMBINE_HALF(f16, sum)
COMBINE_HALF(f16, min)
COMBINE_HALF(f16, max)

// ---- into both places -------------------------------------------------------------------------

static void combine_both(float *a, float *b, int64_t n)
{
    RUNGI_VECTORIZE
    for (int64_t i = 0; i < n; i++)
        a[i] = b[i] = a[i] + b[i];
}

// Stores past the caches need not read the lines that they write: a third of a copy's traffic.
static void combine_copy(float *to, const float *from, int64_t n)
{
    int64_t i = 0;
#if defined(__SSE2__)
    for (; i < n && ((uintptr_t)(to + i) & 15) != 0; i++)
        to[i] = from[i];
    for (; i + 4 <= n; i += 4)
        _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
    _mm_sfence(); // before others are told
#endif
    for (; i < n; i++)
        to[i] = from[i];
}

#define COMBINE_ROW(dtype)                                                  \
    {                                                                       \
        combine_##dtype##_sum, combine_##dtype##_min, combine_##dtype##_max \
    }
#define COMBINE_TABLE                               \
    {                                               \
        .pair = {[RUNG_F32] = COMBINE_ROW(f32),     \
                 [RUNG_F64] = COMBINE_ROW(f64),     \
                 [RUNG_I64] = COMBINE_ROW(i64),     \
                 [RUNG_BF16] = COMBINE_ROW(bf16),   \
                 [RUNG_F16] = COMBINE_ROW(f16)},    \
        .both = combine_both, .copy = combine_copy, \
    }
