// SPDX-License-Identifier: Apache-2.0
#include "ops/pool_window.h"

#include <stdlib.h>

#include "base/error.h"

int64_t rungi_pool_size(int64_t in, int kernel, int stride, int pad, bool ceil_mode)
{
    int64_t room = in + 2 * (int64_t)pad - kernel;
    if (room < 0)
        return 0;
    int64_t out = (ceil_mode ? room + stride - 1 : room) / stride + 1;
    // The last window must start inside the image or its left padding.
    if (ceil_mode && (out - 1) * stride >= in + pad)
        out--;
    return out;
}

rung_status rungi_pool_infer(const rungi_pool_attr *a, const rung_shape *x, const char *name,
                             rung_shape *out)
{
    char xt[RUNG_SHAPE_TEXT];
    rung_shape_text(x, xt, sizeof xt);
    RUNG_CHECK(x->rank == 4, RUNG_MISMATCH, "%s takes [N, C, H, W]; got %s", name, xt);
    *out = *x;
    for (int d = 0; d < 2; d++) {
        RUNG_CHECK(a->kernel[d] >= 1 && a->stride[d] >= 1 && a->pad[d] >= 0 &&
                       a->pad[d] * 2 <= a->kernel[d],
                   RUNG_INVALID,
                   "kernel and stride must be 1 or more, padding at most half of the kernel");
        out->dim[2 + d] =
            rungi_pool_size(x->dim[2 + d], a->kernel[d], a->stride[d], a->pad[d], a->ceil_mode);
        RUNG_CHECK(out->dim[2 + d] >= 1, RUNG_MISMATCH, "the window %dx%d does not fit into %s",
                   a->kernel[0], a->kernel[1], xt);
    }
    return RUNG_OK;
}

void rungi_pool_describe(const void *attr, rungi_string *out)
{
    const rungi_pool_attr *a = attr;
    rungi_string_add(out, "kernel %dx%d, stride %d", a->kernel[0], a->kernel[1], a->stride[0]);
    if (a->pad[0] || a->pad[1])
        rungi_string_add(out, ", pad %d", a->pad[0]);
}

bool rungi_pool_is_2x2(const rungi_pool_attr *a)
{
    return a->kernel[0] == 2 && a->kernel[1] == 2 && a->stride[0] == 2 && a->stride[1] == 2 &&
           a->pad[0] == 0 && a->pad[1] == 0 && !a->ceil_mode;
}

double rungi_pool_flops(const rungi_query *q)
{
    const rungi_pool_attr *a = q->attr;
    return (double)rungi_operand_count(&q->out[0]) * a->kernel[0] * a->kernel[1];
}

// ---- tables -----------------------------------------------------------------------------------

// Hands out the arrays of an axis from `data`; returns what lies behind them.
static int32_t *place(rungi_pool_axis *a, int64_t in, int64_t out, int32_t *data)
{
    a->in = in;
    a->out = out;
    a->begin = data;
    a->end = a->begin + out;
    a->skip = a->end + out;
    a->share = (float *)(a->skip + out);
    a->first = a->skip + 2 * out;
    a->last = a->first + in;
    return a->last + in;
}

static void fill_sliding(rungi_pool_axis *a, const rungi_pool_attr *attr, int d)
{
    a->kernel = attr->kernel[d];
    a->stride = attr->stride[d];
    a->pad = attr->pad[d];
    for (int64_t o = 0; o < a->out; o++) {
        int64_t from = o * a->stride - a->pad, to = from + a->kernel;
        int64_t padded = to < a->in + a->pad ? to - from : a->in + a->pad - from;
        a->begin[o] = (int32_t)(from < 0 ? 0 : from);
        a->end[o] = (int32_t)(to < a->in ? to : a->in);
        a->skip[o] = (int32_t)(from < 0 ? -from : 0);
        a->share[o] = 1.0f / (float)(attr->count_include_pad ? padded : a->end[o] - a->begin[o]);
    }
}

static void fill_adaptive(rungi_pool_axis *a)
{
    for (int64_t o = 0; o < a->out; o++) {
        a->begin[o] = (int32_t)(o * a->in / a->out);
        a->end[o] = (int32_t)(((o + 1) * a->in + a->out - 1) / a->out);
        a->skip[o] = 0;
        a->share[o] = 1.0f / (float)(a->end[o] - a->begin[o]);
    }
}

static void fill_cover(rungi_pool_axis *a)
{
    for (int64_t i = 0; i < a->in; i++)
        a->first[i] = a->last[i] = 0;
    for (int64_t o = a->out; o-- > 0;)
        for (int64_t i = a->begin[o]; i < a->end[o]; i++) {
            if (a->first[i] == a->last[i])
                a->last[i] = (int32_t)(o + 1);
            a->first[i] = (int32_t)o;
        }
    a->disjoint = a->full = true;
    for (int64_t i = 0; i < a->in; i++) {
        a->disjoint &= a->last[i] - a->first[i] <= 1;
        a->full &= a->last[i] - a->first[i] >= 1;
    }
}

int64_t rungi_pool_run(const rungi_pool_axis *a, int64_t j, int64_t *step_out)
{
    int64_t end = j + 1;
    *step_out = end < a->out ? a->begin[end] - a->begin[j] : 0;
    while (end < a->out && a->skip[end] == a->skip[j] && a->share[end] == a->share[j] &&
           a->end[end] - a->begin[end] == a->end[j] - a->begin[j] &&
           a->begin[end] - a->begin[end - 1] == *step_out)
        end++;
    return end;
}

rung_status rungi_pool_windows_create(const rungi_pool_attr *attr, const rung_shape *in,
                                      const rung_shape *out, rungi_pool_windows **windows_out)
{
    size_t cells = 0;
    for (int d = 2; d < 4; d++)
        cells += 2 * (size_t)in->dim[d] + 4 * (size_t)out->dim[d];
    rungi_pool_windows *w = calloc(1, sizeof *w + cells * sizeof *w->data);
    RUNG_CHECK(w, RUNG_NO_MEMORY, "no memory for a pooling");
    place(&w->cols, in->dim[3], out->dim[3], place(&w->rows, in->dim[2], out->dim[2], w->data));
    for (int d = 0; d < 2; d++) {
        rungi_pool_axis *a = d ? &w->cols : &w->rows;
        if (attr)
            fill_sliding(a, attr, d);
        else
            fill_adaptive(a);
        fill_cover(a);
        for (int64_t o = 0; attr && attr->divisor && o < a->out; o++)
            a->share[o] = d ? 1 : 1.0f / (float)attr->divisor;
    }
    *windows_out = w;
    return RUNG_OK;
}
