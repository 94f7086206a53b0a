// SPDX-License-Identifier: Apache-2.0
// Products of the transformed matrices. A block of rows times one panel stays in registers while k
// runs: 6 rows x 2 vectors of AVX2's sixteen registers, or 4 x 3; 6 x 4 to 12 x 2 of AVX-512's 32.
//
// A word of the two factors is a float32 or, where WINO_PAIRS is defined, a pair of bf16.
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

// Rows [r, r + rows) of the product; `rows` and `vectors` are constants where it is inlined.
WINO_INLINE void wino_block(const wino_product *p, int64_t r, int rows, int vectors)
{
    wino_v sum[WINO_ROWS][WINO_PANEL];
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
        for (int j = 0; j < vectors; j++)
            sum[i][j] = p->add ? wino_load(c + i * p->c_stride + j * WINO_LANES) : (wino_v){0};
    }
    for (int64_t k = 0; k < p->k; k++) {
        WINO_UNROLL
        for (int j = 0; j < vectors; j++)
            b[j] = wino_words_load(from + j * WINO_LANES);
        WINO_UNROLL
        for (int i = 0; i < rows; i++) {
            wino_words one = wino_words_splat(a[i * row_stride]);
            WINO_UNROLL
            for (int j = 0; j < vectors; j++)
                sum[i][j] = wino_words_madd(one, b[j], sum[i][j]);
        }
        __builtin_prefetch(ahead);
        ahead += step;
        a += k_stride;
        from += vectors * WINO_LANES;
    }
    WINO_UNROLL
    for (int i = 0; i < rows; i++) {
        WINO_UNROLL
        for (int j = 0; j < vectors; j++)
            wino_store(c + i * p->c_stride + j * WINO_LANES, sum[i][j]);
    }
}

// All rows: blocks of `most`, then what is left as one of four, two and one.
#define WINO_PANEL_FUNCTION(vectors, most)                                            \
    static __attribute__((noinline)) void wino_panel_##vectors(const wino_product *p) \
    {                                                                                 \
        int64_t r = 0;                                                                \
        for (; r + (most) <= p->rows; r += (most))                                    \
            wino_block(p, r, most, vectors);                                          \
        for (; r + 4 <= p->rows; r += 4)                                              \
            wino_block(p, r, 4, vectors);                                             \
        for (; r + 2 <= p->rows; r += 2)                                              \
            wino_block(p, r, 2, vectors);                                             \
        if (r < p->rows)                                                              \
            wino_block(p, r, 1, vectors);                                             \
    }

#if defined(__AVX512F__)
WINO_PANEL_FUNCTION(1, 12)
WINO_PANEL_FUNCTION(2, 12)
WINO_PANEL_FUNCTION(3, 8)
WINO_PANEL_FUNCTION(4, 6)
static void (*const wino_panel[])(const wino_product *) = {wino_panel_1, wino_panel_2, wino_panel_3,
                                                           wino_panel_4};
#else
WINO_PANEL_FUNCTION(1, 8)
WINO_PANEL_FUNCTION(2, 6)
WINO_PANEL_FUNCTION(3, 4)
static void (*const wino_panel[])(const wino_product *) = {wino_panel_1, wino_panel_2,
                                                           wino_panel_3};
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
        wino_panel[vectors - 1](&p);
    }
}
