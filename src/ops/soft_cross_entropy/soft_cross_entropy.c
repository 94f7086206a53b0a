// SPDX-License-Identifier: Apache-2.0
// soft_cross_entropy: softmax cross-entropy of class scores and class probabilities, as
// torch.nn.CrossEntropyLoss with floating targets. Inputs: logits and targets, both [N, C, ...].
// The loss of a row x with targets p is
//
//   sum over classes c of ((1 - s) p[c] + s / C) (lse - x[c])
//
// where lse is the logarithm of the sum of exponentials of x, and s the label smoothing; the mean
// divides their sum by the number of rows. Hidden output: lse [N, ...]. There is no gradient of the
// targets.
#include "ops/soft_cross_entropy/soft_cross_entropy.h"

#include "base/error.h"
#include "ops/cases.h"
#include "ops/rows.h"

static rung_status infer(rungi_infer *i)
{
    const rungi_soft_loss_attr *a = i->attr;
    const rung_shape *x = &i->in[0].shape, *p = &i->in[1].shape;
    char xt[RUNG_SHAPE_TEXT], pt[RUNG_SHAPE_TEXT];
    bool fit = x->rank >= 2 && p->rank == x->rank;
    for (int d = 0; fit && d < x->rank; d++)
        fit = x->dim[d] == p->dim[d];
    RUNG_CHECK(fit, RUNG_MISMATCH,
               "takes scores and class probabilities of one shape, [N, C] or [N, C, ...]; got %s "
               "and %s",
               rung_shape_text(x, xt, sizeof xt), rung_shape_text(p, pt, sizeof pt));
    RUNG_CHECK(rung_dtype_is_float(i->in[0].dtype) && i->in[0].dtype == i->in[1].dtype,
               RUNG_MISMATCH, "scores and probabilities must be floats of one kind, not %s and %s",
               rung_dtype_name(i->in[0].dtype), rung_dtype_name(i->in[1].dtype));
    RUNG_CHECK(a->label_smoothing >= 0 && a->label_smoothing <= 1, RUNG_INVALID,
               "label_smoothing is %g; it must be in [0, 1]", a->label_smoothing);
    rung_shape rows = {.rank = x->rank - 1, .dim = {x->dim[0]}};
    for (int d = 2; d < x->rank; d++)
        rows.dim[d - 1] = x->dim[d];
    i->out[0] = (rungi_type){i->in[0].dtype, RUNG_SCALAR};
    i->out[1] = (rungi_type){i->in[0].dtype, rows};
    return RUNG_OK;
}

static void describe(const void *attr, rungi_string *out)
{
    const rungi_soft_loss_attr *a = attr;
    rungi_string_add(out, a->sum ? "sum" : "mean");
    if (a->label_smoothing > 0)
        rungi_string_add(out, ", label smoothing %g", a->label_smoothing);
}

static double flops(const rungi_query *q)
{
    return 6.0 * (double)rungi_operand_count(&q->in[0]);
}

double rungi_soft_loss_normalizer(const rungi_query *q, void *const *ptr)
{
    (void)ptr;
    rungi_rows r = rungi_rows_of(&q->in[0].shape, 1);
    return ((const rungi_soft_loss_attr *)q->attr)->sum ? 0 : (double)(r.outer * r.inner);
}

static const rungi_soft_loss_attr mean = {0, false}, sum = {0, true}, smooth = {0.2, false};

static const rungi_case cases[] = {
    {"mean", {RUNGI_IN(5, 10), RUNGI_IN_AS(RUNGI_FILL_UNIT, 5, 10)}, 2, &mean},
    {"one row", {RUNGI_IN(1, 3), RUNGI_IN_AS(RUNGI_FILL_UNIT, 1, 3)}, 2, &mean},
    {"one class", {RUNGI_IN(4, 1), RUNGI_IN_AS(RUNGI_FILL_UNIT, 4, 1)}, 2, &mean},
    {"sum", {RUNGI_IN(5, 10), RUNGI_IN_AS(RUNGI_FILL_UNIT, 5, 10)}, 2, &sum},
    {"smoothing", {RUNGI_IN(5, 10), RUNGI_IN_AS(RUNGI_FILL_UNIT, 5, 10)}, 2, &smooth},
    {"images", {RUNGI_IN(2, 5, 3, 4), RUNGI_IN_AS(RUNGI_FILL_UNIT, 2, 5, 3, 4)}, 2, &smooth},
    {"large", {RUNGI_IN(41, 1000), RUNGI_IN_AS(RUNGI_FILL_UNIT, 41, 1000)}, 2, &mean},
    {.name = "64 x 1000",
     .in = {RUNGI_IN(64, 1000), RUNGI_IN_AS(RUNGI_FILL_UNIT, 64, 1000)},
     .n_in = 2,
     .attr = &mean,
     .bench = true},
    {0},
};

const rungi_op rungi_op_soft_cross_entropy = {
    .name = "soft_cross_entropy",
    .attr_size = sizeof(rungi_soft_loss_attr),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .n_hidden = 1,
    .precision = RUNGI_HIGH,
    .infer = infer,
    .describe = describe,
    .flops = flops,
    .forward = {.name = "forward", .kernels = {rungi_soft_cross_entropy_forward_cpu}},
    .backward = {{.name = "backward",
                  .gives = 1 << 0,
                  .reads_in = 1 << 0 | 1 << 1,
                  .reads_out = 1 << 1,
                  .kernels = {rungi_soft_cross_entropy_backward_cpu}}},
    .normalizer = rungi_soft_loss_normalizer,
    .cases = cases,
};
