// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "ops/element.h"
#include "ops/rows.h"
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

typedef struct job {
    const rungi_row_loops *loops;
    int64_t classes;
    double smoothing;
    double *loss; // of each row; forward
    float *lse;   // of each row; NULL in forward when nobody wants them
    double scale; // dy / divisor; backward
} job;

static job job_of(const rungi_call *c, rung_isa isa)
{
    return (job){.loops = RUNGI_LOOPS_FOR(isa, rungi_row_loops),
                 .classes = c->q->in[0].shape.dim[1],
                 .smoothing = smoothing_of(c->q),
                 .lse = rungi_ptr(c, &c->q->out[1])};
}

static void row_forward(void *user, int64_t row, const float *const in[2], float *out)
{
    (void)out;
    const job *j = user;
    const float *x = in[0], *p = in[1];
    float top = j->loops->max(x, j->classes);
    double lse = top + log(j->loops->exp_sum(x, top, NULL, j->classes)), s = j->smoothing;
    double part = s / (double)j->classes, sums[4] = {0};
    // Differences first: a likely class costs next to nothing.
    for (int64_t k = 0; k < j->classes; k++)
        sums[k % 4] += ((1 - s) * p[k] + part) * (lse - x[k]);
    j->loss[row] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    if (j->lse)
        j->lse[row] = (float)lse;
}

static void row_backward(void *user, int64_t row, const float *const in[2], float *out)
{
    const job *j = user;
    const float *p = in[1];
    double s = j->smoothing, mass = (1 - s) * j->loops->sum(p, j->classes) + s;
    float share = (float)((1 - s) * j->scale), part = (float)(s / (double)j->classes * j->scale);
    j->loops->exp(in[0], j->lse[row], (float)(mass * j->scale), out, j->classes);
    for (int64_t k = 0; k < j->classes; k++)
        out[k] -= share * p[k] + part;
}

static size_t losses_bytes(const rungi_query *q)
{
    rungi_rows r = rows_of(q);
    return ((size_t)(r.outer * r.inner) * sizeof(double) + 63) / 64 * 64;
}

static rung_status forward_create(const rungi_query *q, rungi_setup *setup)
{
    rungi_rows r = rows_of(q);
    setup->workspace = losses_bytes(q) + rungi_rows_workspace(&r, q->threads);
    return RUNG_OK;
}

static rung_status forward_body(const rungi_call *c, rung_isa isa)
{
    const rungi_query *q = c->q;
    rungi_rows r = rows_of(q);
    job j = job_of(c, isa);
    j.loss = c->workspace;
    rungi_rows_each(&r, rungi_ptr(c, &q->in[0]), rungi_ptr(c, &q->in[1]), NULL, row_forward, &j,
                    q->threads, (char *)c->workspace + losses_bytes(q));
    double total = 0;
    for (int64_t n = 0; n < r.outer * r.inner; n++)
        total += j.loss[n];
    *(float *)rungi_ptr(c, &q->out[0]) = (float)(total / divisor(c));
    return RUNG_OK;
}

static rung_status backward_create(const rungi_query *q, rungi_setup *setup)
{
    rungi_rows r = rows_of(q);
    setup->workspace = rungi_rows_workspace(&r, q->threads);
    return RUNG_OK;
}

static rung_status backward_body(const rungi_call *c, rung_isa isa)
{
    const rungi_query *q = c->q;
    rungi_rows r = rows_of(q);
    job j = job_of(c, isa);
    j.scale = *(const float *)rungi_ptr(c, &q->gout[0]) / divisor(c);
    rungi_rows_each(&r, rungi_ptr(c, &q->in[0]), rungi_ptr(c, &q->in[1]), rungi_ptr(c, &q->gin[0]),
                    row_backward, &j, q->threads, c->workspace);
    return RUNG_OK;
}

static bool float32_only(const rungi_query *q, rungi_reason *why)
{
    return q->in[0].dtype == RUNG_F32 || rungi_refuse(why, "float32 only");
}

RUNGI_ISA_KERNELS(forward, float32_only, forward_create, forward_body)
RUNGI_ISA_KERNELS(backward, float32_only, backward_create, backward_body)

// ---- reference --------------------------------------------------------------------------------

static double read(const rungi_call *c, const rungi_operand *o, int64_t i)
{
    return rungi_get(o->dtype, rungi_ptr(c, o), i);
}

static double reference_lse(const rungi_call *c, const rungi_rows *r, int64_t begin)
{
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < r->n; i++)
        top = fmax(top, read(c, &c->q->in[0], begin + i * r->inner));
    for (int64_t i = 0; i < r->n; i++)
        sum += exp(read(c, &c->q->in[0], begin + i * r->inner) - top);
    return top + log(sum);
}

static double target(const rungi_call *c, const rungi_rows *r, int64_t i)
{
    double s = smoothing_of(c->q);
    return (1 - s) * read(c, &c->q->in[1], i) + s / (double)r->n;
}

static rung_status forward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    rungi_rows r = rows_of(q);
    double total = 0;
    for (int64_t row = 0; row < r.outer * r.inner; row++) {
        int64_t begin = rungi_rows_begin(&r, row);
        double lse = reference_lse(c, &r, begin);
        if (q->out[1].buffer >= 0)
            rungi_set(q->out[1].dtype, rungi_ptr(c, &q->out[1]), row, lse);
        for (int64_t k = 0; k < r.n; k++)
            total += target(c, &r, begin + k * r.inner) *
                     (lse - read(c, &q->in[0], begin + k * r.inner));
    }
    rungi_set(q->out[0].dtype, rungi_ptr(c, &q->out[0]), 0, total / divisor(c));
    return RUNG_OK;
}

static rung_status backward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_operand *gx = &q->gin[0];
    rungi_rows r = rows_of(q);
    double scale = read(c, &q->gout[0], 0) / divisor(c);
    for (int64_t row = 0; row < r.outer * r.inner; row++) {
        int64_t begin = rungi_rows_begin(&r, row);
        double lse = read(c, &q->out[1], row), mass = 0;
        for (int64_t k = 0; k < r.n; k++)
            mass += target(c, &r, begin + k * r.inner);
        for (int64_t k = 0; k < r.n; k++) {
            int64_t i = begin + k * r.inner;
            double g = scale * (mass * exp(read(c, &q->in[0], i) - lse) - target(c, &r, i));
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
