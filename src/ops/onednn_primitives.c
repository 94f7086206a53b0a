// SPDX-License-Identifier: Apache-2.0
// Descriptors of oneDNN's primitives.
#include <string.h>

#include "ops/gelu/gelu.h"
#include "ops/leaky_relu/leaky_relu.h"
#include "ops/onednn_inside.h"
#include "ops/scale/scale.h"

// ---- attributes -------------------------------------------------------------------------------

typedef struct eltwise {
    dnnl_alg_kind_t alg;
    float alpha, beta;
} eltwise;

static bool eltwise_of(const rungi_fused *f, eltwise *out)
{
    static const struct {
        const char *op;
        eltwise eltwise;
    } known[] = {
        {"relu", {dnnl_eltwise_relu, 0, 0}},        {"leaky_relu", {dnnl_eltwise_relu, 0, 0}},
        {"sigmoid", {dnnl_eltwise_logistic, 0, 0}}, {"tanh", {dnnl_eltwise_tanh, 0, 0}},
        {"gelu", {dnnl_eltwise_gelu_erf, 0, 0}},    {"silu", {dnnl_eltwise_swish, 1, 0}},
        {"scale", {dnnl_eltwise_linear, 0, 0}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(f->op->name, known[i].op) != 0)
            continue;
        *out = known[i].eltwise;
        if (out->alg == dnnl_eltwise_gelu_erf && ((const rungi_gelu_attr *)f->attr)->tanh)
            out->alg = dnnl_eltwise_gelu_tanh;
        if (strcmp(f->op->name, "leaky_relu") == 0)
            out->alpha = (float)((const rungi_leaky_relu_attr *)f->attr)->slope;
        if (out->alg == dnnl_eltwise_linear) {
            out->alpha = (float)((const rungi_scale_attr *)f->attr)->factor;
            out->beta = (float)((const rungi_scale_attr *)f->attr)->offset;
        }
        return true;
    }
    return false;
}

bool rungi_dnn_can_fuse(const rungi_query *q, rungi_reason *why)
{
    eltwise e;
    for (int i = 0; i < q->n_fused; i++)
        if (!eltwise_of(&q->fused[i], &e))
            return rungi_refuse(why, "cannot apply %s", q->fused[i].op->name);
    return true;
}

rung_status rungi_dnn_attr(const rungi_query *q, dnnl_primitive_attr_t *attr_out)
{
    RUNGI_DNN_TRY(dnnl_primitive_attr_create(attr_out));
    RUNGI_DNN_TRY(dnnl_primitive_attr_set_scratchpad_mode(*attr_out, dnnl_scratchpad_mode_user));
    if (!q->n_fused)
        return RUNG_OK;
    dnnl_post_ops_t ops;
    RUNGI_DNN_TRY(dnnl_post_ops_create(&ops));
    for (int i = 0; i < q->n_fused; i++) {
        eltwise e;
        if (eltwise_of(&q->fused[i], &e))
#if DNNL_VERSION_MAJOR >= 3
            dnnl_post_ops_append_eltwise(ops, e.alg, e.alpha, e.beta);
#else
            dnnl_post_ops_append_eltwise(ops, 1, e.alg, e.alpha, e.beta);
#endif
    }
    dnnl_status_t set = dnnl_primitive_attr_set_post_ops(*attr_out, ops);
    dnnl_post_ops_destroy(ops);
    RUNGI_DNN_TRY(set);
    return RUNG_OK;
}

// ---- convolution ------------------------------------------------------------------------------

typedef struct conv_md {
    rungi_md src, weight, bias, dst; // what the primitive may choose from
    rungi_md forward_weight;         // forward's: gradients of bf16 weights are float32
    rungi_md user_src, user_weight, user_bias, user_dst; // what lies in memory
    dnnl_dims_t stride, dilation, pad_l, pad_r;
    dnnl_alg_kind_t alg;
} conv_md;

static void conv_md_free(conv_md *m)
{
    rungi_md_free(&m->src);
    rungi_md_free(&m->weight);
    rungi_md_free(&m->forward_weight);
    rungi_md_free(&m->bias);
    rungi_md_free(&m->dst);
}

// The format offered to the primitive for an image: its own where that is a fast one, else any.
static rung_status image_md(const rungi_operand *o, rungi_md *md_out)
{
    if (o->layout == RUNGI_PLAIN)
        return rungi_md_make(4, o->shape.dim, NULL, o->dtype, md_out);
    return rungi_md_of(o, md_out);
}

static rung_status conv_weight_md(const rungi_dnn_conv *c, conv_md *m)
{
    const int64_t *d = c->weight->shape.dim;
    int64_t g = c->groups;
    int64_t grouped[5] = {g, d[0] / g, d[1], d[2], d[3]};
    int64_t strides[5] = {d[0] / g * d[1] * d[2] * d[3], d[1] * d[2] * d[3], d[2] * d[3], d[3], 1};
    int skip = g == 1; // without groups the dimensions are [out, in, h, w]
    RUNG_TRY(rungi_md_make(5 - skip, grouped + skip, NULL, c->weight->dtype, &m->weight));
    RUNG_TRY(rungi_md_make(5 - skip, grouped + skip, NULL, c->src->dtype, &m->forward_weight));
    return rungi_md_make(5 - skip, grouped + skip, strides + skip, c->weight->dtype,
                         &m->user_weight);
}

static rung_status conv_mds(const rungi_dnn_conv *c, conv_md *m)
{
    RUNG_TRY(image_md(c->src, &m->src));
    RUNG_TRY(rungi_md_of(c->src, &m->user_src));
    RUNG_TRY(image_md(c->dst, &m->dst));
    RUNG_TRY(rungi_md_of(c->dst, &m->user_dst));
    RUNG_TRY(conv_weight_md(c, m));
    if (c->bias) {
        RUNG_TRY(rungi_md_of(c->bias, &m->bias));
        RUNG_TRY(rungi_md_of(c->bias, &m->user_bias));
    }
    m->alg = c->winograd ? dnnl_convolution_winograd : dnnl_convolution_direct;
    for (int i = 0; i < 2; i++) {
        int64_t in = c->src->shape.dim[2 + i], out = c->dst->shape.dim[2 + i];
        int64_t reach = (c->weight->shape.dim[2 + i] - 1) * c->dilation[i] + 1;
        m->stride[i] = c->stride[i];
        m->dilation[i] = c->dilation[i] - 1;
        m->pad_l[i] = c->pad[i];
        m->pad_r[i] = (out - 1) * c->stride[i] + reach - in - c->pad[i];
    }
    return RUNG_OK;
}

#if DNNL_VERSION_MAJOR >= 3
static dnnl_status_t conv_forward_desc(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                       dnnl_prop_kind_t prop, const conv_md *m, bool bias,
                                       dnnl_primitive_attr_t attr)
{
    return dnnl_convolution_forward_primitive_desc_create(
        desc, engine, prop, m->alg, m->src, m->forward_weight, bias ? m->bias : NULL, m->dst,
        m->stride, m->dilation, m->pad_l, m->pad_r, attr);
}

static dnnl_status_t conv_backward_desc(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                        rungi_dnn_pass pass, const conv_md *m, bool bias,
                                        dnnl_primitive_desc_t hint, dnnl_primitive_attr_t attr)
{
    if (pass == RUNGI_DNN_BACKWARD_DATA)
        return dnnl_convolution_backward_data_primitive_desc_create(
            desc, engine, m->alg, m->src, m->weight, m->dst, m->stride, m->dilation, m->pad_l,
            m->pad_r, hint, attr);
    return dnnl_convolution_backward_weights_primitive_desc_create(
        desc, engine, m->alg, m->src, m->weight, bias ? m->bias : NULL, m->dst, m->stride,
        m->dilation, m->pad_l, m->pad_r, hint, attr);
}
#else
static dnnl_status_t conv_forward_desc(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                       dnnl_prop_kind_t prop, const conv_md *m, bool bias,
                                       dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(
        &d, prop, m->alg, &m->src, &m->forward_weight, bias ? &m->bias : NULL, &m->dst, m->stride,
        m->dilation, m->pad_l, m->pad_r);
    return status == dnnl_success ? dnnl_primitive_desc_create(desc, &d, attr, engine, NULL)
                                  : status;
}

static dnnl_status_t conv_backward_desc(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                        rungi_dnn_pass pass, const conv_md *m, bool bias,
                                        dnnl_primitive_desc_t hint, dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t status = pass == RUNGI_DNN_BACKWARD_DATA
                               ? dnnl_dilated_convolution_backward_data_desc_init(
                                     &d, m->alg, &m->src, &m->weight, &m->dst, m->stride,
                                     m->dilation, m->pad_l, m->pad_r)
                               : dnnl_dilated_convolution_backward_weights_desc_init(
                                     &d, m->alg, &m->src, &m->weight, bias ? &m->bias : NULL,
                                     &m->dst, m->stride, m->dilation, m->pad_l, m->pad_r);
    return status == dnnl_success ? dnnl_primitive_desc_create(desc, &d, attr, engine, hint)
                                  : status;
}
#endif

static rung_status conv_desc(rungi_dnn *d, const rungi_query *q, rungi_dnn_pass pass,
                             const rungi_dnn_conv *c, const conv_md *m)
{
    dnnl_primitive_attr_t attr;
    RUNG_TRY(rungi_dnn_attr(q, &attr));
    bool forward = pass == RUNGI_DNN_FORWARD;
    dnnl_prop_kind_t prop = q->gradients ? dnnl_forward_training : dnnl_forward_inference;
    dnnl_primitive_desc_t ahead = NULL;
    dnnl_status_t status = conv_forward_desc(forward ? &d->desc : &ahead, d->engine, prop, m,
                                             c->bias != NULL, forward ? attr : NULL);
    if (status == dnnl_success && !forward)
        status = conv_backward_desc(&d->desc, d->engine, pass, m, c->bias != NULL, ahead, attr);
    if (ahead)
        dnnl_primitive_desc_destroy(ahead);
    dnnl_primitive_attr_destroy(attr);
    RUNG_CHECK(status == dnnl_success, RUNG_LIBRARY, "oneDNN: no convolution (status %d)",
               (int)status);
    return RUNG_OK;
}

static rung_status conv_arguments(rungi_dnn *d, rungi_dnn_pass pass, const rungi_dnn_conv *c,
                                  const conv_md *m)
{
    bool data = pass == RUNGI_DNN_BACKWARD_DATA, weight = pass == RUNGI_DNN_BACKWARD_WEIGHT;
    RUNG_TRY(rungi_dnn_add(d, data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, c->src, m->user_src, data));
    RUNG_TRY(rungi_dnn_add(d, weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, c->weight,
                           m->user_weight, weight));
    if (c->bias)
        RUNG_TRY(rungi_dnn_add(d, weight ? DNNL_ARG_DIFF_BIAS : DNNL_ARG_BIAS, c->bias,
                               m->user_bias, weight));
    return rungi_dnn_add(d, data || weight ? DNNL_ARG_DIFF_DST : DNNL_ARG_DST, c->dst, m->user_dst,
                         !data && !weight);
}

// A primitive's descriptor, and its arguments where they are wanted.
static rung_status conv_begin(const rungi_query *q, rungi_dnn_pass pass, const rungi_dnn_conv *conv,
                              bool arguments, rungi_dnn **dnn_out)
{
    conv_md m;
    memset(&m, 0, sizeof m);
    RUNG_TRY(rungi_dnn_begin(dnn_out));
    rung_status status = conv_mds(conv, &m);
    if (status == RUNG_OK)
        status = conv_desc(*dnn_out, q, pass, conv, &m);
    if (status == RUNG_OK && arguments)
        status = conv_arguments(*dnn_out, pass, conv, &m);
    conv_md_free(&m);
    if (status != RUNG_OK)
        rungi_dnn_destroy(*dnn_out);
    return status;
}

rung_status rungi_dnn_conv_create(const rungi_query *q, rungi_dnn_pass pass,
                                  const rungi_dnn_conv *conv, rungi_setup *setup)
{
    rungi_dnn *d;
    RUNG_TRY(conv_begin(q, pass, conv, true, &d));
    return rungi_dnn_finish(d, setup);
}

bool rungi_dnn_conv_exists(const rungi_query *q, rungi_dnn_pass pass, const rungi_dnn_conv *conv)
{
    rungi_dnn *d;
    bool exists = conv_begin(q, pass, conv, false, &d) == RUNG_OK;
    if (exists)
        rungi_dnn_destroy(d);
    else
        rung_error_clear();
    return exists;
}

// ---- reorder ----------------------------------------------------------------------------------

rung_status rungi_dnn_reorder_create(const rungi_query *q, const rungi_operand *from,
                                     const rungi_operand *to, rungi_setup *setup)
{
    rungi_dnn *d;
    rungi_md a, b;
    RUNG_TRY(rungi_dnn_begin(&d));
    rung_status status;
    RUNG_TRY_GOTO(undo, rungi_md_of(from, &a));
    RUNG_TRY_GOTO(undo, rungi_md_of(to, &b));
    dnnl_primitive_attr_t attr;
    RUNG_TRY_GOTO(undo, rungi_dnn_attr(q, &attr));
    dnnl_status_t made = dnnl_reorder_primitive_desc_create(&d->desc, RUNGI_MD(a), d->engine,
                                                            RUNGI_MD(b), d->engine, attr);
    dnnl_primitive_attr_destroy(attr);
    if (made != dnnl_success) {
        status = RUNG_FAIL(RUNG_LIBRARY, "oneDNN: no reorder (status %d)", (int)made);
        goto undo;
    }
    RUNG_TRY_GOTO(undo, rungi_dnn_add(d, DNNL_ARG_FROM, from, a, false));
    RUNG_TRY_GOTO(undo, rungi_dnn_add(d, DNNL_ARG_TO, to, b, true));
    return rungi_dnn_finish(d, setup);
undo:
    rungi_dnn_destroy(d);
    return status;
}
