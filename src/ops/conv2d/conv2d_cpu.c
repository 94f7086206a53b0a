// SPDX-License-Identifier: Apache-2.0
#include "ops/conv2d/conv2d.h"
#include "ops/conv2d/conv2d_direct.h"
#include "ops/conv2d/conv2d_winograd.h"
#include "ops/conv2d/conv2d_winograd_half.h"
#include "ops/element.h"
#include "ops/onednn.h"

// ---- reference --------------------------------------------------------------------------------

// One tap of the sum: x's row for output row i and kernel row u, or -1 outside.
static int64_t tap(int64_t i, int64_t u, int stride, int dilation, int pad, int64_t size)
{
    int64_t at = i * stride + u * dilation - pad;
    return at >= 0 && at < size ? at : -1;
}

typedef struct geometry {
    const rungi_conv2d_attr *a;
    const int64_t *x, *w, *y; // dimensions
    rungi_strides sx, sy;
    int64_t per_group; // outputs of a group
} geometry;

static geometry geometry_of(const rungi_query *q, const rungi_operand *x, const rungi_operand *y)
{
    geometry g = {.a = q->attr, .x = x->shape.dim, .w = q->in[1].shape.dim, .y = y->shape.dim};
    g.sx = rungi_strides_of(x->layout, &x->shape);
    g.sy = rungi_strides_of(y->layout, &y->shape);
    g.per_group = g.w[0] / g.a->groups;
    return g;
}

// Sum over the taps of output (n, o, i, j): with `dx` NULL of x * w, else scatters gy * w into dx.
static double sum_taps(const geometry *g, rung_dtype dtype, const void *x, const void *w, int64_t n,
                       int64_t o, int64_t i, int64_t j)
{
    double sum = 0;
    int64_t c0 = o / g->per_group * g->w[1];
    for (int64_t c = 0; c < g->w[1]; c++)
        for (int64_t u = 0; u < g->w[2]; u++)
            for (int64_t v = 0; v < g->w[3]; v++) {
                int64_t r = tap(i, u, g->a->stride[0], g->a->dilation[0], g->a->pad[0], g->x[2]);
                int64_t s = tap(j, v, g->a->stride[1], g->a->dilation[1], g->a->pad[1], g->x[3]);
                if (r >= 0 && s >= 0)
                    sum += rungi_get(dtype, x, rungi_at(&g->sx, n, c0 + c, r, s)) *
                           rungi_get(dtype, w, ((o * g->w[1] + c) * g->w[2] + u) * g->w[3] + v);
            }
    return sum;
}

static rung_status forward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const void *x = rungi_ptr(c, &q->in[0]), *w = rungi_ptr(c, &q->in[1]);
    const void *bias = q->n_in > 2 ? rungi_ptr(c, &q->in[2]) : NULL;
    void *y = rungi_ptr(c, &q->out[0]);
    rung_dtype dtype = q->out[0].dtype;
    geometry g = geometry_of(q, &q->in[0], &q->out[0]);
    for (int64_t n = 0; n < g.y[0]; n++)
        for (int64_t o = 0; o < g.y[1]; o++)
            for (int64_t i = 0; i < g.y[2]; i++)
                for (int64_t j = 0; j < g.y[3]; j++) {
                    double sum = sum_taps(&g, dtype, x, w, n, o, i, j);
                    if (bias)
                        sum += rungi_get(dtype, bias, o);
                    rungi_set(dtype, y, rungi_at(&g.sy, n, o, i, j), sum);
                }
    return RUNG_OK;
}

// Gradient of x at (n, c, r, s): sum over the outputs whose taps touch it.
static double sum_outputs(const geometry *g, rung_dtype dtype, const void *w, const void *gy,
                          int64_t n, int64_t channel, int64_t r, int64_t s)
{
    double sum = 0;
    int64_t group = channel / g->w[1], c = channel % g->w[1];
    for (int64_t o = group * g->per_group; o < (group + 1) * g->per_group; o++)
        for (int64_t u = 0; u < g->w[2]; u++)
            for (int64_t v = 0; v < g->w[3]; v++) {
                int64_t i = r + g->a->pad[0] - u * g->a->dilation[0];
                int64_t j = s + g->a->pad[1] - v * g->a->dilation[1];
                if (i < 0 || j < 0 || i % g->a->stride[0] || j % g->a->stride[1])
                    continue;
                i /= g->a->stride[0];
                j /= g->a->stride[1];
                if (i < g->y[2] && j < g->y[3])
                    sum += rungi_get(dtype, gy, rungi_at(&g->sy, n, o, i, j)) *
                           rungi_get(dtype, w, ((o * g->w[1] + c) * g->w[2] + u) * g->w[3] + v);
            }
    return sum;
}

static rung_status data_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const void *w = rungi_ptr(c, &q->in[1]), *gy = rungi_ptr(c, &q->gout[0]);
    void *gx = rungi_ptr(c, &q->gin[0]);
    geometry g = geometry_of(q, &q->gin[0], &q->gout[0]);
    for (int64_t n = 0; n < g.x[0]; n++)
        for (int64_t ch = 0; ch < g.x[1]; ch++)
            for (int64_t r = 0; r < g.x[2]; r++)
                for (int64_t s = 0; s < g.x[3]; s++)
                    rungi_set(q->gin[0].dtype, gx, rungi_at(&g.sx, n, ch, r, s),
                              sum_outputs(&g, q->gin[0].dtype, w, gy, n, ch, r, s));
    return RUNG_OK;
}

static double sum_weight(const geometry *g, rung_dtype dtype, const void *x, const void *gy,
                         int64_t o, int64_t c, int64_t u, int64_t v)
{
    double sum = 0;
    int64_t channel = o / g->per_group * g->w[1] + c;
    for (int64_t n = 0; n < g->y[0]; n++)
        for (int64_t i = 0; i < g->y[2]; i++)
            for (int64_t j = 0; j < g->y[3]; j++) {
                int64_t r = tap(i, u, g->a->stride[0], g->a->dilation[0], g->a->pad[0], g->x[2]);
                int64_t s = tap(j, v, g->a->stride[1], g->a->dilation[1], g->a->pad[1], g->x[3]);
                if (r >= 0 && s >= 0)
                    sum += rungi_get(dtype, x, rungi_at(&g->sx, n, channel, r, s)) *
                           rungi_get(dtype, gy, rungi_at(&g->sy, n, o, i, j));
            }
    return sum;
}

static double sum_bias(const geometry *g, rung_dtype dtype, const void *gy, int64_t o)
{
    double sum = 0;
    for (int64_t n = 0; n < g->y[0]; n++)
        for (int64_t i = 0; i < g->y[2]; i++)
            for (int64_t j = 0; j < g->y[3]; j++)
                sum += rungi_get(dtype, gy, rungi_at(&g->sy, n, o, i, j));
    return sum;
}

static rung_status weight_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const void *x = rungi_ptr(c, &q->in[0]), *gy = rungi_ptr(c, &q->gout[0]);
    void *gw = rungi_ptr(c, &q->gin[1]);
    void *gb = q->n_in > 2 ? rungi_ptr(c, &q->gin[2]) : NULL;
    rung_dtype dtype = q->gout[0].dtype;
    geometry g = geometry_of(q, &q->in[0], &q->gout[0]);
    for (int64_t o = 0; o < g.w[0]; o++) {
        for (int64_t k = 0; gw && k < g.w[1] * g.w[2] * g.w[3]; k++) {
            int64_t v = k % g.w[3], u = k / g.w[3] % g.w[2], ch = k / (g.w[2] * g.w[3]);
            rungi_set(dtype, gw, o * g.w[1] * g.w[2] * g.w[3] + k,
                      sum_weight(&g, dtype, x, gy, o, ch, u, v));
        }
        if (gb)
            rungi_set(dtype, gb, o, sum_bias(&g, dtype, gy, o));
    }
    return RUNG_OK;
}

static const rungi_kernel reference_forward = {.name = "reference", .run = forward_reference};
static const rungi_kernel reference_weight = {.name = "reference", .run = weight_reference};
static const rungi_kernel reference_data = {.name = "reference", .run = data_reference};

// ---- oneDNN -----------------------------------------------------------------------------------

static bool onednn_can_run(const rungi_query *q, rungi_reason *why)
{
    return rungi_dnn_takes(q, why) && rungi_dnn_can_fuse(q, why);
}

static bool onednn_weight_can_run(const rungi_query *q, rungi_reason *why)
{
    if (q->gin[1].buffer < 0)
        return rungi_refuse(why, "the gradient of the bias alone is not offered");
    return onednn_can_run(q, why);
}

static rungi_dnn_conv describe_conv(const rungi_query *q)
{
    const rungi_conv2d_attr *a = q->attr;
    rungi_dnn_conv conv = {.groups = a->groups};
    for (int i = 0; i < 2; i++) {
        conv.stride[i] = a->stride[i];
        conv.dilation[i] = a->dilation[i];
        conv.pad[i] = a->pad[i];
    }
    return conv;
}

// The convolution of the query's pass, and which that is.
static rungi_dnn_pass onednn_conv(const rungi_query *q, rungi_dnn_conv *conv)
{
    bool forward = q->pass == RUNGI_FORWARD,
         data = !forward && rungi_query_pass(q)->gives == 1 << 0;
    *conv = describe_conv(q);
    conv->src = data ? &q->gin[0] : &q->in[0];
    conv->weight = forward || data ? &q->in[1] : &q->gin[1];
    conv->dst = forward ? &q->out[0] : &q->gout[0];
    const rungi_operand *bias = forward ? &q->in[2] : &q->gin[2];
    conv->bias = !data && q->n_in > 2 && bias->buffer >= 0 ? bias : NULL;
    return forward ? RUNGI_DNN_FORWARD : data ? RUNGI_DNN_BACKWARD_DATA : RUNGI_DNN_BACKWARD_WEIGHT;
}

static rung_status onednn_create(const rungi_query *q, rungi_setup *setup)
{
    rungi_dnn_conv conv;
    rungi_dnn_pass pass = onednn_conv(q, &conv);
    return rungi_dnn_conv_create(q, pass, &conv, setup);
}

// oneDNN's Winograd, which its blocked layout has. Behind the direct one in the lists: what is
// faster only measuring tells (plan.autotune).
static bool onednn_winograd_can_run(const rungi_query *q, rungi_reason *why)
{
    rungi_dnn_conv conv;
    rungi_dnn_pass pass = onednn_conv(q, &conv);
    if (!q->winograd)
        return rungi_refuse(why, "plan.winograd is off");
    if (conv.src->layout != RUNGI_BLOCKED16 || conv.dst->layout != RUNGI_BLOCKED16)
        return rungi_refuse(why, "needs AVX-512 and plan.layout blocked");
    if (conv.weight->buffer < 0)
        return rungi_refuse(why, "the gradient of the bias alone is not offered");
    conv.winograd = true;
    if (!rungi_f32_only(q, why) || !rungi_dnn_can_fuse(q, why))
        return false;
    return rungi_dnn_conv_exists(q, pass, &conv) ||
           rungi_refuse(why, "oneDNN has none for this shape");
}

static rung_status onednn_winograd_create(const rungi_query *q, rungi_setup *setup)
{
    rungi_dnn_conv conv;
    rungi_dnn_pass pass = onednn_conv(q, &conv);
    conv.winograd = true;
    return rungi_dnn_conv_create(q, pass, &conv, setup);
}

static const rungi_kernel onednn_forward = {.name = "onednn",
                                            .halves = true,
                                            .kind = RUNGI_LIBRARY,
                                            .fuses = true,
                                            .can_run = onednn_can_run,
                                            .create = onednn_create,
                                            .destroy = rungi_dnn_destroy,
                                            .run = rungi_dnn_run};
static const rungi_kernel onednn_weight = {.name = "onednn",
                                           .halves = true,
                                           .kind = RUNGI_LIBRARY,
                                           .can_run = onednn_weight_can_run,
                                           .create = onednn_create,
                                           .destroy = rungi_dnn_destroy,
                                           .run = rungi_dnn_run};
static const rungi_kernel onednn_data = {.name = "onednn",
                                         .halves = true,
                                         .kind = RUNGI_LIBRARY,
                                         .can_run = onednn_can_run,
                                         .create = onednn_create,
                                         .destroy = rungi_dnn_destroy,
                                         .run = rungi_dnn_run};
static const rungi_kernel onednn_winograd_forward = {.name = "onednn_winograd",
                                                     .kind = RUNGI_LIBRARY,
                                                     .fuses = true,
                                                     .can_run = onednn_winograd_can_run,
                                                     .create = onednn_winograd_create,
                                                     .destroy = rungi_dnn_destroy,
                                                     .run = rungi_dnn_run};
static const rungi_kernel onednn_winograd_backward = {.name = "onednn_winograd",
                                                      .kind = RUNGI_LIBRARY,
                                                      .can_run = onednn_winograd_can_run,
                                                      .create = onednn_winograd_create,
                                                      .destroy = rungi_dnn_destroy,
                                                      .run = rungi_dnn_run};

const rungi_kernel *const rungi_conv2d_forward_cpu[] = {&onednn_forward,
                                                        &onednn_winograd_forward,
                                                        &rungi_conv2d_forward_winograd,
                                                        &rungi_conv2d_forward_winograd_half,
                                                        &rungi_conv2d_forward_direct,
                                                        &reference_forward,
                                                        NULL};
const rungi_kernel *const rungi_conv2d_weight_cpu[] = {&onednn_weight,
                                                       &onednn_winograd_backward,
                                                       &rungi_conv2d_weight_winograd,
                                                       &rungi_conv2d_weight_direct,
                                                       &reference_weight,
                                                       NULL};
const rungi_kernel *const rungi_conv2d_data_cpu[] = {&onednn_data,
                                                     &onednn_winograd_backward,
                                                     &rungi_conv2d_data_winograd,
                                                     &rungi_conv2d_data_winograd_half,
                                                     &rungi_conv2d_data_direct,
                                                     &reference_data,
                                                     NULL};
