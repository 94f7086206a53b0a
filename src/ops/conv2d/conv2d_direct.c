// SPDX-License-Identifier: Apache-2.0
// Direct forward and gradient of the input. For the formulas and the picture see conv2d_direct.h.
//
//     x -> [ band: (R-1)*s + KH rows, padded ] --weight, packed once--> R rows of y
//          |- one thread, second-level cache -|
#include "ops/conv2d/conv2d_direct.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ops/conv2d/conv2d.h"
#include "ops/conv2d/conv2d_direct_loops.h"
#include "ops/conv2d/conv2d_winograd.h"
#include "ops/parallel.h"

enum { ENOUGH_CHANNELS = 16, ENOUGH_PIXELS = 96 };

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

rungi_direct_panels rungi_direct_panels_of(const rungi_direct_loops *loops, int64_t outputs,
                                           int64_t depth)
{
    rungi_direct_panels p = {.lanes = loops->lanes, .outputs = outputs, .depth = depth};
    p.vectors = (int)rungi_direct_parts(outputs, p.lanes);
    p.count = loops->panel_count(p.vectors);
    return p;
}

bool rungi_direct_can_run(const rungi_query *q, const rungi_operand *x, const rungi_operand *y,
                          rungi_reason *why)
{
    const rungi_conv2d_attr *a = q->attr;
    const int64_t *w = q->in[1].shape.dim;
    if (a->groups != 1 || a->dilation[0] != 1 || a->dilation[1] != 1)
        return rungi_refuse(why, "without dilation and groups");
    if (a->stride[0] > RUNGI_DIRECT_STRIDE || a->stride[1] > RUNGI_DIRECT_STRIDE)
        return rungi_refuse(why, "for strides up to %d", RUNGI_DIRECT_STRIDE);
    if (w[2] * w[3] > RUNGI_DIRECT_TAPS)
        return rungi_refuse(why, "for windows of up to %d taps", RUNGI_DIRECT_TAPS);
    if (x->layout != RUNGI_CHANNELS_LAST || y->layout != RUNGI_CHANNELS_LAST)
        return rungi_refuse(why, "needs plan.layout channels_last");
    if (rungi_operand_count(x) == 0 || rungi_operand_count(y) == 0 || w[0] * w[1] == 0)
        return rungi_refuse(why, "there is nothing to compute");
    return rungi_f32_only(q, why);
}

// Measured on Zen 3, one thread, beside oneDNN 2.6 in the same layout: 3x3 of stride 2, 64->128@56:
// forward 25 ms for 41, gradients of weight and input 34 for 62 and 28 for 40; 128->256@28 31 for
// 46, 28 for 53 and 31 for 39. A stem of 3 inputs pays in the weight's gradient (72 for 128), 1x1
// nowhere.
bool rungi_direct_pays(const rungi_query *q)
{
    const rungi_conv2d_attr *a = q->attr;
    const int64_t *w = q->in[1].shape.dim;
    bool weight = q->pass != RUNGI_FORWARD && rungi_query_pass(q)->gives != 1 << 0;
    return a->stride[0] * a->stride[1] > 1 && w[2] * w[3] > 1 && w[0] >= ENOUGH_CHANNELS &&
           (weight || w[1] >= ENOUGH_CHANNELS);
}

// ---- classes of outputs -------------------------------------------------------------------------

// Outputs whose windows have the same taps: all in forward; in the gradient of the input those of
// one remainder by the stride in each direction.
typedef struct output_class {
    int64_t rows, cols;       // outputs of it
    int64_t out_row, out_col; // the first; the others follow out_step apart
    int64_t top, left;        // first window, from the band's first row and column
    int runs, window;         // rows and columns of the window; 0: the outputs are 0
    int32_t tap[RUNGI_DIRECT_TAPS];
    rungi_direct_panels panels;
    int64_t at; // of its packed weight
} output_class;

typedef struct direct_plan {
    const rungi_direct_loops *loops;
    rungi_direct_band band;
    int64_t step[2];  // rows and columns of the band from output to output
    int64_t row_step; // rows of the image from band to band, for each row of outputs
    int64_t out_step[2];
    int64_t images, y_h, y_w, y_c, in_c;
    int64_t rows, block; // rows of outputs of a class, of a band
    int64_t group;       // images of a band
    int64_t packed;      // floats of all weights
    int threads, classes;
    output_class class[];
} direct_plan;

// One direction of a class of the gradient: taps u0, u0 + s, ... of a kernel meet it, from the last
// to the first at rows `first` and on of dy (of the class' output 0).
typedef struct meeting {
    int64_t u0, count, first;
} meeting;

static meeting meeting_of(int64_t remainder, int64_t stride, int64_t pad, int64_t kernel)
{
    meeting m = {.u0 = (remainder + pad) % stride};
    m.count = m.u0 < kernel ? (kernel - 1 - m.u0) / stride + 1 : 0;
    m.first = (remainder + pad - m.u0) / stride - m.count + 1;
    return m;
}

// First row (over all remainders) that a direction reads for output 0, and how many more it reads
// than there are outputs.
static void reach(const rungi_conv2d_attr *a, int d, int64_t kernel, int64_t *first_out,
                  int64_t *more_out)
{
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (int r = 0; r < a->stride[d]; r++) {
        meeting m = meeting_of(r, a->stride[d], a->pad[d], kernel);
        if (!m.count)
            continue;
        first = m.first < first ? m.first : first;
        last = m.first + m.count - 1 > last ? m.first + m.count - 1 : last;
    }
    *first_out = first;
    *more_out = last - first;
}

static void plan_forward(direct_plan *p, const rungi_conv2d_attr *a, const int64_t *w)
{
    output_class *k = &p->class[0];
    bool point = w[2] == 1 && w[3] == 1 && a->stride[0] == a->stride[1];
    *k = (output_class){.rows = p->y_h, .cols = p->y_w, .runs = (int)w[2], .window = (int)w[3]};
    for (int64_t t = 0; t < w[2] * w[3]; t++)
        k->tap[t] = (int32_t)t;
    p->band.row = -a->pad[0];
    p->band.col = -a->pad[1];
    p->band.step = point ? a->stride[0] : 1; // pixels between are not copied
    for (int d = 0; d < 2; d++) {
        p->step[d] = point ? 1 : a->stride[d];
        p->out_step[d] = 1;
    }
    p->row_step = a->stride[0];
    p->band.cols = (p->y_w - 1) * p->step[1] + w[3];
    p->rows = p->y_h;
}

static void plan_data(direct_plan *p, const rungi_conv2d_attr *a, const int64_t *w)
{
    int64_t first[2], more[2];
    for (int d = 0; d < 2; d++) {
        reach(a, d, w[2 + d], &first[d], &more[d]);
        p->step[d] = 1;
        p->out_step[d] = a->stride[d];
    }
    for (int i = 0; i < p->classes; i++) {
        int64_t r = i / a->stride[1], s = i % a->stride[1];
        meeting m = meeting_of(r, a->stride[0], a->pad[0], w[2]);
        meeting n = meeting_of(s, a->stride[1], a->pad[1], w[3]);
        output_class *k = &p->class[i];
        *k = (output_class){.rows = rungi_direct_parts(p->y_h - r, a->stride[0]),
                            .cols = rungi_direct_parts(p->y_w - s, a->stride[1]),
                            .out_row = r,
                            .out_col = s,
                            .top = m.first - first[0],
                            .left = n.first - first[1],
                            .runs = n.count ? (int)m.count : 0,
                            .window = m.count ? (int)n.count : 0};
        for (int t = 0; t < k->runs; t++)
            for (int v = 0; v < k->window; v++)
                k->tap[t * k->window + v] =
                    (int32_t)((m.u0 + a->stride[0] * (m.count - 1 - t)) * w[3] + n.u0 +
                              a->stride[1] * (n.count - 1 - v));
    }
    p->band.row = first[0];
    p->band.col = first[1];
    p->band.step = 1;
    p->row_step = 1;
    p->band.cols = rungi_direct_parts(p->y_w, a->stride[1]) + more[1];
    p->rows = rungi_direct_parts(p->y_h, a->stride[0]);
}

// Rows of a band for that many rows of outputs.
static int64_t band_rows(const direct_plan *p, int64_t rows)
{
    int64_t last = 0;
    for (int i = 0; i < p->classes; i++)
        if (p->class[i].runs && p->class[i].top + p->class[i].runs > last)
            last = p->class[i].top + p->class[i].runs;
    return (rows - 1) * p->step[0] + last;
}

static void plan_blocks(direct_plan *p)
{
    int64_t most = 1;
    while (most < p->rows && (most + 1) * p->class[0].cols <= RUNGI_DIRECT_PIXELS &&
           band_rows(p, most + 1) * p->band.cols * p->in_c * 4 <= RUNGI_DIRECT_BAND)
        most++;
    p->block = rungi_direct_parts(p->rows, rungi_direct_parts(p->rows, most));
    // Weights are read once a band: several small images share one.
    int64_t pixels = p->rows * p->class[0].cols, floats = band_rows(p, p->rows) * p->band.cols;
    p->group = 1;
    while (p->block == p->rows && (p->group + 1) * p->threads <= p->images &&
           p->group * pixels < ENOUGH_PIXELS &&
           (p->group + 1) * floats * p->in_c * 4 <= 2 * RUNGI_DIRECT_BAND)
        p->group++;
    for (int i = 0; i < p->classes; i++) {
        output_class *k = &p->class[i];
        k->panels =
            rungi_direct_panels_of(p->loops, p->y_c, (int64_t)k->runs * k->window * p->in_c);
        k->at = p->packed;
        p->packed += rungi_direct_panels_size(&k->panels);
    }
}

typedef struct direct_space {
    float *weights, *band;
    int64_t band_size;
} direct_space;

static direct_space take_space(const direct_plan *p, rungi_wino_space *space)
{
    direct_space s = {.band_size = p->group * band_rows(p, p->block) * p->band.cols * p->in_c};
    s.weights = rungi_wino_take(space, p->packed);
    s.band = rungi_wino_take(space, s.band_size * p->threads);
    return s;
}

static rung_status create(const rungi_query *q, const rungi_operand *x, const rungi_operand *y,
                          rungi_setup *setup)
{
    const rungi_conv2d_attr *a = q->attr;
    bool forward = q->pass == RUNGI_FORWARD;
    int classes = forward ? 1 : a->stride[0] * a->stride[1];
    direct_plan *p = calloc(1, sizeof *p + sizeof(output_class) * (size_t)classes);
    RUNG_CHECK(p, RUNG_NO_MEMORY, "no memory for a convolution");
    const int64_t *in = x->shape.dim, *out = y->shape.dim, *w = q->in[1].shape.dim;
    p->loops = rungi_direct_loops_for(q->isa);
    p->classes = classes;
    p->images = in[0];
    p->in_c = in[1];
    p->band = (rungi_direct_band){.h = in[2], .w = in[3], .c = in[1]};
    p->y_c = out[1];
    p->y_h = out[2];
    p->y_w = out[3];
    if (forward)
        plan_forward(p, a, w);
    else
        plan_data(p, a, w);
    p->threads = rungi_operand_count(y) * in[1] * w[2] * w[3] < RUNGI_DIRECT_SMALL ? 1 : q->threads;
    plan_blocks(p);
    rungi_wino_space space = {0};
    take_space(p, &space);
    setup->state = p;
    setup->workspace = space.used;
    return RUNG_OK;
}

// ---- running ------------------------------------------------------------------------------------

typedef struct direct_work {
    const direct_plan *p;
    direct_space s;
    rungi_direct_taps taps;
    const float *x, *bias;
    float *y;
    bool relu;
} direct_work;

// A thread's panels, those of all classes together: they are made of the same weights.
static void pack_weights(const direct_work *f, int thread)
{
    const direct_plan *p = f->p;
    int count = p->class[0].panels.count;
    for (int panel = count * thread / p->threads; panel < count * (thread + 1) / p->threads;
         panel++)
        for (int i = 0; i < p->classes; i++) {
            const output_class *k = &p->class[i];
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
    const output_class *class;
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
    const direct_plan *p = f->p;
    const output_class *k = c->class;
    int64_t row = i * p->out_step[0] + k->out_row;
    for (int64_t j = 0; j < k->cols; j++) {
        int64_t col = j * p->out_step[1] + k->out_col, at = c->product.pixels++;
        c->from[at] = (int32_t)(from + j * p->step[1] * p->in_c);
        c->to[at] = ((image * p->y_h + row) * p->y_w + col) * p->y_c;
        if (c->product.pixels == RUNGI_DIRECT_PIXELS)
            multiply(f, c);
    }
}

static void run_class(const direct_work *f, const output_class *k, const float *band,
                      const extent *e)
{
    const direct_plan *p = f->p;
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
            int64_t row = (n - e->first) * band_rows(p, p->block) + (i - e->begin) * p->step[0];
            collect_row(f, &c, n, i, ((row + k->top) * p->band.cols + k->left) * p->in_c);
        }
    if (c.product.pixels)
        multiply(f, &c);
}

static void run_band(const direct_work *f, int64_t index, int thread)
{
    const direct_plan *p = f->p;
    int64_t blocks = rungi_direct_parts(p->rows, p->block);
    extent e = {.first = index / blocks * p->group, .begin = index % blocks * p->block};
    e.last = e.first + p->group < p->images ? e.first + p->group : p->images;
    e.end = e.begin + p->block;
    float *to = f->s.band + thread * f->s.band_size;
    rungi_direct_band band = p->band;
    band.row += e.begin * p->row_step;
    band.rows = band_rows(p, p->block);
    for (int64_t n = e.first; n < e.last; n++)
        p->loops->band(&band, f->x + n * band.h * band.w * band.c,
                       to + (n - e.first) * band.rows * band.cols * band.c);
    for (int i = 0; i < p->classes; i++)
        run_class(f, &p->class[i], to, &e);
}

static rung_status run(const rungi_call *c, direct_work *f)
{
    rungi_wino_space space = {.at = c->workspace};
    const direct_plan *p = f->p = c->state;
    f->s = take_space(p, &space);
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
    return create(q, &q->in[0], &q->out[0], setup);
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
    return create(q, &q->gout[0], &q->gin[0], setup);
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
