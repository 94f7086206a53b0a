// SPDX-License-Identifier: Apache-2.0
// Forward: see linear_packed.h.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ops/linear/linear_packed.h"
#include "ops/parallel.h"
#include "ops/unary.h"

enum {
    OUTPUTS = 12, // rows of w that are taken together
    KEPT = 256,   // outputs whose products with GROUP rows of x are kept
    GROUP = 256,
};

typedef struct packed_space {
    float *panels; // of all of x, in blocks of RUNGI_PACKED_COLUMNS rows
    float *out;    // for each thread
    int64_t panels_size, out_size;
} packed_space;

static packed_space take_space(const rungi_packed_plan *p, rungi_wino_space *space)
{
    int64_t columns = rungi_packed_parts(rungi_wino_least(GROUP, p->s.rows), RUNGI_PACKED_COLUMNS);
    packed_space s = {.panels_size = p->s.in * p->width,
                      .out_size = rungi_wino_least(KEPT, p->s.out) * columns * p->width};
    s.panels =
        rungi_wino_take(space, s.panels_size * rungi_packed_parts(p->s.rows, RUNGI_PACKED_COLUMNS));
    s.out = rungi_wino_take(space, s.out_size * p->threads);
    return s;
}

typedef struct forward_work {
    const rungi_packed_plan *p;
    packed_space s;
    const float *x, *w, *bias;
    float *y;
} forward_work;

// Inputs [begin, end) of all rows of x, into the panels that have rows as columns.
static void pack_rows(const forward_work *f, int64_t begin, int64_t end)
{
    const rungi_packed_plan *p = f->p;
    const int64_t lanes = p->tiles->lanes;
    for (int64_t r = 0; r < p->s.rows; r += lanes) {
        int64_t block = r / RUNGI_PACKED_COLUMNS,
                columns = rungi_wino_least(RUNGI_PACKED_COLUMNS,
                                           p->s.rows - block * RUNGI_PACKED_COLUMNS);
        int vector = (int)(r % RUNGI_PACKED_COLUMNS / lanes), i = vector / p->tiles->most;
        int64_t first = (int64_t)i * p->tiles->most,
                step = rungi_packed_vectors(p, columns, i) * lanes;
        float *panel = f->s.panels + block * f->s.panels_size + first * lanes * p->s.in;
        p->tiles->turn(f->x + r * p->s.in + begin, p->s.in,
                       (int)rungi_wino_least(lanes, p->s.rows - r), end - begin,
                       panel + begin * step + (vector - first) * lanes, step);
    }
}

// y of outputs [o, o + n) and rows [r, r + rows) from out[n][rows], whose rows are `width` wide.
static void store_transposed(const forward_work *f, const float *out, int64_t width, int64_t o,
                             int64_t n, int64_t r, int64_t rows)
{
    const rungi_linear_tile_loops *tiles = f->p->tiles;
    const int64_t whole = n / tiles->lanes * tiles->lanes, step = f->p->s.out;
    float *y = f->y + r * step + o;
    for (int64_t j = 0; j < whole; j += tiles->lanes)
        tiles->turn(out + j * width, width, tiles->lanes, rows, y + j, step);
    for (int64_t i = 0; i < rows; i++, y += step) {
        for (int64_t j = whole; j < n; j++)
            y[j] = out[j * width + i];
        for (int64_t j = 0; j < n && f->bias; j++)
            y[j] += f->bias[o + j];
    }
}

// A block of the sum for some outputs of w, and rows of x.
typedef struct forward_block {
    const float *w, *next; // the outputs' rows; what follows them
    int64_t n, k, depth;
    int64_t r, rows;
    float *out; // [n][width]
    int64_t width;
} forward_block;

static void forward_tiles(const forward_work *f, const forward_block *b)
{
    const rungi_packed_plan *p = f->p;
    const int64_t lanes = p->tiles->lanes;
    int count = rungi_packed_panels(p, b->rows),
        done = 0; // blocks of rows are whole, but for the last one
    for (int64_t c = 0; c < b->rows; c += RUNGI_PACKED_COLUMNS) {
        int64_t columns = rungi_wino_least(RUNGI_PACKED_COLUMNS, b->rows - c);
        float *panel = f->s.panels + (b->r + c) / RUNGI_PACKED_COLUMNS * f->s.panels_size;
        float *out = b->out + c / RUNGI_PACKED_COLUMNS * p->width;
        for (int i = 0; i < rungi_packed_panels(p, columns); i++, done++) {
            int vectors = rungi_packed_vectors(p, columns, i);
            int64_t ask = b->n * done / count, floats = vectors * lanes;
            p->tiles->tile(&(rungi_linear_tile){
                .k = b->depth,
                .rows = b->n,
                .vectors = vectors,
                .a = b->w + b->k,
                .a_row = p->s.in,
                .b = panel + b->k * floats,
                .c = out,
                .c_row = b->width,
                .add = b->k > 0,
                .ahead = b->next + ask * p->s.in,
                .ahead_row = p->s.in,
                .ahead_next = RUNGI_PACKED_LINE,
                .ahead_rows = (int)(b->n * (done + 1) / count - ask),
                .ahead_lines = 1,
            });
            panel += floats * p->s.in;
            out += floats;
        }
    }
}

// Outputs [o, o + n) of rows [r, r + rows): KEPT and GROUP at most.
static void forward_group(const forward_work *f, int thread, int64_t o, int64_t n, int64_t r,
                          int64_t rows)
{
    const int64_t in = f->p->s.in, most = rungi_packed_depth(in);
    const float *w = f->w + o * in;
    forward_block b = {.r = r,
                       .rows = rows,
                       .out = f->s.out + thread * f->s.out_size,
                       .width = rungi_packed_parts(rows, RUNGI_PACKED_COLUMNS) * f->p->width};
    float *out = b.out;
    for (b.k = 0; b.k < in; b.k += b.depth) {
        b.depth = rungi_wino_least(most, in - b.k);
        for (int64_t i = 0; i < n; i += b.n) {
            b.n = rungi_wino_least(OUTPUTS, n - i);
            b.w = w + i * in;
            b.next = i + b.n < n ? b.w + b.n * in + b.k : w + b.k + b.depth;
            b.out = out + i * b.width;
            forward_tiles(f, &b);
        }
    }
    store_transposed(f, out, b.width, o, n, r, rows);
}

// The outputs of a thread: whole lines of y.
static void forward_share(const forward_work *f, int thread)
{
    const rungi_linear_sizes *s = &f->p->s;
    int64_t lines = rungi_packed_parts(s->out, RUNGI_PACKED_LINE), threads = f->p->threads;
    int64_t end = rungi_wino_least(s->out, lines * (thread + 1) / threads * RUNGI_PACKED_LINE);
    for (int64_t o = lines * thread / threads * RUNGI_PACKED_LINE; o < end; o += KEPT)
        for (int64_t r = 0; r < s->rows; r += GROUP)
            forward_group(f, thread, o, rungi_wino_least(KEPT, end - o), r,
                          rungi_wino_least(GROUP, s->rows - r));
}

static rung_status forward_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_packed_plan *p = c->state;
    const rungi_linear_sizes *s = &p->s;
    rungi_wino_space space = {.at = c->workspace};
    forward_work f = {.p = p,
                      .s = take_space(p, &space),
                      .x = rungi_ptr(c, &q->in[0]),
                      .w = rungi_ptr(c, &q->in[1]),
                      .bias = q->n_in > 2 ? rungi_ptr(c, &q->in[2]) : NULL,
                      .y = rungi_ptr(c, &q->out[0])};
    int64_t lines = rungi_packed_parts(s->in, RUNGI_PACKED_LINE);
    RUNGI_PARALLEL_TASKS(p->threads)
    for (int t = 0; t < p->threads; t++)
        pack_rows(&f, lines * t / p->threads * RUNGI_PACKED_LINE,
                  rungi_wino_least(s->in, lines * (t + 1) / p->threads * RUNGI_PACKED_LINE));
    RUNGI_PARALLEL_TASKS(p->threads)
    for (int t = 0; t < p->threads; t++)
        forward_share(&f, t);
    for (int i = 0; i < q->n_fused; i++)
        rungi_unary_apply(rungi_unary_find(q->fused[i].op), q->fused[i].attr, q->isa, f.y, f.y,
                          s->rows * s->out);
    return RUNG_OK;
}

static bool can_run(const rungi_query *q, rungi_reason *why)
{
    return rungi_linear_can_fuse(q, why) && rungi_packed_can_run(q, why);
}

static bool prefers(const rungi_query *q)
{
    return rungi_packed_prefers(q, RUNGI_PACKED_FORWARD_ROWS);
}

static rung_status forward_create(const rungi_query *q, rungi_setup *setup)
{
    rungi_packed_plan *p;
    RUNG_TRY(rungi_packed_plan_create(q, &p));
    rungi_wino_space space = {0};
    take_space(p, &space);
    return rungi_wino_created(setup, p, &space);
}

const rungi_kernel rungi_linear_forward_packed = {.name = "packed",
                                                  .kind = RUNGI_OWN,
                                                  .can_run = can_run,
                                                  .prefers = prefers,
                                                  .fuses = true,
                                                  .create = forward_create,
                                                  .destroy = free,
                                                  .run = forward_run};
