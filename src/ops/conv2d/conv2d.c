// SPDX-License-Identifier: Apache-2.0
// conv2d: y[n, o, i, j] = bias[o] + sum over c, u, v of
//                         x[n, g(o) + c, i*stride + u*dilation - pad, ...] * weight[o, c, u, v]
// Inputs: x [N, C, H, W], weight [O, C/groups, KH, KW], bias [O] (optional). As torch.nn.Conv2d.
#include "ops/conv2d/conv2d.h"

#include "base/error.h"

static rung_status infer(rungi_infer *i)
{
    const rungi_conv2d_attr *a = i->attr;
    const rung_shape *x = &i->in[0].shape, *w = &i->in[1].shape;
    char xt[RUNG_SHAPE_TEXT], wt[RUNG_SHAPE_TEXT];
    rung_shape_text(x, xt, sizeof xt);
    rung_shape_text(w, wt, sizeof wt);
    RUNG_CHECK(x->rank == 4 && w->rank == 4, RUNG_MISMATCH,
               "conv2d takes [N, C, H, W] and a weight [O, C, KH, KW]; got %s and %s", xt, wt);
    RUNG_CHECK(a->groups >= 1 && w->dim[0] % a->groups == 0 && x->dim[1] == w->dim[1] * a->groups,
               RUNG_MISMATCH, "the weight %s with %d groups does not fit the input %s", wt,
               a->groups, xt);
    RUNG_CHECK(i->n_in < 3 || i->in[2].shape.rank < 0 ||
                   (i->in[2].shape.rank == 1 && i->in[2].shape.dim[0] == w->dim[0]),
               RUNG_MISMATCH, "the bias does not fit the weight %s", wt);
    rung_shape out = {4, {x->dim[0], w->dim[0]}};
    for (int d = 0; d < 2; d++) {
        RUNG_CHECK(a->stride[d] >= 1 && a->dilation[d] >= 1 && a->pad[d] >= 0, RUNG_INVALID,
                   "stride and dilation must be 1 or more, padding 0 or more");
        int64_t reach = (w->dim[2 + d] - 1) * a->dilation[d] + 1;
        int64_t room = x->dim[2 + d] + 2 * (int64_t)a->pad[d];
        RUNG_CHECK(reach <= room && w->dim[2 + d] >= 1, RUNG_MISMATCH,
                   "the kernel %s reaches over the input %s with padding %d", wt, xt, a->pad[d]);
        out.dim[2 + d] = (room - reach) / a->stride[d] + 1;
    }
    i->out[0] = (rungi_type){i->in[0].dtype, out};
    return RUNG_OK;
}

static void describe(const void *attr, rungi_string *out)
{
    const rungi_conv2d_attr *a = attr;
    rungi_string_add(out, "stride %d", a->stride[0]);
    if (a->stride[1] != a->stride[0])
        rungi_string_add(out, "x%d", a->stride[1]);
    rungi_string_add(out, ", pad %d", a->pad[0]);
    if (a->pad[1] != a->pad[0])
        rungi_string_add(out, "x%d", a->pad[1]);
    if (a->dilation[0] != 1 || a->dilation[1] != 1)
        rungi_string_add(out, ", dilation %dx%d", a->dilation[0], a->dilation[1]);
    if (a->groups != 1)
        rungi_string_add(out, ", groups %d", a->groups);
}

// Pairs of an output and a tap that lies inside of the image, along one dimension.
static double taps_inside(int64_t in, int64_t out, int64_t kernel, const rungi_conv2d_attr *a,
                          int d)
{
    int64_t count = 0;
    for (int64_t i = 0; i < out; i++)
        for (int64_t u = 0; u < kernel; u++) {
            int64_t at = i * a->stride[d] + u * a->dilation[d] - a->pad[d];
            count += at >= 0 && at < in;
        }
    return (double)count;
}

const rungi_operand *rungi_conv2d_output(const rungi_query *q)
{
    return q->n_fused && q->fused[0].op->joins ? &q->fused[0].in[0] : &q->out[0];
}

// Products with padding are not counted.
static double flops(const rungi_query *q)
{
    const int64_t *x = q->in[0].shape.dim, *w = q->in[1].shape.dim;
    const int64_t *y = rungi_conv2d_output(q)->shape.dim;
    return 2.0 * (double)(y[0] * y[1] * w[1]) * taps_inside(x[2], y[2], w[2], q->attr, 0) *
           taps_inside(x[3], y[3], w[3], q->attr, 1);
}

const rungi_op rungi_op_conv2d = {
    .name = "conv2d",
    .attr_size = sizeof(rungi_conv2d_attr),
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .precision = RUNGI_LOW,
    .by_sample = 1 << 0,
    .layouts = RUNGI_LAYOUTS_IMAGE,
    .infer = infer,
    .describe = describe,
    .flops = flops,
    .forward = {.name = "forward", .kernels = {rungi_conv2d_forward_cpu}},
    .backward = {{.name = "backward_weight",
                  .gives = 1 << 1 | 1 << 2,
                  .reads_in = 1 << 0,
                  .kernels = {rungi_conv2d_weight_cpu}},
                 {.name = "backward_data",
                  .gives = 1 << 0,
                  .reads_in = 1 << 1,
                  .kernels = {rungi_conv2d_data_cpu}}},
    .cases = rungi_conv2d_cases,
};
