// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 of eight blocks at once.
#if defined(__AVX2__)
#    include <immintrin.h>

#    include "ops/dropout/dropout_loops.h"

// Low and high halves of the products of 8 words with a constant.
static inline void multiply(__m256i a, __m256i m, __m256i *low, __m256i *high)
{
    __m256i even = _mm256_mul_epu32(a, m);
    __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), m);
    *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
}

// Eight blocks from `first` on, and the eight after those: each round waits for the one before it,
// so two chains take little longer than one.
static inline void blocks(const uint32_t key[2], uint64_t first, uint64_t sample, __m256i c[2][4])
{
    const __m256i m0 = _mm256_set1_epi32((int)0xD2511F53), m1 = _mm256_set1_epi32((int)0xCD9E8D57);
    uint32_t k0 = key[0], k1 = key[1];
    for (int i = 0; i < 2; i++, first += 8) {
        c[i][0] = _mm256_add_epi32(_mm256_set1_epi32((int)(uint32_t)first),
                                   _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
        c[i][1] = _mm256_set1_epi32((int)(uint32_t)(first >> 32));
        c[i][2] = _mm256_set1_epi32((int)(uint32_t)sample);
        c[i][3] = _mm256_set1_epi32((int)(uint32_t)(sample >> 32));
    }
    for (int round = 0; round < 10; round++) {
        __m256i v0 = _mm256_set1_epi32((int)k0), v1 = _mm256_set1_epi32((int)k1);
        for (int i = 0; i < 2; i++) {
            __m256i low0, high0, low1, high1;
            multiply(c[i][0], m0, &low0, &high0);
            multiply(c[i][2], m1, &low1, &high1);
            c[i][0] = _mm256_xor_si256(_mm256_xor_si256(high1, c[i][1]), v0);
            c[i][2] = _mm256_xor_si256(_mm256_xor_si256(high0, c[i][3]), v1);
            c[i][1] = low1;
            c[i][3] = low0;
        }
        k0 += 0x9E3779B9;
        k1 += 0xBB67AE85;
    }
}

// The mask of 64 elements whose high halves do not decide everywhere.
static uint64_t one_by_one(const rungi_dropout_source *s, int64_t sample, int64_t group)
{
    uint64_t mask = 0;
    for (int i = 0; i < 64; i++)
        mask |= (uint64_t)rungi_dropout_keeps(s, sample, group * 64 + i) << i;
    return mask;
}

// The mask of eight blocks; `tied` is set where high halves do not decide.
static inline uint64_t mask_of(const __m256i c[4], uint32_t threshold, bool *tied)
{
    // Words of a block side by side: blocks 0 and 4, 1 and 5, 2 and 6, 3 and 7.
    __m256i a = _mm256_unpacklo_epi32(c[0], c[1]), b = _mm256_unpackhi_epi32(c[0], c[1]);
    __m256i d = _mm256_unpacklo_epi32(c[2], c[3]), e = _mm256_unpackhi_epi32(c[2], c[3]);
    __m256i r[4] = {_mm256_unpacklo_epi64(a, d), _mm256_unpackhi_epi64(a, d),
                    _mm256_unpacklo_epi64(b, e), _mm256_unpackhi_epi64(b, e)};
    __m256i limit = _mm256_set1_epi16((short)(threshold >> 16)), ties = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++) {
        ties = _mm256_or_si256(ties, _mm256_cmpeq_epi16(r[i], limit));
        r[i] = _mm256_cmpeq_epi16(_mm256_max_epu16(r[i], limit), r[i]);
    }
    *tied = !_mm256_testz_si256(ties, ties);
    uint64_t first = (uint32_t)_mm256_movemask_epi8(_mm256_packs_epi16(r[0], r[1]));
    uint64_t second = (uint32_t)_mm256_movemask_epi8(_mm256_packs_epi16(r[2], r[3]));
    return (first & 0xFFFF) | (second & 0xFFFF) << 16 | (first >> 16) << 32 | (second >> 16) << 48;
}

static void dropout_bits(const rungi_dropout_source *s, int64_t sample, int64_t group,
                         int64_t count, uint64_t *words)
{
    for (int64_t i = 0; i < count; i += 2) {
        __m256i c[2][4];
        blocks(s->random.key, (uint64_t)(group + i) * 8, (uint64_t)sample, c);
        for (int64_t k = 0; k < 2 && i + k < count; k++) {
            bool tied;
            words[i + k] = mask_of(c[k], s->threshold, &tied);
            if (tied)
                words[i + k] = one_by_one(s, sample, group + i + k);
        }
    }
}

static const rungi_dropout_loops loops = {.bits = dropout_bits, .apply = dropout_apply};
const rungi_dropout_loops *const rungi_dropout_loops_avx2 = &loops;
#else
#    include "ops/dropout/dropout.h"

const rungi_dropout_loops *const rungi_dropout_loops_avx2 = NULL;
#endif
