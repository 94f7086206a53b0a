// SPDX-License-Identifier: Apache-2.0
// reorder: the same values in another layout, or a plain copy. Only the planner uses it: where a
// consumer wants another layout than a value is kept in, and where a gradient must be copied.
#include "base/error.h"
#include "ops/cases.h"
#include "ops/element.h"
#include "ops/onednn.h"

#include <string.h>

static rung_status infer(rungi_infer *i)
{
    i->out[0] = i->in[0];
    return RUNG_OK;
}

static double flops(const rungi_query *q)
{
    (void)q;
    return 0;
}

// Equal bytes: no image, or no difference in layout.
static bool flat(const rungi_query *q)
{
    return q->in[0].shape.rank != 4 || q->in[0].layout == q->out[0].layout;
}

static bool copy_can_run(const rungi_query *q, rungi_reason *why)
{
    if (!flat(q) || q->in[0].dtype != q->out[0].dtype)
        return rungi_refuse(why, "layout or dtype changes");
    return true;
}

static rung_status copy_run(const rungi_call *c)
{
    memcpy(rungi_ptr(c, &c->q->out[0]), rungi_ptr(c, &c->q->in[0]),
           rungi_operand_bytes(&c->q->in[0]));
    return RUNG_OK;
}

static rung_status reference_run(const rungi_call *c)
{
    const rungi_operand *from = &c->q->in[0], *to = &c->q->out[0];
    const void *src = rungi_ptr(c, from);
    void *dst = rungi_ptr(c, to);
    if (flat(c->q)) {
        rung_convert(to->dtype, dst, from->dtype, src, rungi_operand_count(from), NULL);
        return RUNG_OK;
    }
    const int64_t *d = from->shape.dim;
    rungi_strides ss = rungi_strides_of(from->layout, &from->shape);
    rungi_strides ds = rungi_strides_of(to->layout, &to->shape);
    for (int64_t n = 0; n < d[0]; n++)
        for (int64_t ch = 0; ch < d[1]; ch++)
            for (int64_t y = 0; y < d[2]; y++)
                for (int64_t x = 0; x < d[3]; x++)
                    rungi_set(to->dtype, dst, rungi_at(&ds, n, ch, y, x),
                              rungi_get(from->dtype, src, rungi_at(&ss, n, ch, y, x)));
    return RUNG_OK;
}

static bool onednn_can_run(const rungi_query *q, rungi_reason *why)
{
    if (flat(q) || q->in[0].dtype != RUNG_F32 || q->out[0].dtype != RUNG_F32)
        return rungi_refuse(why, "float32 images only");
    return true;
}

static rung_status onednn_create(const rungi_query *q, rungi_setup *setup)
{
    return rungi_dnn_reorder_create(q, &q->in[0], &q->out[0], setup);
}

static const rungi_kernel copy = {
    .name = "copy", .kind = RUNGI_OWN, .halves = true, .can_run = copy_can_run, .run = copy_run};
static const rungi_kernel onednn = {.name = "onednn",
                                    .kind = RUNGI_LIBRARY,
                                    .can_run = onednn_can_run,
                                    .create = onednn_create,
                                    .destroy = rungi_dnn_destroy,
                                    .run = rungi_dnn_run};
static const rungi_kernel reference = {.name = "reference", .run = reference_run};

static const rungi_kernel *const kernels[] = {&copy, &onednn, &reference, NULL};

static const rungi_case cases[] = {{0}}; // values in layouts: tests/layout_test.c

const rungi_op rungi_op_reorder = {
    .name = "reorder",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = RUNGI_FOLLOW,
    .by_sample = 1 << 0,
    .infer = infer,
    .flops = flops,
    .forward = {.name = "forward", .kernels = {kernels}},
    .cases = cases,
};
