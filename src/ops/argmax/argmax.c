// SPDX-License-Identifier: Apache-2.0
// argmax: index of the largest value along a dimension, which disappears; of equal values the
// first, and NaN is larger than all. Integers (i64) without a gradient.
#include "ops/argmax/argmax.h"

#include "ops/cases.h"
#include "ops/element.h"
#include "ops/parallel.h"
#include "ops/rows.h"

static rung_status infer(rungi_infer *i)
{
    const rungi_argmax_attr *a = i->attr;
    RUNG_TRY(rungi_rows_check(&i->in[0].shape, a->dim));
    rungi_rows rows = rungi_rows_of(&i->in[0].shape, a->dim);
    rung_shape out = {0};
    for (int d = 0; d < i->in[0].shape.rank; d++)
        if (d != rows.dim)
            out.dim[out.rank++] = i->in[0].shape.dim[d];
    i->out[0] = (rungi_type){RUNG_I64, out};
    return RUNG_OK;
}

static void describe(const void *attr, rungi_string *out)
{
    rungi_string_add(out, "dim %d", ((const rungi_argmax_attr *)attr)->dim);
}

static double flops(const rungi_query *q)
{
    return (double)rungi_operand_count(&q->in[0]);
}

// The largest of n values `step` elements apart from `begin` on.
static int64_t best_of(const rungi_operand *o, const void *x, int64_t begin, int64_t n,
                       int64_t step)
{
    int64_t best = 0;
    double top = rungi_get(o->dtype, x, begin);
    for (int64_t i = 1; i < n && top == top; i++) {
        double v = rungi_get(o->dtype, x, begin + i * step);
        if (!(v <= top)) {
            best = i;
            top = v;
        }
    }
    return best;
}

static int64_t best_of_f32(const float *x, int64_t n, int64_t step)
{
    int64_t best = 0;
    float top = x[0];
    for (int64_t i = 1; i < n && top == top; i++)
        if (!(x[i * step] <= top)) {
            best = i;
            top = x[i * step];
        }
    return best;
}

static rung_status f32_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const float *x = rungi_ptr(c, &q->in[0]);
    int64_t *y = rungi_ptr(c, &q->out[0]);
    rungi_rows r = rungi_rows_of(&q->in[0].shape, ((const rungi_argmax_attr *)q->attr)->dim);
    RUNGI_PARALLEL_FOR(q->threads, r.outer * r.n * r.inner)
    for (int64_t o = 0; o < r.outer; o++)
        for (int64_t i = 0; i < r.inner; i++)
            y[o * r.inner + i] = best_of_f32(x + o * r.n * r.inner + i, r.n, r.inner);
    return RUNG_OK;
}

static rung_status reference_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    int64_t *y = rungi_ptr(c, &q->out[0]);
    rungi_rows r = rungi_rows_of(&q->in[0].shape, ((const rungi_argmax_attr *)q->attr)->dim);
    for (int64_t k = 0; k < r.outer * r.inner; k++)
        y[k] = best_of(&q->in[0], rungi_ptr(c, &q->in[0]),
                       k / r.inner * r.n * r.inner + k % r.inner, r.n, r.inner);
    return RUNG_OK;
}

static bool float32_only(const rungi_query *q, rungi_reason *why)
{
    return q->in[0].dtype == RUNG_F32 ? true : rungi_refuse(why, "float32 only");
}

static const rungi_kernel plain = {
    .name = "plain", .kind = RUNGI_OWN, .can_run = float32_only, .run = f32_run};
static const rungi_kernel reference = {.name = "reference", .run = reference_run};
static const rungi_kernel *const forward_cpu[] = {&plain, &reference, NULL};

static const rungi_argmax_attr last = {-1}, first = {0}, middle = {1};

static const rungi_case cases[] = {
    {"last", {RUNGI_IN(7, 10)}, 1, &last},
    {"first", {RUNGI_IN(7, 10)}, 1, &first},
    {"middle", {RUNGI_IN(3, 5, 4)}, 1, &middle},
    {"one", {RUNGI_IN(1)}, 1, &last},
    {"ties", {{.shape = {2, {50, 6}}, .fill = RUNGI_FILL_LABELS, .limit = 3}}, 1, &last},
    {"many rows", {RUNGI_IN(5000, 10)}, 1, &last},
    {.name = "bench", .in = {RUNGI_IN(256, 1000)}, .n_in = 1, .attr = &last, .bench = true},
    {0},
};

const rungi_op rungi_op_argmax = {
    .name = "argmax",
    .attr_size = sizeof(rungi_argmax_attr),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = RUNGI_FOLLOW,
    .infer = infer,
    .describe = describe,
    .flops = flops,
    .forward = {.name = "forward", .kernels = {forward_cpu}},
    .cases = cases,
};
