// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "ops/cross_entropy/cross_entropy.h"
#include "ops/element.h"

static double class_weight(const rungi_query *q, const void *weights, int64_t class_index)
{
    return weights ? rungi_get(q->in[2].dtype, weights, class_index) : 1;
}

static const void *optional(const rungi_query *q, void *const *ptr, int i)
{
    return q->n_in > i && q->in[i].buffer >= 0 ? ptr[q->in[i].buffer] : NULL;
}

double rungi_cross_entropy_normalizer(const rungi_query *q, void *const *ptr)
{
    const rungi_cross_entropy_attr *a = q->attr;
    if (a->sum)
        return 0;
    const void *labels = ptr[q->in[1].buffer], *weights = optional(q, ptr, 2);
    int64_t rows = q->in[0].shape.dim[0], classes = q->in[0].shape.dim[1];
    double total = 0;
    for (int64_t n = 0; n < rows; n++) {
        int64_t label = rungi_get_index(q->in[1].dtype, labels, n);
        if (label != a->ignore_index && label >= 0 && label < classes)
            total += class_weight(q, weights, label);
    }
    return total;
}

// What the sum of the rows is divided by: counted over all shards where there are several.
static double divisor(const rungi_call *c)
{
    const rungi_cross_entropy_attr *a = c->q->attr;
    double total = 1;
    if (!a->sum)
        total = c->rt && c->rt->normalizer ? c->rt->normalizer[c->q->node]
                                           : rungi_cross_entropy_normalizer(c->q, c->ptr);
    return total > 0 ? total : INFINITY; // no row counts: the loss and its gradient are 0
}

static rung_status check_label(const rungi_call *c, int64_t n, int64_t label, int64_t classes)
{
    RUNG_CHECK(label >= 0 && label < classes, RUNG_DATA,
               "label %" PRId64 " of sample %" PRId64 " in the batch is out of range for %" PRId64
               " classes",
               label, (c->rt ? c->rt->sample_offset : 0) + n, classes);
    return RUNG_OK;
}

// ---- float32 ----------------------------------------------------------------------------------

// The logarithm of the sum of exponentials of a row, summed in double.
static double log_sum_exp(const float *row, int64_t n)
{
    float top = row[0];
    for (int64_t i = 1; i < n; i++)
        top = row[i] > top ? row[i] : top;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += expf(row[i] - top);
    return top + log(sum);
}

static double row_loss(const rungi_query *q, const float *row, const float *weights, double lse,
                       int64_t label)
{
    const rungi_cross_entropy_attr *a = q->attr;
    int64_t classes = q->in[0].shape.dim[1];
    double s = a->label_smoothing, w = weights ? weights[label] : 1;
    double loss = (1 - s) * w * (lse - row[label]);
    if (s > 0)
        for (int64_t k = 0; k < classes; k++)
            loss += s / (double)classes * (weights ? weights[k] : 1) * (lse - row[k]);
    return loss;
}

static rung_status f32_forward(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_cross_entropy_attr *a = q->attr;
    const float *x = rungi_ptr(c, &q->in[0]), *weights = optional(q, c->ptr, 2);
    const void *labels = rungi_ptr(c, &q->in[1]);
    float *lse_out = rungi_ptr(c, &q->out[1]);
    int64_t rows = q->in[0].shape.dim[0], classes = q->in[0].shape.dim[1];
    double total = 0;
    for (int64_t n = 0; n < rows; n++) {
        double lse = log_sum_exp(x + n * classes, classes);
        if (lse_out)
            lse_out[n] = (float)lse;
        int64_t label = rungi_get_index(q->in[1].dtype, labels, n);
        if (label == a->ignore_index)
            continue;
        RUNG_TRY(check_label(c, n, label, classes));
        total += row_loss(q, x + n * classes, weights, lse, label);
    }
    *(float *)rungi_ptr(c, &q->out[0]) = (float)(total / divisor(c));
    return RUNG_OK;
}

static void row_gradient(const rungi_query *q, const float *row, const float *weights, float lse,
                         int64_t label, double scale, float *g)
{
    const rungi_cross_entropy_attr *a = q->attr;
    int64_t classes = q->in[0].shape.dim[1];
    double s = a->label_smoothing, w = weights ? weights[label] : 1, share = (1 - s) * w;
    double part = s / (double)classes;
    double mass = share;
    for (int64_t k = 0; s > 0 && k < classes; k++)
        mass += part * (weights ? weights[k] : 1);
    float factor = (float)(mass * scale);
    for (int64_t k = 0; k < classes; k++)
        g[k] = factor * expf(row[k] - lse);
    for (int64_t k = 0; s > 0 && k < classes; k++)
        g[k] -= (float)(scale * part * (weights ? weights[k] : 1));
    g[label] -= (float)(scale * share);
}

static rung_status f32_backward(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_cross_entropy_attr *a = q->attr;
    const float *x = rungi_ptr(c, &q->in[0]), *weights = optional(q, c->ptr, 2);
    const float *lse = rungi_ptr(c, &q->out[1]);
    const void *labels = rungi_ptr(c, &q->in[1]);
    float *gx = rungi_ptr(c, &q->gin[0]);
    int64_t rows = q->in[0].shape.dim[0], classes = q->in[0].shape.dim[1];
    double scale = *(const float *)rungi_ptr(c, &q->gout[0]) / divisor(c);
    for (int64_t n = 0; n < rows; n++) {
        int64_t label = rungi_get_index(q->in[1].dtype, labels, n);
        if (label == a->ignore_index)
            for (int64_t k = 0; k < classes; k++)
                gx[n * classes + k] = 0;
        else
            row_gradient(q, x + n * classes, weights, lse[n], label, scale, gx + n * classes);
    }
    return RUNG_OK;
}

// ---- reference --------------------------------------------------------------------------------

static double reference_lse(rung_dtype t, const void *x, int64_t begin, int64_t n)
{
    double top = rungi_get(t, x, begin), sum = 0;
    for (int64_t i = 1; i < n; i++)
        top = fmax(top, rungi_get(t, x, begin + i));
    for (int64_t i = 0; i < n; i++)
        sum += exp(rungi_get(t, x, begin + i) - top);
    return top + log(sum);
}

static rung_status forward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_cross_entropy_attr *a = q->attr;
    rung_dtype t = q->in[0].dtype;
    const void *x = rungi_ptr(c, &q->in[0]), *weights = optional(q, c->ptr, 2);
    int64_t rows = q->in[0].shape.dim[0], classes = q->in[0].shape.dim[1];
    double s = a->label_smoothing, total = 0;
    for (int64_t n = 0; n < rows; n++) {
        double lse = reference_lse(t, x, n * classes, classes);
        if (q->out[1].buffer >= 0)
            rungi_set(t, rungi_ptr(c, &q->out[1]), n, lse);
        int64_t label = rungi_get_index(q->in[1].dtype, rungi_ptr(c, &q->in[1]), n);
        if (label == a->ignore_index)
            continue;
        RUNG_TRY(check_label(c, n, label, classes));
        total += (1 - s) * class_weight(q, weights, label) *
                 (lse - rungi_get(t, x, n * classes + label));
        for (int64_t k = 0; k < classes; k++)
            total += s / (double)classes * class_weight(q, weights, k) *
                     (lse - rungi_get(t, x, n * classes + k));
    }
    rungi_set(t, rungi_ptr(c, &q->out[0]), 0, total / divisor(c));
    return RUNG_OK;
}

static rung_status backward_reference(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const rungi_cross_entropy_attr *a = q->attr;
    rung_dtype t = q->in[0].dtype;
    const void *x = rungi_ptr(c, &q->in[0]), *weights = optional(q, c->ptr, 2);
    int64_t rows = q->in[0].shape.dim[0], classes = q->in[0].shape.dim[1];
    double s = a->label_smoothing;
    double scale = rungi_get(q->gout[0].dtype, rungi_ptr(c, &q->gout[0]), 0) / divisor(c);
    for (int64_t n = 0; n < rows; n++) {
        int64_t label = rungi_get_index(q->in[1].dtype, rungi_ptr(c, &q->in[1]), n);
        double lse = rungi_get(t, rungi_ptr(c, &q->out[1]), n), mass = 0;
        bool counts = label != a->ignore_index;
        for (int64_t k = 0; counts && k < classes; k++)
            mass += s / (double)classes * class_weight(q, weights, k) +
                    (k == label ? (1 - s) * class_weight(q, weights, k) : 0);
        for (int64_t k = 0; k < classes; k++) {
            double own = !counts ? 0
                                 : s / (double)classes * class_weight(q, weights, k) +
                                       (k == label ? (1 - s) * class_weight(q, weights, k) : 0);
            double g = mass * exp(rungi_get(t, x, n * classes + k) - lse) - own;
            rungi_set(t, rungi_ptr(c, &q->gin[0]), n * classes + k, counts ? scale * g : 0);
        }
    }
    return RUNG_OK;
}

static bool f32_only(const rungi_query *q, rungi_reason *why)
{
    if (q->in[0].dtype != RUNG_F32)
        return rungi_refuse(why, "float32 only");
    return true;
}

static const rungi_kernel plain_forward = {
    .name = "plain", .kind = RUNGI_OWN, .can_run = f32_only, .run = f32_forward};
static const rungi_kernel plain_backward = {
    .name = "plain", .kind = RUNGI_OWN, .can_run = f32_only, .run = f32_backward};
static const rungi_kernel reference = {.name = "reference", .run = forward_reference};
static const rungi_kernel reference_back = {.name = "reference", .run = backward_reference};

const rungi_kernel *const rungi_cross_entropy_forward_cpu[] = {&plain_forward, &reference, NULL};
const rungi_kernel *const rungi_cross_entropy_backward_cpu[] = {&plain_backward, &reference_back,
                                                                NULL};
