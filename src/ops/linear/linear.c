// SPDX-License-Identifier: Apache-2.0
// linear: y = x W^T + bias over the last dimension. Inputs: x [..., I], weight [O, I], bias [O]
// (optional). As torch.nn.Linear. dx = dy W; dW = dy^T x; dbias = sum of dy.
#include <string.h>

#include "base/error.h"
#include "ops/cases.h"
#include "ops/linear/linear.h"

static rung_status infer(rungi_infer *i)
{
    const rung_shape *x = &i->in[0].shape, *w = &i->in[1].shape;
    char xt[RUNG_SHAPE_TEXT], wt[RUNG_SHAPE_TEXT];
    rung_shape_text(x, xt, sizeof xt);
    rung_shape_text(w, wt, sizeof wt);
    RUNG_CHECK(x->rank >= 1 && w->rank == 2 && x->dim[x->rank - 1] == w->dim[1], RUNG_MISMATCH,
               "the weight %s does not fit the input %s", wt, xt);
    RUNG_CHECK(i->n_in < 3 || i->in[2].shape.rank < 0 ||
                   (i->in[2].shape.rank == 1 && i->in[2].shape.dim[0] == w->dim[0]),
               RUNG_MISMATCH, "the bias does not fit the weight %s", wt);
    i->out[0] = (rungi_type){i->in[0].dtype, *x};
    i->out[0].shape.dim[x->rank - 1] = w->dim[0];
    return RUNG_OK;
}

static double flops(const rungi_query *q)
{
    return 2.0 * (double)rungi_operand_count(&q->out[0]) * (double)q->in[1].shape.dim[1];
}

static const rungi_case cases[] = {
    {"one row", {RUNGI_IN(1, 7), RUNGI_IN(5, 7), RUNGI_IN(5)}, 3, NULL, 5e-6},
    {"one of all", {RUNGI_IN(1, 1), RUNGI_IN(1, 1), RUNGI_IN(1)}, 3, NULL, 5e-6},
    {"no bias", {RUNGI_IN(6, 33), RUNGI_IN(17, 33)}, 2, NULL, 5e-6},
    {"rank 3", {RUNGI_IN(2, 3, 8), RUNGI_IN(4, 8), RUNGI_IN(4)}, 3, NULL, 5e-6},
    {"64 rows", {RUNGI_IN(64, 100), RUNGI_IN(10, 100), RUNGI_IN(10)}, 3, NULL, 1e-5},
    {"odd sizes", {RUNGI_IN(77, 301), RUNGI_IN(53, 301), RUNGI_IN(53)}, 3, NULL, 1e-5},
    {"several blocks", {RUNGI_IN(270, 262), RUNGI_IN(130, 262), RUNGI_IN(130)}, 3, NULL, 1e-5},
    {.name = "cnn fc1",
     .in = {RUNGI_IN(64, 6400), RUNGI_IN(512, 6400), RUNGI_IN(512)},
     .n_in = 3,
     .bench = true},
    {.name = "cnn fc1 batch 32",
     .in = {RUNGI_IN(32, 6400), RUNGI_IN(512, 6400), RUNGI_IN(512)},
     .n_in = 3,
     .bench = true},
    {.name = "cnn fc1 batch 16",
     .in = {RUNGI_IN(16, 6400), RUNGI_IN(512, 6400), RUNGI_IN(512)},
     .n_in = 3,
     .bench = true},
    {.name = "mlp fc1",
     .in = {RUNGI_IN(64, 784), RUNGI_IN(512, 784), RUNGI_IN(512)},
     .n_in = 3,
     .bench = true},
    {.name = "mlp fc1 batch 1",
     .in = {RUNGI_IN(1, 784), RUNGI_IN(512, 784), RUNGI_IN(512)},
     .n_in = 3,
     .bench = true},
    {.name = "cnn fc2",
     .in = {RUNGI_IN(64, 512), RUNGI_IN(10, 512), RUNGI_IN(10)},
     .n_in = 3,
     .bench = true},
    {.name = "resnet fc",
     .in = {RUNGI_IN(16, 512), RUNGI_IN(1000, 512), RUNGI_IN(1000)},
     .n_in = 3,
     .bench = true},
    {.name = "gpt2 qkv",
     .in = {RUNGI_IN(4, 64, 768), RUNGI_IN(2304, 768), RUNGI_IN(2304)},
     .n_in = 3,
     .bench = true},
    {.name = "gpt2 mlp down",
     .in = {RUNGI_IN(4, 64, 3072), RUNGI_IN(768, 3072), RUNGI_IN(768)},
     .n_in = 3,
     .bench = true},
    {.name = "2048 rows",
     .in = {RUNGI_IN(2048, 768), RUNGI_IN(768, 768), RUNGI_IN(768)},
     .n_in = 3,
     .bench = true},
    {0},
};

const rungi_op rungi_op_linear = {
    .name = "linear",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .precision = RUNGI_LOW,
    .by_sample = 1 << 0,
    .by_feature = true,
    .infer = infer,
    .flops = flops,
    .forward = {.name = "forward", .kernels = {rungi_linear_forward_cpu}},
    .backward = {{.name = "backward_weight",
                  .gives = 1 << 1 | 1 << 2,
                  .reads_in = 1 << 0,
                  .kernels = {rungi_linear_weight_cpu}},
                 {.name = "backward_data",
                  .gives = 1 << 0,
                  .reads_in = 1 << 1,
                  .kernels = {rungi_linear_data_cpu}}},
    .cases = cases,
};
