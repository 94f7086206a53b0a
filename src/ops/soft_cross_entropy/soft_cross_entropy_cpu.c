// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "ops/element.h"
#include "ops/entropy_rows.h"
#include "ops/simd.h"
#include "ops/soft_cross_entropy/soft_cross_entropy.h"

static rungi_rows rows_of(const rungi_query *q)
{
    return rungi_rows_of(&q->in[0].shape, 1);
}

static double smoothing_of(const rungi_query *q)
{
    return ((const rungi_soft_loss_attr *)q->attr)->label_smoothing;
}

// What the sum over the rows is divided by: counted over all shards where there are several.
static double divisor(const rungi_call *c)
{
    double rows = c->rt && c->rt->normalizer ? c->rt->normalizer[c->q->node]
                                             : rungi_soft_loss_normalizer(c->q, c->ptr);
    return ((const rungi_soft_loss_attr *)c->q->attr)->sum ? 1 : rows;
}

// ---- float32 ----------------------------------------------------------------------------------

static void row_forward(void *user, int64_t row, const float *const in[2], float *out)
{
    (void)out;
    const rungi_entropy_rows *e = user;
    const float *x = in[0], *p = in[1];
    double lse = rungi_entropy_lse(e, row, x), s = e->smoothing;
    double part = s / (double)e->classes, sums[4] = {0};
    // Differences first: a likely class costs next to nothing.
    for (int64_t k = 0; k < e->classes; k++)
        sums[k % 4] += ((1 - s) * p[k] + part) * (lse - x[k]);
    e->loss[row] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static void row_backward(void *user, int64_t row, const float *const in[2], float *out)
{
    const rungi_entropy_rows *e = user;
    const float *p = in[1];
    double s = e->smoothing, mass = (1 - s) * e->loops->sum(p, e->classes) + s;
    float share = (float)((1 - s) * e->scale), part = (float)(s / (double)e->classes * e->scale);
    e->loops->exp(in[0], e->lse[row], (float)(mass * e->scale), out, e->classes);
    for (int64_t k = 0; k < e->classes; k++)
        out[k] -= share * p[k] + part;
}

static rung_status forward_body(const rungi_call *c, rung_isa isa)
{
    rungi_entropy_rows e = rungi_entropy_rows_of(c, isa, smoothing_of(c->q));
    rungi_entropy_forward(&e, rungi_ptr(c, &c->q->in[1]), row_forward, divisor(c));
    return RUNG_OK;
}

static rung_status backward_body(const rungi_call *c, rung_isa isa)
{
    rungi_entropy_rows e = rungi_entropy_rows_of(c, isa, smoothing_of(c->q));
    rungi_entropy_backward(&e, rungi_ptr(c, &c->q->in[1]), row_backward, divisor(c));
    return RUNG_OK;
}

static bool float32_only(const rungi_query *q, rungi_reason *why)
{
    return q->in[0].dtype == RUNG_F32 || rungi_refuse(why, "float32 only");
}

RUNGI_ISA_KERNELS(forward, float32_only, rungi_entropy_create, forward_body)
RUNGI_ISA_KERNELS(backward, float32_only, rungi_entropy_create, backward_body)

// ---- reference --------------------------------------------------------------------------------

static double target(const rungi_call *c, const rungi_rows *r, int64_t i)
{
    double s = smoothing_of(c->q);
    return (1 - s) * rungi_entropy_read(c, &c->q->in[1], i) + s / (double)r->n;
}

static rung_status forward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    rungi_rows r = rows_of(q);
    double total = 0;
    for (int64_t row = 0; row < r.outer * r.inner; row++) {
        int64_t begin = rungi_rows_begin(&r, row);
        double lse = rungi_entropy_reference_lse(c, &r, begin);
        if (q->out[1].buffer >= 0)
            rungi_set(q->out[1].dtype, rungi_ptr(c, &q->out[1]), row, lse);
        for (int64_t k = 0; k < r.n; k++)
            total += target(c, &r, begin + k * r.inner) *
                     (lse - rungi_entropy_read(c, &q->in[0], begin + k * r.inner));
    }
    rungi_set(q->out[0].dtype, rungi_ptr(c, &q->out[0]), 0, total / divisor(c));
    return RUNG_OK;
}

static rung_status backward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_operand *gx = &q->gin[0];
    rungi_rows r = rows_of(q);
    double scale = rungi_entropy_read(c, &q->gout[0], 0) / divisor(c);
    for (int64_t row = 0; row < r.outer * r.inner; row++) {
        int64_t begin = rungi_rows_begin(&r, row);
        double lse = rungi_entropy_read(c, &q->out[1], row), mass = 0;
        for (int64_t k = 0; k < r.n; k++)
            mass += target(c, &r, begin + k * r.inner);
        for (int64_t k = 0; k < r.n; k++) {
            int64_t i = begin + k * r.inner;
            double g =
                scale * (mass * exp(rungi_entropy_read(c, &q->in[0], i) - lse) - target(c, &r, i));
            rungi_set(gx->dtype, rungi_ptr(c, gx), i, g);
        }
    }
    return RUNG_OK;
}

static const rungi_kernel reference = {.name = "reference", .run = forward_reference};
static const rungi_kernel reference_back = {.name = "reference", .run = backward_reference};

const rungi_kernel *const rungi_soft_cross_entropy_forward_cpu[] = {RUNGI_ISA_LIST(forward),
                                                                    &reference, NULL};
const rungi_kernel *const rungi_soft_cross_entropy_backward_cpu[] = {RUNGI_ISA_LIST(backward),
                                                                     &reference_back, NULL};
