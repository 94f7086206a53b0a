// SPDX-License-Identifier: Apache-2.0
// argmax: index of the largest value along a dimension, which disappears; of equal values the
// first, and NaN is larger than all. Integers (i64) without a gradient.
#include "ops/argmax/argmax.h"

#include "base/error.h"
#include "ops/cases.h"
#include "ops/element.h"
#include "ops/rows.h"
#include "ops/simd.h"

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

static rungi_rows rows_of(const rungi_query *q)
{
    return rungi_rows_of(&q->in[0].shape, ((const rungi_argmax_attr *)q->attr)->dim);
}

typedef struct job {
    const rungi_row_loops *loops;
    int64_t n;
    int64_t *y;
} job;

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

static void best_in_row(void *user, int64_t row, const float *const in[2], float *out)
{
    (void)out;
    const job *j = user;
    const float *x = in[0];
    float top = j->loops->max(x, j->n);
    int64_t i = 0;
    while (i < j->n - 1 && !(x[i] >= top) && x[i] == x[i])
        i++;
    j->y[row] = i;
}

static rung_status create(const rungi_query *q, rungi_setup *setup)
{
    rungi_rows r = rows_of(q);
    setup->workspace = rungi_rows_workspace(&r, q->threads);
    return RUNG_OK;
}

static rung_status body(const rungi_call *c, rung_isa isa)
{
    const rungi_query *q = c->q;
    rungi_rows r = rows_of(q);
    job j = {RUNGI_LOOPS_FOR(isa, rungi_row_loops), r.n, rungi_ptr(c, &q->out[0])};
    rungi_rows_each(&r, rungi_ptr(c, &q->in[0]), NULL, NULL, best_in_row, &j, q->threads,
                    c->workspace);
    return RUNG_OK;
}

static bool float32_only(const rungi_query *q, rungi_reason *why)
{
    return q->in[0].dtype == RUNG_F32 ? true : rungi_refuse(why, "float32 only");
}

RUNGI_ISA_KERNELS(forward, float32_only, create, body)

static rung_status reference_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    int64_t *y = rungi_ptr(c, &q->out[0]);
    rungi_rows r = rows_of(q);
    for (int64_t k = 0; k < r.outer * r.inner; k++)
        y[k] = best_of(&q->in[0], rungi_ptr(c, &q->in[0]), rungi_rows_begin(&r, k), r.n, r.inner);
    return RUNG_OK;
}

static const rungi_kernel reference = {.name = "reference", .run = reference_run};
static const rungi_kernel *const forward_cpu[] = {RUNGI_ISA_LIST(forward), &reference, NULL};

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
