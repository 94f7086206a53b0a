// SPDX-License-Identifier: Apache-2.0
// Layers with parameters. Names, initial distributions and parameter names are PyTorch's: a layer
// "conv1" has "conv1.weight" and "conv1.bias".
#ifndef RUNG_NN_H
#define RUNG_NN_H

#include "rung/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rung_linear_options {
    int64_t out; // output features
    bool no_bias;
    rung_param_options weight_init; // {0} is PyTorch's default
} rung_linear_options;

// torch.nn.Linear over the last dimension of x.
RUNG_API rung_value rung_linear_(rung_graph *g, rung_value x, const char *name,
                                 const rung_linear_options *options);
#define rung_linear(g, x, name, ...) rung_linear_(g, x, name, &(rung_linear_options){__VA_ARGS__})

// torch.nn.Conv2d over x [N, C, H, W].
RUNG_API rung_value rung_conv2d_(rung_graph *g, rung_value x, const char *name,
                                 const rung_conv2d_options *options);
#define rung_conv2d(g, x, name, ...) rung_conv2d_(g, x, name, &(rung_conv2d_options){__VA_ARGS__})

// torch.nn.BatchNorm1d and BatchNorm2d, by the rank of x. State: weight, bias (unless no_affine)
// and the buffers running_mean, running_var and num_batches_tracked (unless no_running).
RUNG_API rung_value rung_batch_norm_(rung_graph *g, rung_value x, const char *name,
                                     const rung_batch_norm_options *options);
#define rung_batch_norm(g, x, name, ...) \
    rung_batch_norm_(g, x, name, &(rung_batch_norm_options){__VA_ARGS__})

#ifdef __cplusplus
}
#endif

#endif
