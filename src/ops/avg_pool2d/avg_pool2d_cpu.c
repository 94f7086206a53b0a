// SPDX-License-Identifier: Apache-2.0
// Own kernels. Forward goes by outputs; backward by rows of inputs, which take from the windows
// that cover them in their order and are written once where windows do not overlap.
#include <stdlib.h>

#include "ops/avg_pool2d/avg_pool2d_loops.h"
#include "ops/parallel.h"

const rungi_avg_pool_loops rungi_avg_pool_loops_cpu = AVG_POOL_LOOPS;

static rung_status forward_create(const rungi_query *q, rungi_setup *setup)
{
    return rungi_pool_windows_create(rungi_avg_pool_attr(q), &q->in[0].shape, &q->out[0].shape,
                                     (rungi_pool_windows **)&setup->state);
}

static rung_status backward_create(const rungi_query *q, rungi_setup *setup)
{
    return rungi_pool_windows_create(rungi_avg_pool_attr(q), &q->gin[0].shape, &q->gout[0].shape,
                                     (rungi_pool_windows **)&setup->state);
}

static rung_status forward(const rungi_call *c, const rungi_avg_pool_loops *loops)
{
    const rungi_query *q = c->q;
    const rungi_pool_windows *w = c->state;
    const float *x = rungi_ptr(c, &q->in[0]);
    float *y = rungi_ptr(c, &q->out[0]);
    rungi_strides sx = rungi_strides_of(q->in[0].layout, &q->in[0].shape);
    rungi_strides sy = rungi_strides_of(q->out[0].layout, &q->out[0].shape);
    const int64_t *dy = q->out[0].shape.dim;
    int64_t blocks = dy[1] / sy.block;
    RUNGI_PARALLEL_FOR(q->threads, rungi_operand_count(&q->in[0]))
    for (int64_t t = 0; t < dy[0] * blocks * dy[2]; t++) {
        int64_t n = t / (blocks * dy[2]), b = t / dy[2] % blocks, i = t % dy[2];
        const float *image = x + n * sx.n + b * sx.cb, *row = image + w->rows.begin[i] * sx.h;
        float *to = y + n * sy.n + b * sy.cb + i * sy.h;
        if (sx.block == 1) {
            loops->mean_row(image, w, i, to);
            continue;
        }
        for (int64_t j = 0, end, step; j < dy[3]; j = end) {
            end = rungi_pool_run(&w->cols, j, &step);
            loops->mean(row + w->cols.begin[j] * sx.w, step * sx.w, end - j, sx.h, sx.w,
                        w->rows.end[i] - w->rows.begin[i], w->cols.end[j] - w->cols.begin[j],
                        sx.block, w->rows.share[i] * w->cols.share[j], to + j * sy.w);
        }
    }
    return RUNG_OK;
}

static rung_status backward(const rungi_call *c, const rungi_avg_pool_loops *loops)
{
    const rungi_query *q = c->q;
    const rungi_pool_windows *w = c->state;
    const float *gy = rungi_ptr(c, &q->gout[0]);
    float *gx = rungi_ptr(c, &q->gin[0]);
    rungi_strides sx = rungi_strides_of(q->gin[0].layout, &q->gin[0].shape);
    rungi_strides sy = rungi_strides_of(q->gout[0].layout, &q->gout[0].shape);
    const int64_t *dx = q->gin[0].shape.dim;
    int64_t blocks = dx[1] / sx.block;
    RUNGI_PARALLEL_FOR(q->threads, rungi_operand_count(&q->gin[0]))
    for (int64_t t = 0; t < dx[0] * blocks * dx[2]; t++) {
        int64_t n = t / (blocks * dx[2]), b = t / dx[2] % blocks, r = t % dx[2];
        const float *image = gy + n * sy.n + b * sy.cb;
        float *row = gx + n * sx.n + b * sx.cb + r * sx.h;
        if (w->rows.first[r] == w->rows.last[r])
            memset(row, 0, (size_t)(dx[3] * sx.block) * sizeof *row);
        for (int32_t i = w->rows.first[r]; i < w->rows.last[r]; i++)
            loops->spread(image + i * sy.h, &w->cols, w->rows.share[i], sx.block,
                          i > w->rows.first[r], row);
    }
    return RUNG_OK;
}

// ---- kernels ----------------------------------------------------------------------------------

static rung_status forward_cpu(const rungi_call *c)
{
    return forward(c, &rungi_avg_pool_loops_cpu);
}

static rung_status forward_avx2(const rungi_call *c)
{
    return forward(c, rungi_avg_pool_loops_avx2);
}

static rung_status backward_cpu(const rungi_call *c)
{
    return backward(c, &rungi_avg_pool_loops_cpu);
}

static rung_status backward_avx2(const rungi_call *c)
{
    return backward(c, rungi_avg_pool_loops_avx2);
}

static const rungi_kernel windows_avx2 = {.name = "windows_avx2",
                                          .kind = RUNGI_OWN,
                                          .can_run = rungi_f32_avx2,
                                          .create = forward_create,
                                          .destroy = free,
                                          .run = forward_avx2};
static const rungi_kernel windows = {.name = "windows",
                                     .kind = RUNGI_OWN,
                                     .can_run = rungi_f32_only,
                                     .create = forward_create,
                                     .destroy = free,
                                     .run = forward_cpu};
static const rungi_kernel windows_back_avx2 = {.name = "windows_avx2",
                                               .kind = RUNGI_OWN,
                                               .can_run = rungi_f32_avx2,
                                               .create = backward_create,
                                               .destroy = free,
                                               .run = backward_avx2};
static const rungi_kernel windows_back = {.name = "windows",
                                          .kind = RUNGI_OWN,
                                          .can_run = rungi_f32_only,
                                          .create = backward_create,
                                          .destroy = free,
                                          .run = backward_cpu};

const rungi_kernel *const rungi_avg_pool2d_forward_cpu[] = {
    &windows_avx2, &windows, &rungi_avg_pool_forward_onednn, &rungi_avg_pool_forward_reference,
    NULL};
const rungi_kernel *const rungi_avg_pool2d_backward_cpu[] = {
    &windows_back_avx2, &windows_back, &rungi_avg_pool_backward_onednn,
    &rungi_avg_pool_backward_reference, NULL};
// The same windows, found in another way.
const rungi_kernel *const rungi_adaptive_avg_pool2d_forward_cpu[] = {
    &windows_avx2, &windows, &rungi_avg_pool_forward_onednn, &rungi_avg_pool_forward_reference,
    NULL};
const rungi_kernel *const rungi_adaptive_avg_pool2d_backward_cpu[] = {
    &windows_back_avx2, &windows_back, &rungi_avg_pool_backward_onednn,
    &rungi_avg_pool_backward_reference, NULL};
