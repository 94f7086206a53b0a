// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "ops/element.h"
#include "ops/rows.h"
#include "ops/simd.h"
#include "ops/softmax/softmax.h"

static rungi_rows rows_of(const rungi_query *q)
{
    return rungi_rows_of(&q->out[0].shape, ((const rungi_softmax_attr *)q->attr)->dim);
}

// ---- float32 ----------------------------------------------------------------------------------

typedef struct job {
    const rungi_row_loops *loops;
    int64_t n;
} job;

static void softmax_row(void *user, int64_t row, const float *const in[2], float *out)
{
    (void)row;
    const job *j = user;
    double sum = j->loops->exp_sum(in[0], j->loops->max(in[0], j->n), out, j->n);
    j->loops->scale(out, (float)(1 / sum), out, j->n);
}

static void log_softmax_row(void *user, int64_t row, const float *const in[2], float *out)
{
    (void)row;
    const job *j = user;
    float top = j->loops->max(in[0], j->n);
    double sum = j->loops->exp_sum(in[0], top, NULL, j->n);
    j->loops->subtract(in[0], (float)(top + log(sum)), out, j->n);
}

// in: dy, y
static void softmax_row_back(void *user, int64_t row, const float *const in[2], float *out)
{
    (void)row;
    const job *j = user;
    double sum = j->loops->dot(in[0], in[1], j->n);
    j->loops->softmax(in[1], in[0], (float)sum, out, j->n);
}

static void log_softmax_row_back(void *user, int64_t row, const float *const in[2], float *out)
{
    (void)row;
    const job *j = user;
    double sum = j->loops->sum(in[0], j->n);
    j->loops->log_softmax(in[1], in[0], (float)sum, out, j->n);
}

static rung_status create(const rungi_query *q, rungi_setup *setup)
{
    rungi_rows r = rows_of(q);
    setup->workspace = rungi_rows_workspace(&r, q->threads);
    return RUNG_OK;
}

static void run(const rungi_call *c, rung_isa isa, const rungi_operand *in0,
                const rungi_operand *in1, const rungi_operand *out, rungi_row_fn *fn)
{
    rungi_rows r = rows_of(c->q);
    job j = {RUNGI_LOOPS_FOR(isa, rungi_row_loops), r.n};
    rungi_rows_each(&r, rungi_ptr(c, in0), in1 ? rungi_ptr(c, in1) : NULL, rungi_ptr(c, out), fn,
                    &j, c->q->threads, c->workspace);
}

static rung_status softmax_body(const rungi_call *c, rung_isa isa)
{
    run(c, isa, &c->q->in[0], NULL, &c->q->out[0], softmax_row);
    return RUNG_OK;
}

static rung_status log_softmax_body(const rungi_call *c, rung_isa isa)
{
    run(c, isa, &c->q->in[0], NULL, &c->q->out[0], log_softmax_row);
    return RUNG_OK;
}

static rung_status softmax_back_body(const rungi_call *c, rung_isa isa)
{
    run(c, isa, &c->q->gout[0], &c->q->out[0], &c->q->gin[0], softmax_row_back);
    return RUNG_OK;
}

static rung_status log_softmax_back_body(const rungi_call *c, rung_isa isa)
{
    run(c, isa, &c->q->gout[0], &c->q->out[0], &c->q->gin[0], log_softmax_row_back);
    return RUNG_OK;
}

static bool float32_only(const rungi_query *q, rungi_reason *why)
{
    return q->in[0].dtype == RUNG_F32 ? true : rungi_refuse(why, "float32 only");
}

RUNGI_ISA_KERNELS(softmax, float32_only, create, softmax_body)
RUNGI_ISA_KERNELS(softmax_back, float32_only, create, softmax_back_body)
RUNGI_ISA_KERNELS(log_softmax, float32_only, create, log_softmax_body)
RUNGI_ISA_KERNELS(log_softmax_back, float32_only, create, log_softmax_back_body)

// ---- reference --------------------------------------------------------------------------------

static double read(const rungi_call *c, const rungi_operand *o, int64_t i)
{
    return rungi_get(o->dtype, rungi_ptr(c, o), i);
}

static void forward_reference(const rungi_call *c, bool logarithm)
{
    const rungi_operand *x = &c->q->in[0], *y = &c->q->out[0];
    rungi_rows r = rows_of(c->q);
    for (int64_t row = 0; row < r.outer * r.inner; row++) {
        int64_t begin = rungi_rows_begin(&r, row);
        double top = -INFINITY, sum = 0;
        for (int64_t i = 0; i < r.n; i++)
            top = fmax(top, read(c, x, begin + i * r.inner));
        for (int64_t i = 0; i < r.n; i++)
            sum += exp(read(c, x, begin + i * r.inner) - top);
        double lse = top + log(sum);
        for (int64_t i = 0; i < r.n; i++) {
            double v = read(c, x, begin + i * r.inner) - lse;
            rungi_set(y->dtype, rungi_ptr(c, y), begin + i * r.inner, logarithm ? v : exp(v));
        }
    }
}

static void backward_reference(const rungi_call *c, bool logarithm)
{
    const rungi_operand *y = &c->q->out[0], *gy = &c->q->gout[0], *gx = &c->q->gin[0];
    rungi_rows r = rows_of(c->q);
    for (int64_t row = 0; row < r.outer * r.inner; row++) {
        int64_t begin = rungi_rows_begin(&r, row);
        double sum = 0;
        for (int64_t i = begin; i < begin + r.n * r.inner; i += r.inner)
            sum += read(c, gy, i) * (logarithm ? 1 : read(c, y, i));
        for (int64_t i = begin; i < begin + r.n * r.inner; i += r.inner) {
            double g = read(c, gy, i), v = read(c, y, i);
            rungi_set(gx->dtype, rungi_ptr(c, gx), i, logarithm ? g - exp(v) * sum : v * (g - sum));
        }
    }
}

static rung_status softmax_reference(const rungi_call *c)
{
    forward_reference(c, false);
    return RUNG_OK;
}

static rung_status log_softmax_reference(const rungi_call *c)
{
    forward_reference(c, true);
    return RUNG_OK;
}

static rung_status softmax_back_reference(const rungi_call *c)
{
    backward_reference(c, false);
    return RUNG_OK;
}

static rung_status log_softmax_back_reference(const rungi_call *c)
{
    backward_reference(c, true);
    return RUNG_OK;
}

static const rungi_kernel softmax_ref = {.name = "reference", .run = softmax_reference};
static const rungi_kernel softmax_ref_back = {.name = "reference", .run = softmax_back_reference};
static const rungi_kernel log_ref = {.name = "reference", .run = log_softmax_reference};
static const rungi_kernel log_ref_back = {.name = "reference", .run = log_softmax_back_reference};

const rungi_kernel *const rungi_softmax_forward_cpu[] = {RUNGI_ISA_LIST(softmax), &softmax_ref,
                                                         NULL};
const rungi_kernel *const rungi_softmax_backward_cpu[] = {RUNGI_ISA_LIST(softmax_back),
                                                          &softmax_ref_back, NULL};
const rungi_kernel *const rungi_log_softmax_forward_cpu[] = {RUNGI_ISA_LIST(log_softmax), &log_ref,
                                                             NULL};
const rungi_kernel *const rungi_log_softmax_backward_cpu[] = {RUNGI_ISA_LIST(log_softmax_back),
                                                              &log_ref_back, NULL};
