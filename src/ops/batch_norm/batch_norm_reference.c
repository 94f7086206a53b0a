// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "ops/batch_norm/batch_norm.h"
#include "ops/element.h"

// An optional number per channel.
static double number(const rungi_call *c, int input, int64_t channel, double otherwise)
{
    if (c->q->n_in <= input || c->q->in[input].buffer < 0)
        return otherwise;
    return rungi_get(c->q->in[input].dtype, rungi_ptr(c, &c->q->in[input]), channel);
}

static double at(const rungi_call *c, const rungi_operand *o, const rungi_bn_form *f,
                 int64_t channel, int64_t row)
{
    return rungi_get(o->dtype, rungi_ptr(c, o),
                     rungi_bn_at(f, channel / f->lanes, row) + channel % f->lanes);
}

static void put(const rungi_call *c, const rungi_operand *o, const rungi_bn_form *f,
                int64_t channel, int64_t row, double value)
{
    rungi_set(o->dtype, rungi_ptr(c, o),
              rungi_bn_at(f, channel / f->lanes, row) + channel % f->lanes, value);
}

static void moments_of(const rungi_call *c, const rungi_bn_form *f, int64_t channel, double *mean,
                       double *var)
{
    int64_t n = rungi_bn_count(f);
    double sum = 0, squares = 0;
    for (int64_t r = 0; r < n; r++)
        sum += at(c, &c->q->in[0], f, channel, r);
    *mean = sum / (double)n;
    for (int64_t r = 0; r < n; r++) {
        double d = at(c, &c->q->in[0], f, channel, r) - *mean;
        squares += d * d;
    }
    *var = squares / (double)n;
}

static void keep(const rungi_call *c, int output, int64_t channel, double value)
{
    const rungi_operand *o = &c->q->out[output];
    if (o->buffer >= 0)
        rungi_set(o->dtype, rungi_ptr(c, o), channel, value);
}

static rung_status forward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_batch_norm_attr *a = q->attr;
    rungi_bn_form f = rungi_bn_form_of(&q->in[0]);
    for (int64_t channel = 0; channel < rungi_bn_channels(&f); channel++) {
        double mean, var;
        if (rungi_batch_norm_of_batch(q)) {
            moments_of(c, &f, channel, &mean, &var);
        } else {
            mean = number(c, RUNGI_BN_RUNNING_MEAN, channel, 0);
            var = number(c, RUNGI_BN_RUNNING_VAR, channel, 1);
        }
        keep(c, RUNGI_BN_MEAN, channel, mean);
        keep(c, RUNGI_BN_VAR, channel, var);
        double scale = number(c, RUNGI_BN_WEIGHT, channel, 1) / sqrt(var + a->eps);
        double bias = number(c, RUNGI_BN_BIAS, channel, 0);
        for (int64_t r = 0; r < rungi_bn_count(&f); r++)
            put(c, &q->out[0], &f, channel, r,
                (at(c, &q->in[0], &f, channel, r) - mean) * scale + bias);
    }
    return RUNG_OK;
}

static void give(const rungi_call *c, int input, int64_t channel, double value)
{
    if (c->q->n_in > input && c->q->gin[input].buffer >= 0)
        rungi_set(c->q->gin[input].dtype, rungi_ptr(c, &c->q->gin[input]), channel, value);
}

// With the batch's statistics dx = weight / std * (dy - mean of dy - xhat * mean of dy * xhat).
static rung_status backward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_batch_norm_attr *a = q->attr;
    const rungi_operand *x = &q->in[0], *gy = &q->gout[0], *gx = &q->gin[0];
    rungi_bn_form f = rungi_bn_form_of(x);
    double n = (double)rungi_bn_count(&f);
    for (int64_t channel = 0; channel < rungi_bn_channels(&f); channel++) {
        double mean =
            rungi_get(q->out[RUNGI_BN_MEAN].dtype, rungi_ptr(c, &q->out[RUNGI_BN_MEAN]), channel);
        double var =
            rungi_get(q->out[RUNGI_BN_VAR].dtype, rungi_ptr(c, &q->out[RUNGI_BN_VAR]), channel);
        double rstd = 1 / sqrt(var + a->eps), sum = 0, along = 0;
        for (int64_t r = 0; r < (int64_t)n; r++) {
            double g = at(c, gy, &f, channel, r);
            sum += g;
            along += g * (at(c, x, &f, channel, r) - mean) * rstd;
        }
        give(c, RUNGI_BN_WEIGHT, channel, along);
        give(c, RUNGI_BN_BIAS, channel, sum);
        if (!rungi_batch_norm_of_batch(q))
            sum = along = 0;
        double scale = number(c, RUNGI_BN_WEIGHT, channel, 1) * rstd;
        for (int64_t r = 0; gx->buffer >= 0 && r < (int64_t)n; r++) {
            double xhat = (at(c, x, &f, channel, r) - mean) * rstd;
            put(c, gx, &f, channel, r,
                scale * (at(c, gy, &f, channel, r) - sum / n - xhat * along / n));
        }
    }
    return RUNG_OK;
}

const rungi_kernel rungi_batch_norm_forward_reference = {.name = "reference",
                                                         .run = forward_reference};
const rungi_kernel rungi_batch_norm_backward_reference = {.name = "reference",
                                                          .run = backward_reference};
