// SPDX-License-Identifier: Apache-2.0
// permute: dimensions in another order, as torch.permute; the elements move in memory.
#include "ops/permute/permute.h"

#include "base/error.h"
#include "ops/cases.h"
#include "ops/element.h"
#include "ops/region.h"

static rung_status infer(rungi_infer *i)
{
    const rungi_permute_attr *a = i->attr;
    const rung_shape *x = &i->in[0].shape;
    rung_shape out = {.rank = x->rank};
    char xt[RUNG_SHAPE_TEXT];
    unsigned seen = 0;
    for (int d = 0; d < a->rank; d++) {
        int dim = rungi_dim_of(a->dims[d], x->rank);
        if (dim < 0 || a->rank != x->rank)
            break;
        seen |= 1u << dim;
        out.dim[d] = x->dim[dim];
    }
    RUNG_CHECK(seen == (1u << x->rank) - 1, RUNG_INVALID, "permute needs each dimension of %s once",
               rung_shape_text(x, xt, sizeof xt));
    i->out[0] = (rungi_type){i->in[0].dtype, out};
    return RUNG_OK;
}

static void describe(const void *attr, rungi_string *out)
{
    const rungi_permute_attr *a = attr;
    rungi_string_add(out, "dims");
    for (int d = 0; d < a->rank; d++)
        rungi_string_add(out, " %d", a->dims[d]);
}

// x with its dimensions in the output's order.
static rungi_region turned(const rungi_query *q, const rungi_operand *x)
{
    const rungi_permute_attr *a = q->attr;
    rungi_region r = {.operand = x};
    for (int d = 0; d < a->rank; d++)
        r.axis[d] = rungi_dim_of(a->dims[d], a->rank);
    return r;
}

static rung_status forward_run(const rungi_call *c)
{
    rungi_region from = turned(c->q, &c->q->in[0]), to = {.operand = &c->q->out[0]};
    rungi_region_copy(c, &from, &to, &c->q->out[0].shape);
    return RUNG_OK;
}

static rung_status backward_run(const rungi_call *c)
{
    rungi_region from = {.operand = &c->q->gout[0]}, to = turned(c->q, &c->q->gin[0]);
    rungi_region_copy(c, &from, &to, &c->q->gout[0].shape);
    return RUNG_OK;
}

static void reference_copy(const rungi_call *c, const rungi_operand *x, const rungi_operand *y,
                           bool forward)
{
    const rungi_permute_attr *a = c->q->attr;
    for (int64_t i = 0; i < rungi_operand_count(y); i++) {
        int64_t to[RUNG_MAX_RANK], from[RUNG_MAX_RANK];
        rungi_unravel(&y->shape, i, to);
        for (int d = 0; d < a->rank; d++)
            from[rungi_dim_of(a->dims[d], a->rank)] = to[d];
        int64_t at = rungi_place_at(x, from);
        if (forward)
            rungi_set(y->dtype, rungi_ptr(c, y), i, rungi_get(x->dtype, rungi_ptr(c, x), at));
        else
            rungi_set(x->dtype, rungi_ptr(c, x), at, rungi_get(y->dtype, rungi_ptr(c, y), i));
    }
}

static rung_status forward_reference(const rungi_call *c)
{
    reference_copy(c, &c->q->in[0], &c->q->out[0], true);
    return RUNG_OK;
}

static rung_status backward_reference(const rungi_call *c)
{
    reference_copy(c, &c->q->gin[0], &c->q->gout[0], false);
    return RUNG_OK;
}

static const rungi_kernel copy = {.name = "copy", .kind = RUNGI_OWN, .run = forward_run};
static const rungi_kernel copy_back = {.name = "copy", .kind = RUNGI_OWN, .run = backward_run};
static const rungi_kernel reference = {.name = "reference", .run = forward_reference};
static const rungi_kernel reference_back = {.name = "reference", .run = backward_reference};

static const rungi_kernel *const forward_cpu[] = {&copy, &reference, NULL};
static const rungi_kernel *const backward_cpu[] = {&copy_back, &reference_back, NULL};

static const rungi_permute_attr same = {1, {0}}, matrix = {2, {1, 0}}, last = {3, {0, 2, 1}},
                                heads = {4, {0, 2, 1, 3}}, turn = {3, {2, 0, 1}},
                                reverse = {4, {-1, -2, -3, -4}}, six = {6, {3, 0, 5, 2, 1, 4}};

static const rungi_case cases[] = {
    {"vector", {RUNGI_IN(5)}, 1, &same},
    {"matrix", {RUNGI_IN(7, 6)}, 1, &matrix},
    {"larger than tiles", {RUNGI_IN(67, 45)}, 1, &matrix},
    {"last two", {RUNGI_IN(3, 35, 9)}, 1, &last},
    {"heads", {RUNGI_IN(2, 5, 3, 4)}, 1, &heads},
    {"turn", {RUNGI_IN(4, 5, 6)}, 1, &turn},
    {"reverse", {RUNGI_IN(2, 3, 4, 5)}, 1, &reverse},
    {"six dimensions", {RUNGI_IN(2, 3, 2, 3, 2, 3)}, 1, &six},
    {"several threads", {RUNGI_IN(3, 150, 90)}, 1, &last},
    {.name = "2048 x 2048",
     .in = {RUNGI_IN(2048, 2048)},
     .n_in = 1,
     .attr = &matrix,
     .bench = true},
    {.name = "heads of 64",
     .in = {RUNGI_IN(16, 256, 12, 64)},
     .n_in = 1,
     .attr = &heads,
     .bench = true},
    {.name = "last two", .in = {RUNGI_IN(192, 256, 64)}, .n_in = 1, .attr = &last, .bench = true},
    {0},
};

const rungi_op rungi_op_permute = {
    .name = "permute",
    .attr_size = sizeof(rungi_permute_attr),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = RUNGI_FOLLOW,
    .infer = infer,
    .describe = describe,
    .flops = rungi_no_flops,
    .forward = {.name = "forward", .kernels = {forward_cpu}},
    .backward = {{.name = "backward", .gives = 1 << 0, .kernels = {backward_cpu}}},
    .cases = cases,
};
