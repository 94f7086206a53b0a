// SPDX-License-Identifier: Apache-2.0
// Compiled for AVX2 with F16C, which every processor with AVX2 has.
#include "tensor/half.h"

#include <immintrin.h>

enum { NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };

static void widen_f16(const uint16_t *from, float *to, int64_t count)
{
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
    for (; i < count; i++)
        to[i] = _cvtsh_ss(from[i]);
}

static void narrow_f16(const float *from, uint16_t *to, int64_t count)
{
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128((__m128i *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), NEAREST));
    for (; i < count; i++)
        to[i] = _cvtss_sh(from[i], NEAREST);
}

static void widen_bf16(const uint16_t *from, float *to, int64_t count)
{
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(from + i)));
        _mm256_storeu_ps(to + i, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
    }
    for (; i < count; i++)
        to[i] = rung_bf16_to_f32(from[i]);
}

// The upper halves of eight floats, rounded, each in 32 bits.
static __m256i rounded(const float *from)
{
    __m256 value = _mm256_loadu_ps(from);
    __m256i bits = _mm256_castps_si256(value);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, nan), 16);
}

static void narrow_bf16(const float *from, uint16_t *to, int64_t count)
{
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        // Packing works within halves of a register: the quarters are put in order after it.
        __m256i packed = _mm256_packus_epi32(rounded(from + i), rounded(from + i + 8));
        _mm256_storeu_si256((__m256i *)(to + i), _mm256_permute4x64_epi64(packed, 0xD8));
    }
    for (; i < count; i++)
        to[i] = rung_f32_to_bf16(from[i]);
}

const rungi_half_loops rungi_half_loops_avx2 = {.widen_f16 = widen_f16,
                                                .widen_bf16 = widen_bf16,
                                                .narrow_f16 = narrow_f16,
                                                .narrow_bf16 = narrow_bf16};
