// SPDX-License-Identifier: Apache-2.0
// Runs Winograd forward and the gradient of the input, which is a forward convolution too. For the
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
//
// The numbers are those of float32. In bf16 a word holds two channels, so that there are half as
// many words in a row of V and rows in U, and with tiles of 2x2 there are 16 points.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ops/channel_sums.h"
#include "ops/conv2d/conv2d.h"
#include "ops/conv2d/conv2d_winograd.h"
#include "ops/parallel.h"

enum {
    RESIDENT = 4 << 20, // bytes of U up to which it is kept
    BLOCK = 48,         // tiles of a resident block of 36 points
    WIDE_BLOCK = 24,    // the same with AVX-512, which came with larger second-level caches
    BLOCK_BYTES = 3 << 18,
    LEAST_BLOCK = 24,    // bf16: of V and M; tiles
    CHUNK = 128,         // words of a streamed chunk's rows
    STREAMED = 16 << 20, // bytes of V up to which tiles are taken together
    SMALL = 1 << 16,     // multiplications for which a second thread does not pay
};

// ---- blocking ---------------------------------------------------------------------------------

typedef struct forward_plan {
    const rungi_wino_loops *loops;
    rungi_wino_image x, y;
    int64_t points, depth; // of a tile; words of a pixel's channels
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

// Tiles of a resident block: of V and M as many points as BLOCK tiles of 36 have. Bf16 pays less
// for reading U anew, and has the second-level caches that came with its instructions.
static int64_t resident_block(const forward_plan *p, int64_t words, int64_t outputs)
{
    int64_t most = BLOCK * RUNGI_WINO_POINTS / p->points;
    int64_t fit = BLOCK_BYTES / (p->points * 4 * (words + outputs));
    if (p->loops->pack == 1)
        return p->loops->lanes == 16 ? WIDE_BLOCK : most;
    return rungi_wino_least(most, rungi_wino_most(fit, LEAST_BLOCK));
}

static void plan_blocks(forward_plan *p)
{
    int lanes = p->loops->lanes, pack = p->loops->pack;
    int64_t vectors = parts_of(p->y.c, lanes), depth = p->depth;
    int64_t channels = parts_of(p->x.c, lanes) * lanes, bytes = p->points * 4 * channels / pack;
    p->resident = bytes * vectors * lanes <= RESIDENT;
    int64_t most = p->resident ? resident_block(p, channels / pack, vectors * lanes)
                               : rungi_wino_most(BLOCK, STREAMED / bytes);
    int64_t of = p->resident ? parts_of(p->tiles, p->threads) : p->tiles;
    p->block = parts_of(of, parts_of(of, most));
    p->v.chunk = channels;
    if (!p->resident) {
        vectors = rungi_wino_least(vectors, 2);
        p->v.chunk = rungi_wino_least(channels, CHUNK * pack);
        depth = p->v.chunk / pack;
    }
    p->v.width = rungi_wino_width(p->v.chunk / pack, lanes);
    p->v.plane = rungi_wino_plane(p->block * p->v.width);
    p->u = rungi_wino_panels_of(p->loops, rungi_wino_least(p->y.c, vectors * lanes), depth);
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
    forward_space s = {.u_size = p->points * p->u.plane,
                       .v_size = chunks * p->points * p->v.plane,
                       .m_size = p->points * p->m_plane};
    s.zeros = rungi_wino_take(space, p->v.chunk * chunks);
    s.u = rungi_wino_take(space, s.u_size * (p->resident ? 1 : p->threads));
    s.v = rungi_wino_take(space, s.v_size * (p->resident ? p->threads : 1));
    s.m = rungi_wino_take(space, s.m_size * p->threads);
    return s;
}

rung_status rungi_wino_create(const rungi_query *q, const rungi_wino_loops *loops,
                              rungi_setup *setup)
{
    const rungi_conv2d_attr *a = q->attr;
    bool forward = q->pass == RUNGI_FORWARD;
    const rungi_operand *out = rungi_conv2d_output(q);
    const rungi_operand *x = forward ? &q->in[0] : out, *y = forward ? out : &q->gin[0];
    forward_plan *p = calloc(1, sizeof *p);
    RUNG_CHECK(p, RUNG_NO_MEMORY, "no memory for a convolution");
    p->loops = loops;
    p->x = rungi_wino_image_of(x, y, loops->tile, forward ? a->pad[0] : 2 - a->pad[0]);
    p->y = rungi_wino_image_of(y, y, loops->tile, 0);
    p->points = (int64_t)(loops->tile + 2) * (loops->tile + 2);
    p->depth = parts_of(p->x.c, loops->pack);
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
        for (int k = 0; k < p->points; k++)
            p->loops->multiply(&p->u, 0, p->depth, n, v + k * p->v.plane, p->v.width, 1,
                               f->s.u + k * p->u.plane, m + k * p->m_plane, p->m_width, false);
        p->loops->output(&p->y, m, p->m_plane, p->m_width, t, n, 0, p->y.c, &f->to);
    }
}

static void run_resident(const forward_work *f)
{
    const forward_plan *p = f->p;
    RUNGI_PARALLEL_TASKS(p->threads)
    for (int i = 0; i < p->threads; i++) {
        int64_t begin = share(p->depth, i, p->threads), end = share(p->depth, i + 1, p->threads);
        int pack = p->loops->pack;
        p->loops->weights(&f->w, 0, begin * pack, rungi_wino_least(p->x.c, end * pack), &p->u,
                          begin, f->s.u);
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
    const rungi_wino_panels panels = rungi_wino_panels_cut(p->loops, &p->u, end - begin);
    for (int64_t c = 0, chunk = 0; c < p->x.c; c += p->v.chunk, chunk++) {
        int64_t inputs = rungi_wino_least(p->v.chunk, p->x.c - c);
        const float *v = f->s.v + chunk * p->points * p->v.plane;
        p->loops->weights(&f->w, begin, c, c + inputs, &panels, 0, u);
        for (int k = 0; k < p->points; k++)
            p->loops->multiply(&panels, 0, parts_of(inputs, p->loops->pack), n, v + k * p->v.plane,
                               p->v.width, 1, u + k * panels.plane, m + k * p->m_plane, p->m_width,
                               c > 0);
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

static forward_work work_of(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const int64_t *w = q->in[1].shape.dim;
    bool pools = rungi_wino_pools(q);
    if (q->pass != RUNGI_FORWARD)
        return (forward_work){.w = {rungi_ptr(c, &q->in[1]), w[1], w[0], 9, w[1] * 9, true},
                              .x = rungi_wino_gradient_of(c),
                              .to = {.add = q->adds, .y = rungi_ptr(c, &q->gin[0])}};
    forward_work f = {.w = {rungi_ptr(c, &q->in[1]), w[0], w[1], w[1] * 9, 9, false},
                      .x.data = rungi_ptr(c, &q->in[0]),
                      .to = {.bias = q->n_in > 2 ? rungi_ptr(c, &q->in[2]) : NULL,
                             .pool = pools,
                             .relu = q->n_fused > pools,
                             .index = pools ? rungi_ptr(c, &q->out[1]) : NULL,
                             .y = rungi_ptr(c, &q->out[0])}};
    if (q->sums_out) {
        f.to.sums = rungi_ptr(c, q->sums_out);
        f.to.counts = f.to.sums + rungi_wino_sum_parts(q) * rungi_channel_sums_part(w[0]);
    }
    return f;
}

rung_status rungi_wino_run(const rungi_call *c)
{
    rungi_wino_space space = {.at = c->workspace};
    forward_work f = work_of(c);
    f.p = c->state;
    f.s = take_space(f.p, &space);
    memset(f.s.zeros, 0, (size_t)f.p->x.c * sizeof(float));
    if (f.p->resident)
        run_resident(&f);
    else
        run_streamed(&f);
    return RUNG_OK;
}
