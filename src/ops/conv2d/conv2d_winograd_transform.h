// SPDX-License-Identifier: Apache-2.0
// The transforms B^T x B, G g G^T, A dy A^T and their transposes A^T m A, G^T d G, for a vector of
// channels at a time.
#include "ops/conv2d/conv2d_winograd.h"
#include "ops/conv2d/conv2d_winograd_lines.h"
#include "ops/conv2d/conv2d_winograd_turn.h"

// Where the pixels of a tile lie: size x size of them, `zeros` for those outside.
static void wino_pixels(const rungi_wino_image *m, const float *x, const float *zeros, int64_t tile,
                        int size, const float **at)
{
    int64_t per_image = m->rows * m->cols, n = tile / per_image, rest = tile % per_image;
    int64_t y = rest / m->cols * 4 - m->pad, left = rest % m->cols * 4 - m->pad;
    const float *image = x + n * m->h * m->w * m->c;
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++) {
            bool inside = y + i >= 0 && y + i < m->h && left + j >= 0 && left + j < m->w;
            at[i * size + j] = inside ? image + ((y + i) * m->w + left + j) * m->c : zeros;
        }
}

// The same of an image whose pixels are gradients of windows of 2x2: where the windows and their
// places lie. Outside it is `zeros` and any place.
static void wino_windows(const rungi_wino_image *m, const rungi_wino_source *x, const float *zeros,
                         int64_t tile, int size, const float **at, const uint8_t **place)
{
    int64_t per_image = m->rows * m->cols, n = tile / per_image, rest = tile % per_image;
    int64_t top = rest / m->cols * 4 - m->pad, left = rest % m->cols * 4 - m->pad;
    int64_t h = m->h / 2, w = m->w / 2;
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++) {
            int64_t y = top + i, z = left + j;
            bool inside = y >= 0 && y < 2 * h && z >= 0 && z < 2 * w;
            int64_t from = inside ? ((n * h + y / 2) * w + z / 2) * m->c : 0;
            at[i * size + j] = inside ? (const float *)x->data + from : zeros;
            place[i * size + j] = x->places + from;
        }
}

// n places; what lies behind them may be read, but not behind `end`.
WINO_INLINE wino_vi wino_load_places(const uint8_t *from, int n, const uint8_t *end)
{
#if defined(__AVX512F__)
    (void)end;
    return (wino_vi)_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8((__mmask16)((1u << n) - 1), from));
#elif defined(__AVX2__)
    uint8_t part[WINO_LANES] = {0};
    if (n < WINO_LANES && end - from < WINO_LANES)
        from = memcpy(part, from, (size_t)n);
    return (wino_vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)from));
#else
    (void)end;
    wino_vi places = {0};
    for (int i = 0; i < n; i++)
        places[i] = from[i];
    return places;
#endif
}

// v where the window's place is `place`, else 0.
WINO_INLINE wino_v wino_where_placed(wino_v v, wino_vi window, int place)
{
    return (wino_v)((wino_vi)v & (window == place));
}

// Asks for a vector of the next tile's pixels while this one's are transformed: tiles lie
// scattered, and their lines come from memory.
WINO_INLINE void wino_prefetch(const float *const *next, int count, int64_t c)
{
    WINO_UNROLL
    for (int i = 0; i < count; i++)
        __builtin_prefetch(next[i] + c);
}

// ---- input ------------------------------------------------------------------------------------

// A tile of 6x6 pixels.
typedef struct wino_input_tile {
    const float *at[36];
    const uint8_t *place[36]; // of windows
} wino_input_tile;

static void wino_find_input(const rungi_wino_image *m, const rungi_wino_source *x,
                            const float *zeros, int64_t tile, wino_input_tile *to)
{
    if (x->places)
        wino_windows(m, x, zeros, tile, 6, to->at, to->place);
    else
        wino_pixels(m, x->data, zeros, tile, 6, to->at);
}

// Channels [c, c + n) of a tile; n and the lines are constants where they are all, `odd` (is the
// first pixel the second of its window?) is one. -1: there are no windows.
WINO_INLINE void wino_input_vector(const wino_input_tile *tile, const uint8_t *end, const int odd,
                                   int64_t c, int n, rungi_wino_lines lines, float *to,
                                   int64_t plane)
{
#define WINO_PLACE(i, j) (((i) + odd) % 2 * 2 + ((j) + odd) % 2)
#define WINO_PIXEL(i, j) wino_load_some(tile->at[(i)*6 + (j)] + c, n)
#define WINO_FROM(i, j)                                                                  \
    (odd < 0 ? WINO_PIXEL(i, j)                                                          \
             : wino_where_placed(WINO_PIXEL(i, j),                                       \
                                 wino_load_places(tile->place[(i)*6 + (j)] + c, n, end), \
                                 WINO_PLACE(i, j)))
#define WINO_TO(i, j, v) wino_store(to + ((i)*6 + (j)) * plane, v)
    WINO_2D_LINES(wino_b, 6, 6, lines.begin, lines.end, WINO_FROM, WINO_TO);
#undef WINO_FROM
#undef WINO_PIXEL
#undef WINO_PLACE
#undef WINO_TO
}

// One tile's channels [begin, end).
WINO_INLINE void wino_input_channels(const wino_input_tile *tile, const wino_input_tile *next,
                                     const uint8_t *places_end, const int odd, int64_t begin,
                                     int64_t end, rungi_wino_lines lines, float *to, int64_t plane)
{
    const bool all = lines.begin == 0 && lines.end == 6;
    int64_t c = begin;
    for (; all && c + WINO_LANES <= end; c += WINO_LANES, to += WINO_LANES) {
        wino_prefetch(next->at + 14, 22, c); // the tile before has the others
        wino_input_vector(tile, places_end, odd, c, WINO_LANES, RUNGI_WINO_ALL, to, plane);
    }
    if (all && c < end)
        wino_input_vector(tile, places_end, odd, c, (int)((uint64_t)(end - c) % WINO_LANES),
                          RUNGI_WINO_ALL, to, plane);
    for (; !all && c < end; c += WINO_LANES, to += WINO_LANES)
        wino_input_vector(tile, places_end, odd, c, (int)rungi_wino_least(WINO_LANES, end - c),
                          lines, to, plane);
}

static void wino_input(const rungi_wino_image *image, const rungi_wino_source *x, const void *zeros,
                       int64_t first, int64_t count, const rungi_wino_rows *rows,
                       rungi_wino_lines lines, float *v)
{
    wino_input_tile tiles[2];
    wino_find_input(image, x, zeros, first, &tiles[0]);
    for (int64_t t = 0; t < count; t++) {
        const wino_input_tile *tile = &tiles[t % 2];
        wino_input_tile *next = &tiles[(t + 1) % 2];
        wino_find_input(image, x, zeros, first + (t + 1 < count ? t + 1 : t), next);
        for (int64_t begin = 0, chunk = 0; begin < image->c; begin += rows->chunk, chunk++) {
            int64_t end = rungi_wino_least(image->c, begin + rows->chunk);
            float *to = v + chunk * RUNGI_WINO_POINTS * rows->plane + t * rows->width;
            if (!x->places)
                wino_input_channels(tile, next, NULL, -1, begin, end, lines, to, rows->plane);
            else if (image->pad % 2)
                wino_input_channels(tile, next, x->places_end, 1, begin, end, lines, to,
                                    rows->plane);
            else
                wino_input_channels(tile, next, x->places_end, 0, begin, end, lines, to,
                                    rows->plane);
        }
    }
}

// ---- gradient of the output -------------------------------------------------------------------

// The tiles of dy, and of the gate or the windows' places where there are any.
typedef struct wino_gradient_tiles {
    const float *dy[16], *gate[16];
    const uint8_t *place[16];
} wino_gradient_tiles;

typedef enum wino_gradient_kind { WINO_PLAIN, WINO_GATED, WINO_PLACED } wino_gradient_kind;

static void wino_find_gradient(const rungi_wino_image *m, const rungi_wino_source *dy,
                               const float *zeros, int64_t tile, wino_gradient_tiles *to)
{
    if (dy->places)
        wino_windows(m, dy, zeros, tile, 4, to->dy, to->place);
    else
        wino_pixels(m, dy->data, zeros, tile, 4, to->dy);
    if (dy->gate)
        wino_pixels(m, dy->gate, zeros, tile, 4, to->gate);
}

// Returns the sum of the pixels.
WINO_INLINE wino_v wino_gradient_vector(const wino_gradient_tiles *tiles,
                                        const wino_gradient_kind kind, const uint8_t *places_end,
                                        int64_t o, int n, rungi_wino_lines lines, float *to,
                                        int64_t plane)
{
    wino_v pixel[16], sum[4];
    WINO_UNROLL
    for (int i = 0; i < 16; i++) {
        pixel[i] = wino_load_some(tiles->dy[i] + o, n);
        if (kind == WINO_GATED)
            pixel[i] = wino_where_positive(wino_load_some(tiles->gate[i] + o, n), pixel[i]);
        if (kind == WINO_PLACED)
            pixel[i] =
                wino_where_placed(pixel[i], wino_load_places(tiles->place[i] + o, n, places_end),
                                  i / 4 % 2 * 2 + i % 2);
    }
    WINO_UNROLL
    for (int i = 0; i < 4; i++)
        sum[i] = (pixel[4 * i] + pixel[4 * i + 1]) + (pixel[4 * i + 2] + pixel[4 * i + 3]);
#define WINO_FROM(i, j) pixel[(i)*4 + (j)]
#define WINO_TO(i, j, v) wino_store(to + ((i)*6 + (j)) * plane, v)
    WINO_2D_LINES(wino_a, 4, 6, lines.begin, lines.end, WINO_FROM, WINO_TO);
#undef WINO_FROM
#undef WINO_TO
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// One tile's vectors of all outputs.
WINO_INLINE void wino_gradient_tile(const wino_gradient_tiles *tiles, const wino_gradient_kind kind,
                                    const uint8_t *places_end, const wino_gradient_tiles *next,
                                    int64_t outputs, const rungi_wino_panels *panels,
                                    int64_t chunk_stride, int64_t row, rungi_wino_lines lines,
                                    float *z, float *sums)
{
    const bool all = lines.begin == 0 && lines.end == 6;
    const int64_t chunk = (int64_t)panels->vectors * WINO_LANES;
    for (int64_t begin = 0; begin < outputs; begin += chunk) {
        int64_t end = rungi_wino_least(outputs, begin + chunk);
        float *to = z + begin / chunk * chunk_stride;
        rungi_wino_panels p = *panels;
        // The last chunk may be narrower.
        p.vectors = (int)((end - begin + WINO_LANES - 1) / WINO_LANES);
        p.count = wino_panel_count(p.vectors);
        for (int64_t o = begin; o < end; o += WINO_LANES) {
            float *place = to + rungi_wino_panel_at(&p, row, (int)((o - begin) / WINO_LANES));
            int n = (int)rungi_wino_least(WINO_LANES, end - o);
            wino_prefetch(next->dy, 16, o);
            if (kind == WINO_GATED)
                wino_prefetch(next->gate, 16, o);
            wino_v sum =
                all && n == WINO_LANES
                    ? wino_gradient_vector(tiles, kind, places_end, o, WINO_LANES, RUNGI_WINO_ALL,
                                           place, p.plane)
                    : wino_gradient_vector(tiles, kind, places_end, o, n, lines, place, p.plane);
            if (sums)
                wino_store(sums + o, wino_load(sums + o) + sum);
        }
    }
}

static void wino_gradient(const rungi_wino_image *image, const rungi_wino_source *dy,
                          const float *zeros, int64_t first, int64_t count,
                          const rungi_wino_panels *panels, int64_t chunk_stride, int64_t row,
                          rungi_wino_lines lines, float *z, float *sums)
{
    wino_gradient_tiles tiles[2];
    wino_find_gradient(image, dy, zeros, first, &tiles[0]);
    for (int64_t t = 0; t < count; t++) {
        const wino_gradient_tiles *now = &tiles[t % 2];
        wino_gradient_tiles *next = &tiles[(t + 1) % 2];
        wino_find_gradient(image, dy, zeros, first + (t + 1 < count ? t + 1 : t), next);
        if (dy->places)
            wino_gradient_tile(now, WINO_PLACED, dy->places_end, next, image->c, panels,
                               chunk_stride, row + t, lines, z, sums);
        else if (dy->gate)
            wino_gradient_tile(now, WINO_GATED, NULL, next, image->c, panels, chunk_stride, row + t,
                               lines, z, sums);
        else
            wino_gradient_tile(now, WINO_PLAIN, NULL, next, image->c, panels, chunk_stride, row + t,
                               lines, z, sums);
    }
}

// ---- weights ----------------------------------------------------------------------------------

// Inputs whose taps are sorted before they are transformed: the vectors are then read well after
// their floats were written.
enum { WINO_TAKE = 16 };

// U of `count` inputs of n outputs from `from` on; rows of `vectors` vectors from `to` on.
WINO_INLINE void wino_weights_take(const rungi_wino_weight *w, const float *from, int n, int count,
                                   int64_t plane, int64_t row, float *to)
{
    float taps[WINO_TAKE][9][WINO_LANES];
    if (w->in_stride == 9)
        wino_turn_in(from, w->out_stride, n, 9 * count, WINO_LANES, &taps[0][0][0]);
    else
        for (int c = 0; c < count; c++)
            wino_turn_in(from + c * w->in_stride, w->out_stride, n, 9, WINO_LANES, taps[c][0]);
    const int last = w->rotated ? 8 : 0, step = w->rotated ? -1 : 1;
    for (int c = 0; c < count; c++) {
#define WINO_FROM(i, j) wino_load(taps[c][last + step * ((i)*3 + (j))])
#define WINO_TO(i, j, v) wino_store(to + c * row + ((i)*6 + (j)) * plane, v)
        WINO_2D(wino_g, 3, 6, WINO_FROM, WINO_TO);
#undef WINO_FROM
#undef WINO_TO
    }
}

static void wino_weights(const rungi_wino_weight *w, int64_t out_begin, int64_t in_begin,
                         int64_t in_end, const rungi_wino_panels *panels, int64_t row, float *u)
{
    for (int j = 0; j < panels->vectors; j++) {
        int64_t o = out_begin + (int64_t)j * WINO_LANES;
        int n = (int)rungi_wino_least(WINO_LANES, w->out - o);
        int64_t step = rungi_wino_panel_at(panels, 1, j) - rungi_wino_panel_at(panels, 0, j);
        for (int64_t c = in_begin; c < in_end; c += WINO_TAKE)
            wino_weights_take(w, (const float *)w->data + o * w->out_stride + c * w->in_stride, n,
                              (int)rungi_wino_least(WINO_TAKE, in_end - c), panels->plane, step,
                              u + rungi_wino_panel_at(panels, row + c - in_begin, j));
    }
}

// ---- gradient of the weight -------------------------------------------------------------------

// Adds parts in a tree: ((0 + 1) + (2 + 3)) + ...
WINO_INLINE wino_v wino_sum_parts(const float *d, int parts, int64_t part)
{
    wino_v sum[RUNGI_WINO_PARTS] = {wino_load(d)};
    for (int i = 1; i < parts; i++)
        sum[i] = wino_load(d + i * part);
    for (int n = parts / 2; n; n /= 2)
        for (int i = 0; i < n; i++)
            sum[i] = sum[2 * i] + sum[2 * i + 1];
    return sum[0];
}

// dg of `count` inputs of n outputs, from `to` on, written (or added) output by output. `parts` is
// a constant.
WINO_INLINE void wino_finish_take(const float *d, int64_t plane, int64_t width, const int parts,
                                  int64_t part, int count, int n, int64_t inputs, bool add,
                                  float *to)
{
    float taps[WINO_TAKE][9][WINO_LANES];
    for (int c = 0; c < count; c++) {
        const float *from = d + c * width;
#define WINO_FROM(i, j) wino_sum_parts(from + ((i)*6 + (j)) * plane, parts, part)
#define WINO_TO(i, j, v) wino_store(taps[c][(i)*3 + (j)], v)
        WINO_2D(wino_gt, 6, 3, WINO_FROM, WINO_TO);
#undef WINO_FROM
#undef WINO_TO
    }
    wino_turn_out(&taps[0][0][0], inputs * 9, n, 9 * count, add, to);
}

#define WINO_FINISH(parts)                                                            \
    static __attribute__((noinline)) void wino_finish_##parts(                        \
        const float *d, int64_t plane, int64_t width, int64_t part, int count, int n, \
        int64_t inputs, bool add, float *to)                                          \
    {                                                                                 \
        wino_finish_take(d, plane, width, parts, part, count, n, inputs, add, to);    \
    }

WINO_FINISH(1)
WINO_FINISH(2)
WINO_FINISH(4)
WINO_FINISH(8)

static void wino_finish(const float *d, int64_t plane, int64_t width, int parts, int64_t part,
                        int64_t in_first, int64_t in_begin, int64_t in_end, int64_t out_begin,
                        int64_t out_end, int64_t inputs, bool add, float *dg)
{
    for (int64_t o = out_begin; o < out_end; o += WINO_LANES) {
        int n = (int)rungi_wino_least(WINO_LANES, out_end - o);
        for (int64_t c = in_begin; c < in_end; c += WINO_TAKE) {
            const float *from = d + (c - in_first) * width + (o - out_begin);
            int count = (int)rungi_wino_least(WINO_TAKE, in_end - c);
            (parts == 1   ? wino_finish_1
             : parts == 2 ? wino_finish_2
             : parts == 4 ? wino_finish_4
                          : wino_finish_8)(from, plane, width, part, count, n, inputs, add,
                                           dg + (o * inputs + c) * 9);
        }
    }
}
