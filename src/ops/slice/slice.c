// SPDX-License-Identifier: Apache-2.0
// slice: elements start, start + step, ... below end of one dimension, as x[:, start:end:step]. The
// gradient of what was left out is 0.
#include "ops/slice/slice.h"

#include <string.h>

#include "base/error.h"
#include "ops/cases.h"
#include "ops/element.h"
#include "ops/region.h"

static int64_t bound(int64_t at, int64_t size)
{
    if (at < 0)
        at += size;
    return at < 0 ? 0 : at > size ? size : at;
}

static rung_status infer(rungi_infer *i)
{
    const rungi_slice_attr *a = i->attr;
    rung_shape out = i->in[0].shape;
    int dim = rungi_dim_of(a->dim, out.rank);
    char xt[RUNG_SHAPE_TEXT];
    rung_shape_text(&out, xt, sizeof xt);
    RUNG_CHECK(dim >= 0, RUNG_INVALID, "%s has no dimension %d", xt, a->dim);
    RUNG_CHECK(a->step >= 1, RUNG_INVALID, "the step must be 1 or more");
    int64_t start = bound(a->start, out.dim[dim]), end = bound(a->end, out.dim[dim]);
    RUNG_CHECK(start < end, RUNG_MISMATCH, "nothing is left of dimension %d of %s", dim, xt);
    out.dim[dim] = (end - start + a->step - 1) / a->step;
    i->out[0] = (rungi_type){i->in[0].dtype, out};
    return RUNG_OK;
}

static void describe(const void *attr, rungi_string *out)
{
    const rungi_slice_attr *a = attr;
    rungi_string_add(out, "dim %d, %lld:%lld:%lld", a->dim, (long long)a->start, (long long)a->end,
                     (long long)a->step);
}

// The part of x that is taken.
static rungi_region part_of(const rungi_query *q, const rungi_operand *x)
{
    const rungi_slice_attr *a = q->attr;
    int dim = rungi_dim_of(a->dim, x->shape.rank);
    rungi_region part = {.operand = x};
    part.start[dim] = bound(a->start, x->shape.dim[dim]);
    part.step[dim] = a->step;
    return part;
}

static bool can_run(const rungi_query *q, rungi_reason *why)
{
    bool forward = q->pass == RUNGI_FORWARD;
    rungi_region part = part_of(q, forward ? &q->in[0] : &q->gin[0]);
    return rungi_region_fits(&part, forward ? &q->out[0].shape : &q->gout[0].shape, why);
}

static rung_status forward_run(const rungi_call *c)
{
    rungi_region part = part_of(c->q, &c->q->in[0]), all = {.operand = &c->q->out[0]};
    rungi_region_copy(c, &part, &all, &c->q->out[0].shape);
    return RUNG_OK;
}

static rung_status backward_run(const rungi_call *c)
{
    const rungi_operand *gx = &c->q->gin[0], *gy = &c->q->gout[0];
    rungi_region part = part_of(c->q, gx), all = {.operand = gy};
    if (((const rungi_slice_attr *)c->q->attr)->step == 1)
        rungi_region_fill_around(c, &part, &gy->shape, 0);
    else
        memset(rungi_ptr(c, gx), 0, rungi_operand_bytes(gx));
    rungi_region_copy(c, &all, &part, &gy->shape);
    return RUNG_OK;
}

// Place in x of element i of y.
static int64_t taken(const rungi_query *q, const rungi_operand *x, const rungi_operand *y,
                     int64_t i)
{
    const rungi_slice_attr *a = q->attr;
    int64_t index[RUNG_MAX_RANK];
    int dim = rungi_dim_of(a->dim, x->shape.rank);
    rungi_unravel(&y->shape, i, index);
    index[dim] = bound(a->start, x->shape.dim[dim]) + index[dim] * a->step;
    return rungi_place_at(x, index);
}

static rung_status forward_reference(const rungi_call *c)
{
    const rungi_operand *x = &c->q->in[0], *y = &c->q->out[0];
    for (int64_t i = 0; i < rungi_operand_count(y); i++)
        rungi_set(y->dtype, rungi_ptr(c, y), rungi_place(y, i),
                  rungi_get(x->dtype, rungi_ptr(c, x), taken(c->q, x, y, i)));
    return RUNG_OK;
}

static rung_status backward_reference(const rungi_call *c)
{
    const rungi_operand *gx = &c->q->gin[0], *gy = &c->q->gout[0];
    memset(rungi_ptr(c, gx), 0, rungi_operand_bytes(gx));
    for (int64_t i = 0; i < rungi_operand_count(gy); i++)
        rungi_set(gx->dtype, rungi_ptr(c, gx), taken(c->q, gx, gy, i),
                  rungi_get(gy->dtype, rungi_ptr(c, gy), rungi_place(gy, i)));
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

static const rungi_slice_attr rows = {0, 1, 3, 1}, columns = {-1, -4, INT64_MAX, 1},
                              spaced = {-1, 1, 100, 3}, channels = {1, 8, 16, 1},
                              odd_channels = {1, 3, 7, 2}, middle = {2, 1, -1, 1};

static const rungi_case cases[] = {
    {"rows", {RUNGI_IN(5, 3)}, 1, &rows},
    {"from the end", {RUNGI_IN(2, 3, 6)}, 1, &columns},
    {"step", {RUNGI_IN(2, 3, 11)}, 1, &spaced},
    {"channels", {RUNGI_IN(2, 16, 3, 4)}, 1, &channels},
    {"channels by steps", {RUNGI_IN(2, 16, 3, 4)}, 1, &odd_channels},
    {"rows of images", {RUNGI_IN(2, 16, 5, 4)}, 1, &middle},
    {"columns by steps", {RUNGI_IN(2, 16, 3, 9)}, 1, &spaced},
    {"several threads", {RUNGI_IN(8, 16, 50, 9)}, 1, &middle},
    {.name = "half of the channels",
     .in = {RUNGI_IN(64, 16, 64, 64)},
     .n_in = 1,
     .attr = &channels,
     .bench = true},
    {0},
};

const rungi_op rungi_op_slice = {
    .name = "slice",
    .attr_size = sizeof(rungi_slice_attr),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = RUNGI_FOLLOW,
    .layouts = RUNGI_LAYOUTS_EACH,
    .infer = infer,
    .describe = describe,
    .flops = rungi_no_flops,
    .forward = {.name = "forward", .kernels = {forward_cpu}},
    .backward = {{.name = "backward", .gives = 1 << 0, .kernels = {backward_cpu}}},
    .cases = cases,
};
