// SPDX-License-Identifier: Apache-2.0
// Gradients: see linear_packed.h.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ops/linear/linear_packed.h"
#include "ops/parallel.h"

enum {
    LEFT = 96, // rows of the left side that are taken together
    AHEAD = 8, // rows that are asked for before they are copied
};

typedef struct packed_space {
    float *panels, *out; // for each thread
    float *left;         // all of gy
    int64_t panels_size, out_size;
    int64_t left_width;
} packed_space;

static packed_space take_space(const rungi_packed_plan *p, bool weight, rungi_wino_space *space)
{
    const rungi_linear_sizes *s = &p->s;
    const int64_t lanes = p->tiles->lanes; // of the last inputs
    packed_space out = {.left_width = rungi_wino_width(s->out, RUNGI_PACKED_LINE)};
    out.panels_size = weight
                          ? s->rows * p->width
                          : rungi_wino_most(rungi_packed_depth(s->out) * p->width, s->out * lanes);
    out.out_size = weight ? s->out * p->width : s->rows * lanes;
    out.panels = rungi_wino_take(space, out.panels_size * p->threads);
    out.left = rungi_wino_take(space, s->rows * out.left_width);
    out.out = rungi_wino_take(space, out.out_size * p->threads);
    return out;
}

// Asks for n floats.
static void ask(const float *from, int64_t n)
{
    for (int64_t i = 0; i < n; i += RUNGI_PACKED_LINE)
        __builtin_prefetch(from + i);
}

// Copies `count` rows of n floats; rows lie `stride` and `width` apart.
static void copy_rows(const float *from, int64_t stride, int64_t count, int64_t n, int64_t width,
                      float *to)
{
    for (int64_t i = 0; i < count; i++) {
        if (i + AHEAD / 4 < count)
            ask(from + (i + AHEAD / 4) * stride, n);
        memcpy(to + i * width, from + i * stride, (size_t)n * sizeof *to);
    }
}

// c[m][n] = (or += ) a[m][k] b[k][n], b and c with rows of n; a's strides are given.
typedef struct product product;
struct product {
    const rungi_packed_plan *p;
    const rungi_wino_loops *loops; // of the weight gradient
    // Columns [column, column + RUNGI_PACKED_COLUMNS) of c, or what there are.
    void (*columns)(const product *f, int thread, int64_t column);
    packed_space s;
    int64_t m, n, k;
    const float *a;
    int64_t row_stride, k_stride;
    const float *b;
    float *c;
    bool adds; // c += a b
};

// Where a vector of columns lies in its panel: row 0, and from row to row.
typedef struct place {
    int64_t at, step;
} place;

static void copy_vector(const float *from, int64_t n, int lanes, float *to)
{
    if (n == 8 && lanes == 8) { // a number that the compiler knows
        memcpy(to, from, 8 * sizeof *to);
        return;
    }
    memcpy(to, from, (size_t)n * sizeof *to);
    memset(to + n, 0, (size_t)(lanes - n) * sizeof *to);
}

// Rows of `count` floats, `stride` apart, into panels.
static void pack_columns(const rungi_wino_panels *p, const float *from, int64_t stride,
                         int64_t count, float *to)
{
    place places[RUNGI_PACKED_COLUMNS];
    for (int j = 0; j < p->vectors; j++) {
        places[j].at = rungi_wino_panel_at(p, 0, j);
        places[j].step = rungi_wino_panel_at(p, 1, j) - places[j].at;
    }
    for (int64_t k = 0; k < p->depth; k++) {
        if (k + AHEAD < p->depth)
            ask(from + (k + AHEAD) * stride, count);
        for (int j = 0; j < p->vectors; j++)
            copy_vector(from + k * stride + (int64_t)j * p->lanes,
                        rungi_wino_least(p->lanes, count - (int64_t)j * p->lanes), p->lanes,
                        to + places[j].at + k * places[j].step);
    }
}

static void add_row(float *restrict to, const float *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += from[i];
}

// Brings n columns from `column` on to where they belong: rows of the panels' width.
static void store_columns(const product *f, const float *from, int64_t column, int64_t n)
{
    for (int64_t r = 0; r < f->m; r++) {
        float *to = f->c + r * f->n + column;
        if (r + AHEAD < f->m)
            ask(to + AHEAD * f->n, n);
        if (f->adds)
            add_row(to, from + r * f->p->width, n);
        else
            memcpy(to, from + r * f->p->width, (size_t)n * sizeof *to);
    }
}

static void weight_task(const product *f, int thread, int64_t column)
{
    const rungi_packed_plan *p = f->p;
    int64_t n = rungi_wino_least(RUNGI_PACKED_COLUMNS, f->n - column);
    // Else a row's end would be written over; what is added must be complete.
    const rungi_wino_loops *loops = f->loops;
    bool direct = n % loops->lanes == 0 && !f->adds;
    float *panels = f->s.panels + thread * f->s.panels_size;
    float *c = direct ? f->c + column : f->s.out + thread * f->s.out_size;
    int64_t stride = direct ? f->n : p->width;
    rungi_wino_panels all = rungi_wino_panels_of(loops, n, f->k);
    pack_columns(&all, f->b + column, f->n, n, panels);
    const int64_t depth = rungi_packed_depth(f->k);
    for (int64_t k = 0; k < f->k; k += depth)
        for (int64_t r = 0; r < f->m; r += LEFT)
            loops->multiply(&all, k, rungi_wino_least(f->k, k + depth),
                            rungi_wino_least(LEFT, f->m - r),
                            f->a + r * f->row_stride + k * f->k_stride, f->row_stride, f->k_stride,
                            panels, c + r * stride, stride, k > 0);
    if (!direct)
        store_columns(f, c, column, n);
}

static void run_product(const product *f)
{
    int threads = f->p->threads;
    int64_t tasks = rungi_packed_parts(f->n, RUNGI_PACKED_COLUMNS);
    RUNGI_PARALLEL_TASKS(threads)
    for (int t = 0; t < threads; t++)
        for (int64_t i = tasks * t / threads; i < tasks * (t + 1) / threads; i++)
            f->columns(f, t, i * RUNGI_PACKED_COLUMNS);
}

// gy in rows of left_width.
static const float *copy_gradient(const rungi_packed_plan *p, const packed_space *s,
                                  const float *gy)
{
    const int64_t rows = p->s.rows;
    RUNGI_PARALLEL_TASKS(p->threads)
    for (int t = 0; t < p->threads; t++) {
        int64_t begin = rows * t / p->threads, end = rows * (t + 1) / p->threads;
        copy_rows(gy + begin * p->s.out, p->s.out, end - begin, p->s.out, s->left_width,
                  s->left + begin * s->left_width);
    }
    return s->left;
}

static rung_status weight_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_packed_plan *p = c->state;
    rungi_wino_space space = {.at = c->workspace};
    packed_space s = take_space(p, true, &space);
    float *gb = q->n_in > 2 ? rungi_ptr(c, &q->gin[2]) : NULL;
    const float *gy = rungi_ptr(c, &q->gout[0]);
    if (gb)
        rungi_linear_sum_rows(gy, q->adds ? s.out : gb, p->s.rows, p->s.out);
    if (gb && q->adds)
        add_row(gb, s.out, p->s.out);
    run_product(&(product){.p = p,
                           .s = s,
                           .loops = rungi_wino_loops_for(q->isa),
                           .columns = weight_task,
                           .m = p->s.out,
                           .n = p->s.in,
                           .k = p->s.rows,
                           .a = copy_gradient(p, &s, gy),
                           .row_stride = 1,
                           .k_stride = s.left_width,
                           .b = rungi_ptr(c, &q->in[0]),
                           .c = rungi_ptr(c, &q->gin[1]),
                           .adds = q->adds});
    return RUNG_OK;
}

// Inputs [column, column + n): whole vectors of them.
static void data_columns(const product *f, int thread, int64_t column, int64_t n)
{
    const rungi_packed_plan *p = f->p;
    const int64_t lanes = p->tiles->lanes, most = rungi_packed_depth(f->k);
    float *panels = f->s.panels + thread * f->s.panels_size;
    for (int64_t k = 0, depth; k < f->k; k += depth) {
        depth = rungi_wino_least(most, f->k - k);
        const float *from = f->b + k * f->n + column;
        const float *next = k + depth < f->k ? from + depth * f->n : f->b + column + n;
        const int count = rungi_packed_panels(p, n), each = (RUNGI_PACKED_LINE + count - 1) / count;
        for (int64_t r = 0; r < f->m; r += LEFT)
            for (int i = 0; i < count; i++) { // each asks for some of the next block's rows
                int64_t first = (int64_t)i * p->tiles->most * lanes;
                int vectors = rungi_packed_vectors(p, n, i);
                p->tiles->tile(&(rungi_linear_tile){
                    .k = depth,
                    .rows = rungi_wino_least(LEFT, f->m - r),
                    .vectors = vectors,
                    .a = f->a + r * f->row_stride + k,
                    .a_row = f->row_stride,
                    .b = panels + first * depth,
                    .from = r ? NULL : from + first,
                    .from_row = f->n,
                    .c = f->c + r * f->n + column + first,
                    .c_row = f->n,
                    .add = k > 0,
                    .ahead = next + depth * i / count * f->n,
                    .ahead_row = f->n,
                    .ahead_next = each * f->n,
                    .ahead_rows = r ? 0 : each,
                    .ahead_lines = (int)rungi_packed_parts(n, RUNGI_PACKED_LINE),
                });
            }
    }
}

// The last inputs, where they do not fill a vector.
static void data_rest(const product *f, int thread, int64_t column)
{
    const rungi_packed_plan *p = f->p;
    const int64_t n = f->n - column, lanes = p->tiles->lanes, most = rungi_packed_depth(f->k);
    float *panel = f->s.panels + thread * f->s.panels_size;
    float *c = f->s.out + thread * f->s.out_size;
    for (int64_t k = 0; k < f->k; k++)
        copy_vector(f->b + k * f->n + column, n, (int)lanes, panel + k * lanes);
    for (int64_t k = 0; k < f->k; k += most)
        p->tiles->tile(&(rungi_linear_tile){.k = rungi_wino_least(most, f->k - k),
                                            .rows = f->m,
                                            .vectors = 1,
                                            .a = f->a + k,
                                            .a_row = f->row_stride,
                                            .b = panel + k * lanes,
                                            .c = c,
                                            .c_row = lanes,
                                            .add = k > 0});
    for (int64_t r = 0; r < f->m; r++)
        memcpy(f->c + r * f->n + column, c + r * lanes, (size_t)n * sizeof *c);
}

static void data_task(const product *f, int thread, int64_t column)
{
    int64_t n = rungi_wino_least(RUNGI_PACKED_COLUMNS, f->n - column),
            rest = n % f->p->tiles->lanes;
    if (n > rest)
        data_columns(f, thread, column, n - rest);
    if (rest)
        data_rest(f, thread, column + n - rest);
}

static rung_status data_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_packed_plan *p = c->state;
    rungi_wino_space space = {.at = c->workspace};
    packed_space s = take_space(p, false, &space);
    run_product(&(product){.p = p,
                           .s = s,
                           .columns = data_task,
                           .m = p->s.rows,
                           .n = p->s.in,
                           .k = p->s.out,
                           .a = copy_gradient(p, &s, rungi_ptr(c, &q->gout[0])),
                           .row_stride = s.left_width,
                           .k_stride = 1,
                           .b = rungi_ptr(c, &q->in[1]),
                           .c = rungi_ptr(c, &q->gin[0])});
    return RUNG_OK;
}

static rung_status gradient_create(const rungi_query *q, rungi_setup *setup)
{
    rungi_packed_plan *p;
    RUNG_TRY(rungi_packed_plan_create(q, &p));
    rungi_wino_space space = {0};
    take_space(p, rungi_query_pass(q)->gives != 1 << 0, &space);
    return rungi_wino_created(setup, p, &space);
}

static bool weight_can_run(const rungi_query *q, rungi_reason *why)
{
    if (q->gin[1].buffer < 0)
        return rungi_refuse(why, "the gradient of the bias alone is not offered");
    return rungi_packed_can_run(q, why);
}

static bool weight_prefers(const rungi_query *q)
{
    return rungi_packed_prefers(q, RUNGI_PACKED_WEIGHT_ROWS);
}

static bool data_prefers(const rungi_query *q)
{
    return rungi_packed_prefers(q, RUNGI_PACKED_DATA_ROWS);
}

const rungi_kernel rungi_linear_weight_packed = {.name = "packed",
                                                 .kind = RUNGI_OWN,
                                                 .can_run = weight_can_run,
                                                 .prefers = weight_prefers,
                                                 .adds = true,
                                                 .create = gradient_create,
                                                 .destroy = free,
                                                 .run = weight_run};
const rungi_kernel rungi_linear_data_packed = {.name = "packed",
                                               .kind = RUNGI_OWN,
                                               .can_run = rungi_packed_can_run,
                                               .prefers = data_prefers,
                                               .create = gradient_create,
                                               .destroy = free,
                                               .run = data_run};
