// SPDX-License-Identifier: Apache-2.0
// The public operator functions: options to attributes, attributes to nodes.
#include "base/error.h"
#include "graph/graph.h"
#include "nn/attr.h"
#include "ops/argmax/argmax.h"
#include "ops/cast/cast.h"
#include "ops/class_loss.h"
#include "ops/element_loss.h"
#include "ops/gelu/gelu.h"
#include "ops/leaky_relu/leaky_relu.h"
#include "ops/reduction.h"
#include "ops/reshape/reshape.h"
#include "ops/scale/scale.h"
#include "ops/soft_cross_entropy/soft_cross_entropy.h"
#include "ops/softmax/softmax.h"
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

rung_value rung_leaky_relu(rung_graph *g, rung_value x, double slope)
{
    return add1(g, "leaky_relu", &(rungi_leaky_relu_attr){slope}, &x, 1);
}

rung_value rung_sigmoid(rung_graph *g, rung_value x)
{
    return add1(g, "sigmoid", NULL, &x, 1);
}

rung_value rung_tanh(rung_graph *g, rung_value x)
{
    return add1(g, "tanh", NULL, &x, 1);
}

rung_value rung_gelu(rung_graph *g, rung_value x)
{
    return add1(g, "gelu", &(rungi_gelu_attr){.tanh = false}, &x, 1);
}

rung_value rung_gelu_tanh(rung_graph *g, rung_value x)
{
    return add1(g, "gelu", &(rungi_gelu_attr){.tanh = true}, &x, 1);
}

rung_value rung_silu(rung_graph *g, rung_value x)
{
    return add1(g, "silu", NULL, &x, 1);
}

rung_value rung_scale(rung_graph *g, rung_value x, double factor, double offset)
{
    return add1(g, "scale", &(rungi_scale_attr){factor, offset}, &x, 1);
}

rung_value rung_add(rung_graph *g, rung_value a, rung_value b)
{
    return add1(g, "add", NULL, (rung_value[]){a, b}, 2);
}

rung_value rung_sub(rung_graph *g, rung_value a, rung_value b)
{
    return add1(g, "sub", NULL, (rung_value[]){a, b}, 2);
}

rung_value rung_mul(rung_graph *g, rung_value a, rung_value b)
{
    return add1(g, "mul", NULL, (rung_value[]){a, b}, 2);
}

rung_value rung_div(rung_graph *g, rung_value a, rung_value b)
{
    return add1(g, "div", NULL, (rung_value[]){a, b}, 2);
}

rung_value rung_cast(rung_graph *g, rung_value x, rung_dtype dtype)
{
    if (rung_value_given(x) && rung_value_dtype(g, x) == dtype)
        return x;
    return add1(g, "cast", &(rungi_cast_attr){dtype}, &x, 1);
}

// ---- along dimensions -------------------------------------------------------------------------

static rung_value reduce(rung_graph *g, const char *op, rung_value x, const rung_reduce_options *o)
{
    rungi_reduction_attr attr = {.keepdim = o->keepdim};
    rung_shape shape = rung_value_shape(g, x);
    char text[RUNG_SHAPE_TEXT];
    for (int i = 0; i < o->dims.count; i++) {
        int dim = o->dims.dim[i] < 0 ? o->dims.dim[i] + shape.rank : o->dims.dim[i];
        if (rungi_graph_ok(g) && (dim < 0 || dim >= shape.rank)) {
            RUNG_FAIL(RUNG_MISMATCH, "%s has no dimension %d",
                      rung_shape_text(&shape, text, sizeof text), o->dims.dim[i]);
            rungi_graph_stick(g, op);
            return (rung_value){0};
        }
        attr.dims |= (uint32_t)1 << (dim & 31);
    }
    return add1(g, op, &attr, &x, 1);
}

rung_value rung_sum_(rung_graph *g, rung_value x, const rung_reduce_options *options)
{
    return reduce(g, "sum", x, options);
}

rung_value rung_mean_(rung_graph *g, rung_value x, const rung_reduce_options *options)
{
    return reduce(g, "mean", x, options);
}

rung_value rung_argmax(rung_graph *g, rung_value x, int dim)
{
    return add1(g, "argmax", &(rungi_argmax_attr){dim}, &x, 1);
}

rung_value rung_softmax(rung_graph *g, rung_value x, int dim)
{
    return add1(g, "softmax", &(rungi_softmax_attr){dim}, &x, 1);
}

rung_value rung_log_softmax(rung_graph *g, rung_value x, int dim)
{
    return add1(g, "log_softmax", &(rungi_softmax_attr){dim}, &x, 1);
}

// ---- with weights, over images ----------------------------------------------------------------

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

// ---- shapes -----------------------------------------------------------------------------------

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

// ---- losses -----------------------------------------------------------------------------------

static rung_value class_loss(rung_graph *g, const char *op, rung_value scores, rung_value labels,
                             const rung_cross_entropy_options *o)
{
    rungi_class_loss_attr attr = {
        .label_smoothing = o->label_smoothing, .ignore_index = o->ignore_index, .sum = o->sum};
    if (!o->ignore_index && !o->ignore_zero)
        attr.ignore_index = -100;
    return add1(g, op, &attr, (rung_value[]){scores, labels, o->weight}, 3);
}

rung_value rung_cross_entropy_(rung_graph *g, rung_value logits, rung_value labels,
                               const rung_cross_entropy_options *options)
{
    if (!rung_value_given(labels) || !rung_dtype_is_float(g->values.data[labels.id].dtype))
        return class_loss(g, "cross_entropy", logits, labels, options);
    rungi_soft_loss_attr attr = {options->label_smoothing, options->sum};
    int inputs = rung_value_given(options->weight) ? 3 : 2; // 3 are refused
    return add1(g, "soft_cross_entropy", &attr, (rung_value[]){logits, labels, options->weight},
                inputs);
}

rung_value rung_nll_loss_(rung_graph *g, rung_value log_probabilities, rung_value labels,
                          const rung_cross_entropy_options *options)
{
    return class_loss(g, "nll_loss", log_probabilities, labels, options);
}

rung_value rung_bce_with_logits_(rung_graph *g, rung_value logits, rung_value targets,
                                 const rung_bce_options *o)
{
    return add1(g, "bce_with_logits", &(rungi_element_loss_attr){o->sum},
                (rung_value[]){logits, targets, o->weight, o->pos_weight}, 4);
}

rung_value rung_mse_loss_(rung_graph *g, rung_value x, rung_value target, const rung_mse_options *o)
{
    return add1(g, "mse_loss", &(rungi_element_loss_attr){o->sum}, (rung_value[]){x, target}, 2);
}
