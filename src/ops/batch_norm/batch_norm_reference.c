// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "base/error.h"
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

static double kept(const rungi_call *c, int output, int64_t channel)
{
    return rungi_get(c->q->out[output].dtype, rungi_ptr(c, &c->q->out[output]), channel);
}

static void keep(const rungi_call *c, int output, int64_t channel, double value)
{
    const rungi_operand *o = &c->q->out[output];
    if (o->buffer >= 0)
        rungi_set(o->dtype, rungi_ptr(c, o), channel, value);
}

// Mean and variance of each channel that x is normalized by, in the order of rungi_bn_meet_moments.
static rung_status find_moments(const rungi_call *c, const rungi_bn_form *f, double *numbers)
{
    const rungi_query *q = c->q;
    int64_t channels = rungi_bn_channels(f);
    double *mean = numbers + RUNGI_BN_FIRST, *var = mean + channels;
    bool again = rungi_bn_has_moments(q), of_batch = rungi_batch_norm_of_batch(q);
    for (int64_t k = 0; k < channels; k++) {
        if (again) {
            mean[k] = kept(c, RUNGI_BN_MEAN, k);
            var[k] = kept(c, RUNGI_BN_VAR, k);
        } else if (of_batch) {
            moments_of(c, f, k, &mean[k], &var[k]);
        } else {
            mean[k] = number(c, RUNGI_BN_RUNNING_MEAN, k, 0);
            var[k] = number(c, RUNGI_BN_RUNNING_VAR, k, 1);
        }
    }
    numbers[RUNGI_BN_COUNT] = (double)rungi_bn_count(f);
    return q->synchronized && !again ? rungi_bn_meet_moments(c, numbers) : RUNG_OK;
}

static rung_status create_reference(const rungi_query *q, rungi_setup *setup)
{
    setup->workspace = (size_t)(RUNGI_BN_FIRST + 2 * q->in[0].shape.dim[1]) * sizeof(double);
    return RUNG_OK;
}

// Where they are kept, what is kept counts: a step that is done again reads that.
static double moment(const rungi_call *c, int output, int64_t channel, double value)
{
    keep(c, output, channel, value);
    return c->q->out[output].buffer >= 0 ? kept(c, output, channel) : value;
}

static rung_status forward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_batch_norm_attr *a = q->attr;
    rungi_bn_form f = rungi_bn_form_of(&q->in[0]);
    double *numbers = c->workspace;
    const double *means = numbers + RUNGI_BN_FIRST, *vars = means + rungi_bn_channels(&f);
    RUNG_TRY(find_moments(c, &f, numbers));
    for (int64_t channel = 0; channel < rungi_bn_channels(&f); channel++) {
        double mean = moment(c, RUNGI_BN_MEAN, channel, means[channel]);
        double var = moment(c, RUNGI_BN_VAR, channel, vars[channel]);
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

// Sums of dy and of dy * xhat of each channel, in the order of rungi_bn_meet_sums. They are the
// gradients of bias and weight.
static void find_sums(const rungi_call *c, const rungi_bn_form *f, double *numbers)
{
    const rungi_query *q = c->q;
    const rungi_batch_norm_attr *a = q->attr;
    int64_t channels = rungi_bn_channels(f);
    numbers[RUNGI_BN_COUNT] = (double)rungi_bn_count(f);
    for (int64_t channel = 0; channel < channels; channel++) {
        double mean = kept(c, RUNGI_BN_MEAN, channel);
        double rstd = 1 / sqrt(kept(c, RUNGI_BN_VAR, channel) + a->eps), sum = 0, along = 0;
        for (int64_t r = 0; r < rungi_bn_count(f); r++) {
            double g = at(c, &q->gout[0], f, channel, r);
            sum += g;
            along += g * (at(c, &q->in[0], f, channel, r) - mean) * rstd;
        }
        give(c, RUNGI_BN_WEIGHT, channel, along);
        give(c, RUNGI_BN_BIAS, channel, sum);
        numbers[RUNGI_BN_FIRST + channel] = sum;
        numbers[RUNGI_BN_FIRST + channels + channel] = along;
    }
}

// With the batch's statistics dx = weight / std * (dy - mean of dy - xhat * mean of dy * xhat).
static rung_status backward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_batch_norm_attr *a = q->attr;
    const rungi_operand *x = &q->in[0], *gy = &q->gout[0], *gx = &q->gin[0];
    rungi_bn_form f = rungi_bn_form_of(x);
    int64_t channels = rungi_bn_channels(&f);
    double *numbers = c->workspace;
    find_sums(c, &f, numbers);
    if (q->synchronized)
        RUNG_TRY(rungi_bn_meet_sums(c, numbers));
    double n = numbers[RUNGI_BN_COUNT];
    for (int64_t channel = 0; gx->buffer >= 0 && channel < channels; channel++) {
        bool of_batch = rungi_batch_norm_of_batch(q);
        double sum = of_batch ? numbers[RUNGI_BN_FIRST + channel] : 0;
        double along = of_batch ? numbers[RUNGI_BN_FIRST + channels + channel] : 0;
        double mean = kept(c, RUNGI_BN_MEAN, channel);
        double rstd = 1 / sqrt(kept(c, RUNGI_BN_VAR, channel) + a->eps);
        double scale = number(c, RUNGI_BN_WEIGHT, channel, 1) * rstd;
        for (int64_t r = 0; r < rungi_bn_count(&f); r++) {
            double xhat = (at(c, x, &f, channel, r) - mean) * rstd;
            put(c, gx, &f, channel, r,
                scale * (at(c, gy, &f, channel, r) - sum / n - xhat * along / n));
        }
    }
    return RUNG_OK;
}

const rungi_kernel rungi_batch_norm_forward_reference = {
    .name = "reference", .create = create_reference, .run = forward_reference};
const rungi_kernel rungi_batch_norm_backward_reference = {
    .name = "reference", .create = create_reference, .run = backward_reference};
