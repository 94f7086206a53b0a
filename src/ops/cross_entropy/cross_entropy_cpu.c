// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/element.h"
#include "ops/simd.h"

// ---- float32 ----------------------------------------------------------------------------------

typedef struct job {
    const rungi_call *c;
    const rungi_row_loops *loops;
    int64_t classes;
    const float *weights;
    double smoothing;
    double all_weights; // their sum
    double *loss;       // of each row; forward
    float *lse;         // of each row; NULL in forward when nobody wants them
    double scale;       // dy / divisor; backward
} job;

static job job_of(const rungi_call *c, rung_isa isa)
{
    const rungi_query *q = c->q;
    job j = {.c = c,
             .loops = RUNGI_LOOPS_FOR(isa, rungi_row_loops),
             .classes = q->in[0].shape.dim[1],
             .weights = rungi_class_loss_weights(q, c->ptr),
             .smoothing = ((const rungi_class_loss_attr *)q->attr)->label_smoothing,
             .lse = rungi_ptr(c, &q->out[1])};
    j.all_weights = (double)j.classes;
    if (j.weights)
        j.all_weights = j.loops->sum(j.weights, j.classes);
    return j;
}

static void row_forward(void *user, int64_t row, const float *const in[2], float *out)
{
    (void)out;
    const job *j = user;
    const float *x = in[0];
    float top = j->loops->max(x, j->classes);
    double lse = top + log(j->loops->exp_sum(x, top, NULL, j->classes));
    bool counts;
    int64_t label = rungi_class_loss_label(j->c, row, &counts);
    double s = j->smoothing, loss = 0;
    if (counts)
        loss = (1 - s) * (j->weights ? j->weights[label] : 1) * (lse - x[label]);
    if (counts && s > 0) {
        double weighted =
            j->weights ? j->loops->dot(j->weights, x, j->classes) : j->loops->sum(x, j->classes);
        loss += s / (double)j->classes * (j->all_weights * lse - weighted);
    }
    j->loss[row] = loss;
    if (j->lse)
        j->lse[row] = (float)lse;
}

static void row_backward(void *user, int64_t row, const float *const in[2], float *out)
{
    const job *j = user;
    bool counts;
    int64_t label = rungi_class_loss_label(j->c, row, &counts);
    if (!counts) {
        memset(out, 0, (size_t)j->classes * sizeof *out);
        return;
    }
    double s = j->smoothing, part = s / (double)j->classes * j->scale;
    double share = (1 - s) * (j->weights ? j->weights[label] : 1) * j->scale;
    j->loops->exp(in[0], j->lse[row], (float)(share + part * j->all_weights), out, j->classes);
    if (s > 0 && !j->weights)
        j->loops->subtract(out, (float)part, out, j->classes);
    for (int64_t k = 0; s > 0 && j->weights && k < j->classes; k++)
        out[k] -= (float)part * j->weights[k];
    out[label] -= (float)share;
}

static size_t losses_bytes(const rungi_query *q)
{
    return ((size_t)rungi_class_loss_row_count(q) * sizeof(double) + 63) / 64 * 64;
}

static rung_status forward_create(const rungi_query *q, rungi_setup *setup)
{
    rungi_rows r = rungi_class_loss_rows(q);
    setup->workspace = losses_bytes(q) + rungi_rows_workspace(&r, q->threads);
    return RUNG_OK;
}

static rung_status forward_body(const rungi_call *c, rung_isa isa)
{
    const rungi_query *q = c->q;
    RUNG_TRY(rungi_class_loss_check(c));
    rungi_rows r = rungi_class_loss_rows(q);
    job j = job_of(c, isa);
    j.loss = c->workspace;
    rungi_rows_each(&r, rungi_ptr(c, &q->in[0]), NULL, NULL, row_forward, &j, q->threads,
                    (char *)c->workspace + losses_bytes(q));
    double total = 0;
    for (int64_t n = 0; n < rungi_class_loss_row_count(q); n++)
        total += j.loss[n];
    *(float *)rungi_ptr(c, &q->out[0]) = (float)(total / rungi_class_loss_divisor(c));
    return RUNG_OK;
}

static rung_status backward_create(const rungi_query *q, rungi_setup *setup)
{
    rungi_rows r = rungi_class_loss_rows(q);
    setup->workspace = rungi_rows_workspace(&r, q->threads);
    return RUNG_OK;
}

static rung_status backward_body(const rungi_call *c, rung_isa isa)
{
    const rungi_query *q = c->q;
    rungi_rows r = rungi_class_loss_rows(q);
    job j = job_of(c, isa);
    j.scale = *(const float *)rungi_ptr(c, &q->gout[0]) / rungi_class_loss_divisor(c);
    rungi_rows_each(&r, rungi_ptr(c, &q->in[0]), NULL, rungi_ptr(c, &q->gin[0]), row_backward, &j,
                    q->threads, c->workspace);
    return RUNG_OK;
}

static bool float32_only(const rungi_query *q, rungi_reason *why)
{
    bool weights = q->n_in > 2 && q->in[2].shape.rank >= 0 && q->in[2].buffer >= 0;
    if (q->in[0].dtype != RUNG_F32 || (weights && q->in[2].dtype != RUNG_F32))
        return rungi_refuse(why, "float32 only");
    return true;
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
        double lse = reference_lse(c, &r, begin);
        if (q->out[1].buffer >= 0)
            rungi_set(q->out[1].dtype, rungi_ptr(c, &q->out[1]), row, lse);
        bool counts;
        int64_t label = rungi_class_loss_label(c, row, &counts);
        for (int64_t k = 0; counts && k < r.n; k++)
            total += share(c, k, label, r.n) * (lse - read(c, &q->in[0], begin + k * r.inner));
    }
    rungi_set(q->out[0].dtype, rungi_ptr(c, &q->out[0]), 0, total / rungi_class_loss_divisor(c));
    return RUNG_OK;
}

static rung_status backward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_operand *gx = &q->gin[0];
    rungi_rows r = rungi_class_loss_rows(q);
    double scale = read(c, &q->gout[0], 0) / rungi_class_loss_divisor(c);
    for (int64_t row = 0; row < r.outer * r.inner; row++) {
        int64_t begin = rungi_rows_begin(&r, row);
        double lse = read(c, &q->out[1], row), mass = 0;
        bool counts;
        int64_t label = rungi_class_loss_label(c, row, &counts);
        for (int64_t k = 0; counts && k < r.n; k++)
            mass += share(c, k, label, r.n);
        for (int64_t k = 0; k < r.n; k++) {
            int64_t i = begin + k * r.inner;
            double g =
                !counts
                    ? 0
                    : scale * (mass * exp(read(c, &q->in[0], i) - lse) - share(c, k, label, r.n));
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
