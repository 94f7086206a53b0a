// SPDX-License-Identifier: Apache-2.0
// Direct forward and gradient of the input. For the formulas and the picture see conv2d_direct.h.
//
//     x -> [ band: (R-1)*s + KH rows, padded ] --weight, packed once--> R rows of y
//          |- one thread, second-level cache -|
#include "ops/conv2d/conv2d_direct.h"

#include <stdlib.h>
#include <string.h>

#include "ops/conv2d/conv2d.h"
#include "ops/conv2d/conv2d_direct_loops.h"
#include "ops/conv2d/conv2d_direct_plan.h"
#include "ops/parallel.h"

const rungi_direct_loops rungi_direct_loops_plain = DIRECT_TABLE;

const rungi_direct_loops *rungi_direct_loops_for(rung_isa isa)
{
#if defined(__x86_64__)
    if (isa >= RUNG_ISA_AVX512)
        return &rungi_direct_loops_avx512;
    if (isa >= RUNG_ISA_AVX2)
        return &rungi_direct_loops_avx2;
#endif
    (void)isa;
    return &rungi_direct_loops_plain;
}

// ---- running ------------------------------------------------------------------------------------

typedef struct direct_work {
    const rungi_direct_plan *p;
    rungi_direct_space s;
    rungi_direct_taps taps;
    const float *x, *bias;
    float *y;
    bool relu;
} direct_work;

// A thread's panels, those of all classes together: they are made of the same weights.
static void pack_weights(const direct_work *f, int thread)
{
    const rungi_direct_plan *p = f->p;
    int count = p->class[0].panels.count;
    for (int panel = count * thread / p->threads; panel < count * (thread + 1) / p->threads;
         panel++)
        for (int i = 0; i < p->classes; i++) {
            const rungi_direct_class *k = &p->class[i];
            rungi_direct_taps taps = f->taps;
            taps.runs = k->runs;
            taps.cols = k->window;
            taps.tap = k->tap;
            p->loops->weights(&taps, &k->panels, panel, panel + 1, f->s.weights + k->at);
        }
}

// A band's images [first, last), rows [begin, end) of a class.
typedef struct extent {
    int64_t first, last, begin, end;
} extent;

// Pixels of a class on their way into products.
typedef struct collector {
    const rungi_direct_class *class;
    rungi_direct_product product;
    int32_t from[RUNGI_DIRECT_PIXELS + RUNGI_DIRECT_AHEAD];
    int64_t to[RUNGI_DIRECT_PIXELS];
} collector;

static void multiply(const direct_work *f, collector *c)
{
    rungi_direct_product *product = &c->product;
    for (int i = 0; i < RUNGI_DIRECT_AHEAD; i++)
        c->from[product->pixels + i] = 0;
    if (c->class->runs)
        f->p->loops->multiply(product, &c->class->panels);
    for (int64_t i = 0; i < product->pixels && !c->class->runs; i++)
        memset(product->y + c->to[i], 0, (size_t)f->p->y_c * sizeof(float));
    product->pixels = 0;
}

// Row i of a class, whose first window begins `from` floats into the band.
static void collect_row(const direct_work *f, collector *c, int64_t image, int64_t i, int64_t from)
{
    const rungi_direct_plan *p = f->p;
    const rungi_direct_class *k = c->class;
    int64_t row = i * p->out_step[0] + k->out_row;
    for (int64_t j = 0; j < k->cols; j++) {
        int64_t col = j * p->out_step[1] + k->out_col, at = c->product.pixels++;
        c->from[at] = (int32_t)(from + j * p->step[1] * p->in_c);
        c->to[at] = ((image * p->y_h + row) * p->y_w + col) * p->y_c;
        if (c->product.pixels == RUNGI_DIRECT_PIXELS)
            multiply(f, c);
    }
}

static void run_class(const direct_work *f, const rungi_direct_class *k, const float *band,
                      const extent *e)
{
    const rungi_direct_plan *p = f->p;
    collector c;
    c.class = k;
    c.product = (rungi_direct_product){.band = band,
                                       .from = c.from,
                                       .row = p->band.cols * p->in_c,
                                       .k = (int64_t)k->window * p->in_c,
                                       .runs = k->runs,
                                       .panels = f->s.weights + k->at,
                                       .y = f->y,
                                       .to = c.to,
                                       .bias = f->bias,
                                       .relu = f->relu};
    for (int64_t n = e->first; n < e->last; n++)
        for (int64_t i = e->begin; i < e->end && i < k->rows; i++) {
            int64_t row =
                (n - e->first) * rungi_direct_band_rows(p, p->block) + (i - e->begin) * p->step[0];
            collect_row(f, &c, n, i, ((row + k->top) * p->band.cols + k->left) * p->in_c);
        }
    if (c.product.pixels)
        multiply(f, &c);
}

static void run_band(const direct_work *f, int64_t index, int thread)
{
    const rungi_direct_plan *p = f->p;
    int64_t blocks = rungi_direct_parts(p->rows, p->block);
    extent e = {.first = index / blocks * p->group, .begin = index % blocks * p->block};
    e.last = e.first + p->group < p->images ? e.first + p->group : p->images;
    e.end = e.begin + p->block;
    float *to = f->s.band + thread * f->s.band_size;
    rungi_direct_band band = p->band;
    band.row += e.begin * p->row_step;
    band.rows = rungi_direct_band_rows(p, p->block);
    for (int64_t n = e.first; n < e.last; n++)
        p->loops->band(&band, f->x + n * band.h * band.w * band.c,
                       to + (n - e.first) * band.rows * band.cols * band.c);
    for (int i = 0; i < p->classes; i++)
        run_class(f, &p->class[i], to, &e);
}

static rung_status run(const rungi_call *c, direct_work *f)
{
    rungi_wino_space space = {.at = c->workspace};
    const rungi_direct_plan *p = f->p = c->state;
    f->s = rungi_direct_space_of(p, &space);
    RUNGI_PARALLEL_TASKS(p->threads)
    for (int i = 0; i < p->threads; i++)
        pack_weights(f, i);
    int64_t bands = rungi_direct_parts(p->images, p->group) * rungi_direct_parts(p->rows, p->block);
    RUNGI_PARALLEL_TASKS(p->threads)
    for (int i = 0; i < p->threads; i++)
        for (int64_t b = bands * i / p->threads; b < bands * (i + 1) / p->threads; b++)
            run_band(f, b, i);
    return RUNG_OK;
}

// ---- kernels ------------------------------------------------------------------------------------

static bool forward_can_run(const rungi_query *q, rungi_reason *why)
{
    return rungi_direct_can_run(q, &q->in[0], &q->out[0], why) && rungi_fuses_relu(q, why);
}

static rung_status forward_create(const rungi_query *q, rungi_setup *setup)
{
    return rungi_direct_create(q, &q->in[0], &q->out[0], setup);
}

static rung_status forward_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const int64_t *w = q->in[1].shape.dim;
    direct_work f = {.taps = {.data = rungi_ptr(c, &q->in[1]),
                              .out_stride = w[1] * w[2] * w[3],
                              .in_stride = w[2] * w[3],
                              .channels = w[1]},
                     .x = rungi_ptr(c, &q->in[0]),
                     .bias = q->n_in > 2 ? rungi_ptr(c, &q->in[2]) : NULL,
                     .y = rungi_ptr(c, &q->out[0]),
                     .relu = q->n_fused > 0};
    return run(c, &f);
}

static bool data_can_run(const rungi_query *q, rungi_reason *why)
{
    return rungi_direct_can_run(q, &q->gin[0], &q->gout[0], why);
}

static rung_status data_create(const rungi_query *q, rungi_setup *setup)
{
    return rungi_direct_create(q, &q->gout[0], &q->gin[0], setup);
}

static rung_status data_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const int64_t *w = q->in[1].shape.dim;
    direct_work f = {.taps = {.data = rungi_ptr(c, &q->in[1]),
                              .out_stride = w[2] * w[3],
                              .in_stride = w[1] * w[2] * w[3],
                              .channels = w[0]},
                     .x = rungi_ptr(c, &q->gout[0]),
                     .y = rungi_ptr(c, &q->gin[0])};
    return run(c, &f);
}

const rungi_kernel rungi_conv2d_forward_direct = {.name = "direct",
                                                  .kind = RUNGI_OWN,
                                                  .can_run = forward_can_run,
                                                  .prefers = rungi_direct_pays,
                                                  .fuses = true,
                                                  .create = forward_create,
                                                  .destroy = free,
                                                  .run = forward_run};
const rungi_kernel rungi_conv2d_data_direct = {.name = "direct",
                                               .kind = RUNGI_OWN,
                                               .can_run = data_can_run,
                                               .prefers = rungi_direct_pays,
                                               .create = data_create,
                                               .destroy = free,
                                               .run = data_run};
