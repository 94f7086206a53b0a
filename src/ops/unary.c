// SPDX-License-Identifier: Apache-2.0
// Kernels of the elementwise operators of one input.
#include "ops/unary.h"

#include "base/error.h"
#include "ops/element.h"
#include "ops/parallel.h"
#include "ops/unary_loops.h"

const rungi_unary_loops rungi_unary_loops_plain = UNARY_TABLE;

const rungi_unary *rungi_unary_find(const rungi_op *op)
{
#define UNARY_POINTER(name) &rungi_unary_##name,
    static const rungi_unary *const all[] = {RUNGI_UNARY_OPS(UNARY_POINTER)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->op == op)
            return all[i];
    return NULL;
}

rung_status rungi_unary_infer(rungi_infer *i)
{
    RUNG_CHECK(rung_dtype_is_float(i->in[0].dtype), RUNG_MISMATCH, "takes floats, not %s",
               rung_dtype_name(i->in[0].dtype));
    i->out[0] = i->in[0];
    return RUNG_OK;
}

static rungi_unary_formula formula_of(const rungi_unary *u, const void *attr,
                                      rungi_unary_param *param_out)
{
    *param_out = (rungi_unary_param){0};
    return u->choose ? u->choose(attr, param_out) : u->formula;
}

void rungi_unary_apply(const rungi_unary *unary, const void *attr, rung_isa isa, const float *x,
                       float *y, int64_t n)
{
    rungi_unary_param param;
    rungi_unary_formula formula = formula_of(unary, attr, &param);
    RUNGI_LOOPS_FOR(isa, rungi_unary_loops)->forward[formula](x, y, n, &param);
}

// The tensor that backward computes from; where it needs none, some tensor of that size.
static const rungi_operand *kept_of(const rungi_query *q)
{
    const rungi_pass *pass = rungi_query_pass(q);
    return pass->reads_out ? &q->out[0] : pass->reads_in ? &q->in[0] : &q->gout[0];
}

// ---- float32 ----------------------------------------------------------------------------------

enum { BLOCK = 8192 };

static int64_t block_size(int64_t n, int64_t begin)
{
    return n - begin < BLOCK ? n - begin : BLOCK;
}

static rung_status forward_body(const rungi_call *c, rung_isa isa)
{
    const rungi_query *q = c->q;
    const rungi_unary *u = rungi_unary_find(q->op);
    const float *x = rungi_ptr(c, &q->in[0]);
    float *y = rungi_ptr(c, &q->out[0]);
    int64_t n = rungi_operand_count(&q->out[0]);
    RUNGI_PARALLEL_FOR(q->threads, n)
    for (int64_t i = 0; i < n; i += BLOCK)
        rungi_unary_apply(u, q->attr, isa, x + i, y + i, block_size(n, i));
    return RUNG_OK;
}

static rung_status backward_body(const rungi_call *c, rung_isa isa)
{
    const rungi_query *q = c->q;
    const float *kept = rungi_ptr(c, kept_of(q)), *gy = rungi_ptr(c, &q->gout[0]);
    float *gx = rungi_ptr(c, &q->gin[0]);
    int64_t n = rungi_operand_count(&q->gout[0]);
    rungi_unary_param param;
    rungi_unary_formula formula = formula_of(rungi_unary_find(q->op), q->attr, &param);
    const rungi_unary_loops *loops = RUNGI_LOOPS_FOR(isa, rungi_unary_loops);
    RUNGI_PARALLEL_FOR(q->threads, n)
    for (int64_t i = 0; i < n; i += BLOCK)
        loops->backward[formula](kept + i, gy + i, gx + i, block_size(n, i), &param);
    return RUNG_OK;
}

static bool float32_only(const rungi_query *q, rungi_reason *why)
{
    return q->in[0].dtype == RUNG_F32 ? true : rungi_refuse(why, "float32 only");
}

RUNGI_ISA_KERNELS(forward, float32_only, NULL, forward_body)
RUNGI_ISA_KERNELS(backward, float32_only, NULL, backward_body)

// ---- reference --------------------------------------------------------------------------------

static rung_status forward_reference(const rungi_call *c)
{
    const rungi_operand *x = &c->q->in[0], *y = &c->q->out[0];
    const rungi_unary *u = rungi_unary_find(c->q->op);
    for (int64_t i = 0; i < rungi_operand_count(y); i++)
        rungi_set(y->dtype, rungi_ptr(c, y), i,
                  u->value(c->q->attr, rungi_get(x->dtype, rungi_ptr(c, x), i)));
    return RUNG_OK;
}

static rung_status backward_reference(const rungi_call *c)
{
    const rungi_operand *kept = kept_of(c->q), *gy = &c->q->gout[0], *gx = &c->q->gin[0];
    const rungi_unary *u = rungi_unary_find(c->q->op);
    for (int64_t i = 0; i < rungi_operand_count(gy); i++) {
        double slope = u->slope(c->q->attr, rungi_get(kept->dtype, rungi_ptr(c, kept), i));
        rungi_set(gx->dtype, rungi_ptr(c, gx), i,
                  slope * rungi_get(gy->dtype, rungi_ptr(c, gy), i));
    }
    return RUNG_OK;
}

static const rungi_kernel reference = {.name = "reference", .run = forward_reference};
static const rungi_kernel reference_back = {.name = "reference", .run = backward_reference};

const rungi_kernel *const rungi_unary_forward_cpu[] = {RUNGI_ISA_LIST(forward), &reference, NULL};
const rungi_kernel *const rungi_unary_backward_cpu[] = {RUNGI_ISA_LIST(backward), &reference_back,
                                                        NULL};

// ---- cases -------------------------------------------------------------------------------------

const rungi_case rungi_unary_cases[] = {
    {"one", {RUNGI_IN(1)}, 1},
    {"odd", {RUNGI_IN(3, 37)}, 1},
    {"image", {RUNGI_IN(2, 16, 3, 5)}, 1},
    {"several blocks", {RUNGI_IN(5, 8009)}, 1},
    {.name = "bench", .in = {RUNGI_IN(64, 50, 32, 32)}, .n_in = 1, .bench = true},
    {0},
};
