// SPDX-License-Identifier: Apache-2.0
// Products of the transformed matrices. A block of rows times one panel stays in registers while k
// runs: 6 rows x 2 vectors of AVX2's sixteen registers, or 4 x 3; 6 x 4 to 12 x 2 of AVX-512's 32.
//
// A word of the two factors is a float32 or, where WINO_PAIRS is defined, a pair of bf16.
//
// Where a row's last vector is filled to its half at most (50 outputs are 3 of AVX-512's vectors
// and 2 floats), that half alone is multiplied, and the other becomes 0.
#include "ops/conv2d/conv2d_winograd.h"
#include "ops/conv2d/conv2d_winograd_lanes.h"

#if !defined(WINO_PAIRS) // else conv2d_winograd_half_lanes.h has them
typedef float wino_word;
typedef wino_v wino_words;

WINO_INLINE wino_words wino_words_load(const wino_word *from)
{
    return wino_load(from);
}

WINO_INLINE wino_words wino_words_splat(wino_word x)
{
    return wino_splat(x);
}

WINO_INLINE wino_v wino_words_madd(wino_words a, wino_words b, wino_v c)
{
    return wino_madd(a, b, c);
}
#endif

// ---- half a vector ----------------------------------------------------------------------------

#if defined(__AVX512F__)
typedef __m256 wino_low;

WINO_INLINE wino_low wino_low_load(const float *from)
{
    return _mm256_loadu_ps(from);
}

WINO_INLINE void wino_low_store(float *to, wino_low v)
{
    _mm512_storeu_ps(to, _mm512_zextps256_ps512(v));
}
#    if defined(__AVX512BF16__)
typedef __m256bh wino_low_words;

WINO_INLINE wino_low_words wino_low_words_load(const wino_word *from)
{
    return (wino_low_words)_mm256_loadu_si256((const void *)from);
}

WINO_INLINE wino_low wino_low_words_madd(wino_words a, wino_low_words b, wino_low c)
{
    return _mm256_dpbf16_ps(c, (__m256bh)_mm512_castsi512_si256((__m512i)a), b);
}
#    else
typedef __m256 wino_low_words;

WINO_INLINE wino_low_words wino_low_words_load(const wino_word *from)
{
    return _mm256_loadu_ps(from);
}

WINO_INLINE wino_low wino_low_words_madd(wino_words a, wino_low_words b, wino_low c)
{
    return _mm256_fmadd_ps(_mm512_castps512_ps256((__m512)a), b, c);
}
#    endif
#else // whole ones
typedef wino_v wino_low;
typedef wino_words wino_low_words;
#    define wino_low_load wino_load
#    define wino_low_store wino_store
#    define wino_low_words_load wino_words_load
#    define wino_low_words_madd wino_words_madd
#endif

// ---- products ---------------------------------------------------------------------------------

typedef struct wino_product {
    int64_t k, rows;
    const wino_word *a;
    int64_t row_stride, k_stride;
    const wino_word *b; // contiguous rows of the panel's vectors
    float *c;
    int64_t c_stride;
    bool add;
} wino_product;

enum { WINO_ROWS = 12, WINO_PANEL = 4, WINO_AHEAD = 12 };

// Rows [r, r + rows) of the product, `full` vectors and, where `half`, one more's half; constants
// where it is inlined.
WINO_INLINE void wino_block(const wino_product *p, int64_t r, int rows, const int full,
                            const bool half)
{
    wino_v sum[WINO_ROWS][WINO_PANEL];
    wino_low low[WINO_ROWS];
    wino_words b[WINO_PANEL];
    const wino_word *from = p->b, *a = p->a + r * p->row_stride;
    const int64_t row_stride = p->row_stride, k_stride = p->k_stride;
    float *c = p->c + r * p->c_stride;
    // Rows of channels: the next block's, spread over k. Columns of tiles: some tiles ahead.
    const bool columns = row_stride == 1;
    const int64_t step = columns ? k_stride : rows * row_stride / p->k + 1;
    const wino_word *ahead = a + (columns ? WINO_AHEAD * k_stride : rows * row_stride);
    WINO_UNROLL
    for (int i = 0; i < rows; i++) {
        WINO_UNROLL
        for (int j = 0; j < full; j++)
            sum[i][j] = p->add ? wino_load(c + i * p->c_stride + j * WINO_LANES) : (wino_v){0};
        if (half)
            low[i] =
                p->add ? wino_low_load(c + i * p->c_stride + full * WINO_LANES) : (wino_low){0};
    }
    for (int64_t k = 0; k < p->k; k++) {
        wino_low_words last;
        WINO_UNROLL
        for (int j = 0; j < full; j++)
            b[j] = wino_words_load(from + j * WINO_LANES);
        if (half)
            last = wino_low_words_load(from + full * WINO_LANES);
        WINO_UNROLL
        for (int i = 0; i < rows; i++) {
            wino_words one = wino_words_splat(a[i * row_stride]);
            WINO_UNROLL
            for (int j = 0; j < full; j++)
                sum[i][j] = wino_words_madd(one, b[j], sum[i][j]);
            if (half)
                low[i] = wino_low_words_madd(one, last, low[i]);
        }
        __builtin_prefetch(ahead);
        ahead += step;
        a += k_stride;
        from += (full + half) * WINO_LANES;
    }
    WINO_UNROLL
    for (int i = 0; i < rows; i++) {
        WINO_UNROLL
        for (int j = 0; j < full; j++)
            wino_store(c + i * p->c_stride + j * WINO_LANES, sum[i][j]);
        if (half)
            wino_low_store(c + i * p->c_stride + full * WINO_LANES, low[i]);
    }
}

// All rows: blocks of `most`, then what is left as one of four, two and one.
#define WINO_PANEL_FUNCTION(name, full, half, most)                          \
    static __attribute__((noinline)) void wino_##name(const wino_product *p) \
    {                                                                        \
        int64_t r = 0;                                                       \
        for (; r + (most) <= p->rows; r += (most))                           \
            wino_block(p, r, most, full, half);                              \
        for (; r + 4 <= p->rows; r += 4)                                     \
            wino_block(p, r, 4, full, half);                                 \
        for (; r + 2 <= p->rows; r += 2)                                     \
            wino_block(p, r, 2, full, half);                                 \
        if (r < p->rows)                                                     \
            wino_block(p, r, 1, full, half);                                 \
    }

// By whether the last vector is a half, and vectors.
typedef void (*wino_panel_function)(const wino_product *p);
#if defined(__AVX512F__)
WINO_PANEL_FUNCTION(panel_1, 1, false, 12)
WINO_PANEL_FUNCTION(panel_2, 2, false, 12)
WINO_PANEL_FUNCTION(panel_3, 3, false, 8)
WINO_PANEL_FUNCTION(panel_4, 4, false, 6)
WINO_PANEL_FUNCTION(panel_half, 0, true, 12)
WINO_PANEL_FUNCTION(panel_1_half, 1, true, 12)
WINO_PANEL_FUNCTION(panel_2_half, 2, true, 8)
WINO_PANEL_FUNCTION(panel_3_half, 3, true, 6)
static const wino_panel_function wino_panel[2][4] = {
    {wino_panel_1, wino_panel_2, wino_panel_3, wino_panel_4},
    {wino_panel_half, wino_panel_1_half, wino_panel_2_half, wino_panel_3_half}};
#else
WINO_PANEL_FUNCTION(panel_1, 1, false, 8)
WINO_PANEL_FUNCTION(panel_2, 2, false, 6)
WINO_PANEL_FUNCTION(panel_3, 3, false, 4)
static const wino_panel_function wino_panel[1][3] = {{wino_panel_1, wino_panel_2, wino_panel_3}};
#endif

// Panels of nearly equal width: 3 and 4 vectors with AVX-512, else 2 and 3.
static int wino_panel_count(int vectors)
{
    if (WINO_LANES == 16)
        return (vectors + 3) / 4;
    return vectors < 2 ? 1 : vectors / 2;
}

static void wino_multiply(const rungi_wino_panels *panels, int64_t k_begin, int64_t k_end,
                          int64_t rows, const void *a, int64_t row_stride, int64_t k_stride,
                          const void *b, float *c, int64_t c_stride, bool add)
{
    for (int i = 0; i < panels->count; i++) {
        int begin = rungi_wino_panel_begin(panels, i);
        int vectors = rungi_wino_panel_begin(panels, i + 1) - begin;
        const wino_product p = {
            .k = k_end - k_begin,
            .rows = rows,
            .a = a,
            .row_stride = row_stride,
            .k_stride = k_stride,
            .b = (const wino_word *)b + (panels->depth * begin + k_begin * vectors) * WINO_LANES,
            .c = c + (int64_t)begin * WINO_LANES,
            .c_stride = c_stride,
            .add = add,
        };
        wino_panel[panels->half && i == panels->count - 1][vectors - 1](&p);
    }
}
