// SPDX-License-Identifier: Apache-2.0
// Winograd forward and the gradient of the input, which is a forward convolution too. For the
// formulas and the matrices see conv2d_winograd.h.
//
// Few channels, the weight stays in the caches ("resident"): U is made once, each thread takes its
// share of the tiles, a block at a time:
//
//     x -> [ V: 36 x block x channels ] --U, shared--> [ M: 36 x block x outputs ] -> bias, 2x2
//     pooling, ReLU -> y
//          |------------------- one thread, second-level cache ------------------|
//
// Many channels, few tiles ("streamed"): V of all tiles is made once, each thread takes its share
// of the outputs, some vectors at a time, and transforms their weights in chunks of inputs, each of
// which is used for all tiles while it lies in the second-level cache:
//
//     x -> [ V: chunks x 36 x tiles x 128, shared ] --+
//     w -> [ U: 36 x 128 x few outputs ] -------------+--> [ M: 36 x tiles x few outputs ] -> y
//          |- one thread, chunk after chunk -|
#include "ops/conv2d/conv2d_winograd.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ops/channel_sums.h"
#include "ops/conv2d/conv2d.h"
#include "ops/conv2d/conv2d_winograd_loops.h"
#include "ops/max_pool2d/max_pool2d.h"
#include "ops/parallel.h"

enum {
    POINTS = RUNGI_WINO_POINTS,
    RESIDENT = 4 << 20,  // bytes of U up to which it is kept
    BLOCK = 48,          // tiles of a resident block
    CHUNK = 128,         // inputs of a streamed chunk
    STREAMED = 16 << 20, // bytes of V up to which tiles are taken together
    SMALL = 1 << 16,     // multiplications for which a second thread does not pay
    ENOUGH_CHANNELS = 16,
};

const rungi_wino_loops rungi_wino_loops_plain = WINO_TABLE;

// ---- shared with the weight gradient ----------------------------------------------------------

const rungi_wino_loops *rungi_wino_loops_for(rung_isa isa)
{
#if defined(__x86_64__)
    if (isa >= RUNG_ISA_AVX512)
        return &rungi_wino_loops_avx512;
    if (isa >= RUNG_ISA_AVX2)
        return &rungi_wino_loops_avx2;
#endif
    (void)isa;
    return &rungi_wino_loops_plain;
}

bool rungi_wino_pools(const rungi_query *q)
{
    return q->n_fused && q->fused[0].op == &rungi_op_max_pool2d &&
           rungi_pool_is_2x2(q->fused[0].attr);
}

rungi_wino_source rungi_wino_gradient_of(const rungi_call *c)
{
    const rungi_query *q = c->q;
    rungi_wino_source s = {.data = rungi_ptr(c, &q->gout[0])};
    if (rungi_wino_pools(q)) {
        s.places = rungi_ptr(c, q->fused[0].out);
        s.places_end = s.places + rungi_operand_count(&q->gout[0]);
    } else if (q->n_fused) {
        s.gate = rungi_ptr(c, q->fused[0].out);
    }
    return s;
}

bool rungi_wino_takes_gradient(const rungi_query *q, rungi_reason *why)
{
    if (rungi_wino_pools(q) && q->gout[0].layout != RUNGI_CHANNELS_LAST)
        return rungi_refuse(why, "needs plan.layout channels_last");
    if (q->n_fused && q->fused[0].out->buffer < 0)
        return rungi_refuse(why, "needs the output of %s", q->fused[0].op->name);
    return true;
}

bool rungi_wino_can_run(const rungi_query *q, const rungi_operand *x, const rungi_operand *y,
                        rungi_reason *why)
{
    const rungi_conv2d_attr *a = q->attr;
    const int64_t *w = q->in[1].shape.dim;
    if (!q->winograd)
        return rungi_refuse(why, "plan.winograd is off");
    if (w[2] != 3 || w[3] != 3 || a->stride[0] != 1 || a->stride[1] != 1 || a->groups != 1 ||
        a->dilation[0] != 1 || a->dilation[1] != 1)
        return rungi_refuse(why, "for 3x3, stride 1, without dilation and groups");
    if (a->pad[0] != a->pad[1] || a->pad[0] > 1)
        return rungi_refuse(why, "for padding 0 or 1");
    if (x->layout != RUNGI_CHANNELS_LAST || y->layout != RUNGI_CHANNELS_LAST)
        return rungi_refuse(why, "needs plan.layout channels_last");
    if (rungi_operand_count(x) == 0 || rungi_operand_count(y) == 0 || w[0] * w[1] == 0)
        return rungi_refuse(why, "there is nothing to compute");
    return rungi_f32_only(q, why);
}

// With few channels the transforms outweigh the products. Measured on Zen 3, one thread, beside
// oneDNN: forward 64x3->50@32 7.7 ms for 4.0, 64x8->8@32 about equal, 64x16->16@28 2.9 for 3.5,
// 64x24->24@16 1.0 for 2.1. The weight gradient pays from 3 inputs on: 5.7 ms for 10.4.
bool rungi_wino_pays(const rungi_query *q)
{
    const int64_t *w = q->in[1].shape.dim;
    bool weight = q->pass != RUNGI_FORWARD && rungi_query_pass(q)->gives != 1 << 0;
    return w[0] >= ENOUGH_CHANNELS && w[1] >= (weight ? 3 : ENOUGH_CHANNELS);
}

// Of each tile 36 products of matrices and the transforms, then those of the weight: operations of
// a line of conv2d_winograd_transform.h times lines.
double rungi_wino_flops(const rungi_query *q)
{
    bool forward = q->pass == RUNGI_FORWARD, weight = !forward && rungi_query_pass(q)->gives != 1;
    const rungi_operand *out = rungi_conv2d_output(q);
    const rungi_operand *x = forward || weight ? &q->in[0] : out;
    const rungi_operand *y = forward || weight ? out : &q->gin[0];
    rungi_wino_image m = rungi_wino_image_of(x, y, 0);
    double tiles = (double)(x->shape.dim[0] * m.rows * m.cols);
    double c = (double)m.c, o = (double)y->shape.dim[1];
    return tiles * (2 * POINTS * c * o + 24 * 12 * c + (weight ? 14 * 10 : 16 * 10) * o) +
           (weight ? 16 : 13) * 9 * c * o;
}

rungi_wino_image rungi_wino_image_of(const rungi_operand *image, const rungi_operand *outputs,
                                     int64_t pad)
{
    const int64_t *d = image->shape.dim, *y = outputs->shape.dim;
    return (rungi_wino_image){.h = d[2],
                              .w = d[3],
                              .c = d[1],
                              .rows = (y[2] + 3) / 4,
                              .cols = (y[3] + 3) / 4,
                              .pad = pad};
}

rungi_wino_panels rungi_wino_panels_of(const rungi_wino_loops *loops, int64_t vectors,
                                       int64_t depth)
{
    rungi_wino_panels p = {.lanes = loops->lanes, .vectors = (int)vectors, .depth = depth};
    p.count = loops->panel_count(p.vectors);
    p.plane = rungi_wino_plane(vectors * loops->lanes * depth);
    return p;
}

int64_t rungi_wino_width(int64_t n, int lanes)
{
    int64_t width = (n + lanes - 1) / lanes * lanes;
    return width % 32 == 0 ? width + 16 : width;
}

int64_t rungi_wino_plane(int64_t floats)
{
    int64_t plane = (floats + 15) / 16 * 16 + 16;
    return plane % 256 == 0 ? plane + 16 : plane;
}

// ---- blocking ---------------------------------------------------------------------------------

typedef struct forward_plan {
    const rungi_wino_loops *loops;
    rungi_wino_image x, y;
    int64_t tiles, block;
    int64_t unit; // tiles that one thread takes together
    int threads;
    bool resident;
    rungi_wino_rows v;
    rungi_wino_panels u;
    int64_t m_width, m_plane;
} forward_plan;

static int64_t parts_of(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

static void plan_blocks(forward_plan *p)
{
    int lanes = p->loops->lanes;
    int64_t vectors = parts_of(p->y.c, lanes), depth = p->x.c;
    int64_t channels = parts_of(p->x.c, lanes) * lanes, bytes = POINTS * 4 * channels;
    p->resident = bytes * vectors * lanes <= RESIDENT;
    int64_t most = p->resident ? BLOCK : rungi_wino_most(BLOCK, STREAMED / bytes);
    int64_t of = p->resident ? parts_of(p->tiles, p->threads) : p->tiles;
    p->block = parts_of(of, parts_of(of, most));
    p->v.chunk = channels;
    if (!p->resident) {
        vectors = rungi_wino_least(vectors, 2);
        p->v.chunk = rungi_wino_least(channels, CHUNK);
        depth = p->v.chunk;
    }
    p->v.width = rungi_wino_width(p->v.chunk, lanes);
    p->v.plane = rungi_wino_plane(p->block * p->v.width);
    p->u = rungi_wino_panels_of(p->loops, vectors, depth);
    p->m_width = rungi_wino_width(vectors * lanes, lanes);
    p->m_plane = rungi_wino_plane(p->block * p->m_width);
}

typedef struct forward_space {
    float *zeros, *u, *v, *m; // u or v, and m: one for each thread
    int64_t u_size, v_size, m_size;
} forward_space;

static forward_space take_space(const forward_plan *p, rungi_wino_space *space)
{
    int64_t chunks = parts_of(p->x.c, p->v.chunk);
    forward_space s = {.u_size = POINTS * p->u.plane,
                       .v_size = chunks * POINTS * p->v.plane,
                       .m_size = POINTS * p->m_plane};
    s.zeros = rungi_wino_take(space, p->v.chunk * chunks);
    s.u = rungi_wino_take(space, s.u_size * (p->resident ? 1 : p->threads));
    s.v = rungi_wino_take(space, s.v_size * (p->resident ? p->threads : 1));
    s.m = rungi_wino_take(space, s.m_size * p->threads);
    return s;
}

static rung_status create(const rungi_query *q, const rungi_operand *x, const rungi_operand *y,
                          int64_t pad, rungi_setup *setup)
{
    forward_plan *p = calloc(1, sizeof *p);
    RUNG_CHECK(p, RUNG_NO_MEMORY, "no memory for a convolution");
    p->loops = rungi_wino_loops_for(q->isa);
    p->x = rungi_wino_image_of(x, y, pad);
    p->y = rungi_wino_image_of(y, y, 0);
    p->tiles = y->shape.dim[0] * p->y.rows * p->y.cols;
    p->unit = q->sums_out ? RUNGI_WINO_SUMMED : 1;
    p->threads = p->tiles * p->x.c * p->y.c < SMALL ? 1 : q->threads;
    plan_blocks(p);
    rungi_wino_space space = {0};
    take_space(p, &space);
    return rungi_wino_created(setup, p, &space);
}

// ---- running ----------------------------------------------------------------------------------

typedef struct forward_work {
    const forward_plan *p;
    forward_space s;
    rungi_wino_weight w;
    rungi_wino_source x;
    rungi_wino_store to;
} forward_work;

// The part of n that falls to thread i.
static int64_t share(int64_t n, int i, int threads)
{
    return n * i / threads;
}

static void resident_share(const forward_work *f, int thread)
{
    const forward_plan *p = f->p;
    float *v = f->s.v + thread * f->s.v_size, *m = f->s.m + thread * f->s.m_size;
    int64_t units = parts_of(p->tiles, p->unit), begin = share(units, thread, p->threads) * p->unit;
    int64_t end = rungi_wino_least(share(units, thread + 1, p->threads) * p->unit, p->tiles);
    for (int64_t t = begin, n; t < end; t += n) {
        n = rungi_wino_least(p->block, end - t);
        p->loops->input(&p->x, &f->x, f->s.zeros, t, n, &p->v, RUNGI_WINO_ALL, v);
        for (int k = 0; k < POINTS; k++)
            p->loops->multiply(&p->u, 0, p->x.c, n, v + k * p->v.plane, p->v.width, 1,
                               f->s.u + k * p->u.plane, m + k * p->m_plane, p->m_width, false);
        p->loops->output(&p->y, m, p->m_plane, p->m_width, t, n, 0, p->y.c, &f->to);
    }
}

static void run_resident(const forward_work *f)
{
    const forward_plan *p = f->p;
    RUNGI_PARALLEL_TASKS(p->threads)
    for (int i = 0; i < p->threads; i++) {
        int64_t begin = share(p->x.c, i, p->threads);
        p->loops->weights(&f->w, 0, begin, share(p->x.c, i + 1, p->threads), &p->u, begin, f->s.u);
    }
    RUNGI_PARALLEL_TASKS(p->threads)
    for (int i = 0; i < p->threads; i++)
        resident_share(f, i);
}

// Outputs [begin, end) of tiles [first, first + n), whose V is there.
static void streamed_outputs(const forward_work *f, int thread, int64_t first, int64_t n,
                             int64_t begin, int64_t end)
{
    const forward_plan *p = f->p;
    float *u = f->s.u + thread * f->s.u_size, *m = f->s.m + thread * f->s.m_size;
    rungi_wino_panels panels = p->u;
    panels.vectors = (int)parts_of(end - begin, p->loops->lanes);
    panels.count = p->loops->panel_count(panels.vectors);
    for (int64_t c = 0, chunk = 0; c < p->x.c; c += p->v.chunk, chunk++) {
        int64_t inputs = rungi_wino_least(p->v.chunk, p->x.c - c);
        const float *v = f->s.v + chunk * POINTS * p->v.plane;
        p->loops->weights(&f->w, begin, c, c + inputs, &panels, 0, u);
        for (int k = 0; k < POINTS; k++)
            p->loops->multiply(&panels, 0, inputs, n, v + k * p->v.plane, p->v.width, 1,
                               u + k * panels.plane, m + k * p->m_plane, p->m_width, c > 0);
    }
    p->loops->output(&p->y, m, p->m_plane, p->m_width, first, n, begin, end, &f->to);
}

static void run_streamed(const forward_work *f)
{
    const forward_plan *p = f->p;
    int64_t step = (int64_t)p->u.vectors * p->loops->lanes, steps = parts_of(p->y.c, step);
    for (int64_t t = 0; t < p->tiles; t += p->block) {
        int64_t n = rungi_wino_least(p->block, p->tiles - t);
        RUNGI_PARALLEL_TASKS(p->threads)
        for (int i = 0; i < p->threads; i++) {
            int64_t begin = share(n, i, p->threads), end = share(n, i + 1, p->threads);
            p->loops->input(&p->x, &f->x, f->s.zeros, t + begin, end - begin, &p->v, RUNGI_WINO_ALL,
                            f->s.v + begin * p->v.width);
        }
        RUNGI_PARALLEL_TASKS(p->threads)
        for (int i = 0; i < p->threads; i++)
            for (int64_t o = share(steps, i, p->threads); o < share(steps, i + 1, p->threads); o++)
                streamed_outputs(f, i, t, n, o * step, rungi_wino_least(p->y.c, (o + 1) * step));
    }
}

static rung_status run(const rungi_call *c, forward_work *f)
{
    rungi_wino_space space = {.at = c->workspace};
    f->p = c->state;
    f->s = take_space(f->p, &space);
    memset(f->s.zeros, 0, (size_t)f->p->x.c * sizeof(float));
    if (f->p->resident)
        run_resident(f);
    else
        run_streamed(f);
    return RUNG_OK;
}

// ---- kernels ----------------------------------------------------------------------------------

static bool forward_can_run(const rungi_query *q, rungi_reason *why)
{
    rungi_query rest = *q;
    if (rungi_wino_pools(q)) {
        if (q->out[0].layout != RUNGI_CHANNELS_LAST)
            return rungi_refuse(why, "needs plan.layout channels_last");
        rest.fused++;
        rest.n_fused--;
    }
    return rungi_wino_can_run(q, &q->in[0], rungi_conv2d_output(q), why) &&
           rungi_fuses_relu(&rest, why);
}

static rung_status forward_create(const rungi_query *q, rungi_setup *setup)
{
    const rungi_conv2d_attr *a = q->attr;
    return create(q, &q->in[0], rungi_conv2d_output(q), a->pad[0], setup);
}

// Tiles of 4x4 pixels of the output, some of them to a part.
static int64_t forward_sum_parts(const rungi_query *q)
{
    const rungi_operand *y = &q->out[0];
    rungi_wino_image m = rungi_wino_image_of(y, y, 0);
    return rungi_wino_pools(q) ? 0 : parts_of(y->shape.dim[0] * m.rows * m.cols, RUNGI_WINO_SUMMED);
}

static rung_status forward_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const int64_t *w = q->in[1].shape.dim;
    forward_work f = {.w = {rungi_ptr(c, &q->in[1]), w[0], w[1], w[1] * 9, 9, false},
                      .x.data = rungi_ptr(c, &q->in[0]),
                      .to = {.bias = q->n_in > 2 ? rungi_ptr(c, &q->in[2]) : NULL,
                             .pool = rungi_wino_pools(q),
                             .relu = q->n_fused > rungi_wino_pools(q),
                             .index = rungi_wino_pools(q) ? rungi_ptr(c, &q->out[1]) : NULL,
                             .y = rungi_ptr(c, &q->out[0])}};
    if (q->sums_out) {
        f.to.sums = rungi_ptr(c, q->sums_out);
        f.to.counts = f.to.sums + forward_sum_parts(q) * rungi_channel_sums_part(w[0]);
    }
    return run(c, &f);
}

static bool data_can_run(const rungi_query *q, rungi_reason *why)
{
    if (q->n_fused && !rungi_wino_pools(q))
        return rungi_refuse(why, "cannot apply %s", q->fused[0].op->name);
    return rungi_wino_takes_gradient(q, why) &&
           rungi_wino_can_run(q, &q->gin[0], rungi_conv2d_output(q), why);
}

static rung_status data_create(const rungi_query *q, rungi_setup *setup)
{
    const rungi_conv2d_attr *a = q->attr;
    return create(q, rungi_conv2d_output(q), &q->gin[0], 2 - a->pad[0], setup);
}

static rung_status data_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const int64_t *w = q->in[1].shape.dim;
    forward_work f = {.w = {rungi_ptr(c, &q->in[1]), w[1], w[0], 9, w[1] * 9, true},
                      .x = rungi_wino_gradient_of(c),
                      .to = {.add = q->adds, .y = rungi_ptr(c, &q->gin[0])}};
    return run(c, &f);
}

const rungi_kernel rungi_conv2d_forward_winograd = {.name = "winograd",
                                                    .kind = RUNGI_OWN,
                                                    .can_run = forward_can_run,
                                                    .prefers = rungi_wino_pays,
                                                    .flops = rungi_wino_flops,
                                                    .fuses = true,
                                                    .sum_parts = forward_sum_parts,
                                                    .create = forward_create,
                                                    .destroy = free,
                                                    .run = forward_run};
const rungi_kernel rungi_conv2d_data_winograd = {.name = "winograd",
                                                 .kind = RUNGI_OWN,
                                                 .can_run = data_can_run,
                                                 .prefers = rungi_wino_pays,
                                                 .flops = rungi_wino_flops,
                                                 .fuses = true,
                                                 .adds = true,
                                                 .create = data_create,
                                                 .destroy = free,
                                                 .run = data_run};
