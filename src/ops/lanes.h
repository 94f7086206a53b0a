// SPDX-License-Identifier: Apache-2.0
// Vectors of float32 for loops that are compiled once per instruction set (NAME_loops.h, included
// by NAME_cpu.c and NAME_avx2.c). Each lane computes on its own, so the width never shows in
// results as long as sums are kept per element of a fixed number of lanes.
#ifndef RUNGI_OPS_LANES_H
#define RUNGI_OPS_LANES_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#    include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { RUNGI_LANES = 16 };
#elif defined(__AVX2__)
enum { RUNGI_LANES = 8 };
#else
enum { RUNGI_LANES = 4 };
#endif

// GCC's vector extension; clang has it too.
typedef float rungi_vf __attribute__((vector_size(4 * RUNGI_LANES)));
typedef int32_t rungi_vi __attribute__((vector_size(4 * RUNGI_LANES)));
typedef float rungi_vf_any __attribute__((vector_size(4 * RUNGI_LANES), aligned(4), may_alias));

static inline rungi_vf rungi_load(const float *from)
{
    return *(const rungi_vf_any *)from;
}

// from[0], from[2], from[4], ...; reads the values between and one behind them too.
static inline rungi_vf rungi_load_even(const float *from)
{
#if defined(__AVX512F__)
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_permutex2var_ps(_mm512_loadu_ps(from), even, _mm512_loadu_ps(from + 16));
#elif defined(__AVX2__)
    __m256 low = _mm256_loadu_ps(from), high = _mm256_loadu_ps(from + 8);
    __m256d mixed = _mm256_castps_pd(_mm256_shuffle_ps(low, high, 0x88));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(mixed, 0xD8));
#elif defined(__SSE2__)
    return _mm_shuffle_ps(_mm_loadu_ps(from), _mm_loadu_ps(from + 4), 0x88);
#else
    rungi_vf v;
    for (int i = 0; i < RUNGI_LANES; i++)
        v[i] = from[2 * i];
    return v;
#endif
}

// The first n values; the other lanes are 0.
static inline rungi_vf rungi_load_part(const float *from, int64_t n)
{
    float part[RUNGI_LANES] = {0};
    for (int64_t i = 0; i < n; i++)
        part[i] = from[i];
    return rungi_load(part);
}

// The lower half of the lanes plus the upper one, and so on.
static inline float rungi_halved_sum(rungi_vf v)
{
#if defined(__SSE2__)
#    if defined(__AVX512F__)
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
#    elif defined(__AVX2__)
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
#    else
    __m128 s = v;
#    endif
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps(s, s, 1)));
#else
    return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

static inline void rungi_store(float *to, rungi_vf v)
{
    *(rungi_vf_any *)to = v;
}

static inline rungi_vf rungi_splat(float x)
{
    return x - (rungi_vf){0};
}

// a where the mask (all bits or none of each lane, as comparisons give it) is set, else b.
static inline rungi_vf rungi_select(rungi_vi mask, rungi_vf a, rungi_vf b)
{
    return (rungi_vf)((mask & (rungi_vi)a) | (~mask & (rungi_vi)b));
}

// max(v, 0) as relu has it: NaN stays.
static inline rungi_vf rungi_relu(rungi_vf v)
{
    return (rungi_vf)((rungi_vi)v & ~(v < (rungi_vf){0}));
}

// Integers of 0 to 255 from and to bytes. (GCC 12 converts vectors lane by lane.)
static inline rungi_vi rungi_load_bytes(const uint8_t *from)
{
#if defined(__AVX512F__)
    return (rungi_vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)from));
#elif defined(__AVX2__)
    return (rungi_vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from));
#elif defined(__SSE2__)
    int32_t four;
    memcpy(&four, from, sizeof four);
    __m128i zero = _mm_setzero_si128(), bytes = _mm_cvtsi32_si128(four);
    return (rungi_vi)_mm_unpacklo_epi16(_mm_unpacklo_epi8(bytes, zero), zero);
#else
    rungi_vi v;
    for (int i = 0; i < RUNGI_LANES; i++)
        v[i] = from[i];
    return v;
#endif
}

static inline void rungi_store_bytes(uint8_t *to, rungi_vi v)
{
#if defined(__AVX512F__)
    _mm_storeu_si128((__m128i *)to, _mm512_cvtepi32_epi8((__m512i)v));
#elif defined(__AVX2__)
    __m256i wide = (__m256i)v;
    __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
    _mm_storel_epi64((__m128i *)to, _mm_packus_epi16(words, words));
#elif defined(__SSE2__)
    __m128i words = _mm_packs_epi32((__m128i)v, (__m128i)v);
    int32_t four = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    memcpy(to, &four, sizeof four);
#else
    for (int i = 0; i < RUNGI_LANES; i++)
        to[i] = (uint8_t)v[i];
#endif
}

// Adds the first n lanes to doubles.
static inline void rungi_add_to(double *sums, rungi_vf v, int64_t n)
{
    float lane[RUNGI_LANES];
    memcpy(lane, &v, sizeof lane);
    for (int64_t i = 0; i < n; i++)
        sums[i] += lane[i];
}

// Sum of count values: of 512 at a time sixteen sums in float32, by i % 16, which are added in
// double.
static inline double rungi_sum(const float *x, int64_t count)
{
    double total = 0;
    for (int64_t begin = 0; begin < count; begin += 512) {
        int64_t end = count - begin < 512 ? count : begin + 512, i = begin;
        rungi_vf part[16 / RUNGI_LANES] = {{0}};
        for (; i + 16 <= end; i += 16)
            for (int p = 0; p < 16 / RUNGI_LANES; p++)
                part[p] += rungi_load(x + i + p * RUNGI_LANES);
        float sum[16];
        memcpy(sum, part, sizeof sum);
        for (int k = 0; i + k < end; k++)
            sum[k] += x[i + k];
        for (int k = 0; k < 16; k++)
            total += sum[k];
    }
    return total;
}

#endif
