// SPDX-License-Identifier: Apache-2.0
// bce_with_logits: binary cross-entropy of logits x with targets t in [0, 1], as
// torch.nn.BCEWithLogitsLoss. Inputs: x, t of its shape, weight and pos_weight (optional,
// broadcast). With w the weight, v the positive weight, the loss of an element is
//
//   w (v t ln(1 + e^-x) + (1 - t) ln(1 + e^x))
//
// and its mean or sum over all elements is taken; dx = w ((1 - t) - (1 + (v - 1) t) / (1 + e^x)).
#include <math.h>

#include "ops/element_loss.h"

static double value(const double in[4])
{
    double x = in[0], t = in[1], w = in[2], v = in[3];
    double softplus = log1p(exp(-fabs(x))) + fmax(-x, 0);
    return w * ((1 - t) * x + (1 + (v - 1) * t) * softplus);
}

static double slope(const double in[4], int by)
{
    (void)by;
    double x = in[0], t = in[1], w = in[2], v = in[3];
    return w * ((1 - t) - (1 + (v - 1) * t) / (1 + exp(x)));
}

const rungi_element_loss rungi_element_loss_bce_with_logits = {
    &rungi_op_bce_with_logits, value, slope, RUNGI_PIECE_bce, RUNGI_PIECE_bce_gradient, {1, 0}};

static const rungi_element_loss_attr mean = {false}, sum = {true};

static const rungi_case cases[] = {
    {"mean", {RUNGI_IN(5, 10), RUNGI_IN_AS(RUNGI_FILL_UNIT, 5, 10)}, 2, &mean},
    {"sum", {RUNGI_IN(2, 3, 4, 5), RUNGI_IN_AS(RUNGI_FILL_UNIT, 2, 3, 4, 5)}, 2, &sum},
    {"one", {RUNGI_IN(1, 1), RUNGI_IN_AS(RUNGI_FILL_UNIT, 1, 1)}, 2, &mean},
    {"weight",
     {RUNGI_IN(5, 10), RUNGI_IN_AS(RUNGI_FILL_UNIT, 5, 10),
      RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 5, 10)},
     3,
     &mean},
    {"weight of rows",
     {RUNGI_IN(5, 10), RUNGI_IN_AS(RUNGI_FILL_UNIT, 5, 10), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 5, 1),
      RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 10)},
     4,
     &mean},
    {"positive weight",
     {RUNGI_IN(5, 10), RUNGI_IN_AS(RUNGI_FILL_UNIT, 5, 10), RUNGI_ABSENT,
      RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 10)},
     4,
     &mean},
    {"both",
     {RUNGI_IN(2, 3, 4, 5), RUNGI_IN_AS(RUNGI_FILL_UNIT, 2, 3, 4, 5),
      RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 3, 1, 1), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 1)},
     4,
     &mean},
    {"large",
     {RUNGI_IN(41, 1000), RUNGI_IN_AS(RUNGI_FILL_UNIT, 41, 1000), RUNGI_ABSENT,
      RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 1000)},
     4,
     &mean},
    {.name = "bench",
     .in = {RUNGI_IN(64, 51200), RUNGI_IN_AS(RUNGI_FILL_UNIT, 64, 51200)},
     .n_in = 2,
     .attr = &mean,
     .bench = true},
    {0},
};

const rungi_op rungi_op_bce_with_logits = {
    .name = "bce_with_logits",
    .attr_size = sizeof(rungi_element_loss_attr),
    .min_in = 2,
    .max_in = 4,
    .n_out = 1,
    .precision = RUNGI_HIGH,
    .infer = rungi_element_loss_infer,
    .describe = rungi_element_loss_describe,
    .flops = rungi_element_loss_flops,
    .forward = {.name = "forward", .kernels = {rungi_element_loss_forward_cpu}},
    .backward = {{.name = "backward",
                  .gives = 1 << 0,
                  .reads_in = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 3,
                  .kernels = {rungi_element_loss_backward_cpu}}},
    .normalizer = rungi_element_loss_normalizer,
    .cases = cases,
};
