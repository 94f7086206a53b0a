// SPDX-License-Identifier: Apache-2.0
// The same sums with AVX2: a weight of 22 bits is 256 * high + low, so that two 16-bit products
// give it exactly.
#if defined(__AVX2__)
#    include <immintrin.h>
#    include <string.h>

#    include "data/resample.h"

enum { BITS = 22, AT_ONCE = 4 };

// Of four neighbouring weights: (0, 1) four times, (2, 3) four times, high parts, then low parts.
typedef struct quad {
    int16_t high[16], low[16];
} quad;

static int quads_of(const rungi_weights *x)
{
    return (x->longest + AT_ONCE - 1) / AT_ONCE;
}

// The table: where each result's pixels begin, in bytes; then `quads_of` quads for each.
static size_t offsets_size(const rungi_weights *x)
{
    return ((size_t)x->count * sizeof(int32_t) + 63) / 64 * 64;
}

static size_t table_size(const rungi_weights *x)
{
    return offsets_size(x) + (size_t)x->count * (size_t)quads_of(x) * sizeof(quad);
}

static void prepare(const rungi_weights *x, void *table)
{
    int32_t *offsets = table;
    int32_t *out = (int32_t *)(void *)((char *)table + offsets_size(x)); // pairs of 16 bits
    for (int i = 0; i < x->count; i++) {
        const int32_t *w = x->weights + (size_t)i * (size_t)x->taps;
        offsets[i] = 3 * (x->first[i] - x->begin);
        for (int k = 0; k < quads_of(x); k++, w += AT_ONCE)
            for (int part = 0; part < 2; part++)
                for (int half = 0; half < 2; half++) {
                    uint32_t a = (uint32_t)w[2 * half], b = (uint32_t)w[2 * half + 1];
                    uint32_t pair = part == 0 ? (a >> 8 & 0xffff) | (b >> 8 << 16)
                                              : (a & 0xff) | (b & 0xff) << 16;
                    _mm_store_si128((__m128i *)(void *)out, _mm_set1_epi32((int)pair));
                    out += 4;
                }
    }
}

// The sum for one pixel, in two halves that must still be added: red, green, blue and zero.
static inline __m256i sum_pixel(const quad *q, int quads, const uint8_t *from)
{
    // Pixels 0 and 1 in the lower half, 2 and 3 in the upper, as 16-bit pairs per channel.
    const __m256i spread =
        _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, 6, -1, 9, -1, 7,
                         -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
    __m256i high = _mm256_setzero_si256(), low = high;
    for (int k = 0; k < quads; k++) {
        __m128i loaded = _mm_loadu_si128((const __m128i *)(const void *)(from + 12 * k));
        __m256i pixels = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(loaded), spread);
        __m256i wh = _mm256_load_si256((const __m256i *)(const void *)q[k].high);
        __m256i wl = _mm256_load_si256((const __m256i *)(const void *)q[k].low);
        high = _mm256_add_epi32(high, _mm256_madd_epi16(pixels, wh));
        low = _mm256_add_epi32(low, _mm256_madd_epi16(pixels, wl));
    }
    return _mm256_add_epi32(_mm256_slli_epi32(high, 8), low);
}

// Two pixels' sums, rounded and shifted down: one in each half.
static inline __m256i finish_two(__m256i a, __m256i b)
{
    __m256i sum = _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                                   _mm256_permute2x128_si256(a, b, 0x31));
    return _mm256_srai_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(1 << (BITS - 1))), BITS);
}

// `fixed`: each pixel takes that many quads; 0: as many as its length needs, so that no more than
// one is read in vain. `quads` is the table's.
static inline void run_columns(const rungi_weights *x, const void *table, int quads, int fixed,
                               const uint8_t *from, uint8_t *to)
{
    // Pixels 0 and 2 lie in the lower half, 1 and 3 in the upper.
    const __m128i even = _mm_setr_epi8(0, 1, 2, -1, -1, -1, 4, 5, 6, -1, -1, -1, -1, -1, -1, -1);
    const __m128i odd = _mm_setr_epi8(-1, -1, -1, 0, 1, 2, -1, -1, -1, 4, 5, 6, -1, -1, -1, -1);
    const int32_t *offsets = table;
    const quad *q = (const quad *)(const void *)((const char *)table + offsets_size(x));
    int i = 0;
    for (; i + AT_ONCE <= x->count; i += AT_ONCE, to += 3 * AT_ONCE, q += AT_ONCE * quads) {
        __m256i p[AT_ONCE];
        for (int j = 0; j < AT_ONCE; j++)
            p[j] =
                sum_pixel(q + j * quads, fixed ? fixed : (x->length[i + j] + AT_ONCE - 1) / AT_ONCE,
                          from + offsets[i + j]);
        __m256i words = _mm256_packs_epi32(finish_two(p[0], p[1]), finish_two(p[2], p[3]));
        __m256i bytes = _mm256_packus_epi16(words, words);
        __m128i packed = _mm_or_si128(_mm_shuffle_epi8(_mm256_castsi256_si128(bytes), even),
                                      _mm_shuffle_epi8(_mm256_extracti128_si256(bytes, 1), odd));
        _mm_storeu_si128((__m128i *)(void *)to, packed);
    }
    for (; i < x->count; i++, to += 3, q += quads) {
        __m256i p =
            sum_pixel(q, fixed ? fixed : (x->length[i] + AT_ONCE - 1) / AT_ONCE, from + offsets[i]);
        __m128i words = _mm256_castsi256_si128(finish_two(p, p));
        words = _mm_packs_epi32(words, words);
        uint32_t pixel = (uint32_t)_mm_cvtsi128_si32(_mm_packus_epi16(words, words));
        memcpy(to, &pixel, 3);
    }
}

static void columns3(const rungi_weights *x, const void *table, const uint8_t *from, uint8_t *to)
{
    // Loops of a known length for the usual scales.
    switch (quads_of(x)) {
    case 1:
        run_columns(x, table, 1, 1, from, to);
        break;
    case 2:
        run_columns(x, table, 2, 2, from, to);
        break;
    default:
        run_columns(x, table, quads_of(x), 0, from, to);
    }
}

// Adds two rows, 32 columns: their bytes interleaved, in 16 bits.
static inline void add_rows(__m256i a, __m256i b, __m256i wh, __m256i wl, __m256i high[4],
                            __m256i low[4])
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i first = _mm256_unpacklo_epi8(a, b), second = _mm256_unpackhi_epi8(a, b);
    __m256i pairs[4] = {_mm256_unpacklo_epi8(first, zero), _mm256_unpackhi_epi8(first, zero),
                        _mm256_unpacklo_epi8(second, zero), _mm256_unpackhi_epi8(second, zero)};
    for (int j = 0; j < 4; j++) {
        high[j] = _mm256_add_epi32(high[j], _mm256_madd_epi16(pairs[j], wh));
        low[j] = _mm256_add_epi32(low[j], _mm256_madd_epi16(pairs[j], wl));
    }
}

static void rows(const int32_t *weights, int taps, const uint8_t *from, size_t stride, size_t bytes,
                 uint8_t *to)
{
    const __m256i half = _mm256_set1_epi32(1 << (BITS - 1));
    for (size_t at = 0; at < bytes; at += 32) {
        __m256i high[4] = {0}, low[4] = {half, half, half, half};
        for (int k = 0; k < taps; k += 2) {
            uint32_t u = (uint32_t)weights[k], v = k + 1 < taps ? (uint32_t)weights[k + 1] : 0;
            const uint8_t *row = from + (size_t)k * stride + at;
            __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)row);
            __m256i b = k + 1 < taps
                            ? _mm256_loadu_si256((const __m256i *)(const void *)(row + stride))
                            : _mm256_setzero_si256();
            add_rows(a, b, _mm256_set1_epi32((int)((u >> 8 & 0xffff) | (v >> 8 << 16))),
                     _mm256_set1_epi32((int)((u & 0xff) | (v & 0xff) << 16)), high, low);
        }
        __m256i sum[4];
        for (int j = 0; j < 4; j++)
            sum[j] =
                _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(high[j], 8), low[j]), BITS);
        __m256i packed = _mm256_packus_epi16(_mm256_packs_epi32(sum[0], sum[1]),
                                             _mm256_packs_epi32(sum[2], sum[3]));
        _mm256_storeu_si256((__m256i *)(void *)(to + at), packed);
    }
}

const rungi_resample_kernels rungi_resample_avx2 = {
    .columns3 = columns3,
    .table_size = table_size,
    .prepare = prepare,
    .rows = rows,
};
#endif
