// SPDX-License-Identifier: Apache-2.0
#include "ops/conv2d/conv2d_direct_plan.h"

#include <stdlib.h>

#include "base/error.h"
#include "ops/conv2d/conv2d.h"

enum { ENOUGH_CHANNELS = 16, ENOUGH_PIXELS = 96 };

// ---- shared with the weight gradient ------------------------------------------------------------

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
//
// Nor is there much to be had from 1x1: in a step of ResNet-18 with 16 images (two threads, 860 ms)
// the library takes 21 ms for all of them, forward and backward, at 38 to 65 % of the peak of
// multiply-adds; at the 60 % of strided 3x3 it were 17. And an input could be normalized while it
// is packed only if nobody else read it, as in DenseNet: a residual block's is read by its other
// branch and by backward too.
bool rungi_direct_pays(const rungi_query *q)
{
    const rungi_conv2d_attr *a = q->attr;
    const int64_t *w = q->in[1].shape.dim;
    bool weight = q->pass != RUNGI_FORWARD && rungi_query_pass(q)->gives != 1 << 0;
    return a->stride[0] * a->stride[1] > 1 && w[2] * w[3] > 1 && w[0] >= ENOUGH_CHANNELS &&
           (weight || w[1] >= ENOUGH_CHANNELS);
}

// ---- classes of outputs -------------------------------------------------------------------------

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

static void plan_forward(rungi_direct_plan *p, const rungi_conv2d_attr *a, const int64_t *w)
{
    rungi_direct_class *k = &p->class[0];
    bool point = w[2] == 1 && w[3] == 1 && a->stride[0] == a->stride[1];
    *k = (rungi_direct_class){
        .rows = p->y_h, .cols = p->y_w, .runs = (int)w[2], .window = (int)w[3]};
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

static void plan_data(rungi_direct_plan *p, const rungi_conv2d_attr *a, const int64_t *w)
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
        rungi_direct_class *k = &p->class[i];
        *k = (rungi_direct_class){.rows = rungi_direct_parts(p->y_h - r, a->stride[0]),
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

int64_t rungi_direct_band_rows(const rungi_direct_plan *p, int64_t rows)
{
    int64_t last = 0;
    for (int i = 0; i < p->classes; i++)
        if (p->class[i].runs && p->class[i].top + p->class[i].runs > last)
            last = p->class[i].top + p->class[i].runs;
    return (rows - 1) * p->step[0] + last;
}

static void plan_blocks(rungi_direct_plan *p)
{
    int64_t most = 1;
    while (most < p->rows && (most + 1) * p->class[0].cols <= RUNGI_DIRECT_PIXELS &&
           rungi_direct_band_rows(p, most + 1) * p->band.cols * p->in_c * 4 <= RUNGI_DIRECT_BAND)
        most++;
    p->block = rungi_direct_parts(p->rows, rungi_direct_parts(p->rows, most));
    // Weights are read once a band: several small images share one.
    int64_t pixels = p->rows * p->class[0].cols,
            floats = rungi_direct_band_rows(p, p->rows) * p->band.cols;
    p->group = 1;
    while (p->block == p->rows && (p->group + 1) * p->threads <= p->images &&
           p->group * pixels < ENOUGH_PIXELS &&
           (p->group + 1) * floats * p->in_c * 4 <= 2 * RUNGI_DIRECT_BAND)
        p->group++;
    for (int i = 0; i < p->classes; i++) {
        rungi_direct_class *k = &p->class[i];
        k->panels =
            rungi_direct_panels_of(p->loops, p->y_c, (int64_t)k->runs * k->window * p->in_c);
        k->at = p->packed;
        p->packed += rungi_direct_panels_size(&k->panels);
    }
}

rungi_direct_space rungi_direct_space_of(const rungi_direct_plan *p, rungi_wino_space *space)
{
    rungi_direct_space s = {.band_size = p->group * rungi_direct_band_rows(p, p->block) *
                                         p->band.cols * p->in_c};
    s.weights = rungi_wino_take(space, p->packed);
    s.band = rungi_wino_take(space, s.band_size * p->threads);
    return s;
}

rung_status rungi_direct_create(const rungi_query *q, const rungi_operand *x,
                                const rungi_operand *y, rungi_setup *setup)
{
    const rungi_conv2d_attr *a = q->attr;
    bool forward = q->pass == RUNGI_FORWARD;
    int classes = forward ? 1 : a->stride[0] * a->stride[1];
    rungi_direct_plan *p = calloc(1, sizeof *p + sizeof(rungi_direct_class) * (size_t)classes);
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
    rungi_direct_space_of(p, &space);
    return rungi_wino_created(setup, p, &space);
}
