// SPDX-License-Identifier: Apache-2.0
// log_softmax: y = x - ln(sum of e^x) along a dimension; dx = dy - e^y sum of dy.
#include "ops/softmax/softmax.h"

static const rungi_softmax_attr last = {-1}, first = {0}, middle = {1};

static const rungi_case cases[] = {
    {"one", {RUNGI_IN(1, 1)}, 1, &last},
    {"rows", {RUNGI_IN(5, 10)}, 1, &last},
    {"long rows", {RUNGI_IN(3, 2057)}, 1, &last},
    {"first", {RUNGI_IN(7, 5)}, 1, &first},
    {"middle", {RUNGI_IN(2, 5, 3, 7)}, 1, &middle},
    {"large", {RUNGI_IN(41, 1000)}, 1, &last},
    {"large, middle", {RUNGI_IN(3, 40, 331)}, 1, &middle},
    {.name = "bench 50257", .in = {RUNGI_IN(256, 50257)}, .n_in = 1, .attr = &last, .bench = true},
    {.name = "bench attention",
     .in = {RUNGI_IN(4, 12, 256, 256)},
     .n_in = 1,
     .attr = &last,
     .bench = true},
    {.name = "bench channels",
     .in = {RUNGI_IN(4, 21, 128, 128)},
     .n_in = 1,
     .attr = &middle,
     .bench = true},
    {0},
};

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
    .cases = cases,
};
