// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "ops/avg_pool2d/avg_pool2d.h"
#include "ops/element.h"

typedef struct window {
    int64_t begin, end; // inputs
    double size;        // what it contributes to the divisor
} window;

const rungi_pool_attr *rungi_avg_pool_attr(const rungi_query *q)
{
    return strcmp(q->op->name, "avg_pool2d") == 0 ? q->attr : NULL;
}

// Window o along rows (d 0) or columns (d 1).
static window window_of(const rungi_query *q, int d, int64_t o, int64_t in, int64_t out)
{
    const rungi_pool_attr *a = rungi_avg_pool_attr(q);
    if (!a) {
        window w = {o * in / out, ((o + 1) * in + out - 1) / out, 0};
        w.size = (double)(w.end - w.begin);
        return w;
    }
    int64_t begin = o * a->stride[d] - a->pad[d], end = begin + a->kernel[d];
    if (end > in + a->pad[d])
        end = in + a->pad[d];
    window w = {begin < 0 ? 0 : begin, end > in ? in : end, 0};
    w.size = (double)(a->count_include_pad ? end - begin : w.end - w.begin);
    if (a->divisor)
        w.size = d ? 1 : (double)a->divisor;
    return w;
}

// Forward: y = mean of x. Backward: gx += the mean's share of gy.
static void walk(const rungi_call *c, const rungi_operand *x, const rungi_operand *y, bool forward)
{
    rungi_strides sx = rungi_strides_of(x->layout, &x->shape);
    rungi_strides sy = rungi_strides_of(y->layout, &y->shape);
    const int64_t *dx = x->shape.dim, *dy = y->shape.dim;
    void *px = rungi_ptr(c, x), *py = rungi_ptr(c, y);
    for (int64_t k = 0; k < rungi_operand_count(y); k++) {
        int64_t n = k / (dy[1] * dy[2] * dy[3]), ch = k / (dy[2] * dy[3]) % dy[1];
        int64_t i = k / dy[3] % dy[2], j = k % dy[3], at = rungi_at(&sy, n, ch, i, j);
        window rows = window_of(c->q, 0, i, dx[2], dy[2]),
               cols = window_of(c->q, 1, j, dx[3], dy[3]);
        double sum = 0, part = 0, size = rows.size * cols.size;
        if (!forward)
            part = rungi_get(y->dtype, py, at) / size;
        for (int64_t r = rows.begin; r < rows.end; r++)
            for (int64_t s = cols.begin; s < cols.end; s++) {
                int64_t from = rungi_at(&sx, n, ch, r, s);
                double v = rungi_get(x->dtype, px, from);
                sum += v;
                if (!forward)
                    rungi_set(x->dtype, px, from, v + part);
            }
        if (forward)
            rungi_set(y->dtype, py, at, sum / size);
    }
}

static rung_status forward_reference(const rungi_call *c)
{
    walk(c, &c->q->in[0], &c->q->out[0], true);
    return RUNG_OK;
}

static rung_status backward_reference(const rungi_call *c)
{
    memset(rungi_ptr(c, &c->q->gin[0]), 0, rungi_operand_bytes(&c->q->gin[0]));
    walk(c, &c->q->gin[0], &c->q->gout[0], false);
    return RUNG_OK;
}

const rungi_kernel rungi_avg_pool_forward_reference = {.name = "reference",
                                                       .run = forward_reference};
const rungi_kernel rungi_avg_pool_backward_reference = {.name = "reference",
                                                        .run = backward_reference};
