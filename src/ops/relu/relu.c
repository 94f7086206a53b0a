// SPDX-License-Identifier: Apache-2.0
// relu: y = max(x, 0); dx = dy where y > 0, else 0. NaN passes through.
#include "ops/cases.h"
#include "ops/element.h"
#include "ops/parallel.h"

static rung_status infer(rungi_infer *i)
{
    i->out[0] = i->in[0];
    return RUNG_OK;
}

static rung_status forward_run(const rungi_call *c)
{
    const float *x = rungi_ptr(c, &c->q->in[0]);
    float *y = rungi_ptr(c, &c->q->out[0]);
    int64_t n = rungi_operand_count(&c->q->out[0]);
    RUNGI_PARALLEL_FOR(c->q->threads, n)
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] < 0 ? 0 : x[i];
    return RUNG_OK;
}

static rung_status backward_run(const rungi_call *c)
{
    const float *y = rungi_ptr(c, &c->q->out[0]), *gy = rungi_ptr(c, &c->q->gout[0]);
    float *gx = rungi_ptr(c, &c->q->gin[0]);
    int64_t n = rungi_operand_count(&c->q->gout[0]);
    RUNGI_PARALLEL_FOR(c->q->threads, n)
    for (int64_t i = 0; i < n; i++)
        gx[i] = y[i] > 0 ? gy[i] : 0;
    return RUNG_OK;
}

static rung_status forward_reference(const rungi_call *c)
{
    const rungi_operand *x = &c->q->in[0], *y = &c->q->out[0];
    for (int64_t i = 0; i < rungi_operand_count(y); i++) {
        double v = rungi_get(x->dtype, rungi_ptr(c, x), i);
        rungi_set(y->dtype, rungi_ptr(c, y), i, v < 0 ? 0 : v);
    }
    return RUNG_OK;
}

static rung_status backward_reference(const rungi_call *c)
{
    const rungi_operand *y = &c->q->out[0], *gy = &c->q->gout[0], *gx = &c->q->gin[0];
    for (int64_t i = 0; i < rungi_operand_count(gy); i++) {
        bool on = rungi_get(y->dtype, rungi_ptr(c, y), i) > 0;
        rungi_set(gx->dtype, rungi_ptr(c, gx), i,
                  on ? rungi_get(gy->dtype, rungi_ptr(c, gy), i) : 0);
    }
    return RUNG_OK;
}

static bool f32_only(const rungi_query *q, rungi_reason *why)
{
    return q->in[0].dtype == RUNG_F32 ? true : rungi_refuse(why, "float32 only");
}

static const rungi_kernel plain_forward = {
    .name = "plain", .kind = RUNGI_OWN, .can_run = f32_only, .run = forward_run};
static const rungi_kernel plain_backward = {
    .name = "plain", .kind = RUNGI_OWN, .can_run = f32_only, .run = backward_run};
static const rungi_kernel reference_forward = {.name = "reference", .run = forward_reference};
static const rungi_kernel reference_backward = {.name = "reference", .run = backward_reference};

static const rungi_kernel *const forward_cpu[] = {&plain_forward, &reference_forward, NULL};
static const rungi_kernel *const backward_cpu[] = {&plain_backward, &reference_backward, NULL};

static const rungi_case cases[] = {
    {"one", {RUNGI_IN_AS(RUNGI_FILL_AWAY, 1)}, 1},
    {"odd", {RUNGI_IN_AS(RUNGI_FILL_AWAY, 3, 37)}, 1},
    {"image", {RUNGI_IN_AS(RUNGI_FILL_AWAY, 2, 8, 3, 5)}, 1},
    {.name = "bench", .in = {RUNGI_IN(64, 50, 32, 32)}, .n_in = 1, .bench = true},
    {0},
};

const rungi_op rungi_op_relu = {
    .name = "relu",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = RUNGI_FOLLOW,
    .layouts = RUNGI_LAYOUTS_SAME,
    .infer = infer,
    .forward = {.name = "forward", .in_place = true, .kernels = {forward_cpu}},
    .backward = {{.name = "backward",
                  .gives = 1 << 0,
                  .reads_out = 1 << 0,
                  .in_place = true,
                  .kernels = {backward_cpu}}},
    .cases = cases,
};
