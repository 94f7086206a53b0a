// SPDX-License-Identifier: Apache-2.0
#include "ops/pieces.h"

#include <string.h>

#include "ops/broadcast.h"
#include "ops/parallel.h"
#include "ops/pieces_loops.h"

const rungi_piece_loops rungi_piece_loops_plain = PIECE_TABLE;

// ---- grids ------------------------------------------------------------------------------------

enum { OPERANDS = RUNGI_PIECE_OPERANDS };

// Some of the dimensions with the operands' strides.
typedef struct grid {
    int rank;
    int64_t count;
    int64_t dim[RUNG_MAX_RANK];
    int64_t stride[OPERANDS][RUNG_MAX_RANK];
} grid;

// A place in a grid and the operands' offsets there.
typedef struct place {
    int64_t index[RUNG_MAX_RANK];
    int64_t offset[OPERANDS];
} place;

static place place_at(const grid *g, int64_t i)
{
    place at = {0};
    for (int d = g->rank - 1; d >= 0; d--) {
        at.index[d] = i % g->dim[d];
        i /= g->dim[d];
        for (int k = 0; k < OPERANDS; k++)
            at.offset[k] += at.index[d] * g->stride[k][d];
    }
    return at;
}

static void place_next(const grid *g, place *at)
{
    for (int d = g->rank - 1; d >= 0; d--) {
        bool wraps = ++at->index[d] == g->dim[d];
        for (int k = 0; k < OPERANDS; k++)
            at->offset[k] += g->stride[k][d] * (wraps ? 1 - g->dim[d] : 1);
        if (!wraps)
            return;
        at->index[d] = 0;
    }
}

static void grid_add(grid *g, int64_t dim, const int64_t stride[OPERANDS])
{
    g->dim[g->rank] = dim;
    for (int k = 0; k < OPERANDS; k++)
        g->stride[k][g->rank] = stride[k];
    g->rank++;
    g->count *= dim;
}

// The shape with merged dimensions: the innermost, and those around it that are kept or summed.
typedef struct space {
    int64_t n;          // elements of the innermost dimension
    int step[OPERANDS]; // along it
    bool inner_summed;
    grid kept, summed;
} space;

// The dimensions above 1, neighbours merged where every operand, and what is summed, goes on.
typedef struct merged {
    int rank;
    int64_t dim[RUNG_MAX_RANK];
    int64_t stride[OPERANDS][RUNG_MAX_RANK];
    bool summed[RUNG_MAX_RANK];
} merged;

static merged merge(const rungi_pieces *p, const rung_shape *to)
{
    merged m = {0};
    int64_t strides[OPERANDS][RUNG_MAX_RANK] = {{0}}, target[RUNG_MAX_RANK];
    for (int k = 0; k < OPERANDS; k++)
        if (p->in[k])
            rungi_broadcast_strides(&p->in_shape[k], &p->shape, strides[k]);
    rungi_broadcast_strides(to, &p->shape, target);
    for (int d = 0; d < p->shape.rank; d++) {
        int64_t size = p->shape.dim[d];
        if (size == 1)
            continue;
        bool summed = target[d] == 0, goes_on = m.rank > 0 && m.summed[m.rank - 1] == summed;
        for (int k = 0; goes_on && k < OPERANDS; k++)
            goes_on = m.stride[k][m.rank - 1] == strides[k][d] * size;
        if (!goes_on)
            m.dim[m.rank++] = 1;
        int last = m.rank - 1;
        m.dim[last] *= size;
        m.summed[last] = summed;
        for (int k = 0; k < OPERANDS; k++)
            m.stride[k][last] = strides[k][d];
    }
    return m;
}

static space space_of(const rungi_pieces *p, const rung_shape *to)
{
    merged m = merge(p, to);
    space s = {.n = 1, .kept.count = 1, .summed.count = 1};
    if (m.rank == 0)
        return s;
    for (int d = 0; d < m.rank - 1; d++) {
        int64_t stride[OPERANDS];
        for (int k = 0; k < OPERANDS; k++)
            stride[k] = m.stride[k][d];
        grid_add(m.summed[d] ? &s.summed : &s.kept, m.dim[d], stride);
    }
    s.n = m.dim[m.rank - 1];
    s.inner_summed = m.summed[m.rank - 1];
    for (int k = 0; k < OPERANDS; k++)
        s.step[k] = (int)m.stride[k][m.rank - 1];
    return s;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t parts(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

// The piece of n elements from column `at` on, in the rows where two places are.
static rungi_piece piece_at(const rungi_pieces *p, const space *s, const place *a, const place *b,
                            int64_t at, int64_t n)
{
    rungi_piece piece = {.n = n, .factor = p->factor};
    for (int k = 0; k < OPERANDS; k++) {
        piece.step[k] = s->step[k];
        if (p->in[k])
            piece.in[k] = p->in[k] + a->offset[k] + b->offset[k] + at * s->step[k];
    }
    return piece;
}

// ---- map --------------------------------------------------------------------------------------

enum { TASK = 8192 }; // elements that one thread handles at a time

static void map_rows(const rungi_pieces *p, const space *s, rungi_piece_fn *fn, int64_t row,
                     int64_t rows, int64_t begin, int64_t end, float *out)
{
    const place none = {0};
    place at = place_at(&s->kept, row);
    for (int64_t r = row; r < row + rows; r++) {
        for (int64_t j = begin; j < end; j += RUNGI_PIECE) {
            rungi_piece piece = piece_at(p, s, &at, &none, j, least(RUNGI_PIECE, end - j));
            fn(&piece, out + r * s->n + j);
        }
        place_next(&s->kept, &at);
    }
}

void rungi_pieces_map(const rungi_pieces *p, rung_isa isa, int threads, float *out)
{
    if (rungi_shape_size(&p->shape) == 0)
        return;
    space s = space_of(p, &p->shape);
    rungi_piece_fn *fn = RUNGI_LOOPS_FOR(isa, rungi_piece_loops)->function[p->function];
    int64_t rows = most(1, TASK / s.n), cuts = parts(s.n, TASK);
    int64_t tasks = parts(s.kept.count, rows) * cuts;
    RUNGI_PARALLEL_FOR(threads, s.kept.count * s.n)
    for (int64_t t = 0; t < tasks; t++) {
        int64_t row = t / cuts * rows, begin = t % cuts * TASK;
        map_rows(p, &s, fn, row, least(rows, s.kept.count - row), begin, least(s.n, begin + TASK),
                 out);
    }
}

// ---- sum --------------------------------------------------------------------------------------

// How a sum is cut. Each of `outputs` is the sum of `items`, which are cut into `blocks`.
typedef struct cuts {
    int64_t items;   // pieces when the innermost dimension is summed, else rows
    int64_t columns; // pieces of the innermost dimension when it is kept, else 1
    int64_t outputs;
    int64_t blocks;
} cuts;

static cuts cuts_of(const space *s)
{
    int64_t pieces = parts(s->n, RUNGI_PIECE);
    cuts c = {.items = s->summed.count, .columns = 1, .outputs = s->kept.count, .blocks = 1};
    if (s->inner_summed) {
        c.items *= pieces;
    } else {
        c.columns = pieces;
        c.outputs *= s->n;
    }
    if (s->kept.count * s->summed.count * s->n == 0)
        return c;
    int64_t tasks = s->kept.count * c.columns, elements = s->kept.count * s->summed.count * s->n;
    int64_t wanted = parts(32, tasks), useful = elements / tasks / (2 * TASK);
    c.blocks = most(1, least(c.items, least(wanted, useful)));
    return c;
}

size_t rungi_pieces_sum_workspace(const rungi_pieces *p, const rung_shape *to)
{
    space s = space_of(p, to);
    cuts c = cuts_of(&s);
    return c.blocks == 1 ? 0 : (size_t)(c.blocks * c.outputs) * sizeof(double);
}

typedef struct summing {
    const rungi_pieces *p;
    const rungi_piece_loops *loops;
    space s;
    cuts c;
    double *partial; // [blocks][outputs]; unused when there is one block
    double scale;
    float *out;
} summing;

static void put(const summing *u, int64_t output, int64_t block, double sum)
{
    if (u->c.blocks == 1)
        u->out[output] = (float)(sum * u->scale);
    else
        u->partial[block * u->c.outputs + output] = sum;
}

// The terms of a piece: where they lie, or computed into the buffer.
static const float *terms_of(const summing *u, const rungi_piece *piece, float *buffer)
{
    if (u->p->function == RUNGI_PIECE_IN0)
        return piece->in[0];
    u->loops->function[u->p->function](piece, buffer);
    return buffer;
}

// Pieces of the innermost dimension, which is summed: one number.
static void sum_pieces(const summing *u, int64_t output, int64_t block)
{
    const space *s = &u->s;
    int64_t pieces = most(1, parts(s->n, RUNGI_PIECE));
    int64_t begin = u->c.items * block / u->c.blocks, end = u->c.items * (block + 1) / u->c.blocks;
    place kept = place_at(&s->kept, output), at = place_at(&s->summed, begin / pieces);
    float buffer[RUNGI_PIECE];
    double sum = 0;
    for (int64_t i = begin; i < end; i++) {
        int64_t j = i % pieces * RUNGI_PIECE;
        rungi_piece piece = piece_at(u->p, s, &kept, &at, j, least(RUNGI_PIECE, s->n - j));
        sum += (double)u->loops->sum(terms_of(u, &piece, buffer), piece.n);
        if (j + piece.n == s->n)
            place_next(&s->summed, &at);
    }
    put(u, output, block, sum);
}

enum { NARROW = 32 }; // rows that are added in float32 before their sum is added in float64

// Rows of a piece of the innermost dimension, which is kept: as many numbers.
static void sum_columns(const summing *u, int64_t row, int64_t column, int64_t block)
{
    const space *s = &u->s;
    int64_t begin = u->c.items * block / u->c.blocks, end = u->c.items * (block + 1) / u->c.blocks;
    int64_t j = column * RUNGI_PIECE, n = least(RUNGI_PIECE, s->n - j);
    place kept = place_at(&s->kept, row), at = place_at(&s->summed, begin);
    float buffer[RUNGI_PIECE], narrow[RUNGI_PIECE];
    double wide[RUNGI_PIECE];
    memset(narrow, 0, (size_t)n * sizeof *narrow);
    memset(wide, 0, (size_t)n * sizeof *wide);
    for (int64_t i = begin; i < end; i++) {
        rungi_piece piece = piece_at(u->p, s, &kept, &at, j, n);
        u->loops->add(terms_of(u, &piece, buffer), narrow, n);
        if ((i - begin) % NARROW == NARROW - 1 || i == end - 1)
            u->loops->widen(narrow, wide, n);
        place_next(&s->summed, &at);
    }
    for (int64_t i = 0; i < n; i++)
        put(u, row * s->n + j + i, block, wide[i]);
}

void rungi_pieces_sum(const rungi_pieces *p, const rung_shape *to, double scale, rung_isa isa,
                      int threads, void *workspace, float *out)
{
    summing u = {.p = p, .s = space_of(p, to), .partial = workspace, .scale = scale, .out = out};
    u.loops = RUNGI_LOOPS_FOR(isa, rungi_piece_loops);
    u.c = cuts_of(&u.s);
    const cuts c = u.c;
    int64_t tasks = u.s.kept.count * c.columns * c.blocks;
    RUNGI_PARALLEL_FOR(threads, rungi_shape_size(&p->shape))
    for (int64_t t = 0; t < tasks; t++) {
        int64_t row = t / (c.columns * c.blocks), rest = t % (c.columns * c.blocks);
        if (u.s.inner_summed)
            sum_pieces(&u, row, rest);
        else
            sum_columns(&u, row, rest / c.blocks, rest % c.blocks);
    }
    for (int64_t o = 0; c.blocks > 1 && o < c.outputs; o++) {
        double sum = 0;
        for (int64_t b = 0; b < c.blocks; b++)
            sum += u.partial[b * c.outputs + o];
        out[o] = (float)(sum * scale);
    }
}
