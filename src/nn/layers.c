// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "graph/graph.h"
#include "nn/attr.h"
#include "rung/nn.h"

// A layer's weight starts as nn.Linear's and nn.Conv2d's do unless the caller says otherwise.
static rung_param_options weight_options(const rung_param_options *given)
{
    static const rung_param_options none = {0};
    rung_param_options options = *given;
    if (memcmp(&given->init, &none.init, sizeof none.init) == 0)
        options.init = RUNG_INIT_WEIGHT;
    return options;
}

static rung_value add_bias(rung_graph *g, int64_t out, int64_t fan_in)
{
    return rung_param(g, "bias", RUNG_SHAPE(out),
                      &(rung_param_options){.init = RUNG_INIT_BIAS(fan_in)});
}

static rung_value layer(rung_graph *g, const char *name, const char *op, const void *attr,
                        rung_value x, rung_value weight, rung_value bias)
{
    return rungi_graph_add1(g, rungi_op_find(op), name, attr, (rung_value[]){x, weight, bias}, 3);
}

rung_value rung_linear_(rung_graph *g, rung_value x, const char *name, const rung_linear_options *o)
{
    int64_t in = rungi_graph_fixed_dim(g, x, -1, name, "the number of features");
    if (in < 0)
        return (rung_value){0};
    rung_scope_push(g, name);
    rung_param_options w = weight_options(&o->weight_init);
    rung_value weight = rung_param(g, "weight", RUNG_SHAPE(o->out, in), &w);
    rung_value bias = {0};
    if (!o->no_bias)
        bias = add_bias(g, o->out, in);
    rung_scope_pop(g);
    return layer(g, name, "linear", NULL, x, weight, bias);
}

rung_value rung_conv2d_(rung_graph *g, rung_value x, const char *name, const rung_conv2d_options *o)
{
    int64_t in = rungi_graph_fixed_dim(g, x, 1, name, "the number of channels");
    if (in < 0)
        return (rung_value){0};
    int groups = o->groups ? o->groups : 1;
    int64_t kw = o->kernel_w ? o->kernel_w : o->kernel;
    rung_scope_push(g, name);
    rung_param_options w = weight_options(&o->weight_init);
    rung_value weight = rung_param(g, "weight", RUNG_SHAPE(o->out, in / groups, o->kernel, kw), &w);
    rung_value bias = {0};
    if (!o->no_bias)
        bias = add_bias(g, o->out, in / groups * o->kernel * kw);
    rung_scope_pop(g);
    rungi_conv2d_attr attr = rungi_conv2d_attr_of(o);
    return layer(g, name, "conv2d", &attr, x, weight, bias);
}

rung_value rung_batch_norm_(rung_graph *g, rung_value x, const char *name,
                            const rung_batch_norm_options *o)
{
    int64_t channels = rungi_graph_fixed_dim(g, x, 1, name, "the number of channels");
    if (channels < 0)
        return (rung_value){0};
    rung_value in[6] = {x};
    rung_shape shape = RUNG_SHAPE(channels);
    rung_scope_push(g, name);
    if (!o->no_affine) {
        rung_init ones = {.kind = o->zero_init ? RUNG_INIT_ZEROS : RUNG_INIT_ONES};
        in[RUNGI_BN_WEIGHT] = rung_param(g, "weight", shape, &(rung_param_options){.init = ones});
        in[RUNGI_BN_BIAS] = rung_param(g, "bias", shape, NULL);
    }
    if (!o->no_running) {
        in[RUNGI_BN_RUNNING_MEAN] = rung_buffer(g, "running_mean", RUNG_F32, shape, 0);
        in[RUNGI_BN_RUNNING_VAR] = rung_buffer(g, "running_var", RUNG_F32, shape, 1);
        in[RUNGI_BN_TRACKED] = rung_buffer(g, "num_batches_tracked", RUNG_I64, RUNG_SCALAR, 0);
    }
    rung_scope_pop(g);
    rungi_batch_norm_attr attr = rungi_batch_norm_attr_of(o);
    return rungi_graph_add1(g, rungi_op_find("batch_norm"), name, &attr, in, 6);
}
