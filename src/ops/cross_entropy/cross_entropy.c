// SPDX-License-Identifier: Apache-2.0
// cross_entropy: softmax cross-entropy of class scores, as torch.nn.CrossEntropyLoss.
// Inputs: logits [N, C, ...], labels [N, ...] (i64 or i32 class indexes), class weights [C]
// (optional). The loss of a row x with label y is
//
//   (1 - s) w[y] (lse - x[y]) + s / C * sum over classes c of w[c] (lse - x[c])
//
// where lse is the logarithm of the sum of exponentials of x, and s the label smoothing; the mean
// divides their sum by the sum of w[y] over the rows that count. Hidden output: lse [N, ...].
#include "ops/cross_entropy/cross_entropy.h"

#include "base/error.h"
#include "ops/cases.h"

static rung_status infer(rungi_infer *i)
{
    RUNG_TRY(rungi_class_loss_infer(i));
    i->out[1] = (rungi_type){i->in[0].dtype, i->in[1].shape};
    return RUNG_OK;
}

static double flops(const rungi_query *q)
{
    return 4.0 * (double)rungi_operand_count(&q->in[0]);
}

static const rungi_class_loss_attr mean = {0, -100, false}, sum = {0, -100, true},
                                   smooth = {0.2, -100, false};

#define IGNORED                                                                          \
    {                                                                                    \
        .shape = {.rank = 1, .dim = {7}}, .fill = RUNGI_FILL_IGNORED, .dtype = RUNG_I64, \
        .limit = 10                                                                      \
    }

static const rungi_case cases[] = {
    {"mean", {RUNGI_IN(5, 10), RUNGI_LABELS(10, 5)}, 2, &mean},
    {"one row", {RUNGI_IN(1, 3), RUNGI_LABELS(3, 1)}, 2, &mean},
    {"one class", {RUNGI_IN(4, 1), RUNGI_LABELS(1, 4)}, 2, &mean},
    {"sum", {RUNGI_IN(5, 10), RUNGI_LABELS(10, 5)}, 2, &sum},
    {"smoothing", {RUNGI_IN(5, 10), RUNGI_LABELS(10, 5)}, 2, &smooth},
    {"ignore", {RUNGI_IN(7, 10), IGNORED}, 2, &mean},
    {"weights",
     {RUNGI_IN(5, 10), RUNGI_LABELS(10, 5), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 10)},
     3,
     &mean},
    {"weights, smoothing, ignore",
     {RUNGI_IN(7, 10), IGNORED, RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 10)},
     3,
     &smooth},
    {"images", {RUNGI_IN(2, 5, 3, 4), RUNGI_LABELS(5, 2, 3, 4)}, 2, &smooth},
    {"images, weights",
     {RUNGI_IN(2, 5, 3, 40), RUNGI_LABELS(5, 2, 3, 40), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 5)},
     3,
     &mean},
    {"large", {RUNGI_IN(41, 1000), RUNGI_LABELS(1000, 41)}, 2, &mean},
    {"large, images", {RUNGI_IN(3, 21, 30, 20), RUNGI_LABELS(21, 3, 30, 20)}, 2, &mean},
    {.name = "64 x 10",
     .in = {RUNGI_IN(64, 10), RUNGI_LABELS(10, 64)},
     .n_in = 2,
     .attr = &mean,
     .bench = true},
    {.name = "256 x 50257",
     .in = {RUNGI_IN(256, 50257), RUNGI_LABELS(50257, 256)},
     .n_in = 2,
     .attr = &mean,
     .bench = true},
    {0},
};

const rungi_op rungi_op_cross_entropy = {
    .name = "cross_entropy",
    .attr_size = sizeof(rungi_class_loss_attr),
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .n_hidden = 1,
    .precision = RUNGI_HIGH,
    .infer = infer,
    .describe = rungi_class_loss_describe,
    .flops = flops,
    .forward = {.name = "forward", .kernels = {rungi_cross_entropy_forward_cpu}},
    .backward = {{.name = "backward",
                  .gives = 1 << 0,
                  .reads_in = 1 << 0 | 1 << 1 | 1 << 2,
                  .reads_out = 1 << 1,
                  .kernels = {rungi_cross_entropy_backward_cpu}}},
    .normalizer = rungi_class_loss_normalizer,
    .cases = cases,
};
