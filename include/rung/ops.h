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

// ---- elementwise ------------------------------------------------------------------------------

// y = max(x, 0).
RUNG_API rung_value rung_relu(rung_graph *g, rung_value x);
// y = x where x > 0, else slope * x; the slope is 0 or more (PyTorch's default is 0.01).
RUNG_API rung_value rung_leaky_relu(rung_graph *g, rung_value x, double slope);
// y = 1 / (1 + e^-x).
RUNG_API rung_value rung_sigmoid(rung_graph *g, rung_value x);
RUNG_API rung_value rung_tanh(rung_graph *g, rung_value x);
// y = x Phi(x) with the normal distribution function, exactly (by erf) and as approximated by tanh.
RUNG_API rung_value rung_gelu(rung_graph *g, rung_value x);
RUNG_API rung_value rung_gelu_tanh(rung_graph *g, rung_value x);
// y = x / (1 + e^-x), also called swish.
RUNG_API rung_value rung_silu(rung_graph *g, rung_value x);
// y = factor * x + offset, by constants.
RUNG_API rung_value rung_scale(rung_graph *g, rung_value x, double factor, double offset);

// y = a + b, a - b, a * b, a / b. Shapes broadcast as in PyTorch, dtypes must be equal.
RUNG_API rung_value rung_add(rung_graph *g, rung_value a, rung_value b);
RUNG_API rung_value rung_sub(rung_graph *g, rung_value a, rung_value b);
RUNG_API rung_value rung_mul(rung_graph *g, rung_value a, rung_value b);
RUNG_API rung_value rung_div(rung_graph *g, rung_value a, rung_value b);

// The same values in another dtype, converted as rung_convert does; x itself where it has that one.
// The gradient is cast back; none passes a cast to or from integers.
RUNG_API rung_value rung_cast(rung_graph *g, rung_value x, rung_dtype dtype);

// ---- along dimensions -------------------------------------------------------------------------

// Dimensions; negative ones count from the end. {0} stands for all. RUNG_DIMS(2, 3) makes one (C
// only).
typedef struct rung_dims {
    int count;
    int dim[RUNG_MAX_RANK];
} rung_dims;
#define RUNG_DIMS(...) \
    ((rung_dims){.count = (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), .dim = {__VA_ARGS__}})

typedef struct rung_reduce_options {
    rung_dims dims;
    bool keepdim; // what is reduced stays as dimensions of 1
} rung_reduce_options;

// Sum and mean over dimensions: rung_mean(g, x, .dims = RUNG_DIMS(2, 3)). A mean over all
// dimensions is that of the whole global batch.
RUNG_API rung_value rung_sum_(rung_graph *g, rung_value x, const rung_reduce_options *options);
RUNG_API rung_value rung_mean_(rung_graph *g, rung_value x, const rung_reduce_options *options);
#define rung_sum(g, x, ...) rung_sum_(g, x, &(rung_reduce_options){__VA_ARGS__})
#define rung_mean(g, x, ...) rung_mean_(g, x, &(rung_reduce_options){__VA_ARGS__})

// Index (i64) of the largest value along a dimension, which disappears: the first of equal ones.
// Without a gradient.
RUNG_API rung_value rung_argmax(rung_graph *g, rung_value x, int dim);

// e^x / sum of e^x along a dimension (-1: the last), and its logarithm.
RUNG_API rung_value rung_softmax(rung_graph *g, rung_value x, int dim);
RUNG_API rung_value rung_log_softmax(rung_graph *g, rung_value x, int dim);

// ---- with weights, over images ----------------------------------------------------------------

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
    int64_t divisor;  // average pooling: every sum is divided by this; 0: by the window's size
} rung_pool2d_options;

// The largest value of each window of x [N, C, H, W].
RUNG_API rung_value rung_max_pool2d_(rung_graph *g, rung_value x,
                                     const rung_pool2d_options *options);
#define rung_max_pool2d(g, x, ...) rung_max_pool2d_(g, x, &(rung_pool2d_options){__VA_ARGS__})

// ---- shapes -----------------------------------------------------------------------------------

// The same elements under another shape; a dimension 0 is taken from x, one may be -1.
RUNG_API rung_value rung_reshape(rung_graph *g, rung_value x, rung_shape shape);

// Merges all dimensions from `start` on: [N, C, H, W] with start 1 becomes [N, C*H*W].
RUNG_API rung_value rung_flatten(rung_graph *g, rung_value x, int start);

// ---- losses -----------------------------------------------------------------------------------
//
// Each gives a scalar. A mean is over all that counts in the whole global batch, however it is cut
// into shards.

typedef struct rung_cross_entropy_options {
    rung_value weight;      // class weights [C], or {0}
    double label_smoothing; // in [0, 1]
    int64_t ignore_index;   // 0 counts as -100 unless ignore_zero is set
    bool ignore_zero;       // ignore label 0
    bool sum;               // reduction: sum instead of mean
} rung_cross_entropy_options;

// Softmax cross-entropy of logits [N, C] or [N, C, ...] and class indexes [N] or [N, ...] (i64 or
// i32). The mean is over the weights of the labels that count. Labels of floats and of the logits'
// shape are class probabilities instead (as in PyTorch): the mean is over the rows then, there are
// no class weights and no gradient of the labels.
RUNG_API rung_value rung_cross_entropy_(rung_graph *g, rung_value logits, rung_value labels,
                                        const rung_cross_entropy_options *options);
#define rung_cross_entropy(g, logits, labels, ...) \
    rung_cross_entropy_(g, logits, labels, &(rung_cross_entropy_options){__VA_ARGS__})

// Negative log likelihood: the same of log-probabilities. There is no label_smoothing.
RUNG_API rung_value rung_nll_loss_(rung_graph *g, rung_value log_probabilities, rung_value labels,
                                   const rung_cross_entropy_options *options);
#define rung_nll_loss(g, log_probabilities, labels, ...) \
    rung_nll_loss_(g, log_probabilities, labels, &(rung_cross_entropy_options){__VA_ARGS__})

typedef struct rung_bce_options {
    rung_value weight;     // of elements, broadcast to the logits; or {0}
    rung_value pos_weight; // factor of the positive part, broadcast ([C] for classes); or {0}
    bool sum;              // reduction: sum instead of mean
} rung_bce_options;

// Binary cross-entropy of logits and targets in [0, 1] of the same shape. The mean is over all
// elements. No gradient reaches targets and weights.
RUNG_API rung_value rung_bce_with_logits_(rung_graph *g, rung_value logits, rung_value targets,
                                          const rung_bce_options *options);
#define rung_bce_with_logits(g, logits, targets, ...) \
    rung_bce_with_logits_(g, logits, targets, &(rung_bce_options){__VA_ARGS__})

typedef struct rung_mse_options {
    bool sum; // reduction: sum instead of mean
} rung_mse_options;

// The mean of (x - target)^2 over all elements; both have one shape.
RUNG_API rung_value rung_mse_loss_(rung_graph *g, rung_value x, rung_value target,
                                   const rung_mse_options *options);
#define rung_mse_loss(g, x, target, ...) \
    rung_mse_loss_(g, x, target, &(rung_mse_options){__VA_ARGS__})

// ---- normalization, dropout, pooling ----------------------------------------------------------

typedef struct rung_batch_norm_options {
    double eps;      // 0 counts as 1e-5
    double momentum; // share of a step's statistics in the running ones; 0 counts as 0.1
    bool cumulative; // running statistics are the average of all steps (PyTorch's momentum=None)
    bool no_affine;  // layer form only: neither weight nor bias
    bool no_running; // layer form only: no running statistics (track_running_stats=False)
    bool zero_init;  // layer form only: the weight starts at 0, not at 1
} rung_batch_norm_options;

// (x - mean) / sqrt(var + eps) * weight + bias for each channel of x [N, C], [N, C, L] or
// [N, C, H, W]. In a training plan mean and variance are the batch's (under `exact` each shard's),
// and after each forward run the running ones are moved towards those of the whole global batch,
// the variance unbiased. In evaluation, and in layers named to rung_graph_set_eval, they are the
// running ones. Values that are {0} are left out: weight [C], bias [C], running_mean and
// running_var [C] (both or none), num_batches_tracked (i64 scalar, counted up once a step). A
// training plan whose batch has one value per channel is refused by rung_compile.
RUNG_API rung_value rung_f_batch_norm(rung_graph *g, rung_value x, rung_value weight,
                                      rung_value bias, rung_value running_mean,
                                      rung_value running_var, rung_value num_batches_tracked,
                                      const rung_batch_norm_options *options);

// In training each element is 0 with probability p, else x / (1 - p); in evaluation y = x at no
// cost. Which elements are dropped is a function of the seed and step (rung_plan_set_step), the
// layer's place in the graph, the sample's position in the global batch and the element alone.
RUNG_API rung_value rung_dropout(rung_graph *g, rung_value x, double p);

// The mean of each window of x [N, C, H, W].
RUNG_API rung_value rung_avg_pool2d_(rung_graph *g, rung_value x,
                                     const rung_pool2d_options *options);
#define rung_avg_pool2d(g, x, ...) rung_avg_pool2d_(g, x, &(rung_pool2d_options){__VA_ARGS__})

// The means of rows x cols windows that share the image; 1 x 1 is the mean of each channel. 0 keeps
// the input's size.
RUNG_API rung_value rung_adaptive_avg_pool2d(rung_graph *g, rung_value x, int64_t rows,
                                             int64_t cols);

// ---- shapes and products ----------------------------------------------------------------------
// A dimension is counted from the end when negative.

// n values one behind the other along a dimension; the others must be equal.
RUNG_API rung_value rung_concat(rung_graph *g, const rung_value *values, int n, int dim);

// Elements start, start + step, ... below end of a dimension. start and end are counted from the
// end when negative and kept within the dimension; INT64_MAX is its end. step is 1 or more.
RUNG_API rung_value rung_slice(rung_graph *g, rung_value x, int dim, int64_t start, int64_t end,
                               int64_t step);

// before[d] and after[d] elements of that value around x in each of its dimensions.
RUNG_API rung_value rung_pad(rung_graph *g, rung_value x, const int64_t *before,
                             const int64_t *after, double value);

// Dimension d of the result is dimension dims[d] of x; dims has one entry for each.
RUNG_API rung_value rung_permute(rung_graph *g, rung_value x, const int *dims);
// x with two dimensions exchanged.
RUNG_API rung_value rung_transpose(rung_graph *g, rung_value x, int dim0, int dim1);

typedef struct rung_matmul_options {
    bool transpose_a, transpose_b; // the last two dimensions, without a copy
} rung_matmul_options;

// a [..., m, k] times b [..., k, n]: [..., m, n]; the dimensions before broadcast.
RUNG_API rung_value rung_matmul_(rung_graph *g, rung_value a, rung_value b,
                                 const rung_matmul_options *options);
#define rung_matmul(g, a, b, ...) rung_matmul_(g, a, b, &(rung_matmul_options){__VA_ARGS__})

#ifdef __cplusplus
}
#endif

#endif
