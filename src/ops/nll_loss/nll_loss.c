// SPDX-License-Identifier: Apache-2.0
// nll_loss: negative log likelihood, as torch.nn.NLLLoss. Inputs: log-probabilities [N, C, ...],
// labels [N, ...] (i64 or i32), class weights [C] (optional). The loss of a row x with label y is
// -w[y] x[y]; the mean divides their sum by the sum of w[y] over the rows that count.
#include <string.h>

#include "base/error.h"
#include "ops/cases.h"
#include "ops/class_loss.h"
#include "ops/element.h"

static rung_status infer(rungi_infer *i)
{
    const rungi_class_loss_attr *a = i->attr;
    RUNG_CHECK(a->label_smoothing == 0, RUNG_INVALID,
               "nll_loss has no label_smoothing; cross_entropy has");
    return rungi_class_loss_infer(i);
}

static double flops(const rungi_query *q)
{
    return (double)rungi_class_loss_row_count(q);
}

// Place of the label's element, and its weight; false when the row does not count.
static bool find(const rungi_call *c, const rungi_rows *r, int64_t row, int64_t *at_out,
                 double *weight_out)
{
    bool counts;
    int64_t label = rungi_class_loss_label(c, row, &counts);
    if (!counts)
        return false;
    *at_out = rungi_rows_begin(r, row) + label * r->inner;
    *weight_out = rungi_class_weight(c->q, rungi_class_loss_weights(c->q, c->ptr), label);
    return true;
}

static rung_status forward_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    RUNG_TRY(rungi_class_loss_check(c));
    rungi_rows r = rungi_class_loss_rows(q);
    double total = 0;
    for (int64_t row = 0; row < r.outer * r.inner; row++) {
        int64_t at;
        double weight;
        if (find(c, &r, row, &at, &weight))
            total -= weight * rungi_get(q->in[0].dtype, rungi_ptr(c, &q->in[0]), at);
    }
    rungi_set(q->out[0].dtype, rungi_ptr(c, &q->out[0]), 0, total / rungi_class_loss_divisor(c));
    return RUNG_OK;
}

static rung_status backward_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_operand *gx = &q->gin[0];
    rungi_rows r = rungi_class_loss_rows(q);
    double scale = rungi_get(q->gout[0].dtype, rungi_ptr(c, &q->gout[0]), 0);
    scale /= rungi_class_loss_divisor(c);
    memset(rungi_ptr(c, gx), 0, rungi_operand_bytes(gx));
    for (int64_t row = 0; row < r.outer * r.inner; row++) {
        int64_t at;
        double weight;
        if (find(c, &r, row, &at, &weight))
            rungi_set(gx->dtype, rungi_ptr(c, gx), at, -weight * scale);
    }
    return RUNG_OK;
}

static const rungi_kernel reference = {.name = "reference", .run = forward_run};
static const rungi_kernel reference_back = {.name = "reference", .run = backward_run};
static const rungi_kernel *const forward_cpu[] = {&reference, NULL};
static const rungi_kernel *const backward_cpu[] = {&reference_back, NULL};

static const rungi_class_loss_attr mean = {0, -100, false}, sum = {0, -100, true};

#define IGNORED                                                                          \
    {                                                                                    \
        .shape = {.rank = 1, .dim = {7}}, .fill = RUNGI_FILL_IGNORED, .dtype = RUNG_I64, \
        .limit = 10                                                                      \
    }

static const rungi_case cases[] = {
    {"mean", {RUNGI_IN(5, 10), RUNGI_LABELS(10, 5)}, 2, &mean},
    {"one row", {RUNGI_IN(1, 3), RUNGI_LABELS(3, 1)}, 2, &mean},
    {"sum", {RUNGI_IN(5, 10), RUNGI_LABELS(10, 5)}, 2, &sum},
    {"ignore", {RUNGI_IN(7, 10), IGNORED}, 2, &mean},
    {"weights, ignore", {RUNGI_IN(7, 10), IGNORED, RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 10)}, 3, &mean},
    {"images", {RUNGI_IN(2, 5, 3, 4), RUNGI_LABELS(5, 2, 3, 4)}, 2, &mean},
    {.name = "256 x 50257",
     .in = {RUNGI_IN(256, 50257), RUNGI_LABELS(50257, 256)},
     .n_in = 2,
     .attr = &mean,
     .bench = true},
    {0},
};

const rungi_op rungi_op_nll_loss = {
    .name = "nll_loss",
    .attr_size = sizeof(rungi_class_loss_attr),
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .precision = RUNGI_HIGH,
    .infer = infer,
    .describe = rungi_class_loss_describe,
    .flops = flops,
    .forward = {.name = "forward", .kernels = {forward_cpu}},
    .backward = {{.name = "backward",
                  .gives = 1 << 0,
                  .reads_in = 1 << 1 | 1 << 2,
                  .kernels = {backward_cpu}}},
    .normalizer = rungi_class_loss_normalizer,
    .cases = cases,
};
