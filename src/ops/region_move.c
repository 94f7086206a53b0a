// SPDX-License-Identifier: Apache-2.0
// A block is first brought into its simplest form: dimensions in the order in which they are
// written, neighbours that lie alike on both sides merged. Its inner part is then a run that is
// contiguous on both sides, or a matrix that is transposed tile by tile, or single elements.
#include "ops/region_move.h"

#include <stdbool.h>
#include <string.h>

#include "ops/parallel.h"

#if defined(__SSE2__)
#    include <emmintrin.h>
#endif

// Elements of any type are moved as words of their size.
typedef uint16_t word2 __attribute__((may_alias));
typedef uint32_t word4 __attribute__((may_alias));
typedef uint64_t word8 __attribute__((may_alias));

enum { FROM = RUNGI_MOVE_FROM, TO = RUNGI_MOVE_TO };

// Elements of a piece of a run, columns of a tile, and rows that make one task.
enum { PIECE = 16384, TILE = 16, ROWS = 64 };

static void swap(rungi_move *m, int a, int b)
{
    int64_t size = m->size[a], from = m->stride[FROM][a], to = m->stride[TO][a];
    m->size[a] = m->size[b];
    m->stride[FROM][a] = m->stride[FROM][b];
    m->stride[TO][a] = m->stride[TO][b];
    m->size[b] = size;
    m->stride[FROM][b] = from;
    m->stride[TO][b] = to;
}

static void drop(rungi_move *m, int d)
{
    for (; d + 1 < m->rank; d++)
        swap(m, d, d + 1);
    m->rank--;
}

// Does dimension d + 1 go on where one step of dimension d ends?
static bool mergeable(const rungi_move *m, int d)
{
    return m->stride[FROM][d] == m->stride[FROM][d + 1] * m->size[d + 1] &&
           m->stride[TO][d] == m->stride[TO][d + 1] * m->size[d + 1];
}

static void simplify(rungi_move *m)
{
    for (int d = m->rank - 1; d >= 0; d--)
        if (m->size[d] == 1)
            drop(m, d);
    for (int a = 0; a < m->rank; a++)
        for (int b = a + 1; b < m->rank; b++)
            if (m->stride[TO][b] > m->stride[TO][a])
                swap(m, a, b);
    for (int d = m->rank - 2; d >= 0; d--)
        if (mergeable(m, d)) {
            m->size[d + 1] *= m->size[d];
            drop(m, d);
        }
    if (m->rank == 0) {
        m->rank = 1;
        m->size[0] = m->stride[FROM][0] = m->stride[TO][0] = 1;
    }
}

static int64_t elements_of(const rungi_move *m)
{
    int64_t n = 1;
    for (int d = 0; d < m->rank; d++)
        n *= m->size[d];
    return n;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// The work cut into tasks: all steps through the dimensions before the last two, and some steps of
// the last but one.
typedef struct tasks {
    int64_t count, rows, parts;
} tasks;

static tasks tasks_of(const rungi_move *m)
{
    tasks t = {.count = 1, .rows = m->rank > 1 ? m->size[m->rank - 2] : 1};
    for (int d = 0; d < m->rank - 2; d++)
        t.count *= m->size[d];
    t.parts = (t.rows + ROWS - 1) / ROWS;
    t.count *= t.parts;
    return t;
}

// The rows of task i: offset of the first one in elements, the steps from row to row, and how many
// there are.
typedef struct strip {
    int64_t offset[2], step[2], count;
} strip;

static strip strip_of(const rungi_move *m, const tasks *t, int64_t i)
{
    int64_t begin = i % t->parts * ROWS;
    strip r = {.count = least(ROWS, t->rows - begin)};
    i /= t->parts;
    for (int side = 0; side < 2 && m->rank > 1; side++) {
        r.step[side] = m->stride[side][m->rank - 2];
        r.offset[side] = begin * r.step[side];
    }
    for (int d = m->rank - 3; d >= 0; d--) {
        int64_t k = i % m->size[d];
        i /= m->size[d];
        r.offset[FROM] += k * m->stride[FROM][d];
        r.offset[TO] += k * m->stride[TO][d];
    }
    return r;
}

// ---- runs -------------------------------------------------------------------------------------

static void copy_run(const char *from, char *to, size_t bytes)
{
    if (bytes > 128) {
        memcpy(to, from, bytes);
        return;
    }
    size_t i = 0;
    for (; i + 32 <= bytes; i += 32)
        memcpy(to + i, from + i, 32);
    for (; i + 4 <= bytes; i += 4)
        memcpy(to + i, from + i, 4);
    for (; i < bytes; i++)
        to[i] = from[i];
}

// One long run is cut into pieces, which then are its rows.
static void cut_run(rungi_move *m)
{
    if (m->rank > 1 || m->size[0] < 2 * PIECE || m->size[0] % PIECE)
        return;
    m->rank = 2;
    m->size[1] = PIECE;
    m->stride[FROM][1] = m->stride[TO][1] = 1;
    m->size[0] /= PIECE;
    m->stride[FROM][0] = m->stride[TO][0] = PIECE;
}

static void run_rows(rungi_move *m, const char *from, char *to, int threads)
{
    cut_run(m);
    tasks t = tasks_of(m);
    size_t e = m->element, bytes = (size_t)m->size[m->rank - 1] * e;
    RUNGI_PARALLEL_FOR(threads, elements_of(m))
    for (int64_t i = 0; i < t.count; i++) {
        strip r = strip_of(m, &t, i);
        for (int64_t k = 0; k < r.count; k++)
            copy_run(from + (size_t)(r.offset[FROM] + k * r.step[FROM]) * e,
                     to + (size_t)(r.offset[TO] + k * r.step[TO]) * e, bytes);
    }
}

// ---- transposition ----------------------------------------------------------------------------

// to[i * to_stride + j] = from[j * from_stride + i] for i < rows, j < cols.
#define DEFINE_TRANSPOSE(name, type)                                                     \
    static void name(const type *from, int64_t from_stride, type *to, int64_t to_stride, \
                     int64_t rows, int64_t cols)                                         \
    {                                                                                    \
        for (int64_t i = 0; i < rows; i++)                                               \
            for (int64_t j = 0; j < cols; j++)                                           \
                to[i * to_stride + j] = from[j * from_stride + i];                       \
    }
DEFINE_TRANSPOSE(transpose1, uint8_t)
DEFINE_TRANSPOSE(transpose2, word2)
DEFINE_TRANSPOSE(transpose4_part, word4)
DEFINE_TRANSPOSE(transpose8, word8)

static void transpose4(const word4 *from, int64_t from_stride, word4 *to, int64_t to_stride,
                       int64_t rows, int64_t cols)
{
    int64_t i = 0;
#if defined(__SSE2__)
    for (; i + 4 <= rows; i += 4) {
        int64_t j = 0;
        for (; j + 4 <= cols; j += 4) {
            const word4 *at = from + j * from_stride + i;
            __m128 a = _mm_loadu_ps((const float *)at);
            __m128 b = _mm_loadu_ps((const float *)(at + from_stride));
            __m128 c = _mm_loadu_ps((const float *)(at + 2 * from_stride));
            __m128 d = _mm_loadu_ps((const float *)(at + 3 * from_stride));
            _MM_TRANSPOSE4_PS(a, b, c, d);
            word4 *out = to + i * to_stride + j;
            _mm_storeu_ps((float *)out, a);
            _mm_storeu_ps((float *)(out + to_stride), b);
            _mm_storeu_ps((float *)(out + 2 * to_stride), c);
            _mm_storeu_ps((float *)(out + 3 * to_stride), d);
        }
        transpose4_part(from + j * from_stride + i, from_stride, to + i * to_stride + j, to_stride,
                        4, cols - j);
    }
#endif
    transpose4_part(from + i, from_stride, to + i * to_stride, to_stride, rows - i, cols);
}

static void transpose(const rungi_move *m, const char *from, int64_t from_stride, char *to,
                      int64_t to_stride, int64_t rows, int64_t cols)
{
    switch (m->element) {
    case 1:
        transpose1((const uint8_t *)from, from_stride, (uint8_t *)to, to_stride, rows, cols);
        break;
    case 2:
        transpose2((const word2 *)from, from_stride, (word2 *)to, to_stride, rows, cols);
        break;
    case 4:
        transpose4((const word4 *)from, from_stride, (word4 *)to, to_stride, rows, cols);
        break;
    default:
        transpose8((const word8 *)from, from_stride, (word8 *)to, to_stride, rows, cols);
        break;
    }
}

// The last dimension is contiguous where it is written, the one before it where it is read. A tile
// is as long as a strip where it is read, and one cache line where it is written: of several shapes
// the fastest for matrices of powers of two, and as good as others elsewhere.
static void run_tiles(const rungi_move *m, const char *from, char *to, int threads)
{
    tasks t = tasks_of(m);
    int last = m->rank - 1;
    int64_t cols = m->size[last], from_stride = m->stride[FROM][last];
    RUNGI_PARALLEL_FOR(threads, elements_of(m))
    for (int64_t k = 0; k < t.count; k++) {
        strip r = strip_of(m, &t, k);
        for (int64_t j = 0; j < cols; j += TILE)
            transpose(m, from + (size_t)(r.offset[FROM] + j * from_stride) * m->element,
                      from_stride, to + (size_t)(r.offset[TO] + j) * m->element, r.step[TO],
                      r.count, least(TILE, cols - j));
    }
}

// ---- single elements --------------------------------------------------------------------------

// n elements; a step of 0 where they are read repeats one.
static void copy_elements(const char *from, int64_t from_step, char *to, int64_t to_step, int64_t n,
                          size_t element)
{
    if (element == 4 && to_step == 1)
        for (int64_t i = 0; i < n; i++)
            ((word4 *)to)[i] = ((const word4 *)from)[i * from_step];
    else if (element == 4)
        for (int64_t i = 0; i < n; i++)
            ((word4 *)to)[i * to_step] = ((const word4 *)from)[i * from_step];
    else
        for (int64_t i = 0; i < n; i++)
            for (size_t b = 0; b < element; b++)
                to[(size_t)(i * to_step) * element + b] =
                    from[(size_t)(i * from_step) * element + b];
}

static void run_elements(const rungi_move *m, const char *from, char *to, int threads)
{
    tasks t = tasks_of(m);
    int last = m->rank - 1;
    size_t e = m->element;
    RUNGI_PARALLEL_FOR(threads, elements_of(m))
    for (int64_t i = 0; i < t.count; i++) {
        strip r = strip_of(m, &t, i);
        for (int64_t k = 0; k < r.count; k++)
            copy_elements(from + (size_t)(r.offset[FROM] + k * r.step[FROM]) * e,
                          m->stride[FROM][last], to + (size_t)(r.offset[TO] + k * r.step[TO]) * e,
                          m->stride[TO][last], m->size[last], e);
    }
}

void rungi_move_run(const rungi_move *move, const void *from, void *to, int threads)
{
    rungi_move m = *move;
    simplify(&m);
    int last = m.rank - 1;
    if (m.stride[FROM][last] == 1 && m.stride[TO][last] == 1) {
        run_rows(&m, from, to, threads);
        return;
    }
    for (int d = 0; d < last && m.stride[TO][last] == 1; d++)
        if (m.stride[FROM][d] == 1) {
            for (; d + 1 < last; d++)
                swap(&m, d, d + 1);
            run_tiles(&m, from, to, threads);
            return;
        }
    run_elements(&m, from, to, threads);
}

void rungi_move_fill(const rungi_move *move, const void *element, void *to, int threads)
{
    rungi_move m = *move;
    memcpy(m.stride[FROM], m.stride[TO], sizeof m.stride[FROM]);
    simplify(&m);
    memset(m.stride[FROM], 0, sizeof m.stride[FROM]);
    run_elements(&m, element, to, threads);
}
