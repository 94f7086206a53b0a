// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "graph/graph.h"
#include "nn/attr.h"
#include "rung/nn.h"

// nn.Linear and nn.Conv2d: Kaiming uniform with a = sqrt(5) for the weight (that is uniform in
// +-1/sqrt(fan_in)), uniform in +-1/sqrt(fan_in) for the bias.
static rung_param_options weight_init(const rung_param_options *given)
{
    if (given->init != RUNG_INIT_ZEROS || given->no_decay)
        return *given;
    return (rung_param_options){.init = RUNG_INIT_KAIMING_UNIFORM, .a = sqrt(5)};
}

static rung_param_options bias_init(int64_t fan_in)
{
    double bound = fan_in > 0 ? 1 / sqrt((double)fan_in) : 0;
    return (rung_param_options){.init = RUNG_INIT_UNIFORM, .a = -bound, .b = bound};
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
    rung_param_options w = weight_init(&o->weight_init), b = bias_init(in);
    rung_value weight = rung_param(g, "weight", RUNG_SHAPE(o->out, in), &w);
    rung_value bias = {0};
    if (!o->no_bias)
        bias = rung_param(g, "bias", RUNG_SHAPE(o->out), &b);
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
    rung_param_options w = weight_init(&o->weight_init);
    rung_param_options b = bias_init(in / groups * o->kernel * kw);
    rung_value weight = rung_param(g, "weight", RUNG_SHAPE(o->out, in / groups, o->kernel, kw), &w);
    rung_value bias = {0};
    if (!o->no_bias)
        bias = rung_param(g, "bias", RUNG_SHAPE(o->out), &b);
    rung_scope_pop(g);
    rungi_conv2d_attr attr = rungi_conv2d_attr_of(o);
    return layer(g, name, "conv2d", &attr, x, weight, bias);
}
