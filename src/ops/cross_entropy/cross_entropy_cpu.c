// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/element.h"
#include "ops/entropy_rows.h"
#include "ops/simd.h"

// ---- float32 ----------------------------------------------------------------------------------

typedef struct job {
    rungi_entropy_rows e;
    const float *weights;
    double all_weights; // their sum
} job;

static job job_of(const rungi_call *c, rung_isa isa)
{
    const rungi_class_loss_attr *a = c->q->attr;
    job j = {.e = rungi_entropy_rows_of(c, isa, a->label_smoothing),
             .weights = rungi_class_loss_weights(c->q, c->ptr)};
    j.all_weights = j.weights ? j.e.loops->sum(j.weights, j.e.classes) : (double)j.e.classes;
    return j;
}

static void row_forward(void *user, int64_t row, const float *const in[2], float *out)
{
    (void)out;
    const job *j = user;
    const float *x = in[0];
    const rungi_row_loops *loops = j->e.loops;
    int64_t classes = j->e.classes;
    double lse = rungi_entropy_lse(&j->e, row, x);
    bool counts;
    int64_t label = rungi_class_loss_label(j->e.call, row, &counts);
    double s = j->e.smoothing, loss = 0;
    if (counts)
        loss = (1 - s) * (j->weights ? j->weights[label] : 1) * (lse - x[label]);
    if (counts && s > 0) {
        double weighted = j->weights ? loops->dot(j->weights, x, classes) : loops->sum(x, classes);
        loss += s / (double)classes * (j->all_weights * lse - weighted);
    }
    j->e.loss[row] = loss;
}

static void row_backward(void *user, int64_t row, const float *const in[2], float *out)
{
    const job *j = user;
    int64_t classes = j->e.classes;
    bool counts;
    int64_t label = rungi_class_loss_label(j->e.call, row, &counts);
    if (!counts) {
        memset(out, 0, (size_t)classes * sizeof *out);
        return;
    }
    double s = j->e.smoothing, part = s / (double)classes * j->e.scale;
    double share = (1 - s) * (j->weights ? j->weights[label] : 1) * j->e.scale;
    j->e.loops->exp(in[0], j->e.lse[row], (float)(share + part * j->all_weights), out, classes);
    if (s > 0 && !j->weights)
        j->e.loops->subtract(out, (float)part, out, classes);
    for (int64_t k = 0; s > 0 && j->weights && k < classes; k++)
        out[k] -= (float)part * j->weights[k];
    out[label] -= (float)share;
}

static rung_status forward_body(const rungi_call *c, rung_isa isa)
{
    RUNG_TRY(rungi_class_loss_check(c));
    job j = job_of(c, isa);
    rungi_entropy_forward(&j.e, NULL, row_forward, rungi_class_loss_divisor(c));
    return RUNG_OK;
}

static rung_status backward_body(const rungi_call *c, rung_isa isa)
{
    job j = job_of(c, isa);
    rungi_entropy_backward(&j.e, NULL, row_backward, rungi_class_loss_divisor(c));
    return RUNG_OK;
}

static bool float32_only(const rungi_query *q, rungi_reason *why)
{
    bool weights = q->n_in > 2 && q->in[2].shape.rank >= 0 && q->in[2].buffer >= 0;
    if (q->in[0].dtype != RUNG_F32 || (weights && q->in[2].dtype != RUNG_F32))
        return rungi_refuse(why, "float32 only");
    return true;
}

RUNGI_ISA_KERNELS(forward, float32_only, rungi_entropy_create, forward_body)
RUNGI_ISA_KERNELS(backward, float32_only, rungi_entropy_create, backward_body)

// ---- reference --------------------------------------------------------------------------------

// What class k weighs in the loss of a row with that label.
static double share(const rungi_call *c, int64_t k, int64_t label, int64_t classes)
{
    double s = ((const rungi_class_loss_attr *)c->q->attr)->label_smoothing;
    double w = rungi_class_weight(c->q, rungi_class_loss_weights(c->q, c->ptr), k);
    return s / (double)classes * w + (k == label ? (1 - s) * w : 0);
}

static rung_status forward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    RUNG_TRY(rungi_class_loss_check(c));
    rungi_rows r = rungi_class_loss_rows(q);
    double total = 0;
    for (int64_t row = 0; row < r.outer * r.inner; row++) {
        int64_t begin = rungi_rows_begin(&r, row);
        double lse = rungi_entropy_reference_lse(c, &r, begin);
        if (q->out[1].buffer >= 0)
            rungi_set(q->out[1].dtype, rungi_ptr(c, &q->out[1]), row, lse);
        bool counts;
        int64_t label = rungi_class_loss_label(c, row, &counts);
        for (int64_t k = 0; counts && k < r.n; k++)
            total += share(c, k, label, r.n) *
                     (lse - rungi_entropy_read(c, &q->in[0], begin + k * r.inner));
    }
    rungi_set(q->out[0].dtype, rungi_ptr(c, &q->out[0]), 0, total / rungi_class_loss_divisor(c));
    return RUNG_OK;
}

static rung_status backward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_operand *gx = &q->gin[0];
    rungi_rows r = rungi_class_loss_rows(q);
    double scale = rungi_entropy_read(c, &q->gout[0], 0) / rungi_class_loss_divisor(c);
    for (int64_t row = 0; row < r.outer * r.inner; row++) {
        int64_t begin = rungi_rows_begin(&r, row);
        double lse = rungi_entropy_read(c, &q->out[1], row), mass = 0;
        bool counts;
        int64_t label = rungi_class_loss_label(c, row, &counts);
        for (int64_t k = 0; counts && k < r.n; k++)
            mass += share(c, k, label, r.n);
        for (int64_t k = 0; k < r.n; k++) {
            int64_t i = begin + k * r.inner;
            double g = !counts ? 0
                               : scale * (mass * exp(rungi_entropy_read(c, &q->in[0], i) - lse) -
                                          share(c, k, label, r.n));
            rungi_set(gx->dtype, rungi_ptr(c, gx), i, g);
        }
    }
    return RUNG_OK;
}

static const rungi_kernel reference = {.name = "reference", .run = forward_reference};
static const rungi_kernel reference_back = {.name = "reference", .run = backward_reference};

const rungi_kernel *const rungi_cross_entropy_forward_cpu[] = {RUNGI_ISA_LIST(forward), &reference,
                                                               NULL};
const rungi_kernel *const rungi_cross_entropy_backward_cpu[] = {RUNGI_ISA_LIST(backward),
                                                                &reference_back, NULL};
