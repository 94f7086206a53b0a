// SPDX-License-Identifier: Apache-2.0
#include "ops/reduction.h"

#include "base/error.h"
#include "ops/broadcast.h"
#include "ops/element.h"
#include "ops/pieces.h"
#include "ops/simd.h"

static bool reduced(const rungi_reduction_attr *a, int d)
{
    return !a->dims || a->dims >> d & 1;
}

rung_status rungi_reduction_infer(rungi_infer *i)
{
    const rungi_reduction_attr *a = i->attr;
    const rung_shape *x = &i->in[0].shape;
    char text[RUNG_SHAPE_TEXT];
    RUNG_CHECK(rung_dtype_is_float(i->in[0].dtype), RUNG_MISMATCH, "takes floats, not %s",
               rung_dtype_name(i->in[0].dtype));
    RUNG_CHECK(a->dims >> x->rank == 0, RUNG_MISMATCH, "%s has no dimension %d",
               rung_shape_text(x, text, sizeof text), 31 - __builtin_clz(a->dims | 1));
    rung_shape out = {0};
    for (int d = 0; d < x->rank; d++)
        if (!reduced(a, d) || a->keepdim)
            out.dim[out.rank++] = reduced(a, d) ? 1 : x->dim[d];
    i->out[0] = (rungi_type){i->in[0].dtype, out};
    return RUNG_OK;
}

void rungi_reduction_describe(const void *attr, rungi_string *out)
{
    const rungi_reduction_attr *a = attr;
    if (!a->dims)
        rungi_string_add(out, "all");
    for (int d = 0, n = 0; d < RUNG_MAX_RANK; d++)
        if (a->dims >> d & 1)
            rungi_string_add(out, "%s%d", n++ ? ", " : "over ", d);
}

double rungi_reduction_flops(const rungi_query *q)
{
    return (double)rungi_operand_count(&q->in[0]);
}

// The input's shape with 1 in place of what is summed: the output's elements in the same order.
static rung_shape kept_shape(const rungi_query *q)
{
    rung_shape shape = q->in[0].shape;
    for (int d = 0; d < shape.rank; d++)
        if (reduced(q->attr, d))
            shape.dim[d] = 1;
    return shape;
}

// Are all dimensions summed, the batch included? (A scalar has none.)
static bool of_all(const rungi_query *q)
{
    int rank = q->in[0].shape.rank;
    for (int d = 0; d < rank; d++)
        if (!reduced(q->attr, d))
            return false;
    return rank > 0;
}

double rungi_mean_normalizer(const rungi_query *q, void *const *ptr)
{
    (void)ptr;
    return of_all(q) ? (double)rungi_operand_count(&q->in[0]) : 0;
}

// What the sum of an output's elements is multiplied with.
static double factor(const rungi_call *c)
{
    const rungi_query *q = c->q;
    if (!q->op->normalizer)
        return 1;
    if (of_all(q) && c->rt && c->rt->normalizer)
        return 1 / c->rt->normalizer[q->node];
    return (double)rungi_operand_count(&q->out[0]) / (double)rungi_operand_count(&q->in[0]);
}

// ---- float32 ----------------------------------------------------------------------------------

static bool float32_only(const rungi_query *q, rungi_reason *why)
{
    return q->in[0].dtype == RUNG_F32 ? true : rungi_refuse(why, "float32 only");
}

static rungi_pieces input_pieces(const rungi_query *q, const float *x)
{
    const rung_shape *shape = &q->in[0].shape;
    return (rungi_pieces){RUNGI_PIECE_IN0, *shape, {x}, {*shape}, 1};
}

static rung_status forward_create(const rungi_query *q, rungi_setup *setup)
{
    const float present = 0;
    rungi_pieces p = input_pieces(q, &present);
    rung_shape to = kept_shape(q);
    setup->workspace = rungi_pieces_sum_workspace(&p, &to);
    return RUNG_OK;
}

static rung_status forward_body(const rungi_call *c, rung_isa isa)
{
    rungi_pieces p = input_pieces(c->q, rungi_ptr(c, &c->q->in[0]));
    rung_shape to = kept_shape(c->q);
    rungi_pieces_sum(&p, &to, factor(c), isa, c->q->threads, c->workspace,
                     rungi_ptr(c, &c->q->out[0]));
    return RUNG_OK;
}

static rung_status backward_body(const rungi_call *c, rung_isa isa)
{
    const rungi_query *q = c->q;
    rungi_pieces p = {RUNGI_PIECE_scaled,
                      q->in[0].shape,
                      {rungi_ptr(c, &q->gout[0])},
                      {kept_shape(q)},
                      (float)factor(c)};
    rungi_pieces_map(&p, isa, q->threads, rungi_ptr(c, &q->gin[0]));
    return RUNG_OK;
}

RUNGI_ISA_KERNELS(forward, float32_only, forward_create, forward_body)
RUNGI_ISA_KERNELS(backward, float32_only, NULL, backward_body)

// ---- reference --------------------------------------------------------------------------------

static double element(const void *user, int64_t i)
{
    const rungi_call *c = user;
    return rungi_get(c->q->in[0].dtype, rungi_ptr(c, &c->q->in[0]), i);
}

static rung_status forward_reference(const rungi_call *c)
{
    const rungi_operand *y = &c->q->out[0];
    rung_shape kept = kept_shape(c->q);
    for (int64_t i = 0; i < rungi_operand_count(y); i++)
        rungi_set(y->dtype, rungi_ptr(c, y), i,
                  factor(c) * rungi_broadcast_sum(&c->q->in[0].shape, &kept, i, element, c));
    return RUNG_OK;
}

static rung_status backward_reference(const rungi_call *c)
{
    const rungi_operand *gy = &c->q->gout[0], *gx = &c->q->gin[0];
    rung_shape kept = kept_shape(c->q);
    rungi_walk w = {0};
    rungi_broadcast_strides(&kept, &gx->shape, w.strides[0]);
    for (int64_t i = 0; i < rungi_operand_count(gx); i++) {
        rungi_set(gx->dtype, rungi_ptr(c, gx), i,
                  factor(c) * rungi_get(gy->dtype, rungi_ptr(c, gy), w.offset[0]));
        rungi_walk_next(&w, &gx->shape);
    }
    return RUNG_OK;
}

static const rungi_kernel reference = {.name = "reference", .run = forward_reference};
static const rungi_kernel reference_back = {.name = "reference", .run = backward_reference};

const rungi_kernel *const rungi_reduction_forward_cpu[] = {RUNGI_ISA_LIST(forward), &reference,
                                                           NULL};
const rungi_kernel *const rungi_reduction_backward_cpu[] = {RUNGI_ISA_LIST(backward),
                                                            &reference_back, NULL};

// ---- cases -------------------------------------------------------------------------------------

static const rungi_reduction_attr all = {0}, first = {1 << 0, true}, last = {1 << 1};
static const rungi_reduction_attr images = {1 << 2 | 1 << 3}, outer = {1 << 0 | 1 << 2};
static const rungi_reduction_attr middle = {1 << 1, true};

const rungi_case rungi_reduction_cases[] = {
    {"all", {RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 3, 37)}, 1, &all},
    {"one", {RUNGI_IN(1)}, 1, &all},
    {"scalar", {{.shape = {0}}}, 1, &all},
    {"first", {RUNGI_IN(7, 5)}, 1, &first},
    {"last", {RUNGI_IN(7, 5)}, 1, &last},
    {"images", {RUNGI_IN(2, 3, 5, 4)}, 1, &images},
    {"outer", {RUNGI_IN(4, 3, 5)}, 1, &outer},
    {"middle", {RUNGI_IN(4, 3, 5)}, 1, &middle},
    {"long rows", {RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 3, 20011)}, 1, &last},
    {"long columns", {RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 20011, 3)}, 1, &first},
    {"large, all", {RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 30011, 2)}, 1, &all},
    {"large, middle", {RUNGI_IN_AS(RUNGI_FILL_POSITIVE, 2, 50, 601)}, 1, &middle},
    {.name = "bench all", .in = {RUNGI_IN(64, 50, 32, 32)}, .n_in = 1, .attr = &all, .bench = true},
    {.name = "bench images",
     .in = {RUNGI_IN(64, 50, 32, 32)},
     .n_in = 1,
     .attr = &images,
     .bench = true},
    {.name = "bench first", .in = {RUNGI_IN(512, 4096)}, .n_in = 1, .attr = &first, .bench = true},
    {0},
};
