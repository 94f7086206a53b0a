// SPDX-License-Identifier: Apache-2.0
#include "ops/entropy_rows.h"

#include <math.h>

#include "ops/element.h"
#include "ops/simd.h"

rungi_entropy_rows rungi_entropy_rows_of(const rungi_call *c, rung_isa isa, double smoothing)
{
    const rungi_query *q = c->q;
    return (rungi_entropy_rows){.call = c,
                                .loops = RUNGI_LOOPS_FOR(isa, rungi_row_loops),
                                .rows = rungi_rows_of(&q->in[0].shape, 1),
                                .classes = q->in[0].shape.dim[1],
                                .smoothing = smoothing,
                                .lse = rungi_ptr(c, &q->out[1])};
}

double rungi_entropy_lse(const rungi_entropy_rows *e, int64_t row, const float *x)
{
    float top = e->loops->max(x, e->classes);
    double lse = top + log(e->loops->exp_sum(x, top, NULL, e->classes));
    if (e->lse)
        e->lse[row] = (float)lse;
    return lse;
}

// The losses of rows stand in front of the workspace.
static size_t losses_bytes(const rungi_rows *r)
{
    return ((size_t)(r->outer * r->inner) * sizeof(double) + 63) / 64 * 64;
}

rung_status rungi_entropy_create(const rungi_query *q, rungi_setup *setup)
{
    rungi_rows r = rungi_rows_of(&q->in[0].shape, 1);
    setup->workspace = rungi_rows_workspace(&r, q->threads);
    if (q->pass == RUNGI_FORWARD)
        setup->workspace += losses_bytes(&r);
    return RUNG_OK;
}

void rungi_entropy_forward(rungi_entropy_rows *user, const float *other, rungi_row_fn *each,
                           double divisor)
{
    const rungi_call *c = user->call;
    const rungi_rows *r = &user->rows;
    user->loss = c->workspace;
    rungi_rows_each(r, rungi_ptr(c, &c->q->in[0]), other, NULL, each, user, c->q->threads,
                    (char *)c->workspace + losses_bytes(r));
    double total = 0;
    for (int64_t n = 0; n < r->outer * r->inner; n++)
        total += user->loss[n];
    *(float *)rungi_ptr(c, &c->q->out[0]) = (float)(total / divisor);
}

void rungi_entropy_backward(rungi_entropy_rows *user, const float *other, rungi_row_fn *each,
                            double divisor)
{
    const rungi_call *c = user->call;
    user->scale = *(const float *)rungi_ptr(c, &c->q->gout[0]) / divisor;
    rungi_rows_each(&user->rows, rungi_ptr(c, &c->q->in[0]), other, rungi_ptr(c, &c->q->gin[0]),
                    each, user, c->q->threads, c->workspace);
}

double rungi_entropy_read(const rungi_call *c, const rungi_operand *o, int64_t i)
{
    return rungi_get(o->dtype, rungi_ptr(c, o), i);
}

double rungi_entropy_reference_lse(const rungi_call *c, const rungi_rows *r, int64_t begin)
{
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < r->n; i++)
        top = fmax(top, rungi_entropy_read(c, &c->q->in[0], begin + i * r->inner));
    for (int64_t i = 0; i < r->n; i++)
        sum += exp(rungi_entropy_read(c, &c->q->in[0], begin + i * r->inner) - top);
    return top + log(sum);
}
