// SPDX-License-Identifier: Apache-2.0
// log_softmax: y = x - ln(sum of e^x) along a dimension; dx = dy - e^y sum of dy.
#include "ops/softmax/softmax.h"

const rungi_op rungi_op_log_softmax = {
    .name = "log_softmax",
    .attr_size = sizeof(rungi_softmax_attr),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = RUNGI_HIGH,
    .infer = rungi_softmax_infer,
    .describe = rungi_softmax_describe,
    .flops = rungi_softmax_flops,
    .forward = {.name = "forward", .in_place = true, .kernels = {rungi_log_softmax_forward_cpu}},
    .backward = {{.name = "backward",
                  .gives = 1 << 0,
                  .reads_out = 1 << 0,
                  .in_place = true,
                  .kernels = {rungi_log_softmax_backward_cpu}}},
    .cases = rungi_softmax_cases,
};
