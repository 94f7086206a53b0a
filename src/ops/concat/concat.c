// SPDX-License-Identifier: Apache-2.0
// concat: inputs one after the other along a dimension, as torch.cat. Backward cuts dy up again.
#include "ops/concat/concat.h"

#include "base/error.h"
#include "ops/cases.h"
#include "ops/element.h"
#include "ops/region.h"

static rung_status infer(rungi_infer *i)
{
    const rungi_concat_attr *a = i->attr;
    const rung_shape *first = &i->in[0].shape;
    int dim = rungi_dim_of(a->dim, first->rank);
    char ft[RUNG_SHAPE_TEXT], st[RUNG_SHAPE_TEXT];
    rung_shape_text(first, ft, sizeof ft);
    RUNG_CHECK(dim >= 0, RUNG_INVALID, "%s has no dimension %d", ft, a->dim);
    rung_shape out = *first;
    for (int k = 1; k < i->n_in; k++) {
        const rung_shape *s = &i->in[k].shape;
        bool fits = s->rank == first->rank && i->in[k].dtype == i->in[0].dtype;
        for (int d = 0; fits && d < s->rank; d++)
            fits = d == dim || s->dim[d] == first->dim[d];
        RUNG_CHECK(fits, RUNG_MISMATCH, "cannot put %s behind %s along dimension %d",
                   rung_shape_text(s, st, sizeof st), ft, dim);
        out.dim[dim] += s->dim[dim];
    }
    i->out[0] = (rungi_type){i->in[0].dtype, out};
    return RUNG_OK;
}

static void describe(const void *attr, rungi_string *out)
{
    rungi_string_add(out, "dim %d", ((const rungi_concat_attr *)attr)->dim);
}

static int dim_of(const rungi_query *q)
{
    return rungi_dim_of(((const rungi_concat_attr *)q->attr)->dim, q->in[0].shape.rank);
}

// The part of the whole that input k is.
static rungi_region part_of(const rungi_query *q, const rungi_operand *whole, int k)
{
    rungi_region part = {.operand = whole};
    for (int i = 0; i < k; i++)
        part.start[dim_of(q)] += q->in[i].shape.dim[dim_of(q)];
    return part;
}

static bool can_run(const rungi_query *q, rungi_reason *why)
{
    const rungi_operand *whole = q->pass == RUNGI_FORWARD ? &q->out[0] : &q->gout[0];
    for (int k = 0; k < q->n_in; k++) {
        rungi_region part = part_of(q, whole, k);
        if (!rungi_region_fits(&part, &q->in[k].shape, why))
            return false;
    }
    return true;
}

static rung_status forward_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    for (int k = 0; k < q->n_in; k++) {
        rungi_region all = {.operand = &q->in[k]}, part = part_of(q, &q->out[0], k);
        rungi_region_copy(c, &all, &part, &q->in[k].shape);
    }
    return RUNG_OK;
}

static rung_status backward_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    for (int k = 0; k < q->n_in; k++) {
        rungi_region all = {.operand = &q->gin[k]}, part = part_of(q, &q->gout[0], k);
        if (q->gin[k].buffer >= 0)
            rungi_region_copy(c, &part, &all, &q->gin[k].shape);
    }
    return RUNG_OK;
}

// Element i of operand `o`, which is input k, and its place in the whole.
static void reference_copy(const rungi_call *c, const rungi_operand *o, const rungi_operand *whole,
                           int k, bool forward)
{
    int64_t index[RUNG_MAX_RANK];
    int64_t start = part_of(c->q, whole, k).start[dim_of(c->q)];
    for (int64_t i = 0; i < rungi_operand_count(o); i++) {
        int64_t own = rungi_place(o, i);
        rungi_unravel(&o->shape, i, index);
        index[dim_of(c->q)] += start;
        int64_t at = rungi_place_at(whole, index);
        if (forward)
            rungi_set(o->dtype, rungi_ptr(c, whole), at, rungi_get(o->dtype, rungi_ptr(c, o), own));
        else
            rungi_set(o->dtype, rungi_ptr(c, o), own, rungi_get(o->dtype, rungi_ptr(c, whole), at));
    }
}

static rung_status forward_reference(const rungi_call *c)
{
    for (int k = 0; k < c->q->n_in; k++)
        reference_copy(c, &c->q->in[k], &c->q->out[0], k, true);
    return RUNG_OK;
}

static rung_status backward_reference(const rungi_call *c)
{
    for (int k = 0; k < c->q->n_in; k++)
        if (c->q->gin[k].buffer >= 0)
            reference_copy(c, &c->q->gin[k], &c->q->gout[0], k, false);
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

static const rungi_concat_attr rows = {0}, channels = {1}, last = {-1};

static const rungi_case cases[] = {
    {"rows", {RUNGI_IN(2, 5), RUNGI_IN(3, 5), RUNGI_IN(1, 5)}, 3, &rows},
    {"columns", {RUNGI_IN(4, 2), RUNGI_IN(4, 7)}, 2, &last},
    {"one", {RUNGI_IN(4, 2)}, 1, &last},
    {"channels", {RUNGI_IN(2, 3, 4, 5), RUNGI_IN(2, 50, 4, 5)}, 2, &channels},
    {"blocks of channels", {RUNGI_IN(2, 16, 3, 3), RUNGI_IN(2, 32, 3, 3)}, 2, &channels},
    {"columns of images", {RUNGI_IN(2, 16, 3, 3), RUNGI_IN(2, 16, 3, 2)}, 2, &last},
    {"several threads", {RUNGI_IN(3, 16, 33, 30), RUNGI_IN(3, 8, 33, 30)}, 2, &channels},
    {.name = "densenet",
     .in = {RUNGI_IN(16, 224, 28, 28), RUNGI_IN(16, 32, 28, 28)},
     .n_in = 2,
     .attr = &channels,
     .bench = true},
    {0},
};

const rungi_op rungi_op_concat = {
    .name = "concat",
    .attr_size = sizeof(rungi_concat_attr),
    .min_in = 1,
    .max_in = RUNGI_ALL,
    .n_out = 1,
    .precision = RUNGI_FOLLOW,
    .layouts = RUNGI_LAYOUTS_EACH,
    .infer = infer,
    .describe = describe,
    .flops = rungi_no_flops,
    .forward = {.name = "forward", .kernels = {forward_cpu}},
    .backward = {{.name = "backward", .gives = ~0u, .kernels = {backward_cpu}}},
    .cases = cases,
};
