// SPDX-License-Identifier: Apache-2.0
// The Winograd loops of bf16, compiled once per instruction set for tiles of 2x2 and of 4x4: `tile`
// is a constant wherever it is passed on.
#include "ops/conv2d/conv2d_winograd_half.h"
#include "ops/conv2d/conv2d_winograd_half_lanes.h"
#include "ops/conv2d/conv2d_winograd_lines.h"
#include "ops/conv2d/conv2d_winograd_turn.h"
//
#include "ops/conv2d/conv2d_winograd_gemm.h"

// ---- input --------------------------------------------------------------------------------------

// Where the pixels of an input tile lie, row by row; `zeros` for those outside.
WINO_INLINE void wino_half_find(const int tile, const rungi_wino_image *m, const wino_half *x,
                                const wino_half *zeros, int64_t which, const wino_half **at)
{
    int64_t per_image = m->rows * m->cols, n = which / per_image, rest = which % per_image;
    int64_t top = rest / m->cols * tile - m->pad, left = rest % m->cols * tile - m->pad;
    for (int64_t y = top; y < top + tile + 2; y++) {
        bool inside = y >= 0 && y < m->h;
        for (int64_t z = left; z < left + tile + 2; z++)
            *at++ = inside && z >= 0 && z < m->w ? x + ((n * m->h + y) * m->w + z) * m->c : zeros;
    }
}

// Asks for the line of channel c of a tile's pixels, once: a line has 32 of them.
WINO_INLINE void wino_half_prefetch(const wino_half *const *at, int count, int64_t c)
{
    if (c % 32)
        return;
    WINO_UNROLL
    for (int i = 0; i < count; i++)
        __builtin_prefetch(at[i] + c);
}

// Channels [c, c + n) of a tile; n is a constant where it is all lanes.
WINO_INLINE void wino_half_input_vector(const int tile, const wino_half *const *at, int64_t c,
                                        int n, wino_word *to, int64_t plane)
{
#define WINO_FROM(i, j) wino_widen(wino_halves_load(at[(i) * (tile + 2) + (j)] + c, n))
#define WINO_TO(i, j, v) \
    wino_halves_store(to + ((i) * (tile + 2) + (j)) * plane, wino_narrow(v), WINO_LANES)
    if (tile == 2)
        WINO_2D(wino_b2, 4, 4, WINO_FROM, WINO_TO);
    else
        WINO_2D(wino_b, 6, 6, WINO_FROM, WINO_TO);
#undef WINO_FROM
#undef WINO_TO
}

WINO_INLINE void wino_half_input(const int tile, const rungi_wino_image *image,
                                 const rungi_wino_source *x, const void *zeros, int64_t first,
                                 int64_t count, const rungi_wino_rows *rows, float *v)
{
    const int points = (tile + 2) * (tile + 2);
    const wino_half *tiles[2][RUNGI_WINO_POINTS];
    wino_half_find(tile, image, x->data, zeros, first, tiles[0]);
    for (int64_t t = 0; t < count; t++) {
        const wino_half **at = tiles[t % 2], **next = tiles[(t + 1) % 2];
        wino_half_find(tile, image, x->data, zeros, first + (t + 1 < count ? t + 1 : t), next);
        for (int64_t c = 0, chunk = 0; c < image->c; chunk++) {
            int64_t end = rungi_wino_least(image->c, c + rows->chunk);
            wino_word *to = (wino_word *)v + chunk * points * rows->plane + t * rows->width;
            for (; c + WINO_LANES <= end; c += WINO_LANES, to += WINO_LANES / 2) {
                wino_half_prefetch(next, points, c);
                wino_half_input_vector(tile, at, c, WINO_LANES, to, rows->plane);
            }
            if (c < end)
                wino_half_input_vector(tile, at, c, (int)(end - c), to, rows->plane);
            c = end;
        }
    }
}

// ---- weights ------------------------------------------------------------------------------------

// Inputs that are transformed together: an even number, and no fewer than lanes.
enum { WINO_HALF_TAKE = 16 };

// `count` inputs of n outputs as float32, tap by tap, zeros for outputs that are not there: taps
// lie together output by output or, where the weight is rotated, input by input.
static void wino_half_taps(const rungi_wino_weight *w, const wino_half *from, int n, int count,
                           float taps[WINO_HALF_TAKE][9][WINO_LANES])
{
    enum { LONGEST = 9 * WINO_HALF_TAKE };
    float wide[WINO_HALF_TAKE][LONGEST];
    const bool by_output = w->in_stride == 9;
    const int runs = by_output ? n : count, length = 9 * (by_output ? count : n);
    const int64_t stride = by_output ? w->out_stride : w->in_stride;
    for (int r = 0; r < runs; r++)
        for (int k = 0; k < length; k += WINO_LANES) {
            int some = length - k < WINO_LANES ? length - k : WINO_LANES;
            wino_store_some(wide[r] + k, wino_widen(wino_halves_load(from + r * stride + k, some)),
                            some);
        }
    if (by_output)
        wino_turn_in(wide[0], LONGEST, n, 9 * count, WINO_LANES, taps[0][0]);
    else
        for (int c = 0; c < count; c++)
            wino_turn_in(wide[c], 9, n, 9, WINO_LANES, taps[c][0]);
}

// Points of one input.
WINO_INLINE void wino_half_points(const int tile, const rungi_wino_weight *w, const float *taps,
                                  wino_v u[RUNGI_WINO_POINTS])
{
    const int last = w->rotated ? 8 : 0, step = w->rotated ? -1 : 1;
#define WINO_FROM(i, j) wino_load(taps + (last + step * ((i)*3 + (j))) * WINO_LANES)
#define WINO_TO(i, j, v) u[(i) * (tile + 2) + (j)] = (v)
    if (tile == 2)
        WINO_2D(wino_g2, 3, 4, WINO_FROM, WINO_TO);
    else
        WINO_2D(wino_g, 3, 6, WINO_FROM, WINO_TO);
#undef WINO_FROM
#undef WINO_TO
}

WINO_INLINE void wino_half_weights(const int tile, const rungi_wino_weight *w, int64_t out_begin,
                                   int64_t in_begin, int64_t in_end,
                                   const rungi_wino_panels *panels, int64_t row, float *u)
{
    float taps[WINO_HALF_TAKE][9][WINO_LANES];
    wino_v first[RUNGI_WINO_POINTS], second[RUNGI_WINO_POINTS];
    for (int j = 0; j < panels->vectors; j++) {
        int64_t o = out_begin + (int64_t)j * WINO_LANES;
        int n = (int)rungi_wino_least(WINO_LANES, w->out - o);
        for (int64_t c = in_begin; c < in_end; c += WINO_HALF_TAKE) {
            int count = (int)rungi_wino_least(WINO_HALF_TAKE, in_end - c);
            wino_half_taps(w, (const wino_half *)w->data + o * w->out_stride + c * w->in_stride, n,
                           count, taps);
            if (count % 2)
                memset(taps[count], 0, sizeof taps[count]);
            for (int i = 0; i < count; i += 2) {
                int64_t at = rungi_wino_panel_at(panels, row + (c - in_begin + i) / 2, j);
                wino_half_points(tile, w, taps[i][0], first);
                wino_half_points(tile, w, taps[i + 1][0], second);
                for (int k = 0; k < (tile + 2) * (tile + 2); k++)
                    wino_words_store((wino_word *)u + at + k * panels->plane,
                                     wino_words_of(first[k], second[k]));
            }
        }
    }
}

// ---- output -------------------------------------------------------------------------------------

// The pixels of y that a tile gives.
typedef struct wino_half_tile {
    wino_half *at;
    int64_t row, pixel; // elements from row to row, pixel to pixel
    int rows, cols;     // that lie inside
} wino_half_tile;

// `side` x `side` of them: the tile's, or with pooling half as many.
static wino_half_tile wino_half_tile_at(const rungi_wino_image *m, int tile, int side, wino_half *y,
                                        int64_t which)
{
    int64_t h = m->h * side / tile, w = m->w * side / tile; // pooled: rounded down
    int64_t per_image = m->rows * m->cols, n = which / per_image, rest = which % per_image;
    int64_t top = rest / m->cols * side, left = rest % m->cols * side;
    return (wino_half_tile){.at = y + ((n * h + top) * w + left) * m->c,
                            .row = w * m->c,
                            .pixel = m->c,
                            .rows = (int)rungi_wino_least(side, h - top),
                            .cols = (int)rungi_wino_least(side, w - left)};
}

// Outputs [o, o + n) of a tile; rows, cols and n are constants where they are all. A window's
// places (places NULL: not wanted) are those of the stored values.
WINO_INLINE void wino_half_output_vector(const int tile, const bool pool, const float *m,
                                         int64_t plane, const wino_half_tile *to, const int rows,
                                         const int cols, int64_t o, const int n, wino_v bias,
                                         wino_vi relu, uint8_t *places)
{
    const int side = pool ? tile / 2 : tile;
    wino_v y[4][4];
#define WINO_FROM(i, j) wino_load(m + ((i) * (tile + 2) + (j)) * plane)
#define WINO_TO(i, j, v) y[i][j] = (v) + bias
    if (tile == 2)
        WINO_2D(wino_at2, 4, 2, WINO_FROM, WINO_TO);
    else
        WINO_2D(wino_at, 6, 4, WINO_FROM, WINO_TO);
#undef WINO_FROM
#undef WINO_TO
    WINO_UNROLL
    for (int i = 0; i < side; i++) {
        WINO_UNROLL
        for (int j = 0; j < side; j++) {
            const int64_t at = i * to->row + j * to->pixel + o;
            wino_v value = y[i][j];
            if (i >= rows || j >= cols)
                continue;
            if (pool) {
                wino_v window[4];
                wino_vi place;
                WINO_UNROLL
                for (int k = 0; k < 4; k++)
                    window[k] = wino_widen(wino_narrow(y[2 * i + k / 2][2 * j + k % 2]));
                value = wino_largest(window, &place);
                if (places)
                    wino_store_places(places + at, place, n);
            }
            wino_halves_store(to->at + at, wino_narrow(wino_relu(value, relu)), n);
        }
    }
}

WINO_INLINE void wino_half_output(const int tile, const bool pool, const rungi_wino_image *image,
                                  const float *m, int64_t plane, int64_t width, int64_t first,
                                  int64_t count, int64_t begin, int64_t end,
                                  const rungi_wino_store *to)
{
    const int side = pool ? tile / 2 : tile;
    const wino_vi relu = (to->relu ? -1 : 0) - (wino_vi){0};
    for (int64_t t = 0; t < count; t++) {
        const wino_half_tile place = wino_half_tile_at(image, tile, side, to->y, first + t);
        const wino_half_tile next =
            wino_half_tile_at(image, tile, side, to->y, first + (t + 1 < count ? t + 1 : t));
        const bool whole = place.rows == side && place.cols == side;
        uint8_t *places = to->index ? to->index + (place.at - (wino_half *)to->y) : NULL;
        const float *from = m + t * width;
        for (int64_t o = begin; o < end; o += WINO_LANES, from += WINO_LANES) {
            const int n = (int)rungi_wino_least(WINO_LANES, end - o);
            const wino_half *bias = to->bias;
            const wino_v add = bias ? wino_widen(wino_halves_load(bias + o, n)) : (wino_v){0};
            if ((o - begin) % 32 == 0)
                for (int i = 0; i < next.rows; i++)
                    for (int j = 0; j < next.cols; j++)
                        __builtin_prefetch(next.at + i * next.row + j * next.pixel + o, 1);
            if (whole && n == WINO_LANES)
                wino_half_output_vector(tile, pool, from, plane, &place, side, side, o, WINO_LANES,
                                        add, relu, places);
            else
                wino_half_output_vector(tile, pool, from, plane, &place, place.rows, place.cols, o,
                                        n, add, relu, places);
        }
    }
}

// ---- tables -------------------------------------------------------------------------------------

#define WINO_HALF_FUNCTIONS(tile)                                                                 \
    static void wino_half_input_##tile(const rungi_wino_image *image, const rungi_wino_source *x, \
                                       const void *zeros, int64_t first, int64_t count,           \
                                       const rungi_wino_rows *rows, rungi_wino_lines lines,       \
                                       float *v)                                                  \
    {                                                                                             \
        (void)lines; /* all */                                                                    \
        wino_half_input(tile, image, x, zeros, first, count, rows, v);                            \
    }                                                                                             \
    static void wino_half_weights_##tile(const rungi_wino_weight *weight, int64_t out_begin,      \
                                         int64_t in_begin, int64_t in_end,                        \
                                         const rungi_wino_panels *panels, int64_t row, float *u)  \
    {                                                                                             \
        wino_half_weights(tile, weight, out_begin, in_begin, in_end, panels, row, u);             \
    }                                                                                             \
    static void wino_half_output_##tile(                                                          \
        const rungi_wino_image *image, const float *m, int64_t plane, int64_t width,              \
        int64_t first, int64_t count, int64_t begin, int64_t end, const rungi_wino_store *to)     \
    {                                                                                             \
        if (to->pool)                                                                             \
            wino_half_output(tile, true, image, m, plane, width, first, count, begin, end, to);   \
        else                                                                                      \
            wino_half_output(tile, false, image, m, plane, width, first, count, begin, end, to);  \
    }

WINO_HALF_FUNCTIONS(2)
WINO_HALF_FUNCTIONS(4)

#define WINO_HALF_LOOPS(size)                                                       \
    {                                                                               \
        .lanes = WINO_LANES, .tile = (size), .pack = 2, .halves = WINO_LANES == 16, \
        .panel_count = wino_panel_count, .input = wino_half_input_##size,           \
        .weights = wino_half_weights_##size, .multiply = wino_multiply,             \
        .output = wino_half_output_##size,                                          \
    }
#define WINO_HALF_TABLE                         \
    {                                           \
        WINO_HALF_LOOPS(2), WINO_HALF_LOOPS(4), \
    }
