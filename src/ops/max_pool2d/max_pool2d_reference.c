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

const rungi_kernel rungi_max_pool2d_forward_reference = {.name = "reference",
                                                         .run = forward_reference};
const rungi_kernel rungi_max_pool2d_backward_reference = {.name = "reference",
                                                          .run = backward_reference};
