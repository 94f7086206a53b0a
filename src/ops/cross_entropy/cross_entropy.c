// SPDX-License-Identifier: Apache-2.0
// cross_entropy: softmax cross-entropy of class scores, as torch.nn.CrossEntropyLoss.
// Inputs: logits [N, C], labels [N] (i64 or i32 class indexes), class weights [C] (optional).
//
//   loss = sum over rows n that count of w[y] * (1 - s) * (lse - x[y]) + s / C * sum_c w[c] * (lse
//   - x[c])
//          divided (mean) by the sum of w[y] over these rows; s is the label smoothing.
//
// Hidden output: lse [N], the logarithm of the sum of exponentials of each row.
#include "ops/cross_entropy/cross_entropy.h"

#include "base/error.h"
#include "ops/cases.h"

static rung_status infer(rungi_infer *i)
{
    const rungi_cross_entropy_attr *a = i->attr;
    const rung_shape *x = &i->in[0].shape, *y = &i->in[1].shape;
    char xt[RUNG_SHAPE_TEXT], yt[RUNG_SHAPE_TEXT];
    rung_shape_text(x, xt, sizeof xt);
    rung_shape_text(y, yt, sizeof yt);
    RUNG_CHECK(x->rank == 2 && y->rank == 1 && x->dim[0] == y->dim[0], RUNG_MISMATCH,
               "cross_entropy takes logits [N, C] and labels [N]; got %s and %s", xt, yt);
    RUNG_CHECK(i->in[1].dtype == RUNG_I64 || i->in[1].dtype == RUNG_I32, RUNG_MISMATCH,
               "labels must be i64 or i32, not %s", rung_dtype_name(i->in[1].dtype));
    RUNG_CHECK(i->n_in < 3 || i->in[2].shape.rank < 0 ||
                   (i->in[2].shape.rank == 1 && i->in[2].shape.dim[0] == x->dim[1]),
               RUNG_MISMATCH, "the class weights do not fit the logits %s", xt);
    RUNG_CHECK(a->label_smoothing >= 0 && a->label_smoothing <= 1, RUNG_INVALID,
               "label_smoothing is %g; it must be in [0, 1]", a->label_smoothing);
    i->out[0] = (rungi_type){i->in[0].dtype, RUNG_SCALAR};
    i->out[1] = (rungi_type){i->in[0].dtype, {1, {x->dim[0]}}};
    return RUNG_OK;
}

static void describe(const void *attr, rungi_string *out)
{
    const rungi_cross_entropy_attr *a = attr;
    rungi_string_add(out, a->sum ? "sum" : "mean");
    if (a->label_smoothing > 0)
        rungi_string_add(out, ", label smoothing %g", a->label_smoothing);
}

static double flops(const rungi_query *q)
{
    return 4.0 * (double)rungi_operand_count(&q->in[0]);
}

static const rungi_cross_entropy_attr mean = {0, -100, false}, sum = {0, -100, true},
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
    .attr_size = sizeof(rungi_cross_entropy_attr),
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .n_hidden = 1,
    .precision = RUNGI_HIGH,
    .infer = infer,
    .describe = describe,
    .flops = flops,
    .forward = {.name = "forward", .kernels = {rungi_cross_entropy_forward_cpu}},
    .backward = {{.name = "backward",
                  .gives = 1 << 0,
                  .reads_in = 1 << 0 | 1 << 1 | 1 << 2,
                  .reads_out = 1 << 1,
                  .kernels = {rungi_cross_entropy_backward_cpu}}},
    .normalizer = rungi_cross_entropy_normalizer,
    .cases = cases,
};
