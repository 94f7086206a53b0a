// SPDX-License-Identifier: Apache-2.0
// pad: elements of one value before and behind x in each dimension, as torch.nn.functional.pad with
// mode "constant". Backward takes dy's part.
#include "ops/pad/pad.h"

#include "base/error.h"
#include "ops/cases.h"
#include "ops/element.h"
#include "ops/region.h"

static rung_status infer(rungi_infer *i)
{
    const rungi_pad_attr *a = i->attr;
    rung_shape out = i->in[0].shape;
    for (int d = 0; d < RUNG_MAX_RANK; d++) {
        RUNG_CHECK(a->before[d] >= 0 && a->after[d] >= 0, RUNG_INVALID,
                   "padding must be 0 or more; slice cuts off");
        RUNG_CHECK(d < out.rank || (a->before[d] == 0 && a->after[d] == 0), RUNG_INVALID,
                   "the input has no dimension %d to pad", d);
        if (d < out.rank)
            out.dim[d] += a->before[d] + a->after[d];
    }
    i->out[0] = (rungi_type){i->in[0].dtype, out};
    return RUNG_OK;
}

// The part of the output that is x.
static rungi_region part_of(const rungi_query *q, const rungi_operand *y)
{
    const rungi_pad_attr *a = q->attr;
    rungi_region part = {.operand = y};
    for (int d = 0; d < y->shape.rank; d++)
        part.start[d] = a->before[d];
    return part;
}

static bool can_run(const rungi_query *q, rungi_reason *why)
{
    bool forward = q->pass == RUNGI_FORWARD;
    rungi_region part = part_of(q, forward ? &q->out[0] : &q->gout[0]);
    return rungi_region_fits(&part, forward ? &q->in[0].shape : &q->gin[0].shape, why);
}

static rung_status forward_run(const rungi_call *c)
{
    const rungi_operand *x = &c->q->in[0], *y = &c->q->out[0];
    rungi_region part = part_of(c->q, y), all = {.operand = x};
    rungi_region_fill_around(c, &part, &x->shape, ((const rungi_pad_attr *)c->q->attr)->value);
    rungi_region_copy(c, &all, &part, &x->shape);
    return RUNG_OK;
}

static rung_status backward_run(const rungi_call *c)
{
    rungi_region part = part_of(c->q, &c->q->gout[0]), all = {.operand = &c->q->gin[0]};
    rungi_region_copy(c, &part, &all, &c->q->gin[0].shape);
    return RUNG_OK;
}

// Place in the output of element i of x.
static int64_t padded(const rungi_query *q, const rungi_operand *x, const rungi_operand *y,
                      int64_t i)
{
    const rungi_pad_attr *a = q->attr;
    int64_t index[RUNG_MAX_RANK];
    rungi_unravel(&x->shape, i, index);
    for (int d = 0; d < x->shape.rank; d++)
        index[d] += a->before[d];
    return rungi_place_at(y, index);
}

static rung_status forward_reference(const rungi_call *c)
{
    const rungi_operand *x = &c->q->in[0], *y = &c->q->out[0];
    for (int64_t i = 0; i < rungi_operand_count(y); i++)
        rungi_set(y->dtype, rungi_ptr(c, y), i, ((const rungi_pad_attr *)c->q->attr)->value);
    for (int64_t i = 0; i < rungi_operand_count(x); i++)
        rungi_set(y->dtype, rungi_ptr(c, y), padded(c->q, x, y, i),
                  rungi_get(x->dtype, rungi_ptr(c, x), rungi_place(x, i)));
    return RUNG_OK;
}

static rung_status backward_reference(const rungi_call *c)
{
    const rungi_operand *gx = &c->q->gin[0], *gy = &c->q->gout[0];
    for (int64_t i = 0; i < rungi_operand_count(gx); i++)
        rungi_set(gx->dtype, rungi_ptr(c, gx), rungi_place(gx, i),
                  rungi_get(gy->dtype, rungi_ptr(c, gy), padded(c->q, gx, gy, i)));
    return RUNG_OK;
}

static const rungi_kernel copy = {
    .name = "copy", .kind = RUNGI_OWN, .can_run = can_run, .run = forward_run};
static const rungi_kernel copy_back = {
    .name = "copy", .kind = RUNGI_OWN, .can_run = can_run, .run = backward_run};
static const rungi_kernel reference = {.name = "reference", .run = forward_reference};
static const rungi_kernel reference_back = {.name = "reference", .run = backward_reference};

static const rungi_kernel *const forward_cpu[] = {&copy, &reference, NULL};
static const rungi_kernel *const backward_cpu[] = {&copy_back, &reference_back, NULL};

static const rungi_pad_attr one = {{2}, {1}, 0.5}, matrix = {{0, 3}, {2, 1}, -1},
                            image = {{0, 0, 2, 1}, {0, 0, 1, 2}, 0},
                            channels = {{0, 8}, {0, 8}, 0.25}, few = {{0, 1}, {0, 3}, 3};

static const rungi_case cases[] = {
    {"vector", {RUNGI_IN(5)}, 1, &one},
    {"matrix", {RUNGI_IN(3, 4)}, 1, &matrix},
    {"image", {RUNGI_IN(2, 8, 4, 3)}, 1, &image},
    {"3 channels", {RUNGI_IN(2, 3, 4, 3)}, 1, &image},
    {"channels", {RUNGI_IN(2, 16, 3, 2)}, 1, &channels},
    {"few channels", {RUNGI_IN(2, 4, 3, 2)}, 1, &few},
    {"several threads", {RUNGI_IN(3, 16, 33, 30)}, 1, &image},
    {.name = "border of images",
     .in = {RUNGI_IN(64, 64, 32, 32)},
     .n_in = 1,
     .attr = &image,
     .bench = true},
    {0},
};

const rungi_op rungi_op_pad = {
    .name = "pad",
    .attr_size = sizeof(rungi_pad_attr),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = RUNGI_FOLLOW,
    .layouts = RUNGI_LAYOUTS_EACH,
    .infer = infer,
    .flops = rungi_no_flops,
    .forward = {.name = "forward", .kernels = {forward_cpu}},
    .backward = {{.name = "backward", .gives = 1 << 0, .kernels = {backward_cpu}}},
    .cases = cases,
};
