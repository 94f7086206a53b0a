// SPDX-License-Identifier: Apache-2.0
// Kernels of the elementwise operators of two inputs.
#include "ops/binary.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "ops/broadcast.h"
#include "ops/element.h"
#include "ops/simd.h"

static const rungi_binary *find(const rungi_op *op)
{
#define BINARY_POINTER(name) &rungi_binary_##name,
    static const rungi_binary *const all[] = {RUNGI_BINARY_OPS(BINARY_POINTER)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->op == op)
            return all[i];
    return NULL;
}

rung_status rungi_binary_infer(rungi_infer *i)
{
    rung_shape shape;
    char a[RUNG_SHAPE_TEXT], b[RUNG_SHAPE_TEXT];
    RUNG_CHECK(i->in[0].dtype == i->in[1].dtype, RUNG_MISMATCH,
               "the inputs are %s and %s; cast one of them", rung_dtype_name(i->in[0].dtype),
               rung_dtype_name(i->in[1].dtype));
    RUNG_CHECK(rungi_broadcast_shape(&i->in[0].shape, &i->in[1].shape, &shape), RUNG_MISMATCH,
               "the shapes %s and %s do not broadcast",
               rung_shape_text(&i->in[0].shape, a, sizeof a),
               rung_shape_text(&i->in[1].shape, b, sizeof b));
    i->out[0] = (rungi_type){i->in[0].dtype, shape};
    return RUNG_OK;
}

static bool equal_shapes(const rungi_query *q)
{
    return rung_shape_equal(&q->in[0].shape, &q->in[1].shape);
}

// ---- float32 ----------------------------------------------------------------------------------

static bool accepts(const rungi_query *q, rungi_reason *why)
{
    if (q->in[0].dtype != RUNG_F32)
        return rungi_refuse(why, "float32 only");
    if (q->out[0].layout != RUNGI_PLAIN && !equal_shapes(q))
        return rungi_refuse(why, "broadcasts plain operands only");
    return true;
}

static void add_operand(rungi_pieces *p, int k, const rungi_call *c, const rungi_operand *o)
{
    p->in[k] = rungi_ptr(c, o);
    p->in_shape[k] = o->shape;
}

static rung_status forward_body(const rungi_call *c, rung_isa isa)
{
    const rungi_query *q = c->q;
    rungi_pieces p = {.function = find(q->op)->function, .shape = q->out[0].shape};
    add_operand(&p, 0, c, &q->in[0]);
    add_operand(&p, 1, c, &q->in[1]);
    rungi_pieces_map(&p, isa, q->threads, rungi_ptr(c, &q->out[0]));
    return RUNG_OK;
}

// The input whose gradient the pass gives.
static int given(const rungi_query *q)
{
    return rungi_query_pass(q)->gives == 1 << 0 ? 0 : 1;
}

static rungi_pieces gradient_pieces(const rungi_query *q, const rungi_call *c)
{
    const rungi_binary_gradient *g = &find(q->op)->gradient[given(q)];
    rungi_pieces p = {.function = g->function, .shape = q->gout[0].shape, .factor = 1};
    static const float present;
    for (int k = 0; g->operands[k]; k++) {
        char name = g->operands[k];
        const rungi_operand *o = name == 'g'   ? &q->gout[0]
                                 : name == 'y' ? &q->out[0]
                                               : &q->in[name - 'a'];
        p.in_shape[k] = o->shape;
        p.in[k] = c ? rungi_ptr(c, o) : &present;
    }
    return p;
}

static rung_status backward_create(const rungi_query *q, rungi_setup *setup)
{
    const rungi_operand *gin = &q->gin[given(q)];
    rungi_pieces p = gradient_pieces(q, NULL);
    if (!rung_shape_equal(&gin->shape, &p.shape))
        setup->workspace = rungi_pieces_sum_workspace(&p, &gin->shape);
    return RUNG_OK;
}

static rung_status backward_body(const rungi_call *c, rung_isa isa)
{
    const rungi_query *q = c->q;
    const rungi_operand *gin = &q->gin[given(q)];
    double factor = find(q->op)->gradient[given(q)].factor;
    rungi_pieces p = gradient_pieces(q, c);
    if (!rung_shape_equal(&gin->shape, &p.shape)) {
        rungi_pieces_sum(&p, &gin->shape, factor, isa, q->threads, c->workspace, rungi_ptr(c, gin));
        return RUNG_OK;
    }
    if (p.function == RUNGI_PIECE_IN0)
        p.function = RUNGI_PIECE_scaled;
    p.factor = (float)factor;
    rungi_pieces_map(&p, isa, q->threads, rungi_ptr(c, gin));
    return RUNG_OK;
}

RUNGI_ISA_KERNELS(forward, accepts, NULL, forward_body)
RUNGI_ISA_KERNELS(backward, accepts, backward_create, backward_body)

// ---- reference --------------------------------------------------------------------------------

static rung_status forward_reference(const rungi_call *c)
{
    const rungi_operand *a = &c->q->in[0], *b = &c->q->in[1], *y = &c->q->out[0];
    const rungi_binary *binary = find(c->q->op);
    rungi_walk w = {0};
    rungi_broadcast_strides(&a->shape, &y->shape, w.strides[0]);
    rungi_broadcast_strides(&b->shape, &y->shape, w.strides[1]);
    for (int64_t i = 0; i < rungi_operand_count(y); i++) {
        rungi_set(y->dtype, rungi_ptr(c, y), i,
                  binary->value(rungi_get(a->dtype, rungi_ptr(c, a), w.offset[0]),
                                rungi_get(b->dtype, rungi_ptr(c, b), w.offset[1])));
        rungi_walk_next(&w, &y->shape);
    }
    return RUNG_OK;
}

typedef struct terms {
    const rungi_call *c;
    const rungi_binary_gradient *gradient;
    int64_t strides[2][RUNG_MAX_RANK]; // of a and b
} terms;

static double read_at(const rungi_call *c, const rungi_operand *o, int64_t i)
{
    return o->buffer < 0 ? NAN : rungi_get(o->dtype, rungi_ptr(c, o), i);
}

static double term(const void *user, int64_t i)
{
    const terms *t = user;
    const rungi_query *q = t->c->q;
    const rung_shape *full = &q->gout[0].shape;
    return t->gradient->value(
        read_at(t->c, &q->gout[0], i),
        read_at(t->c, &q->in[0], rungi_broadcast_offset(full, t->strides[0], i)),
        read_at(t->c, &q->in[1], rungi_broadcast_offset(full, t->strides[1], i)),
        read_at(t->c, &q->out[0], i));
}

static rung_status backward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_operand *gy = &q->gout[0], *gin = &q->gin[given(q)];
    terms t = {.c = c, .gradient = &find(q->op)->gradient[given(q)]};
    for (int k = 0; k < 2; k++)
        rungi_broadcast_strides(&q->in[k].shape, &gy->shape, t.strides[k]);
    for (int64_t i = 0; i < rungi_operand_count(gin); i++)
        rungi_set(gin->dtype, rungi_ptr(c, gin), i,
                  rungi_broadcast_sum(&gy->shape, &gin->shape, i, term, &t));
    return RUNG_OK;
}

static const rungi_kernel reference = {.name = "reference", .run = forward_reference};
static const rungi_kernel reference_back = {.name = "reference", .run = backward_reference};

const rungi_kernel *const rungi_binary_forward_cpu[] = {RUNGI_ISA_LIST(forward), &reference, NULL};
const rungi_kernel *const rungi_binary_backward_cpu[] = {RUNGI_ISA_LIST(backward), &reference_back,
                                                         NULL};

// ---- cases -------------------------------------------------------------------------------------

const rungi_case rungi_binary_cases[] = {
    {"equal", {RUNGI_IN(3, 37), RUNGI_IN(3, 37)}, 2},
    {"bias", {RUNGI_IN(4, 5), RUNGI_IN(5)}, 2},
    {"channels", {RUNGI_IN(2, 3, 4, 5), RUNGI_IN(3, 1, 1)}, 2},
    {"both stretch", {RUNGI_IN(4, 1, 3), RUNGI_IN(5, 1)}, 2},
    {"scalar", {RUNGI_IN(3, 7), {.shape = {0}}}, 2},
    {"one", {RUNGI_IN(1), RUNGI_IN(1)}, 2},
    {"rows", {RUNGI_IN(6, 5), RUNGI_IN(6, 1)}, 2},
    {"scalar first", {{.shape = {0}}, RUNGI_IN(2, 9)}, 2},
    {"every other", {RUNGI_IN(2, 3, 2, 3), RUNGI_IN(1, 3, 1, 3)}, 2},
    {"image", {RUNGI_IN(2, 16, 3, 5), RUNGI_IN(2, 16, 3, 5)}, 2},
    {"several blocks", {RUNGI_IN(5, 8009), RUNGI_IN(5, 8009)}, 2},
    {"long bias", {RUNGI_IN(7000, 6), RUNGI_IN(6)}, 2},
    {"long channels", {RUNGI_IN(3, 2, 7000), RUNGI_IN(2, 1)}, 2},
    {"large to scalar", {RUNGI_IN(41, 1000), RUNGI_IN(1)}, 2},
    {.name = "bench",
     .in = {RUNGI_IN(64, 50, 32, 32), RUNGI_IN(64, 50, 32, 32)},
     .n_in = 2,
     .bench = true},
    {.name = "bench channels",
     .in = {RUNGI_IN(64, 50, 32, 32), RUNGI_IN(50, 1, 1)},
     .n_in = 2,
     .bench = true},
    {.name = "bench bias", .in = {RUNGI_IN(512, 4096), RUNGI_IN(4096)}, .n_in = 2, .bench = true},
    {0},
};
