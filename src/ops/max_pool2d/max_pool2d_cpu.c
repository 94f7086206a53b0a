// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "ops/element.h"
#include "ops/max_pool2d/max_pool2d.h"
#include "ops/parallel.h"

// The rows or columns of the image that window `o` covers, and the first one's place in the window.
typedef struct span {
    int64_t begin, end, skip;
} span;

static span window(int64_t o, int kernel, int stride, int pad, int64_t size)
{
    int64_t first = o * stride - pad;
    span s = {first < 0 ? 0 : first, first + kernel, first < 0 ? -first : 0};
    if (s.end > size)
        s.end = size;
    return s;
}

static bool f32_only(const rungi_query *q, rungi_reason *why)
{
    return q->in[0].dtype == RUNG_F32 ? true : rungi_refuse(why, "float32 only");
}

// ---- channels side by side (channels last, blocked): the inner loop is over channels ----------

static bool channels_can_run(const rungi_query *q, rungi_reason *why)
{
    const rungi_operand *o = q->pass == RUNGI_FORWARD ? &q->in[0] : &q->gin[0];
    if (o->layout == RUNGI_PLAIN)
        return rungi_refuse(why, "channels must lie side by side");
    return f32_only(q, why);
}

static void best_of_window(const float *x, float *y, uint8_t *index, int64_t channels,
                           const rungi_strides *s, span rows, span cols, int kernel_w)
{
    bool first = true;
    for (int64_t r = rows.begin; r < rows.end; r++)
        for (int64_t q = cols.begin; q < cols.end; q++) {
            const float *at = x + r * s->h + q * s->w;
            uint8_t place =
                (uint8_t)((r - rows.begin + rows.skip) * kernel_w + (q - cols.begin + cols.skip));
            if (first) {
                memcpy(y, at, (size_t)channels * sizeof *y);
                if (index)
                    memset(index, place, (size_t)channels);
            } else if (index) {
                for (int64_t c = 0; c < channels; c++) {
                    bool wins = !(at[c] <= y[c]) && y[c] == y[c];
                    y[c] = wins ? at[c] : y[c];
                    index[c] = wins ? place : index[c];
                }
            } else {
                for (int64_t c = 0; c < channels; c++)
                    y[c] = !(at[c] <= y[c]) && y[c] == y[c] ? at[c] : y[c];
            }
            first = false;
        }
}

static rung_status channels_forward(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_pool_attr *a = q->attr;
    const rungi_operand *xo = &q->in[0], *yo = &q->out[0];
    const float *x = rungi_ptr(c, xo);
    float *y = rungi_ptr(c, yo);
    uint8_t *index = rungi_ptr(c, &q->out[1]);
    rungi_strides sx = rungi_strides_of(xo->layout, &xo->shape);
    rungi_strides sy = rungi_strides_of(yo->layout, &yo->shape);
    const int64_t *dx = xo->shape.dim, *dy = yo->shape.dim;
    int64_t blocks = dx[1] / sx.block, tasks = dy[0] * blocks * dy[2];
    RUNGI_PARALLEL_TASKS(q->threads)
    for (int64_t t = 0; t < tasks; t++) {
        int64_t n = t / (blocks * dy[2]), b = t / dy[2] % blocks, i = t % dy[2];
        span rows = window(i, a->kernel[0], a->stride[0], a->pad[0], dx[2]);
        int64_t to = n * sy.n + b * sy.cb + i * sy.h;
        for (int64_t j = 0; j < dy[3]; j++, to += sy.w)
            best_of_window(x + n * sx.n + b * sx.cb, y + to, index ? index + to : NULL, sx.block,
                           &sx, rows, window(j, a->kernel[1], a->stride[1], a->pad[1], dx[3]),
                           a->kernel[1]);
    }
    return RUNG_OK;
}

static void spread_row(const float *gy, const uint8_t *index, float *gx, int64_t channels,
                       const rungi_strides *s, span rows, span cols, int kernel_w)
{
    for (int64_t r = rows.begin; r < rows.end; r++)
        for (int64_t q = cols.begin; q < cols.end; q++) {
            float *at = gx + r * s->h + q * s->w;
            uint8_t place =
                (uint8_t)((r - rows.begin + rows.skip) * kernel_w + (q - cols.begin + cols.skip));
            for (int64_t c = 0; c < channels; c++)
                at[c] += index[c] == place ? gy[c] : 0;
        }
}

// Windows of an image are handled in order by one thread, so overlapping ones add in a fixed order.
static rung_status channels_backward(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_pool_attr *a = q->attr;
    const rungi_operand *xo = &q->gin[0], *yo = &q->gout[0];
    const float *gy = rungi_ptr(c, yo);
    const uint8_t *index = rungi_ptr(c, &q->out[1]);
    float *gx = rungi_ptr(c, xo);
    rungi_strides sx = rungi_strides_of(xo->layout, &xo->shape);
    rungi_strides sy = rungi_strides_of(yo->layout, &yo->shape);
    const int64_t *dx = xo->shape.dim, *dy = yo->shape.dim;
    int64_t blocks = dx[1] / sx.block;
    RUNGI_PARALLEL_TASKS(q->threads)
    for (int64_t t = 0; t < dx[0] * blocks; t++) {
        int64_t n = t / blocks, b = t % blocks;
        float *image = gx + n * sx.n + b * sx.cb;
        memset(image, 0, (size_t)(dx[2] * dx[3] * sx.block) * sizeof *image);
        for (int64_t i = 0; i < dy[2]; i++) {
            span rows = window(i, a->kernel[0], a->stride[0], a->pad[0], dx[2]);
            int64_t from = n * sy.n + b * sy.cb + i * sy.h;
            for (int64_t j = 0; j < dy[3]; j++, from += sy.w)
                spread_row(gy + from, index + from, image, sx.block, &sx, rows,
                           window(j, a->kernel[1], a->stride[1], a->pad[1], dx[3]), a->kernel[1]);
        }
    }
    return RUNG_OK;
}

// ---- reference: any layout and dtype; also the plain layout's kernel ---------------------------

static uint8_t best_place(const rungi_pool_attr *a, rung_dtype dtype, const void *x,
                          const rungi_strides *s, int64_t n, int64_t ch, span rows, span cols,
                          double *best)
{
    uint8_t place = 0;
    bool first = true;
    for (int64_t r = rows.begin; r < rows.end; r++)
        for (int64_t q = cols.begin; q < cols.end; q++) {
            double v = rungi_get(dtype, x, rungi_at(s, n, ch, r, q));
            if (first || (!(v <= *best) && !isnan(*best))) {
                *best = v;
                place = (uint8_t)((r - rows.begin + rows.skip) * a->kernel[1] + q - cols.begin +
                                  cols.skip);
            }
            first = false;
        }
    return place;
}

static rung_status forward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_pool_attr *a = q->attr;
    const rungi_operand *xo = &q->in[0], *yo = &q->out[0];
    const void *x = rungi_ptr(c, xo);
    void *y = rungi_ptr(c, yo);
    uint8_t *index = rungi_ptr(c, &q->out[1]);
    rungi_strides sx = rungi_strides_of(xo->layout, &xo->shape);
    rungi_strides sy = rungi_strides_of(yo->layout, &yo->shape);
    const int64_t *dx = xo->shape.dim, *dy = yo->shape.dim;
    RUNGI_PARALLEL_TASKS(q->threads)
    for (int64_t t = 0; t < dy[0] * dy[1]; t++)
        for (int64_t i = 0; i < dy[2]; i++)
            for (int64_t j = 0; j < dy[3]; j++) {
                int64_t n = t / dy[1], ch = t % dy[1];
                double best = 0;
                uint8_t place =
                    best_place(a, xo->dtype, x, &sx, n, ch,
                               window(i, a->kernel[0], a->stride[0], a->pad[0], dx[2]),
                               window(j, a->kernel[1], a->stride[1], a->pad[1], dx[3]), &best);
                int64_t to = rungi_at(&sy, n, ch, i, j);
                rungi_set(yo->dtype, y, to, best);
                if (index)
                    index[to] = place;
            }
    return RUNG_OK;
}

static rung_status backward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_pool_attr *a = q->attr;
    const rungi_operand *xo = &q->gin[0], *yo = &q->gout[0];
    const void *gy = rungi_ptr(c, yo);
    const uint8_t *index = rungi_ptr(c, &q->out[1]);
    void *gx = rungi_ptr(c, xo);
    rungi_strides sx = rungi_strides_of(xo->layout, &xo->shape);
    rungi_strides sy = rungi_strides_of(yo->layout, &yo->shape);
    const int64_t *dy = yo->shape.dim;
    memset(gx, 0, rungi_operand_bytes(xo));
    RUNGI_PARALLEL_TASKS(q->threads)
    for (int64_t t = 0; t < dy[0] * dy[1]; t++)
        for (int64_t i = 0; i < dy[2]; i++)
            for (int64_t j = 0; j < dy[3]; j++) {
                int64_t n = t / dy[1], ch = t % dy[1];
                int64_t from = rungi_at(&sy, n, ch, i, j);
                int64_t r = i * a->stride[0] - a->pad[0] + index[from] / a->kernel[1];
                int64_t s = j * a->stride[1] - a->pad[1] + index[from] % a->kernel[1];
                int64_t to = rungi_at(&sx, n, ch, r, s);
                rungi_set(xo->dtype, gx, to,
                          rungi_get(xo->dtype, gx, to) + rungi_get(yo->dtype, gy, from));
            }
    return RUNG_OK;
}

static const rungi_kernel channels = {
    .name = "channels", .kind = RUNGI_OWN, .can_run = channels_can_run, .run = channels_forward};
static const rungi_kernel channels_back = {
    .name = "channels", .kind = RUNGI_OWN, .can_run = channels_can_run, .run = channels_backward};
static const rungi_kernel reference_forward = {.name = "reference", .run = forward_reference};
static const rungi_kernel reference_backward = {.name = "reference", .run = backward_reference};

const rungi_kernel *const rungi_max_pool2d_forward_cpu[] = {&channels, &reference_forward, NULL};
const rungi_kernel *const rungi_max_pool2d_backward_cpu[] = {&channels_back, &reference_backward,
                                                             NULL};
