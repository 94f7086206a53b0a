// SPDX-License-Identifier: Apache-2.0
// The last part of a forward convolution: A^T m A of each tile, and what is fused to it.
//
// Sums by channel are taken of what was just stored, from the first cache: a tile's in float32 in
// registers, then a part's in float32 in memory. The first tile of a part gives the shift.
//
// With pooling each tile of 4x4 pixels becomes 2x2, and the image before it is never stored.
#include "ops/channel_sums.h"
#include "ops/conv2d/conv2d_winograd_transform.h"

// The pixels of a tile that lie inside.
typedef struct wino_tile {
    float *at;
    int64_t row, pixel; // floats from row to row, pixel to pixel
    int rows, cols;
} wino_tile;

// Pixels of y: `size` x `size` of them in a tile.
static wino_tile wino_tile_at(const rungi_wino_image *m, int size, float *y, int64_t tile)
{
    int64_t h = m->h * size / 4, w = m->w * size / 4; // pooled: halves, rounded down
    int64_t per_image = m->rows * m->cols, n = tile / per_image, rest = tile % per_image;
    int64_t top = rest / m->cols * size, left = rest % m->cols * size;
    return (wino_tile){.at = y + ((n * h + top) * w + left) * m->c,
                       .row = w * m->c,
                       .pixel = m->c,
                       .rows = (int)rungi_wino_least(size, h - top),
                       .cols = (int)rungi_wino_least(size, w - left)};
}

// n and `add` are constants where it is inlined for whole vectors.
WINO_INLINE void wino_output_vector(const float *m, int64_t plane, int n, wino_v bias, wino_vi mask,
                                    const bool add, const wino_tile *tile, int64_t o)
{
    const bool whole = n == WINO_LANES && tile->rows == 4 && tile->cols == 4;
#define WINO_FROM(i, j) wino_load(m + ((i)*6 + (j)) * plane)
#define WINO_TO(i, j, v)                                                     \
    do {                                                                     \
        wino_v y_ = (v) + bias;                                              \
        float *to_ = tile->at + (i)*tile->row + (j)*tile->pixel + o;         \
        y_ = wino_relu(y_, mask);                                            \
        if (whole)                                                           \
            wino_store(to_, add ? wino_load(to_) + y_ : y_);                 \
        else if ((i) < tile->rows && (j) < tile->cols)                       \
            wino_store_part(to_, add ? wino_load_part(to_, n) + y_ : y_, n); \
    } while (0)
    WINO_2D(wino_at, 6, 4, WINO_FROM, WINO_TO);
#undef WINO_FROM
#undef WINO_TO
}

// n channels of a tile's stored pixels, at `from`, into the part's sums at `to`. Rows, columns and
// n are constants where it is inlined for whole ones.
WINO_INLINE void wino_sum_pixels(const wino_tile *tile, const float *from, const int rows,
                                 const int cols, const int n, const bool first, float *to)
{
    float *to_1 = to + tile->pixel, *to_2 = to_1 + tile->pixel;
    wino_v s1[2] = {{0}}, s2[2] = {{0}}; // of even and odd columns
    for (int i = 0; first && i < rows; i++)
        for (int j = 0; j < cols; j++)
            s1[j % 2] += wino_load_some(from + i * tile->row + j * tile->pixel, n);
    wino_v shift = (s1[0] + s1[1]) * wino_splat(1.0F / (float)(rows * cols));
    if (first)
        wino_store_some(to, shift, n);
    else
        shift = wino_load_some(to, n);
    s1[0] = s1[1] = (wino_v){0};
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) {
            wino_v d = wino_load_some(from + i * tile->row + j * tile->pixel, n) - shift;
            s1[j % 2] += d;
            s2[j % 2] = wino_madd(d, d, s2[j % 2]);
        }
    s1[0] += s1[1];
    s2[0] += s2[1];
    wino_store_some(to_1, first ? s1[0] : wino_load_some(to_1, n) + s1[0], n);
    wino_store_some(to_2, first ? s2[0] : wino_load_some(to_2, n) + s2[0], n);
}

WINO_INLINE void wino_sum_vector(const wino_tile *tile, int64_t o, int n, bool first, float *sums)
{
    const bool whole = n == WINO_LANES && tile->rows == 4 && tile->cols == 4;
    if (whole && first)
        wino_sum_pixels(tile, tile->at + o, 4, 4, WINO_LANES, true, sums + o);
    else if (whole)
        wino_sum_pixels(tile, tile->at + o, 4, 4, WINO_LANES, false, sums + o);
    else
        wino_sum_pixels(tile, tile->at + o, tile->rows, tile->cols, n, first, sums + o);
}

// A vector of a tile's windows; index (NULL: not wanted) is where the first one's place goes.
WINO_INLINE void wino_pool_vector(const float *m, int64_t plane, int n, wino_v bias, wino_vi mask,
                                  const wino_tile *tile, int64_t o, uint8_t *index)
{
    wino_v y[4][4];
#define WINO_FROM(i, j) wino_load(m + ((i)*6 + (j)) * plane)
#define WINO_TO(i, j, v) y[i][j] = (v) + bias
    WINO_2D(wino_at, 6, 4, WINO_FROM, WINO_TO);
#undef WINO_FROM
#undef WINO_TO
    WINO_UNROLL
    for (int i = 0; i < 2; i++) {
        WINO_UNROLL
        for (int j = 0; j < 2; j++) {
            const wino_v window[4] = {y[2 * i][2 * j], y[2 * i][2 * j + 1], y[2 * i + 1][2 * j],
                                      y[2 * i + 1][2 * j + 1]};
            const int64_t at = i * tile->row + j * tile->pixel + o;
            wino_vi place;
            wino_v best = wino_relu(wino_largest(window, &place), mask);
            if (i >= tile->rows || j >= tile->cols)
                continue;
            if (n == WINO_LANES)
                wino_store(tile->at + at, best);
            else
                wino_store_part(tile->at + at, best, n);
            if (index)
                wino_store_places(index + at, place, n);
        }
    }
}

// Where a tile's part has its sums, and whether it is the first of them; NULL: none are wanted.
typedef struct wino_part {
    float *sums;
    bool first;
} wino_part;

static wino_part wino_part_of(const rungi_wino_image *m, const rungi_wino_store *to, int64_t tile)
{
    int64_t part = tile / RUNGI_WINO_SUMMED;
    return (wino_part){to->sums ? to->sums + part * rungi_channel_sums_part(m->c) : NULL,
                       tile % RUNGI_WINO_SUMMED == 0};
}

static void wino_count(const rungi_wino_store *to, int64_t tile, int pixels)
{
    float *count = to->counts + tile / RUNGI_WINO_SUMMED;
    *count = (tile % RUNGI_WINO_SUMMED ? *count : 0) + (float)pixels;
}

// A tile's outputs [begin, end); `pool` is a constant where it is inlined.
WINO_INLINE void wino_output_tile(const float *from, int64_t plane, int64_t begin, int64_t end,
                                  const rungi_wino_store *to, const bool pool,
                                  const wino_tile *tile, const wino_tile *next,
                                  const wino_part *part)
{
    const wino_vi mask = (to->relu ? -1 : 0) - (wino_vi){0};
    uint8_t *index = to->index ? to->index + (tile->at - (float *)to->y) : NULL;
    for (int64_t o = begin; o < end; o += WINO_LANES, from += WINO_LANES) {
        const int n = (int)rungi_wino_least(WINO_LANES, end - o);
        const wino_v bias = to->bias ? wino_load_some((const float *)to->bias + o, n) : (wino_v){0};
        if (n == WINO_LANES)
            for (int i = 0; i < next->rows; i++)
                for (int j = 0; j < next->cols; j++)
                    __builtin_prefetch(next->at + i * next->row + j * next->pixel + o, 1);
        if (pool && n == WINO_LANES)
            wino_pool_vector(from, plane, WINO_LANES, bias, mask, tile, o, index);
        else if (pool)
            wino_pool_vector(from, plane, n, bias, mask, tile, o, index);
        else if (to->add && n == WINO_LANES)
            wino_output_vector(from, plane, WINO_LANES, bias, mask, true, tile, o);
        else if (n == WINO_LANES)
            wino_output_vector(from, plane, WINO_LANES, bias, mask, false, tile, o);
        else
            wino_output_vector(from, plane, n, bias, mask, to->add, tile, o);
        if (!pool && part->sums)
            wino_sum_vector(tile, o, n, part->first, part->sums);
    }
}

static void wino_output(const rungi_wino_image *image, const float *m, int64_t plane, int64_t width,
                        int64_t first, int64_t count, int64_t begin, int64_t end,
                        const rungi_wino_store *to)
{
    const int size = to->pool ? 2 : 4;
    for (int64_t t = 0; t < count; t++) {
        const wino_tile tile = wino_tile_at(image, size, to->y, first + t);
        const wino_tile next =
            wino_tile_at(image, size, to->y, first + (t + 1 < count ? t + 1 : t));
        const wino_part part = wino_part_of(image, to, first + t);
        if (to->pool)
            wino_output_tile(m + t * width, plane, begin, end, to, true, &tile, &next, &part);
        else
            wino_output_tile(m + t * width, plane, begin, end, to, false, &tile, &next, &part);
        if (to->sums && begin == 0)
            wino_count(to, first + t, tile.rows * tile.cols);
    }
}
