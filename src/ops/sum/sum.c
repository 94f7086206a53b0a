// SPDX-License-Identifier: Apache-2.0
// sum: y = the sum of x over some dimensions; dx = dy, stretched.
#include "ops/reduction.h"

static const rungi_reduction_attr all = {0}, first = {1 << 0, true}, last = {1 << 1};
static const rungi_reduction_attr images = {1 << 2 | 1 << 3}, outer = {1 << 0 | 1 << 2};
static const rungi_reduction_attr middle = {1 << 1, true};

static const rungi_case cases[] = {
    {"all", {RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 3, 37)}, 1, &all},
    {"one", {RUNGI_IN(1)}, 1, &all},
    {"scalar", {{.shape = {0}}}, 1, &all},
    {"first", {RUNGI_IN(7, 5)}, 1, &first},
    {"last", {RUNGI_IN(7, 5)}, 1, &last},
    {"images", {RUNGI_IN(2, 3, 5, 4)}, 1, &images},
    {"outer", {RUNGI_IN(4, 3, 5)}, 1, &outer},
    {"middle", {RUNGI_IN(4, 3, 5)}, 1, &middle},
    {"long rows", {RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 3, 20011)}, 1, &last},
    {"long columns", {RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 20011, 3)}, 1, &first},
    {"large, all", {RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 30011, 2)}, 1, &all},
    {"large, middle", {RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 2, 50, 601)}, 1, &middle},
    {.name = "bench all", .in = {RUNGI_IN(64, 50, 32, 32)}, .n_in = 1, .attr = &all, .bench = true},
    {.name = "bench images",
     .in = {RUNGI_IN(64, 50, 32, 32)},
     .n_in = 1,
     .attr = &images,
     .bench = true},
    {.name = "bench first", .in = {RUNGI_IN(512, 4096)}, .n_in = 1, .attr = &first, .bench = true},
    {0},
};

const rungi_op rungi_op_sum = {
    .name = "sum",
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
    .cases = cases,
};
