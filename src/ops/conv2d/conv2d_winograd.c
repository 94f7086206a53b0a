// SPDX-License-Identifier: Apache-2.0
// Winograd's kernels of float32 for forward and the gradient of the input, and what all Winograd
// kernels share.
#include "ops/conv2d/conv2d_winograd.h"

#include <stdlib.h>

#include "ops/conv2d/conv2d.h"
#include "ops/conv2d/conv2d_winograd_loops.h"
#include "ops/max_pool2d/max_pool2d.h"

enum { ENOUGH_CHANNELS = 16 };

const rungi_wino_loops rungi_wino_loops_plain = WINO_TABLE;

// ---- shared -----------------------------------------------------------------------------------

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
    return true;
}

bool rungi_wino_can_run_forward(const rungi_query *q, rungi_reason *why)
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

// With few channels the transforms outweigh the products. Measured on Zen 3, one thread, beside
// oneDNN: forward 64x3->50@32 7.7 ms for 4.0, 64x8->8@32 about equal, 64x16->16@28 2.9 for 3.5,
// 64x24->24@16 1.0 for 2.1. The weight gradient pays from 3 inputs on: 5.7 ms for 10.4.
bool rungi_wino_pays(const rungi_query *q)
{
    const int64_t *w = q->in[1].shape.dim;
    bool weight = q->pass != RUNGI_FORWARD && rungi_query_pass(q)->gives != 1 << 0;
    return w[0] >= ENOUGH_CHANNELS && w[1] >= (weight ? 3 : ENOUGH_CHANNELS);
}

// Of each tile a product of matrices for each point and the transforms, then those of the weight:
// lines of conv2d_winograd_lines.h times their operations.
double rungi_wino_flops(const rungi_query *q, int tile)
{
    bool forward = q->pass == RUNGI_FORWARD, weight = !forward && rungi_query_pass(q)->gives != 1;
    const rungi_operand *out = rungi_conv2d_output(q);
    const rungi_operand *x = forward || weight ? &q->in[0] : out;
    const rungi_operand *y = forward || weight ? out : &q->gin[0];
    rungi_wino_image m = rungi_wino_image_of(x, y, tile, 0);
    double tiles = (double)(x->shape.dim[0] * m.rows * m.cols);
    double c = (double)m.c, o = (double)y->shape.dim[1];
    if (tile == 2)
        return tiles * (2 * 16 * c * o + 8 * 4 * c + 6 * 4 * o) + 7 * 5 * c * o;
    return tiles *
               (2 * RUNGI_WINO_POINTS * c * o + 24 * 12 * c + (weight ? 14 * 10 : 16 * 10) * o) +
           (weight ? 16 : 13) * 9 * c * o;
}

rungi_wino_image rungi_wino_image_of(const rungi_operand *image, const rungi_operand *outputs,
                                     int tile, int64_t pad)
{
    const int64_t *d = image->shape.dim, *y = outputs->shape.dim;
    return (rungi_wino_image){.h = d[2],
                              .w = d[3],
                              .c = d[1],
                              .rows = (y[2] + tile - 1) / tile,
                              .cols = (y[3] + tile - 1) / tile,
                              .pad = pad};
}

rungi_wino_panels rungi_wino_panels_cut(const rungi_wino_loops *loops,
                                        const rungi_wino_panels *panels, int64_t columns)
{
    rungi_wino_panels p = *panels;
    int64_t filled = (columns - 1) % p.lanes + 1; // floats of the last vector
    p.vectors = (int)((columns + p.lanes - 1) / p.lanes);
    p.count = loops->panel_count(p.vectors);
    p.half = loops->halves && filled <= p.lanes / 2;
    return p;
}

rungi_wino_panels rungi_wino_panels_of(const rungi_wino_loops *loops, int64_t columns,
                                       int64_t depth)
{
    rungi_wino_panels p = {.lanes = loops->lanes, .depth = depth};
    p = rungi_wino_panels_cut(loops, &p, columns);
    p.plane = rungi_wino_plane((int64_t)p.vectors * p.lanes * depth);
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

// Tiles of 4x4 pixels of the output, some of them to a part.
int64_t rungi_wino_sum_parts(const rungi_query *q)
{
    const rungi_operand *y = &q->out[0];
    rungi_wino_image m = rungi_wino_image_of(y, y, RUNGI_WINO_TILE, 0);
    int64_t tiles = y->shape.dim[0] * m.rows * m.cols;
    return rungi_wino_pools(q) ? 0 : (tiles + RUNGI_WINO_SUMMED - 1) / RUNGI_WINO_SUMMED;
}

// ---- kernels ----------------------------------------------------------------------------------

static bool forward_can_run(const rungi_query *q, rungi_reason *why)
{
    return rungi_wino_can_run_forward(q, why) && rungi_f32_only(q, why);
}

static bool data_can_run(const rungi_query *q, rungi_reason *why)
{
    if (q->n_fused && !rungi_wino_pools(q))
        return rungi_refuse(why, "cannot apply %s", q->fused[0].op->name);
    return rungi_wino_takes_gradient(q, why) &&
           rungi_wino_can_run(q, &q->gin[0], rungi_conv2d_output(q), why) && rungi_f32_only(q, why);
}

static double flops(const rungi_query *q)
{
    return rungi_wino_flops(q, RUNGI_WINO_TILE);
}

static rung_status create(const rungi_query *q, rungi_setup *setup)
{
    return rungi_wino_create(q, rungi_wino_loops_for(q->isa), setup);
}

const rungi_kernel rungi_conv2d_forward_winograd = {.name = "winograd",
                                                    .kind = RUNGI_OWN,
                                                    .can_run = forward_can_run,
                                                    .prefers = rungi_wino_pays,
                                                    .flops = flops,
                                                    .fuses = true,
                                                    .sum_parts = rungi_wino_sum_parts,
                                                    .create = create,
                                                    .destroy = free,
                                                    .run = rungi_wino_run};
const rungi_kernel rungi_conv2d_data_winograd = {.name = "winograd",
                                                 .kind = RUNGI_OWN,
                                                 .can_run = data_can_run,
                                                 .prefers = rungi_wino_pays,
                                                 .flops = flops,
                                                 .fuses = true,
                                                 .adds = true,
                                                 .create = create,
                                                 .destroy = free,
                                                 .run = rungi_wino_run};
