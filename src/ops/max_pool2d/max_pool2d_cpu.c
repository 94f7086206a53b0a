// SPDX-License-Identifier: Apache-2.0
// Own kernels. Forward goes by outputs. Backward goes by inputs where channels lie side by side:
// each takes from the windows that cover it, in their order, and is written once. In plain layout
// it goes by windows, image by image.
#include <stdlib.h>
#include <string.h>

#include "ops/max_pool2d/max_pool2d_loops.h"
#include "ops/parallel.h"

const rungi_max_pool_loops rungi_max_pool_loops_cpu = MAX_POOL_LOOPS;

static rung_status forward_create(const rungi_query *q, rungi_setup *setup)
{
    return rungi_pool_windows_create(q->attr, &q->in[0].shape, &q->out[0].shape,
                                     (rungi_pool_windows **)&setup->state);
}

static rung_status backward_create(const rungi_query *q, rungi_setup *setup)
{
    return rungi_pool_windows_create(q->attr, &q->gin[0].shape, &q->gout[0].shape,
                                     (rungi_pool_windows **)&setup->state);
}

// ---- forward ----------------------------------------------------------------------------------

// The pixels of a window: where they lie, and their places.
typedef struct taps {
    int64_t offset[256];
    int32_t place[256];
    int count;
} taps;

static void find_taps(const rungi_pool_windows *w, const rungi_strides *sx, int64_t i, int64_t j,
                      taps *t)
{
    t->count = 0;
    for (int32_t r = 0; r < w->rows.end[i] - w->rows.begin[i]; r++)
        for (int32_t s = 0; s < w->cols.end[j] - w->cols.begin[j]; s++) {
            t->offset[t->count] = r * sx->h + s * sx->w;
            t->place[t->count++] = (r + w->rows.skip[i]) * w->cols.kernel + s + w->cols.skip[j];
        }
}

static void channels_forward(const rungi_call *c, const rungi_max_pool_loops *loops)
{
    const rungi_query *q = c->q;
    const rungi_pool_windows *w = c->state;
    const float *x = rungi_ptr(c, &q->in[0]);
    float *y = rungi_ptr(c, &q->out[0]);
    uint8_t *index = rungi_ptr(c, &q->out[1]);
    rungi_strides sx = rungi_strides_of(q->in[0].layout, &q->in[0].shape);
    rungi_strides sy = rungi_strides_of(q->out[0].layout, &q->out[0].shape);
    const int64_t *dy = q->out[0].shape.dim;
    int64_t blocks = dy[1] / sy.block;
    RUNGI_PARALLEL_FOR(q->threads, rungi_operand_count(&q->in[0]))
    for (int64_t t = 0; t < dy[0] * blocks * dy[2]; t++) {
        int64_t n = t / (blocks * dy[2]), b = t / dy[2] % blocks, i = t % dy[2];
        int64_t to = n * sy.n + b * sy.cb + i * sy.h;
        const float *row = x + n * sx.n + b * sx.cb + w->rows.begin[i] * sx.h;
        taps window;
        for (int64_t j = 0, end, step; j < dy[3]; j = end) {
            end = rungi_pool_run(&w->cols, j, &step);
            find_taps(w, &sx, i, j, &window);
            int64_t at = to + j * sy.w;
            loops->best(row + w->cols.begin[j] * sx.w, step * sx.w, end - j, window.offset,
                        window.place, window.count, sx.block, q->n_fused > 0, y + at,
                        index ? index + at : NULL);
        }
    }
}

static void plain_forward(const rungi_call *c, const rungi_max_pool_loops *loops)
{
    const rungi_query *q = c->q;
    const rungi_pool_windows *w = c->state;
    const float *x = rungi_ptr(c, &q->in[0]);
    float *y = rungi_ptr(c, &q->out[0]);
    uint8_t *index = rungi_ptr(c, &q->out[1]);
    const int64_t *d = q->out[0].shape.dim;
    int64_t pixels = w->rows.in * w->cols.in;
    RUNGI_PARALLEL_FOR(q->threads, rungi_operand_count(&q->in[0]))
    for (int64_t image = 0; image < d[0] * d[1]; image++)
        for (int64_t i = 0; i < d[2]; i++) {
            int64_t to = (image * d[2] + i) * d[3];
            loops->best_row(x + image * pixels, w, i, q->n_fused > 0, y + to,
                            index ? index + to : NULL);
        }
}

static rung_status forward(const rungi_call *c, const rungi_max_pool_loops *loops)
{
    if (c->q->in[0].layout == RUNGI_PLAIN)
        plain_forward(c, loops);
    else
        channels_forward(c, loops);
    return RUNG_OK;
}

// ---- backward ---------------------------------------------------------------------------------

// One row of inputs: from the rows of windows that cover it, one column of the windows at a time.
// Columns go backwards, so that an input takes from its windows in their order.
static void give_row(const rungi_pool_windows *w, const rungi_max_pool_loops *loops,
                     const float *gy, const uint8_t *index, const rungi_strides *sy, int64_t r,
                     float *gx)
{
    const rungi_pool_axis *rows = &w->rows, *cols = &w->cols;
    int64_t lanes = sy->block;
    bool add = !rows->disjoint || !cols->disjoint;
    if (add || rows->first[r] == rows->last[r])
        memset(gx, 0, (size_t)(cols->in * lanes) * sizeof *gx);
    else
        for (int64_t s = 0; s < cols->in; s++)
            if (cols->first[s] == cols->last[s])
                memset(gx + s * lanes, 0, (size_t)lanes * sizeof *gx);
    for (int64_t i = rows->first[r]; i < rows->last[r]; i++)
        for (int v = cols->kernel - 1; v >= 0; v--) {
            // Windows [from, to) have column v inside of the image.
            int64_t s = cols->stride, first = v - cols->pad;
            int64_t from = first < 0 ? (-first + s - 1) / s : 0;
            int64_t to = first < cols->in ? (cols->in - 1 - first) / s + 1 : 0;
            int64_t place = (r - rows->begin[i] + rows->skip[i]) * cols->kernel + v;
            int64_t at = i * sy->h + from * lanes;
            if (to > cols->out)
                to = cols->out;
            loops->give(gy + at, index + at, (int)place, to - from, lanes, s * lanes, add,
                        gx + (first + from * s) * lanes);
        }
}

static void channels_backward(const rungi_call *c, const rungi_max_pool_loops *loops)
{
    const rungi_query *q = c->q;
    const float *gy = rungi_ptr(c, &q->gout[0]);
    const uint8_t *index = rungi_ptr(c, &q->out[1]);
    float *gx = rungi_ptr(c, &q->gin[0]);
    rungi_strides sx = rungi_strides_of(q->gin[0].layout, &q->gin[0].shape);
    rungi_strides sy = rungi_strides_of(q->gout[0].layout, &q->gout[0].shape);
    const int64_t *dx = q->gin[0].shape.dim;
    int64_t blocks = dx[1] / sx.block;
    RUNGI_PARALLEL_FOR(q->threads, rungi_operand_count(&q->gin[0]))
    for (int64_t t = 0; t < dx[0] * blocks * dx[2]; t++) {
        int64_t n = t / (blocks * dx[2]), b = t / dx[2] % blocks, r = t % dx[2];
        int64_t from = n * sy.n + b * sy.cb;
        give_row(c->state, loops, gy + from, index + from, &sy, r,
                 gx + n * sx.n + b * sx.cb + r * sx.h);
    }
}

static void plain_backward(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_pool_attr *a = q->attr;
    const float *gy = rungi_ptr(c, &q->gout[0]);
    const uint8_t *index = rungi_ptr(c, &q->out[1]);
    float *gx = rungi_ptr(c, &q->gin[0]);
    const int64_t *dx = q->gin[0].shape.dim, *dy = q->gout[0].shape.dim;
    int64_t pixels = dx[2] * dx[3], windows = dy[2] * dy[3];
    int64_t offset[256]; // of a window's places
    for (int i = 0; i < a->kernel[0] * a->kernel[1]; i++)
        offset[i] = i / a->kernel[1] * dx[3] + i % a->kernel[1];
    RUNGI_PARALLEL_FOR(q->threads, rungi_operand_count(&q->gin[0]))
    for (int64_t image = 0; image < dx[0] * dx[1]; image++) {
        float *to = gx + image * pixels;
        int64_t k = image * windows;
        memset(to, 0, (size_t)pixels * sizeof *to);
        for (int64_t i = 0; i < dy[2]; i++) {
            int64_t corner = (i * a->stride[0] - a->pad[0]) * dx[3] - a->pad[1];
            for (int64_t j = 0; j < dy[3]; j++, k++)
                to[corner + j * a->stride[1] + offset[index[k]]] += gy[k];
        }
    }
}

static rung_status backward(const rungi_call *c, const rungi_max_pool_loops *loops)
{
    if (c->q->gin[0].layout == RUNGI_PLAIN)
        plain_backward(c);
    else
        channels_backward(c, loops);
    return RUNG_OK;
}

// ---- kernels ----------------------------------------------------------------------------------

static bool can_run(const rungi_query *q, rungi_reason *why)
{
    return rungi_fuses_relu(q, why) && rungi_f32_only(q, why);
}

static bool avx2_can_run(const rungi_query *q, rungi_reason *why)
{
    return rungi_fuses_relu(q, why) && rungi_f32_avx2(q, why);
}

static rung_status forward_cpu(const rungi_call *c)
{
    return forward(c, &rungi_max_pool_loops_cpu);
}

static rung_status forward_avx2(const rungi_call *c)
{
    return forward(c, rungi_max_pool_loops_avx2);
}

static rung_status backward_cpu(const rungi_call *c)
{
    return backward(c, &rungi_max_pool_loops_cpu);
}

static rung_status backward_avx2(const rungi_call *c)
{
    return backward(c, rungi_max_pool_loops_avx2);
}

static const rungi_kernel windows_avx2 = {.name = "windows_avx2",
                                          .kind = RUNGI_OWN,
                                          .can_run = avx2_can_run,
                                          .fuses = true,
                                          .create = forward_create,
                                          .destroy = free,
                                          .run = forward_avx2};
static const rungi_kernel windows = {.name = "windows",
                                     .kind = RUNGI_OWN,
                                     .can_run = can_run,
                                     .fuses = true,
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

const rungi_kernel *const rungi_max_pool2d_forward_cpu[] = {
    &windows_avx2, &windows, &rungi_max_pool2d_forward_reference, NULL};
const rungi_kernel *const rungi_max_pool2d_backward_cpu[] = {
    &windows_back_avx2, &windows_back, &rungi_max_pool2d_backward_reference, NULL};
