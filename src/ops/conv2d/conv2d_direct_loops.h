// SPDX-License-Identifier: Apache-2.0
// Bodies of rungi_direct_loops (conv2d_direct.h), compiled once per instruction set.
#include "ops/conv2d/conv2d_direct.h"
#include "ops/conv2d/conv2d_winograd_lanes.h"

enum {
    DIRECT_ROWS = 6,  // pixels of a block
    DIRECT_PANEL = 4, // vectors of a panel at most
    DIRECT_K = 256,   // of a run that is done in one go
};

// Panels of nearly equal width: up to 4 vectors with AVX-512, else up to 2.
static int direct_panel_count(int vectors)
{
    int most = WINO_LANES == 16 ? 4 : 2;
    return (vectors + most - 1) / most;
}

static void direct_band(const rungi_direct_band *b, const float *image, float *to)
{
    const size_t pixel = (size_t)b->c * sizeof *to;
    for (int64_t r = 0; r < b->rows; r++, to += b->cols * b->c) {
        int64_t row = b->row + r * b->step;
        if (row < 0 || row >= b->h) {
            memset(to, 0, (size_t)b->cols * pixel);
            continue;
        }
        const float *from = image + row * b->w * b->c;
        if (b->step > 1) {
            for (int64_t j = 0; j < b->cols; j++) {
                int64_t col = b->col + j * b->step;
                if (col >= 0 && col < b->w)
                    memcpy(to + j * b->c, from + col * b->c, pixel);
                else
                    memset(to + j * b->c, 0, pixel);
            }
            continue;
        }
        int64_t left = b->col < 0 ? -b->col : 0, right = b->w - b->col;
        left = left < b->cols ? left : b->cols;
        right = right < b->cols ? right : b->cols;
        right = right > left ? right : left;
        memset(to, 0, (size_t)left * pixel);
        memcpy(to + left * b->c, from + (b->col + left) * b->c, (size_t)(right - left) * pixel);
        memset(to + right * b->c, 0, (size_t)(b->cols - right) * pixel);
    }
}

static void direct_weights(const rungi_direct_taps *t, const rungi_direct_panels *p, int begin,
                           int end, float *to)
{
    for (int i = begin; i < end; i++) {
        int first = rungi_direct_panel_begin(p, i), width = rungi_direct_panel_begin(p, i + 1);
        int64_t o = (int64_t)first * p->lanes, lanes = (int64_t)(width - first) * p->lanes;
        int64_t there = p->outputs - o < lanes ? p->outputs - o : lanes;
        float *panel = to + p->depth * o;
        for (int64_t k = 0; k < t->channels; k++)
            for (int q = 0; q < t->runs * t->cols; q++) {
                const float *from = t->data + o * t->out_stride + k * t->in_stride + t->tap[q];
                float *row = panel + (q * t->channels + k) * lanes;
                for (int64_t l = 0; l < there; l++)
                    row[l] = from[l * t->out_stride];
                for (int64_t l = there; l < lanes; l++)
                    row[l] = 0;
            }
    }
}

// ---- products -----------------------------------------------------------------------------------

// A piece of a run: k floats from `at` on of each window, `b` rows of the panel.
typedef struct direct_piece {
    int64_t at, k;
    const float *b;
    bool first, last; // of the sum
} direct_piece;

// The last vector of the last panel may be narrower.
WINO_INLINE void direct_block(const rungi_direct_product *p, const direct_piece *piece, int64_t o,
                              int64_t pixel, const int rows, const int vectors, const int tail)
{
    wino_v sum[DIRECT_ROWS][DIRECT_PANEL], b[DIRECT_PANEL];
    const float *a[DIRECT_ROWS], *from = piece->b;
    // The windows of the pixels behind these, spread over k.
    const float *ahead = p->band + p->from[pixel + rows] + piece->at;
    WINO_UNROLL
    for (int i = 0; i < rows; i++) {
        float *y = p->y + p->to[pixel + i] + o;
        a[i] = p->band + p->from[pixel + i] + piece->at;
        WINO_UNROLL
        for (int j = 0; j < vectors; j++)
            sum[i][j] = piece->first ? (wino_v){0}
                                     : wino_load_some(y + j * WINO_LANES,
                                                      j == vectors - 1 ? tail : WINO_LANES);
    }
    for (int64_t k = 0; k < piece->k; k++) {
        WINO_UNROLL
        for (int j = 0; j < vectors; j++)
            b[j] = wino_load(from + j * WINO_LANES);
        WINO_UNROLL
        for (int i = 0; i < rows; i++) {
            wino_v one = wino_splat(a[i][k]);
            WINO_UNROLL
            for (int j = 0; j < vectors; j++)
                sum[i][j] = wino_madd(one, b[j], sum[i][j]);
        }
        from += vectors * WINO_LANES;
        __builtin_prefetch(ahead);
        ahead += rows;
    }
    const wino_vi mask = (piece->last && p->relu ? -1 : 0) - (wino_vi){0};
    WINO_UNROLL
    for (int j = 0; j < vectors; j++) {
        int n = j == vectors - 1 ? tail : WINO_LANES;
        wino_v bias =
            piece->last && p->bias ? wino_load_some(p->bias + o + j * WINO_LANES, n) : (wino_v){0};
        WINO_UNROLL
        for (int i = 0; i < rows; i++) {
            wino_v v = sum[i][j];
            if (piece->last)
                v = wino_relu(v + bias, mask);
            wino_store_some(p->y + p->to[pixel + i] + o + j * WINO_LANES, v, n);
        }
    }
}

// All pixels with one piece: blocks of six, then four, two and one.
WINO_INLINE void direct_pixels(const rungi_direct_product *p, const direct_piece *piece, int64_t o,
                               const int vectors, const int tail)
{
    int64_t r = 0;
    for (; r + DIRECT_ROWS <= p->pixels; r += DIRECT_ROWS)
        direct_block(p, piece, o, r, DIRECT_ROWS, vectors, tail);
    for (; r + 4 <= p->pixels; r += 4)
        direct_block(p, piece, o, r, 4, vectors, tail);
    for (; r + 2 <= p->pixels; r += 2)
        direct_block(p, piece, o, r, 2, vectors, tail);
    if (r < p->pixels)
        direct_block(p, piece, o, r, 1, vectors, tail);
}

#define DIRECT_PIXELS(vectors)                                                         \
    static __attribute__((noinline)) void direct_pixels_##vectors(                     \
        const rungi_direct_product *p, const direct_piece *piece, int64_t o, int tail) \
    {                                                                                  \
        if (tail == WINO_LANES)                                                        \
            direct_pixels(p, piece, o, vectors, WINO_LANES);                           \
        else                                                                           \
            direct_pixels(p, piece, o, vectors, tail);                                 \
    }

DIRECT_PIXELS(1)
DIRECT_PIXELS(2)
#if defined(__AVX512F__)
DIRECT_PIXELS(3)
DIRECT_PIXELS(4)
#endif

static void (*const direct_pixels_of[])(const rungi_direct_product *, const direct_piece *, int64_t,
                                        int) = {direct_pixels_1, direct_pixels_2,
#if defined(__AVX512F__)
                                                direct_pixels_3, direct_pixels_4
#endif
};

static void direct_multiply(const rungi_direct_product *p, const rungi_direct_panels *panels)
{
    for (int i = 0; i < panels->count; i++) {
        int begin = rungi_direct_panel_begin(panels, i);
        int vectors = rungi_direct_panel_begin(panels, i + 1) - begin;
        int64_t o = (int64_t)begin * WINO_LANES, rest = panels->outputs - o;
        int tail = rest >= (int64_t)vectors * WINO_LANES ? WINO_LANES
                                                         : (int)(rest - (vectors - 1) * WINO_LANES);
        const float *b = p->panels + panels->depth * o;
        for (int run = 0; run < p->runs; run++)
            for (int64_t k = 0; k < p->k; k += DIRECT_K) {
                int64_t count = p->k - k < DIRECT_K ? p->k - k : DIRECT_K;
                const direct_piece piece = {.at = run * p->row + k,
                                            .k = count,
                                            .b = b + (run * p->k + k) * vectors * WINO_LANES,
                                            .first = run == 0 && k == 0,
                                            .last = run == p->runs - 1 && k + count == p->k};
                direct_pixels_of[vectors - 1](p, &piece, o, tail);
            }
    }
}

// ---- gradient of the weight ---------------------------------------------------------------------

static void direct_gradient(const float *dy, const int64_t *at, int64_t pixels,
                            const rungi_direct_panels *panels, int panel, float *to, double *sums)
{
    int begin = rungi_direct_panel_begin(panels, panel);
    int vectors = rungi_direct_panel_begin(panels, panel + 1) - begin;
    for (int j = 0; j < vectors; j++) {
        int64_t o = (int64_t)(begin + j) * WINO_LANES;
        int n = panels->outputs - o < WINO_LANES ? (int)(panels->outputs - o) : WINO_LANES;
        float lane[WINO_LANES];
        wino_v sum = {0};
        for (int64_t p = 0; p < pixels; p++) {
            wino_v v = wino_load_some(dy + at[p] + o, n);
            sum += v;
            wino_store(to + (p * vectors + j) * WINO_LANES, v);
        }
        wino_store(lane, sum);
        for (int l = 0; sums && l < n; l++)
            sums[o + l] += (double)lane[l];
    }
}

WINO_INLINE void direct_weight_block(const rungi_direct_product *p, const float *band,
                                     const float *z, float *d, int64_t width, bool add,
                                     const int rows, const int vectors)
{
    wino_v sum[DIRECT_ROWS][DIRECT_PANEL], b[DIRECT_PANEL];
    WINO_UNROLL
    for (int i = 0; i < rows; i++) {
        WINO_UNROLL
        for (int j = 0; j < vectors; j++)
            sum[i][j] = add ? wino_load(d + i * width + j * WINO_LANES) : (wino_v){0};
    }
    for (int64_t n = 0; n < p->pixels; n++) {
        const float *a = band + p->from[n];
        __builtin_prefetch(band + p->from[n + RUNGI_DIRECT_AHEAD]);
        WINO_UNROLL
        for (int j = 0; j < vectors; j++)
            b[j] = wino_load(z + j * WINO_LANES);
        WINO_UNROLL
        for (int i = 0; i < rows; i++) {
            wino_v one = wino_splat(a[i]);
            WINO_UNROLL
            for (int j = 0; j < vectors; j++)
                sum[i][j] = wino_madd(one, b[j], sum[i][j]);
        }
        z += vectors * WINO_LANES;
    }
    WINO_UNROLL
    for (int i = 0; i < rows; i++) {
        WINO_UNROLL
        for (int j = 0; j < vectors; j++)
            wino_store(d + i * width + j * WINO_LANES, sum[i][j]);
    }
}

#define DIRECT_WEIGHT(vectors)                                                                     \
    static __attribute__((noinline)) void direct_weight_##vectors(                                 \
        const rungi_direct_product *p, const float *band, const float *z, float *d, int64_t width, \
        bool add)                                                                                  \
    {                                                                                              \
        int64_t m = 0;                                                                             \
        for (; m + DIRECT_ROWS <= p->k; m += DIRECT_ROWS)                                          \
            direct_weight_block(p, band + m, z, d + m * width, width, add, DIRECT_ROWS, vectors);  \
        for (; m + 4 <= p->k; m += 4)                                                              \
            direct_weight_block(p, band + m, z, d + m * width, width, add, 4, vectors);            \
        for (; m + 2 <= p->k; m += 2)                                                              \
            direct_weight_block(p, band + m, z, d + m * width, width, add, 2, vectors);            \
        if (m < p->k)                                                                              \
            direct_weight_block(p, band + m, z, d + m * width, width, add, 1, vectors);            \
    }

DIRECT_WEIGHT(1)
DIRECT_WEIGHT(2)
#if defined(__AVX512F__)
DIRECT_WEIGHT(3)
DIRECT_WEIGHT(4)
#endif

static void (*const direct_weight_of[])(const rungi_direct_product *, const float *, const float *,
                                        float *, int64_t, bool) = {direct_weight_1, direct_weight_2,
#if defined(__AVX512F__)
                                                                   direct_weight_3, direct_weight_4
#endif
};

static void direct_weight(const rungi_direct_product *p, const rungi_direct_panels *panels,
                          int panel, const float *z, float *d, int64_t width, bool add)
{
    int begin = rungi_direct_panel_begin(panels, panel);
    int vectors = rungi_direct_panel_begin(panels, panel + 1) - begin;
    for (int run = 0; run < p->runs; run++)
        direct_weight_of[vectors - 1](p, p->band + run * p->row, z, d + run * p->k * width, width,
                                      add);
}

#define DIRECT_TABLE                                                                         \
    {                                                                                        \
        .lanes = WINO_LANES, .panel_count = direct_panel_count, .band = direct_band,         \
        .weights = direct_weights, .multiply = direct_multiply, .gradient = direct_gradient, \
        .weight = direct_weight,                                                             \
    }
