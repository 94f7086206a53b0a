// SPDX-License-Identifier: Apache-2.0
// Compiled once per instruction set: see linear_tiles.h.
#include "ops/conv2d/conv2d_winograd_lanes.h"
#include "ops/conv2d/conv2d_winograd_turn.h"
#include "ops/linear/linear_tiles.h"

enum {
    TILE_LINE = 16, // floats
    TILE_ROWS = 12, // of the largest tile
#if defined(__AVX512F__)
    TILE_VECTORS = 4,
#else
    TILE_VECTORS = 2,
#endif
};

// Rows of a tile that leave registers for the panel and a factor.
WINO_INLINE int tile_most_rows(int vectors)
{
    return vectors * 12 <= 6 * TILE_VECTORS ? 12 : 6;
}

// What is asked for while a block of rows is done.
typedef struct tile_ahead {
    const float *at;
    int rows;
} tile_ahead;

WINO_INLINE void tile_ask(const rungi_linear_tile *t, const tile_ahead *ahead, int64_t k)
{
    const float *at = ahead->at + k / TILE_LINE * t->ahead_next;
    for (int i = 0; i < ahead->rows; i++)
        for (int l = 0; l < t->ahead_lines; l++)
            __builtin_prefetch(at + i * t->ahead_row + l * TILE_LINE, 0, 2);
}

// Rows [r, r + rows); `rows`, `vectors` and `packs` are constants where it is inlined.
WINO_INLINE void tile_block(const rungi_linear_tile *t, int64_t r, const int rows,
                            const int vectors, const bool packs, const tile_ahead *ahead)
{
    wino_v sum[TILE_ROWS][TILE_VECTORS], b[TILE_VECTORS];
    const int64_t a_row = t->a_row, step = packs ? t->from_row : vectors * WINO_LANES;
    const float *a = t->a + r * a_row, *from = packs ? t->from : t->b;
    float *c = t->c + r * t->c_row, *to = t->b;
    WINO_UNROLL
    for (int i = 0; i < rows; i++) {
        WINO_UNROLL
        for (int j = 0; j < vectors; j++)
            sum[i][j] = t->add ? wino_load(c + i * t->c_row + j * WINO_LANES) : (wino_v){0};
    }
    for (int64_t begin = 0; begin < t->k; begin += TILE_LINE) {
        int64_t end = begin + TILE_LINE < t->k ? begin + TILE_LINE : t->k;
        tile_ask(t, ahead, begin);
        for (int64_t k = begin; k < end; k++) {
            WINO_UNROLL
            for (int j = 0; j < vectors; j++)
                b[j] = wino_load(from + j * WINO_LANES);
            if (packs) {
                WINO_UNROLL
                for (int j = 0; j < vectors; j++)
                    wino_store(to + j * WINO_LANES, b[j]);
                to += vectors * WINO_LANES;
            }
            WINO_UNROLL
            for (int i = 0; i < rows; i++) {
                wino_v one = wino_splat(a[i * a_row]);
                WINO_UNROLL
                for (int j = 0; j < vectors; j++)
                    sum[i][j] = wino_madd(one, b[j], sum[i][j]);
            }
            a++;
            from += step;
        }
    }
    WINO_UNROLL
    for (int i = 0; i < rows; i++) {
        WINO_UNROLL
        for (int j = 0; j < vectors; j++)
            wino_store(c + i * t->c_row + j * WINO_LANES, sum[i][j]);
    }
}

typedef void tile_fn(const rungi_linear_tile *t, int64_t r, const tile_ahead *ahead);

#define TILE_FUNCTION(rows, vectors)                                     \
    static __attribute__((noinline)) void tile_##vectors##_##rows(       \
        const rungi_linear_tile *t, int64_t r, const tile_ahead *ahead)  \
    {                                                                    \
        tile_block(t, r, rows, vectors, false, ahead);                   \
    }                                                                    \
    static __attribute__((noinline)) void tile_packs_##vectors##_##rows( \
        const rungi_linear_tile *t, int64_t r, const tile_ahead *ahead)  \
    {                                                                    \
        tile_block(t, r, rows, vectors, true, ahead);                    \
    }
#define TILE_SIX(vectors)     \
    TILE_FUNCTION(1, vectors) \
    TILE_FUNCTION(2, vectors) \
    TILE_FUNCTION(3, vectors) \
    TILE_FUNCTION(4, vectors) \
    TILE_FUNCTION(5, vectors) \
    TILE_FUNCTION(6, vectors)
#define TILE_TWELVE(vectors)   \
    TILE_SIX(vectors)          \
    TILE_FUNCTION(7, vectors)  \
    TILE_FUNCTION(8, vectors)  \
    TILE_FUNCTION(9, vectors)  \
    TILE_FUNCTION(10, vectors) \
    TILE_FUNCTION(11, vectors) \
    TILE_FUNCTION(12, vectors)
#define TILE_SIX_OF(name)                                          \
    {                                                              \
        name##_1, name##_2, name##_3, name##_4, name##_5, name##_6 \
    }
#define TILE_TWELVE_OF(name)                                                                      \
    {                                                                                             \
        name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7, name##_8, name##_9, \
            name##_10, name##_11, name##_12                                                       \
    }

TILE_TWELVE(1)
#if defined(__AVX512F__)
TILE_TWELVE(2)
TILE_SIX(3)
TILE_SIX(4)
static tile_fn *const tile_table[2][TILE_VECTORS][TILE_ROWS] = {
    {TILE_TWELVE_OF(tile_1), TILE_TWELVE_OF(tile_2), TILE_SIX_OF(tile_3), TILE_SIX_OF(tile_4)},
    {TILE_TWELVE_OF(tile_packs_1), TILE_TWELVE_OF(tile_packs_2), TILE_SIX_OF(tile_packs_3),
     TILE_SIX_OF(tile_packs_4)}};
#else
TILE_SIX(2)
static tile_fn *const tile_table[2][TILE_VECTORS][TILE_ROWS] = {
    {TILE_TWELVE_OF(tile_1), TILE_SIX_OF(tile_2)},
    {TILE_TWELVE_OF(tile_packs_1), TILE_SIX_OF(tile_packs_2)}};
#endif

static void linear_tile(const rungi_linear_tile *t)
{
    int64_t most = tile_most_rows(t->vectors), blocks = (t->rows + most - 1) / most;
    for (int64_t i = 0; i < blocks; i++) {
        int64_t r = t->rows * i / blocks, end = t->rows * (i + 1) / blocks;
        int64_t begin = t->ahead_rows * i / blocks;
        const tile_ahead ahead = {t->ahead + begin * t->ahead_row,
                                  (int)(t->ahead_rows * (i + 1) / blocks - begin)};
        tile_table[t->from && i == 0][t->vectors - 1][end - r - 1](t, r, &ahead);
    }
}

static void linear_turn(const float *from, int64_t stride, int n, int64_t count, float *to,
                        int64_t step)
{
    wino_turn_in(from, stride, n, (int)count, step, to);
}

#define LINEAR_TILE_TABLE                                                                    \
    {                                                                                        \
        .lanes = WINO_LANES, .most = TILE_VECTORS, .tile = linear_tile, .turn = linear_turn, \
    }
