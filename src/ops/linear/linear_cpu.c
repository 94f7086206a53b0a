// SPDX-License-Identifier: Apache-2.0
#include <cblas.h>
#include <string.h>

#include "ops/element.h"
#include "ops/linear/linear.h"
#include "ops/parallel.h"
#include "ops/unary.h"

rungi_linear_sizes rungi_linear_sizes_of(const rungi_query *q)
{
    const int64_t *w = q->in[1].shape.dim;
    return (rungi_linear_sizes){rungi_shape_size(&q->in[0].shape) / (w[1] ? w[1] : 1), w[1], w[0]};
}

bool rungi_linear_is_small(const rungi_query *q)
{
    enum { SMALL = 1 << 19 };
    rungi_linear_sizes s = rungi_linear_sizes_of(q);
    return q->isa >= RUNG_ISA_AVX512 && s.rows > 1 && s.rows * s.in * s.out < SMALL;
}

bool rungi_linear_can_fuse(const rungi_query *q, rungi_reason *why)
{
    for (int i = 0; i < q->n_fused; i++)
        if (!rungi_unary_find(q->fused[i].op))
            return rungi_refuse(why, "cannot apply %s", q->fused[i].op->name);
    return true;
}

// ---- OpenBLAS ---------------------------------------------------------------------------------

static bool blas_can_run(const rungi_query *q, rungi_reason *why)
{
    return rungi_linear_can_fuse(q, why) && rungi_f32_only(q, why);
}

// Adds the bias and applies what is fused, row by row while it is cached.
static void finish_rows(const rungi_query *q, float *y, const float *bias, int64_t rows, int64_t n)
{
    RUNGI_PARALLEL_FOR(q->threads, rows * n)
    for (int64_t r = 0; r < rows; r++) {
        float *row = y + r * n;
        for (int64_t j = 0; bias && j < n; j++)
            row[j] += bias[j];
        for (int i = 0; i < q->n_fused; i++)
            rungi_unary_apply(rungi_unary_find(q->fused[i].op), q->fused[i].attr, q->isa, row, row,
                              n);
    }
}

static rung_status blas_forward(const rungi_call *c)
{
    const rungi_query *q = c->q;
    rungi_linear_sizes s = rungi_linear_sizes_of(q);
    const float *bias = q->n_in > 2 ? rungi_ptr(c, &q->in[2]) : NULL;
    float *y = rungi_ptr(c, &q->out[0]);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)s.rows, (int)s.out, (int)s.in, 1,
                rungi_ptr(c, &q->in[0]), (int)s.in, rungi_ptr(c, &q->in[1]), (int)s.in, 0, y,
                (int)s.out);
    if (bias || q->n_fused)
        finish_rows(q, y, bias, s.rows, s.out);
    return RUNG_OK;
}

void rungi_linear_sum_rows(const float *gy, float *gb, int64_t rows, int64_t n)
{
    memset(gb, 0, (size_t)n * sizeof *gb);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j++)
            gb[j] += gy[r * n + j];
}

static rung_status blas_weight(const rungi_call *c)
{
    const rungi_query *q = c->q;
    rungi_linear_sizes s = rungi_linear_sizes_of(q);
    const float *gy = rungi_ptr(c, &q->gout[0]);
    float *gw = rungi_ptr(c, &q->gin[1]);
    float *gb = q->n_in > 2 ? rungi_ptr(c, &q->gin[2]) : NULL;
    if (gw)
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)s.out, (int)s.in, (int)s.rows, 1,
                    gy, (int)s.out, rungi_ptr(c, &q->in[0]), (int)s.in, 0, gw, (int)s.in);
    if (gb)
        rungi_linear_sum_rows(gy, gb, s.rows, s.out);
    return RUNG_OK;
}

static rung_status blas_data(const rungi_call *c)
{
    const rungi_query *q = c->q;
    rungi_linear_sizes s = rungi_linear_sizes_of(q);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)s.rows, (int)s.in, (int)s.out, 1,
                rungi_ptr(c, &q->gout[0]), (int)s.out, rungi_ptr(c, &q->in[1]), (int)s.in, 0,
                rungi_ptr(c, &q->gin[0]), (int)s.in);
    return RUNG_OK;
}

// ---- reference --------------------------------------------------------------------------------

static rung_status forward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    rungi_linear_sizes s = rungi_linear_sizes_of(q);
    rung_dtype t = q->out[0].dtype;
    const void *x = rungi_ptr(c, &q->in[0]), *w = rungi_ptr(c, &q->in[1]);
    const void *bias = q->n_in > 2 ? rungi_ptr(c, &q->in[2]) : NULL;
    for (int64_t r = 0; r < s.rows; r++)
        for (int64_t o = 0; o < s.out; o++) {
            double sum = bias ? rungi_get(t, bias, o) : 0;
            for (int64_t i = 0; i < s.in; i++)
                sum += rungi_get(t, x, r * s.in + i) * rungi_get(t, w, o * s.in + i);
            rungi_set(t, rungi_ptr(c, &q->out[0]), r * s.out + o, sum);
        }
    return RUNG_OK;
}

static rung_status weight_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    rungi_linear_sizes s = rungi_linear_sizes_of(q);
    rung_dtype t = q->gout[0].dtype;
    const void *x = rungi_ptr(c, &q->in[0]), *gy = rungi_ptr(c, &q->gout[0]);
    void *gw = rungi_ptr(c, &q->gin[1]), *gb = q->n_in > 2 ? rungi_ptr(c, &q->gin[2]) : NULL;
    for (int64_t o = 0; o < s.out; o++) {
        for (int64_t i = 0; gw && i < s.in; i++) {
            double sum = 0;
            for (int64_t r = 0; r < s.rows; r++)
                sum += rungi_get(t, gy, r * s.out + o) * rungi_get(t, x, r * s.in + i);
            rungi_set(t, gw, o * s.in + i, sum);
        }
        double sum = 0;
        for (int64_t r = 0; gb && r < s.rows; r++)
            sum += rungi_get(t, gy, r * s.out + o);
        if (gb)
            rungi_set(t, gb, o, sum);
    }
    return RUNG_OK;
}

static rung_status data_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    rungi_linear_sizes s = rungi_linear_sizes_of(q);
    rung_dtype t = q->gout[0].dtype;
    const void *gy = rungi_ptr(c, &q->gout[0]), *w = rungi_ptr(c, &q->in[1]);
    for (int64_t r = 0; r < s.rows; r++)
        for (int64_t i = 0; i < s.in; i++) {
            double sum = 0;
            for (int64_t o = 0; o < s.out; o++)
                sum += rungi_get(t, gy, r * s.out + o) * rungi_get(t, w, o * s.in + i);
            rungi_set(t, rungi_ptr(c, &q->gin[0]), r * s.in + i, sum);
        }
    return RUNG_OK;
}

static const rungi_kernel openblas_forward = {.name = "openblas",
                                              .kind = RUNGI_LIBRARY,
                                              .can_run = blas_can_run,
                                              .prefers = rungi_linear_is_small,
                                              .fuses = true,
                                              .run = blas_forward};
static const rungi_kernel openblas_weight = {.name = "openblas",
                                             .kind = RUNGI_LIBRARY,
                                             .can_run = rungi_f32_only,
                                             .prefers = rungi_linear_is_small,
                                             .run = blas_weight};
static const rungi_kernel openblas_data = {.name = "openblas",
                                           .kind = RUNGI_LIBRARY,
                                           .can_run = rungi_f32_only,
                                           .prefers = rungi_linear_is_small,
                                           .run = blas_data};
static const rungi_kernel reference_forward = {.name = "reference", .run = forward_reference};
static const rungi_kernel reference_weight = {.name = "reference", .run = weight_reference};
static const rungi_kernel reference_data = {.name = "reference", .run = data_reference};

const rungi_kernel *const rungi_linear_forward_cpu[] = {
    &rungi_linear_forward_rows,   &openblas_forward,  &rungi_linear_forward_packed,
    &rungi_linear_forward_onednn, &reference_forward, NULL};
const rungi_kernel *const rungi_linear_weight_cpu[] = {
    &rungi_linear_weight_rows,   &rungi_linear_weight_packed, &openblas_weight,
    &rungi_linear_weight_onednn, &reference_weight,           NULL};
const rungi_kernel *const rungi_linear_data_cpu[] = {
    &rungi_linear_data_rows,   &openblas_data,  &rungi_linear_data_packed,
    &rungi_linear_data_onednn, &reference_data, NULL};
