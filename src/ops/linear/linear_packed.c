// SPDX-License-Identifier: Apache-2.0
// Many rows: products of matrices, of which one side is copied into panels as wide as some
// registers and a block of the product stays in registers while the sum runs (the products of
// conv2d_winograd.h).
//
//     forward          y^T = w x^T    x in panels of rows, made once; a thread takes some outputs
//     weight gradient  gw  = gy^T x   x in panels of columns; a thread takes some of these
//     data gradient    gx  = gy w     w in panels of columns; a thread takes some of these
//
//                  K ->                 64 columns at a time
//             +-----------+           +----+----+----+----+
//        rows | left      |      K |  |    |    |    |    | panels, in the second-level cache
//             |           |        v  |    |    |    |    |
//             +-----------+           +----+----+----+----+
//
// The left side is copied too, to rows that do not fall into the same sets of the first cache: a
// few rows of w at a time, gy as a whole.
//
// Every sum runs over K in its order and has one accumulator, so neither blocks nor threads show.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ops/conv2d/conv2d_winograd.h"
#include "ops/linear/linear.h"
#include "ops/parallel.h"
#include "ops/unary.h"

enum {
    COLUMNS = 64,    // of a group of panels
    DEPTH = 256,     // of a block of the sum
    LEFT = 96,       // rows of the left side that are taken together in gradients
    OUTPUTS = 24,    // rows of w that are copied together
    KEPT = 256,      // outputs whose products with GROUP rows of x are kept
    GROUP = 256,     //
    TRANSPOSED = 32, // columns that are transposed together
    AHEAD = 8,       // rows that are asked for before they are copied
    LINE = 16,       // floats
    LEAST_ROWS = 9,  // fewer are for linear_rows.c
    SMALL = 1 << 16, // multiplications for which a second thread does not pay
};

typedef struct packed_plan {
    const rungi_wino_loops *loops;
    rungi_linear_sizes s;
    int threads;
    int64_t width; // floats of a row of COLUMNS columns, rounded up to vectors
} packed_plan;

typedef struct packed_space {
    float *panels; // of all of x in forward, else for each thread
    float *left;   // for each thread in forward, else all of gy
    float *out;    // for each thread
    int64_t panels_size, left_size, out_size;
    int64_t left_width;
} packed_space;

static int64_t parts_of(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

// Panels for `columns` columns, up to COLUMNS, and `depth` rows.
static rungi_wino_panels panels_for(const packed_plan *p, int64_t columns, int64_t depth)
{
    return rungi_wino_panels_of(p->loops, parts_of(columns, p->loops->lanes), depth);
}

static packed_space take_space(const packed_plan *p, bool forward, rungi_wino_space *space)
{
    const rungi_linear_sizes *s = &p->s;
    int64_t most = s->rows > s->out ? s->rows : s->out;
    packed_space out;
    if (forward)
        out = (packed_space){.panels_size = s->in * p->width,
                             .left_width = DEPTH + LINE,
                             .left_size = OUTPUTS * (DEPTH + LINE),
                             .out_size = KEPT * parts_of(GROUP, COLUMNS) * p->width};
    else
        out = (packed_space){.panels_size = most * p->width,
                             .left_width = rungi_wino_width(s->out, LINE),
                             .out_size = most * p->width};
    out.panels = rungi_wino_take(space, out.panels_size *
                                            (forward ? parts_of(s->rows, COLUMNS) : p->threads));
    out.left =
        rungi_wino_take(space, forward ? out.left_size * p->threads : s->rows * out.left_width);
    out.out = rungi_wino_take(space, out.out_size * p->threads);
    return out;
}

// Asks for n floats.
static void ask(const float *from, int64_t n)
{
    for (int64_t i = 0; i < n; i += LINE)
        __builtin_prefetch(from + i);
}

// The depth of blocks that cut a sum of n evenly.
static int64_t depth_of(int64_t n)
{
    return parts_of(n, parts_of(n, DEPTH));
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

static rung_status create(const rungi_query *q, rungi_setup *setup)
{
    packed_plan *p = calloc(1, sizeof *p);
    RUNG_CHECK(p, RUNG_NO_MEMORY, "no memory for a linear layer");
    p->loops = rungi_wino_loops_for(q->isa);
    p->s = rungi_linear_sizes_of(q);
    p->threads = p->s.rows * p->s.in * p->s.out < SMALL ? 1 : q->threads;
    p->width = parts_of(COLUMNS, p->loops->lanes) * p->loops->lanes;
    rungi_wino_space space = {0};
    take_space(p, q->pass == RUNGI_FORWARD, &space);
    return rungi_wino_created(setup, p, &space);
}

// ---- forward ----------------------------------------------------------------------------------

// `count` rows of x, `in` floats each, into the panels that hold them as columns.
static void pack_transposed(const rungi_wino_panels *p, const float *x, int64_t in, int64_t count,
                            float *to)
{
    for (int j = 0; j < p->vectors; j++) {
        float *at = to + rungi_wino_panel_at(p, 0, j);
        int64_t step = rungi_wino_panel_at(p, 1, j) - rungi_wino_panel_at(p, 0, j);
        for (int64_t begin = 0; begin < in; begin += TRANSPOSED) {
            int64_t end = rungi_wino_least(in, begin + TRANSPOSED);
            for (int l = 0; l < p->lanes; l++) {
                int64_t r = (int64_t)j * p->lanes + l;
                for (int64_t k = begin; k < end; k++)
                    at[k * step + l] = r < count ? x[r * in + k] : 0;
            }
        }
    }
}

typedef struct forward_work {
    const packed_plan *p;
    packed_space s;
    const float *x, *w, *bias;
    float *y;
} forward_work;

// y of outputs [o, o + n) and rows [r, r + rows) from out[n][rows], whose rows are `width` wide.
static void store_transposed(const forward_work *f, const float *out, int64_t width, int64_t o,
                             int64_t n, int64_t r, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++) {
        float *y = f->y + (r + i) * f->p->s.out + o;
        for (int64_t j = 0; j < n; j++)
            y[j] = out[j * width + i] + (f->bias ? f->bias[o + j] : 0);
    }
}

// Outputs [o, o + n) of rows [r, r + rows): KEPT and GROUP at most.
static void forward_group(const forward_work *f, int thread, int64_t o, int64_t n, int64_t r,
                          int64_t rows)
{
    const packed_plan *p = f->p;
    float *left = f->s.left + thread * f->s.left_size, *out = f->s.out + thread * f->s.out_size;
    const int64_t in = p->s.in, width = parts_of(rows, COLUMNS) * p->width, most = depth_of(in);
    for (int64_t k = 0, depth; k < in; k += depth) {
        depth = rungi_wino_least(most, in - k);
        for (int64_t i = 0; i < n; i += OUTPUTS) {
            int64_t some = rungi_wino_least(OUTPUTS, n - i);
            copy_rows(f->w + (o + i) * in + k, in, some, depth, f->s.left_width, left);
            for (int64_t b = 0; b < rows; b += COLUMNS) {
                rungi_wino_panels panels = panels_for(p, rungi_wino_least(COLUMNS, rows - b), in);
                p->loops->multiply(&panels, k, k + depth, some, left, f->s.left_width, 1,
                                   f->s.panels + (r + b) / COLUMNS * f->s.panels_size,
                                   out + i * width + b / COLUMNS * p->width, width, k > 0);
            }
        }
    }
    store_transposed(f, out, width, o, n, r, rows);
}

// The outputs of a thread: whole lines of y.
static void forward_share(const forward_work *f, int thread)
{
    const rungi_linear_sizes *s = &f->p->s;
    int64_t lines = parts_of(s->out, LINE), threads = f->p->threads;
    int64_t end = rungi_wino_least(s->out, lines * (thread + 1) / threads * LINE);
    for (int64_t o = lines * thread / threads * LINE; o < end; o += KEPT)
        for (int64_t r = 0; r < s->rows; r += GROUP)
            forward_group(f, thread, o, rungi_wino_least(KEPT, end - o), r,
                          rungi_wino_least(GROUP, s->rows - r));
}

static rung_status forward_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const packed_plan *p = c->state;
    const rungi_linear_sizes *s = &p->s;
    rungi_wino_space space = {.at = c->workspace};
    forward_work f = {.p = p,
                      .s = take_space(p, true, &space),
                      .x = rungi_ptr(c, &q->in[0]),
                      .w = rungi_ptr(c, &q->in[1]),
                      .bias = q->n_in > 2 ? rungi_ptr(c, &q->in[2]) : NULL,
                      .y = rungi_ptr(c, &q->out[0])};
    int64_t blocks = parts_of(s->rows, COLUMNS);
    RUNGI_PARALLEL_TASKS(p->threads)
    for (int t = 0; t < p->threads; t++)
        for (int64_t b = blocks * t / p->threads; b < blocks * (t + 1) / p->threads; b++) {
            int64_t r = b * COLUMNS, count = rungi_wino_least(COLUMNS, s->rows - r);
            rungi_wino_panels panels = panels_for(p, count, s->in);
            pack_transposed(&panels, f.x + r * s->in, s->in, count,
                            f.s.panels + b * f.s.panels_size);
        }
    RUNGI_PARALLEL_TASKS(p->threads)
    for (int t = 0; t < p->threads; t++)
        forward_share(&f, t);
    for (int i = 0; i < q->n_fused; i++)
        rungi_unary_apply(rungi_unary_find(q->fused[i].op), q->fused[i].attr, q->isa, f.y, f.y,
                          s->rows * s->out);
    return RUNG_OK;
}

// ---- gradients --------------------------------------------------------------------------------

// c[m][n] = a[m][k] b[k][n], b and c with rows of n; a's strides are given.
typedef struct product {
    const packed_plan *p;
    packed_space s;
    int64_t m, n, k;
    const float *a;
    int64_t row_stride, k_stride;
    const float *b;
    float *c;
} product;

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
    place places[COLUMNS];
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

static void product_columns(const product *f, int thread, int64_t column)
{
    const packed_plan *p = f->p;
    int64_t n = rungi_wino_least(COLUMNS, f->n - column);
    bool whole = n % p->loops->lanes == 0; // else a row's end would be written over
    float *panels = f->s.panels + thread * f->s.panels_size;
    float *c = whole ? f->c + column : f->s.out + thread * f->s.out_size;
    int64_t stride = whole ? f->n : p->width;
    rungi_wino_panels all = panels_for(p, n, f->k);
    pack_columns(&all, f->b + column, f->n, n, panels);
    const int64_t depth = depth_of(f->k);
    for (int64_t k = 0; k < f->k; k += depth)
        for (int64_t r = 0; r < f->m; r += LEFT)
            p->loops->multiply(&all, k, rungi_wino_least(f->k, k + depth),
                               rungi_wino_least(LEFT, f->m - r),
                               f->a + r * f->row_stride + k * f->k_stride, f->row_stride,
                               f->k_stride, panels, c + r * stride, stride, k > 0);
    for (int64_t r = 0; !whole && r < f->m; r++)
        memcpy(f->c + r * f->n + column, c + r * stride, (size_t)n * sizeof *c);
}

static void run_product(const product *f)
{
    int threads = f->p->threads;
    int64_t tasks = parts_of(f->n, COLUMNS);
    RUNGI_PARALLEL_TASKS(threads)
    for (int t = 0; t < threads; t++)
        for (int64_t i = tasks * t / threads; i < tasks * (t + 1) / threads; i++)
            product_columns(f, t, i * COLUMNS);
}

// gy in rows of left_width.
static const float *copy_gradient(const packed_plan *p, const packed_space *s, const float *gy)
{
    copy_rows(gy, p->s.out, p->s.rows, p->s.out, s->left_width, s->left);
    return s->left;
}

static rung_status weight_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const packed_plan *p = c->state;
    rungi_wino_space space = {.at = c->workspace};
    packed_space s = take_space(p, false, &space);
    float *gb = q->n_in > 2 ? rungi_ptr(c, &q->gin[2]) : NULL;
    const float *gy = rungi_ptr(c, &q->gout[0]);
    if (gb)
        rungi_linear_sum_rows(gy, gb, p->s.rows, p->s.out);
    run_product(&(product){.p = p,
                           .s = s,
                           .m = p->s.out,
                           .n = p->s.in,
                           .k = p->s.rows,
                           .a = copy_gradient(p, &s, gy),
                           .row_stride = 1,
                           .k_stride = s.left_width,
                           .b = rungi_ptr(c, &q->in[0]),
                           .c = rungi_ptr(c, &q->gin[1])});
    return RUNG_OK;
}

static rung_status data_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const packed_plan *p = c->state;
    rungi_wino_space space = {.at = c->workspace};
    packed_space s = take_space(p, false, &space);
    run_product(&(product){.p = p,
                           .s = s,
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

// ---- kernels ----------------------------------------------------------------------------------

static bool can_run(const rungi_query *q, rungi_reason *why)
{
    rungi_linear_sizes s = rungi_linear_sizes_of(q);
    if (s.rows < LEAST_ROWS)
        return rungi_refuse(why, "for %d rows and more", LEAST_ROWS);
    if (s.in == 0 || s.out == 0)
        return rungi_refuse(why, "there is nothing to compute");
    return rungi_f32_only(q, why);
}

static bool forward_can_run(const rungi_query *q, rungi_reason *why)
{
    return rungi_linear_can_fuse(q, why) && can_run(q, why);
}

static bool weight_can_run(const rungi_query *q, rungi_reason *why)
{
    if (q->gin[1].buffer < 0)
        return rungi_refuse(why, "the gradient of the bias alone is not offered");
    return can_run(q, why);
}

// Measured on Zen 3, one thread, 64 rows, beside the faster of oneDNN 2.6.3 and OpenBLAS 0.3.21:
// weight gradient 784->512 0.60 ms for 0.59, 3136->256 1.33 for 1.45; forward 0.66 for 0.61 and 1.5
// for 1.3, data gradient 0.74 for 0.55 and 1.7 for 1.2, where packing w for few rows does not pay:
// there plan.autotune decides.
static bool weight_prefers(const rungi_query *q)
{
    return q->isa == RUNG_ISA_AVX2;
}

const rungi_kernel rungi_linear_forward_packed = {.name = "packed",
                                                  .kind = RUNGI_OWN,
                                                  .can_run = forward_can_run,
                                                  .fuses = true,
                                                  .create = create,
                                                  .destroy = free,
                                                  .run = forward_run};
const rungi_kernel rungi_linear_weight_packed = {.name = "packed",
                                                 .kind = RUNGI_OWN,
                                                 .can_run = weight_can_run,
                                                 .prefers = weight_prefers,
                                                 .create = create,
                                                 .destroy = free,
                                                 .run = weight_run};
const rungi_kernel rungi_linear_data_packed = {.name = "packed",
                                               .kind = RUNGI_OWN,
                                               .can_run = can_run,
                                               .create = create,
                                               .destroy = free,
                                               .run = data_run};
