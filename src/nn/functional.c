// SPDX-License-Identifier: Apache-2.0
// The public operator functions: options to attributes, attributes to nodes.
#include "graph/graph.h"
#include "nn/attr.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/reshape/reshape.h"
#include "rung/ops.h"

static int or_one(int value)
{
    return value ? value : 1;
}

static rung_value add1(rung_graph *g, const char *op, const void *attr, const rung_value *in, int n)
{
    return rungi_graph_add1(g, rungi_op_find(op), NULL, attr, in, n);
}

rung_value rung_relu(rung_graph *g, rung_value x)
{
    return add1(g, "relu", NULL, &x, 1);
}

rung_value rung_add(rung_graph *g, rung_value a, rung_value b)
{
    return add1(g, "add", NULL, (rung_value[]){a, b}, 2);
}

rung_value rung_f_linear(rung_graph *g, rung_value x, rung_value weight, rung_value bias)
{
    return add1(g, "linear", NULL, (rung_value[]){x, weight, bias}, 3);
}

rungi_conv2d_attr rungi_conv2d_attr_of(const rung_conv2d_options *o)
{
    bool square = !o->kernel_w && !o->pad_w;
    return (rungi_conv2d_attr){
        .stride = {or_one(o->stride), o->stride_w ? o->stride_w : or_one(o->stride)},
        .pad = {o->pad, square ? o->pad : o->pad_w},
        .dilation = {or_one(o->dilation), or_one(o->dilation)},
        .groups = or_one(o->groups)};
}

rung_value rung_f_conv2d(rung_graph *g, rung_value x, rung_value weight, rung_value bias,
                         const rung_conv2d_options *o)
{
    rungi_conv2d_attr attr = rungi_conv2d_attr_of(o);
    return add1(g, "conv2d", &attr, (rung_value[]){x, weight, bias}, 3);
}

rungi_pool_attr rungi_pool_attr_of(const rung_pool2d_options *o)
{
    rungi_pool_attr a = {
        .ceil_mode = o->ceil_mode, .count_include_pad = !o->exclude_pad, .divisor = o->divisor};
    bool square = !o->kernel_w && !o->pad_w;
    a.kernel[0] = o->kernel;
    a.kernel[1] = o->kernel_w ? o->kernel_w : o->kernel;
    a.stride[0] = o->stride ? o->stride : a.kernel[0];
    a.stride[1] = o->stride_w ? o->stride_w : o->stride ? o->stride : a.kernel[1];
    a.pad[0] = o->pad;
    a.pad[1] = square ? o->pad : o->pad_w;
    return a;
}

rung_value rung_max_pool2d_(rung_graph *g, rung_value x, const rung_pool2d_options *options)
{
    rungi_pool_attr attr = rungi_pool_attr_of(options);
    return add1(g, "max_pool2d", &attr, &x, 1);
}

rung_value rung_reshape(rung_graph *g, rung_value x, rung_shape shape)
{
    return add1(g, "reshape", &(rungi_reshape_attr){shape}, &x, 1);
}

rung_value rung_flatten(rung_graph *g, rung_value x, int start)
{
    rung_shape shape = {.rank = start + 1}; // the dimensions before are taken from x
    if (start >= 0 && start < RUNG_MAX_RANK)
        shape.dim[start] = -1;
    return rung_reshape(g, x, shape);
}

rung_value rung_cross_entropy_(rung_graph *g, rung_value logits, rung_value labels,
                               const rung_cross_entropy_options *o)
{
    rungi_cross_entropy_attr attr = {
        .label_smoothing = o->label_smoothing, .ignore_index = o->ignore_index, .sum = o->sum};
    if (!o->ignore_index && !o->ignore_zero)
        attr.ignore_index = -100;
    return add1(g, "cross_entropy", &attr, (rung_value[]){logits, labels, o->weight}, 3);
}
