// SPDX-License-Identifier: Apache-2.0
// mse_loss: mean or sum of (x - t)^2 over all elements, as torch.nn.MSELoss; dx = 2 dy (x - t),
// divided by their number in the mean, and dt = -dx.
#include "ops/element_loss.h"

static double value(const double in[4])
{
    return (in[0] - in[1]) * (in[0] - in[1]);
}

static double slope(const double in[4], int by)
{
    return (by ? -2 : 2) * (in[0] - in[1]);
}

const rungi_element_loss rungi_element_loss_mse_loss = {
    &rungi_op_mse_loss, value, slope, RUNGI_PIECE_square, RUNGI_PIECE_difference, {2, -2}};

static const rungi_element_loss_attr mean = {false}, sum = {true};

static const rungi_case cases[] = {
    {"mean", {RUNGI_IN(5, 10), RUNGI_IN(5, 10)}, 2, &mean},
    {"sum", {RUNGI_IN(2, 3, 4, 5), RUNGI_IN(2, 3, 4, 5)}, 2, &sum},
    {"one", {RUNGI_IN(1, 1), RUNGI_IN(1, 1)}, 2, &mean},
    {"scalar", {{.shape = {0}}, {.shape = {0}}}, 2, &mean},
    {"large", {RUNGI_IN(41, 1000), RUNGI_IN(41, 1000)}, 2, &mean},
    {.name = "bench",
     .in = {RUNGI_IN(64, 51200), RUNGI_IN(64, 51200)},
     .n_in = 2,
     .attr = &mean,
     .bench = true},
    {0},
};

const rungi_op rungi_op_mse_loss = {
    .name = "mse_loss",
    .attr_size = sizeof(rungi_element_loss_attr),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .precision = RUNGI_HIGH,
    .infer = rungi_element_loss_infer,
    .describe = rungi_element_loss_describe,
    .flops = rungi_element_loss_flops,
    .forward = {.name = "forward", .kernels = {rungi_element_loss_forward_cpu}},
    .backward = {{.name = "backward",
                  .gives = 1 << 0 | 1 << 1,
                  .reads_in = 1 << 0 | 1 << 1,
                  .kernels = {rungi_element_loss_backward_cpu}}},
    .normalizer = rungi_element_loss_normalizer,
    .cases = cases,
};
