// SPDX-License-Identifier: Apache-2.0
// Operators without parameters: what torch.nn.functional and tensor methods are elsewhere. Options
// are keyword arguments: rung_max_pool2d(g, x, .kernel = 2). (C; from C++ call the functions with
// the trailing underscore.) A mistake is kept in the graph, see rung/graph.h.
#ifndef RUNG_OPS_H
#define RUNG_OPS_H

#include "rung/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

// y = max(x, 0).
RUNG_API rung_value rung_relu(rung_graph *g, rung_value x);

// y = a + b, shapes broadcast as in PyTorch.
RUNG_API rung_value rung_add(rung_graph *g, rung_value a, rung_value b);

// y = x weight^T + bias over the last dimension; weight [out, in], bias [out] or {0}.
RUNG_API rung_value rung_f_linear(rung_graph *g, rung_value x, rung_value weight, rung_value bias);

typedef struct rung_conv2d_options {
    int64_t out;                    // output channels (layer form only)
    int kernel, kernel_w;           // rows; columns when they differ
    int stride, stride_w;           // 0 counts as 1
    int pad, pad_w;                 // pad_w counts only when kernel_w or pad_w is given
    int dilation;                   // 0 counts as 1
    int groups;                     // 0 counts as 1
    bool no_bias;                   // layer form only
    rung_param_options weight_init; // layer form only; {0} is PyTorch's default
} rung_conv2d_options;

// Convolution of x [N, C, H, W] with weight [O, C/groups, KH, KW] and bias [O] or {0}.
RUNG_API rung_value rung_f_conv2d(rung_graph *g, rung_value x, rung_value weight, rung_value bias,
                                  const rung_conv2d_options *options);

typedef struct rung_pool2d_options {
    int kernel, kernel_w; // rows; columns when they differ
    int stride, stride_w; // 0 counts as the kernel
    int pad, pad_w;
    bool ceil_mode;
    bool exclude_pad; // average pooling: padding does not count in the divisor
} rung_pool2d_options;

// The largest value of each window of x [N, C, H, W].
RUNG_API rung_value rung_max_pool2d_(rung_graph *g, rung_value x,
                                     const rung_pool2d_options *options);
#define rung_max_pool2d(g, x, ...) rung_max_pool2d_(g, x, &(rung_pool2d_options){__VA_ARGS__})

// The same elements under another shape; a dimension 0 is taken from x, one may be -1.
RUNG_API rung_value rung_reshape(rung_graph *g, rung_value x, rung_shape shape);

// Merges all dimensions from `start` on: [N, C, H, W] with start 1 becomes [N, C*H*W].
RUNG_API rung_value rung_flatten(rung_graph *g, rung_value x, int start);

typedef struct rung_cross_entropy_options {
    rung_value weight;      // class weights [C], or {0}
    double label_smoothing; // in [0, 1]
    int64_t ignore_index;   // 0 counts as -100 unless ignore_zero is set
    bool ignore_zero;       // ignore label 0
    bool sum;               // reduction: sum instead of mean
} rung_cross_entropy_options;

// Softmax cross-entropy of logits [N, C] and class indexes [N] (i64 or i32): a scalar. The mean is
// over the rows that count, in the whole global batch.
RUNG_API rung_value rung_cross_entropy_(rung_graph *g, rung_value logits, rung_value labels,
                                        const rung_cross_entropy_options *options);
#define rung_cross_entropy(g, logits, labels, ...) \
    rung_cross_entropy_(g, logits, labels, &(rung_cross_entropy_options){__VA_ARGS__})

#ifdef __cplusplus
}
#endif

#endif
