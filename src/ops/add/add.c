// SPDX-License-Identifier: Apache-2.0
// add: y = a + b with broadcasting; da = dy, db = dy, summed over what was stretched.
#include "base/error.h"
#include "ops/broadcast.h"
#include "ops/cases.h"
#include "ops/element.h"
#include "ops/parallel.h"

static rung_status infer(rungi_infer *i)
{
    rung_shape shape;
    char a[RUNG_SHAPE_TEXT], b[RUNG_SHAPE_TEXT];
    RUNG_CHECK(rungi_broadcast_shape(&i->in[0].shape, &i->in[1].shape, &shape), RUNG_MISMATCH,
               "cannot add %s and %s", rung_shape_text(&i->in[0].shape, a, sizeof a),
               rung_shape_text(&i->in[1].shape, b, sizeof b));
    i->out[0] = (rungi_type){i->in[0].dtype, shape};
    return RUNG_OK;
}

static bool equal_shapes(const rungi_query *q, rungi_reason *why)
{
    if (q->in[0].dtype != RUNG_F32)
        return rungi_refuse(why, "float32 only");
    if (!rung_shape_equal(&q->in[0].shape, &q->in[1].shape))
        return rungi_refuse(why, "equal shapes only");
    return true;
}

static rung_status equal_run(const rungi_call *c)
{
    const float *a = rungi_ptr(c, &c->q->in[0]), *b = rungi_ptr(c, &c->q->in[1]);
    float *y = rungi_ptr(c, &c->q->out[0]);
    int64_t n = rungi_operand_count(&c->q->out[0]);
    RUNGI_PARALLEL_FOR(c->q->threads, n)
    for (int64_t i = 0; i < n; i++)
        y[i] = a[i] + b[i];
    return RUNG_OK;
}

static rung_status forward_reference(const rungi_call *c)
{
    const rungi_operand *a = &c->q->in[0], *b = &c->q->in[1], *y = &c->q->out[0];
    rungi_walk w = {0};
    rungi_broadcast_strides(&a->shape, &y->shape, w.strides[0]);
    rungi_broadcast_strides(&b->shape, &y->shape, w.strides[1]);
    for (int64_t i = 0; i < rungi_operand_count(y); i++) {
        rungi_set(y->dtype, rungi_ptr(c, y), i,
                  rungi_get(a->dtype, rungi_ptr(c, a), w.offset[0]) +
                      rungi_get(b->dtype, rungi_ptr(c, b), w.offset[1]));
        rungi_walk_next(&w, &y->shape);
    }
    return RUNG_OK;
}

// Gradient of one input: the sum of dy over the elements that it was stretched to. Each of its
// elements walks its own block of dy, so that the order of additions is fixed.
static void sum_stretched(const rungi_call *c, const rungi_operand *gin)
{
    const rungi_operand *gy = &c->q->gout[0];
    int64_t strides[RUNG_MAX_RANK], full[RUNG_MAX_RANK];
    rungi_broadcast_strides(&gin->shape, &gy->shape, strides);
    rungi_broadcast_strides(&gy->shape, &gy->shape, full);
    // The dimensions that stay, and those that are summed over.
    rung_shape keep = gy->shape, over = gy->shape;
    for (int d = 0; d < gy->shape.rank; d++) {
        bool stretched = strides[d] == 0;
        keep.dim[d] = stretched ? 1 : gy->shape.dim[d];
        over.dim[d] = stretched ? gy->shape.dim[d] : 1;
    }
    rungi_walk outer = {0};
    for (int d = 0; d < gy->shape.rank; d++) {
        outer.strides[0][d] = strides[d];
        outer.strides[1][d] = full[d];
    }
    int64_t kept = rungi_shape_size(&keep), summed = rungi_shape_size(&over);
    for (int64_t i = 0; i < kept; i++) {
        double sum = 0;
        rungi_walk inner = {0};
        for (int d = 0; d < gy->shape.rank; d++)
            inner.strides[0][d] = full[d];
        inner.offset[0] = outer.offset[1];
        for (int64_t k = 0; k < summed; k++) {
            sum += rungi_get(gy->dtype, rungi_ptr(c, gy), inner.offset[0]);
            rungi_walk_next(&inner, &over);
        }
        rungi_set(gin->dtype, rungi_ptr(c, gin), outer.offset[0], sum);
        rungi_walk_next(&outer, &keep);
    }
}

static rung_status backward_reference(const rungi_call *c)
{
    for (int i = 0; i < 2; i++)
        if (c->q->gin[i].buffer >= 0)
            sum_stretched(c, &c->q->gin[i]);
    return RUNG_OK;
}

static const rungi_kernel equal = {
    .name = "plain", .kind = RUNGI_OWN, .can_run = equal_shapes, .run = equal_run};
static const rungi_kernel reference = {.name = "reference", .run = forward_reference};
static const rungi_kernel reference_backward = {.name = "reference", .run = backward_reference};

static const rungi_kernel *const forward_cpu[] = {&equal, &reference, NULL};
static const rungi_kernel *const backward_cpu[] = {&reference_backward, NULL};

static const rungi_case cases[] = {
    {"equal", {RUNGI_IN(3, 37), RUNGI_IN(3, 37)}, 2},
    {"bias", {RUNGI_IN(4, 5), RUNGI_IN(5)}, 2},
    {"channels", {RUNGI_IN(2, 3, 4, 5), RUNGI_IN(3, 1, 1)}, 2},
    {"both stretch", {RUNGI_IN(4, 1, 3), RUNGI_IN(5, 1)}, 2},
    {.name = "bench",
     .in = {RUNGI_IN(64, 50, 32, 32), RUNGI_IN(64, 50, 32, 32)},
     .n_in = 2,
     .bench = true},
    {0},
};

const rungi_op rungi_op_add = {
    .name = "add",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .precision = RUNGI_FOLLOW,
    .layouts = RUNGI_LAYOUTS_SAME,
    .infer = infer,
    .forward = {.name = "forward", .in_place = true, .kernels = {forward_cpu}},
    .backward = {{.name = "backward_a", .gives = 1 << 0, .identity = 1, .kernels = {backward_cpu}},
                 {.name = "backward_b", .gives = 1 << 1, .identity = 2, .kernels = {backward_cpu}}},
    .cases = cases,
};
