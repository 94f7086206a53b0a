// SPDX-License-Identifier: Apache-2.0
// Public functions for normalization, dropout and average pooling.
#include "graph/graph.h"
#include "nn/attr.h"
#include "ops/adaptive_avg_pool2d/adaptive_avg_pool2d.h"
#include "ops/dropout/dropout.h"

rungi_batch_norm_attr rungi_batch_norm_attr_of(const rung_batch_norm_options *o)
{
    return (rungi_batch_norm_attr){.eps = o->eps != 0 ? o->eps : 1e-5,
                                   .momentum = o->momentum != 0 ? o->momentum : 0.1,
                                   .cumulative = o->cumulative};
}

rung_value rung_f_batch_norm(rung_graph *g, rung_value x, rung_value weight, rung_value bias,
                             rung_value running_mean, rung_value running_var,
                             rung_value num_batches_tracked, const rung_batch_norm_options *options)
{
    rungi_batch_norm_attr attr = rungi_batch_norm_attr_of(options);
    rung_value in[] = {x, weight, bias, running_mean, running_var, num_batches_tracked};
    return rungi_graph_add1(g, rungi_op_find("batch_norm"), NULL, &attr, in, 6);
}

rung_value rung_dropout(rung_graph *g, rung_value x, double p)
{
    return rungi_graph_add1(g, rungi_op_find("dropout"), NULL, &(rungi_dropout_attr){p}, &x, 1);
}

rung_value rung_avg_pool2d_(rung_graph *g, rung_value x, const rung_pool2d_options *options)
{
    rungi_pool_attr attr = rungi_pool_attr_of(options);
    return rungi_graph_add1(g, rungi_op_find("avg_pool2d"), NULL, &attr, &x, 1);
}

rung_value rung_adaptive_avg_pool2d(rung_graph *g, rung_value x, int64_t rows, int64_t cols)
{
    rungi_adaptive_pool_attr attr = {{rows, cols}};
    return rungi_graph_add1(g, rungi_op_find("adaptive_avg_pool2d"), NULL, &attr, &x, 1);
}
