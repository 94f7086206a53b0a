// SPDX-License-Identifier: Apache-2.0
// mean: y = the mean of x over some dimensions; dx = dy / n, stretched. A mean over all
// dimensions may be a loss: it is over the whole global batch.
#include "ops/reduction.h"

const rungi_op rungi_op_mean = {
    .name = "mean",
    .attr_size = sizeof(rungi_reduction_attr),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = RUNGI_HIGH,
    .infer = rungi_reduction_infer,
    .describe = rungi_reduction_describe,
    .flops = rungi_reduction_flops,
    .forward = {.name = "forward", .kernels = {rungi_reduction_forward_cpu}},
    .backward = {{.name = "backward", .gives = 1 << 0, .kernels = {rungi_reduction_backward_cpu}}},
    .normalizer = rungi_mean_normalizer,
    .cases = rungi_reduction_cases,
};
