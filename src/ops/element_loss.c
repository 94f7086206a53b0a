// SPDX-License-Identifier: Apache-2.0
#include "ops/element_loss.h"

#include "base/error.h"
#include "ops/broadcast.h"
#include "ops/element.h"
#include "ops/simd.h"

static const rungi_element_loss *find(const rungi_op *op)
{
#define LOSS_POINTER(name) &rungi_element_loss_##name,
    static const rungi_element_loss *const all[] = {RUNGI_ELEMENT_LOSSES(LOSS_POINTER)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->op == op)
            return all[i];
    return NULL;
}

rung_status rungi_element_loss_infer(rungi_infer *i)
{
    const rung_shape *x = &i->in[0].shape;
    char xt[RUNG_SHAPE_TEXT], yt[RUNG_SHAPE_TEXT];
    rung_shape_text(x, xt, sizeof xt);
    RUNG_CHECK(rung_shape_equal(x, &i->in[1].shape), RUNG_MISMATCH,
               "the prediction is %s, its target %s; they must have one shape", xt,
               rung_shape_text(&i->in[1].shape, yt, sizeof yt));
    for (int k = 0; k < i->n_in; k++) {
        const rung_shape *shape = &i->in[k].shape;
        rung_shape both;
        if (shape->rank < 0)
            continue;
        RUNG_CHECK(rung_dtype_is_float(i->in[k].dtype) && i->in[k].dtype == i->in[0].dtype,
                   RUNG_MISMATCH, "all inputs must be floats of one dtype; input %d is %s", k,
                   rung_dtype_name(i->in[k].dtype));
        RUNG_CHECK(rungi_broadcast_shape(x, shape, &both) && rung_shape_equal(x, &both),
                   RUNG_MISMATCH, "weights %s do not broadcast to the prediction %s",
                   rung_shape_text(shape, yt, sizeof yt), xt);
    }
    i->out[0] = (rungi_type){i->in[0].dtype, RUNG_SCALAR};
    return RUNG_OK;
}

void rungi_element_loss_describe(const void *attr, rungi_string *out)
{
    rungi_string_add(out, ((const rungi_element_loss_attr *)attr)->sum ? "sum" : "mean");
}

double rungi_element_loss_flops(const rungi_query *q)
{
    return 3.0 * (double)rungi_operand_count(&q->in[0]);
}

double rungi_element_loss_normalizer(const rungi_query *q, void *const *ptr)
{
    (void)ptr;
    const rungi_element_loss_attr *a = q->attr;
    return a->sum ? 0 : (double)rungi_operand_count(&q->in[0]);
}

static double divisor(const rungi_call *c)
{
    if (((const rungi_element_loss_attr *)c->q->attr)->sum)
        return 1;
    return c->rt && c->rt->normalizer ? c->rt->normalizer[c->q->node]
                                      : rungi_element_loss_normalizer(c->q, c->ptr);
}

// ---- float32 ----------------------------------------------------------------------------------

static bool float32_only(const rungi_query *q, rungi_reason *why)
{
    return q->in[0].dtype == RUNG_F32 ? true : rungi_refuse(why, "float32 only");
}

static rungi_pieces pieces_of(const rungi_query *q, const rungi_call *c,
                              rungi_piece_function function)
{
    static const float present;
    rungi_pieces p = {.function = function, .shape = q->in[0].shape, .factor = 1};
    for (int k = 0; k < q->n_in; k++) {
        if (q->in[k].buffer < 0)
            continue;
        p.in[k] = c ? rungi_ptr(c, &q->in[k]) : &present;
        p.in_shape[k] = q->in[k].shape;
    }
    return p;
}

static rung_status forward_create(const rungi_query *q, rungi_setup *setup)
{
    rungi_pieces p = pieces_of(q, NULL, find(q->op)->function);
    setup->workspace = rungi_pieces_sum_workspace(&p, &q->out[0].shape);
    return RUNG_OK;
}

static rung_status forward_body(const rungi_call *c, rung_isa isa)
{
    const rungi_query *q = c->q;
    rungi_pieces p = pieces_of(q, c, find(q->op)->function);
    rungi_pieces_sum(&p, &q->out[0].shape, 1 / divisor(c), isa, q->threads, c->workspace,
                     rungi_ptr(c, &q->out[0]));
    return RUNG_OK;
}

static rung_status backward_body(const rungi_call *c, rung_isa isa)
{
    const rungi_query *q = c->q;
    const rungi_element_loss *loss = find(q->op);
    rungi_pieces p = pieces_of(q, c, loss->gradient);
    double scale = *(const float *)rungi_ptr(c, &q->gout[0]) / divisor(c);
    for (int k = 0; k < 2; k++) {
        if (q->gin[k].buffer < 0)
            continue;
        p.factor = (float)(loss->sign[k] * scale);
        rungi_pieces_map(&p, isa, q->threads, rungi_ptr(c, &q->gin[k]));
    }
    return RUNG_OK;
}

RUNGI_ISA_KERNELS(forward, float32_only, forward_create, forward_body)
RUNGI_ISA_KERNELS(backward, float32_only, NULL, backward_body)

// ---- reference --------------------------------------------------------------------------------

// The inputs of element i.
static void read_inputs(const rungi_call *c, int64_t i, double in[4])
{
    const rungi_query *q = c->q;
    for (int k = 0; k < 4; k++) {
        in[k] = 1;
        if (k >= q->n_in || q->in[k].buffer < 0)
            continue;
        int64_t strides[RUNG_MAX_RANK];
        rungi_broadcast_strides(&q->in[k].shape, &q->in[0].shape, strides);
        in[k] = rungi_get(q->in[k].dtype, rungi_ptr(c, &q->in[k]),
                          rungi_broadcast_offset(&q->in[0].shape, strides, i));
    }
}

static rung_status forward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    double total = 0, in[4];
    for (int64_t i = 0; i < rungi_operand_count(&q->in[0]); i++) {
        read_inputs(c, i, in);
        total += find(q->op)->value(in);
    }
    rungi_set(q->out[0].dtype, rungi_ptr(c, &q->out[0]), 0, total / divisor(c));
    return RUNG_OK;
}

static rung_status backward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    double scale = rungi_get(q->gout[0].dtype, rungi_ptr(c, &q->gout[0]), 0) / divisor(c), in[4];
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; q->gin[k].buffer >= 0 && i < rungi_operand_count(&q->in[0]); i++) {
            read_inputs(c, i, in);
            rungi_set(q->gin[k].dtype, rungi_ptr(c, &q->gin[k]), i,
                      scale * find(q->op)->slope(in, k));
        }
    return RUNG_OK;
}

static const rungi_kernel reference = {.name = "reference", .run = forward_reference};
static const rungi_kernel reference_back = {.name = "reference", .run = backward_reference};

const rungi_kernel *const rungi_element_loss_forward_cpu[] = {RUNGI_ISA_LIST(forward), &reference,
                                                              NULL};
const rungi_kernel *const rungi_element_loss_backward_cpu[] = {RUNGI_ISA_LIST(backward),
                                                               &reference_back, NULL};
