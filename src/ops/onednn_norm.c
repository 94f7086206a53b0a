// SPDX-License-Identifier: Apache-2.0
// Batch normalization by oneDNN.
#include <string.h>

#include "ops/onednn_inside.h"

static unsigned flags_of(const rungi_dnn_norm *n)
{
    unsigned flags = 0;
    if (n->frozen)
        flags |= dnnl_use_global_stats;
    if (n->weight)
        flags |= dnnl_use_scale;
    if (n->bias)
        flags |= dnnl_use_shift;
    return flags;
}

#if DNNL_VERSION_MAJOR >= 3
static dnnl_status_t forward_desc(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                  dnnl_prop_kind_t prop, const rungi_dnn_norm *n, rungi_md x,
                                  dnnl_primitive_attr_t attr)
{
    return dnnl_batch_normalization_forward_primitive_desc_create(desc, engine, prop, x, x,
                                                                  (float)n->eps, flags_of(n), attr);
}

static dnnl_status_t backward_desc(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                   dnnl_prop_kind_t prop, const rungi_dnn_norm *n, rungi_md x,
                                   dnnl_primitive_desc_t hint, dnnl_primitive_attr_t attr)
{
    return dnnl_batch_normalization_backward_primitive_desc_create(
        desc, engine, prop, x, x, x, (float)n->eps, flags_of(n), hint, attr);
}
#else
static dnnl_status_t forward_desc(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                  dnnl_prop_kind_t prop, const rungi_dnn_norm *n, rungi_md x,
                                  dnnl_primitive_attr_t attr)
{
    dnnl_batch_normalization_desc_t d;
    dnnl_status_t status =
        dnnl_batch_normalization_forward_desc_init(&d, prop, &x, (float)n->eps, flags_of(n));
    return status == dnnl_success ? dnnl_primitive_desc_create(desc, &d, attr, engine, NULL)
                                  : status;
}

static dnnl_status_t backward_desc(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                   dnnl_prop_kind_t prop, const rungi_dnn_norm *n, rungi_md x,
                                   dnnl_primitive_desc_t hint, dnnl_primitive_attr_t attr)
{
    dnnl_batch_normalization_desc_t d;
    dnnl_status_t status =
        dnnl_batch_normalization_backward_desc_init(&d, prop, &x, &x, (float)n->eps, flags_of(n));
    return status == dnnl_success ? dnnl_primitive_desc_create(desc, &d, attr, engine, hint)
                                  : status;
}
#endif

static rung_status make_desc(rungi_dnn *d, const rungi_query *q, const rungi_dnn_norm *n,
                             rungi_md x)
{
    dnnl_primitive_attr_t attr;
    RUNG_TRY(rungi_dnn_attr(q, &attr));
    bool forward = q->pass == RUNGI_FORWARD;
    bool weights = n->gweight || n->gbias;
    dnnl_primitive_desc_t ahead = NULL;
    // A training primitive gives the statistics; it cannot have a ReLU on top.
    dnnl_prop_kind_t prop =
        forward && (n->frozen || !n->mean) ? dnnl_forward_inference : dnnl_forward_training;
    dnnl_status_t status =
        forward_desc(forward ? &d->desc : &ahead, d->engine, prop, n, x, forward ? attr : NULL);
    if (status == dnnl_success && !forward)
        status = backward_desc(&d->desc, d->engine, weights ? dnnl_backward : dnnl_backward_data, n,
                               x, ahead, attr);
    if (ahead)
        dnnl_primitive_desc_destroy(ahead);
    dnnl_primitive_attr_destroy(attr);
    RUNG_CHECK(status == dnnl_success, RUNG_LIBRARY, "oneDNN: no batch normalization (status %d)",
               (int)status);
    return RUNG_OK;
}

static rung_status add(rungi_dnn *d, int arg, const rungi_operand *o, bool output)
{
    rungi_md md;
    if (!o)
        return RUNG_OK;
    RUNG_TRY(rungi_md_of(o, &md));
    return rungi_dnn_add(d, arg, o, md, output);
}

static rung_status add_arguments(rungi_dnn *d, const rungi_query *q, const rungi_dnn_norm *n)
{
    bool forward = q->pass == RUNGI_FORWARD;
    RUNG_TRY(add(d, DNNL_ARG_SRC, n->x, false));
    RUNG_TRY(add(d, forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, n->y, forward));
    RUNG_TRY(add(d, DNNL_ARG_MEAN, n->mean, forward && !n->frozen));
    RUNG_TRY(add(d, DNNL_ARG_VARIANCE, n->var, forward && !n->frozen));
    RUNG_TRY(add(d, DNNL_ARG_SCALE, n->weight, false));
    if (forward)
        return add(d, DNNL_ARG_SHIFT, n->bias, false);
#if DNNL_VERSION_MAJOR < 3
    // Version 2 wants the shift too but does not read it.
    RUNG_TRY(add(d, DNNL_ARG_SHIFT, n->bias, false));
#endif
    RUNG_TRY(add(d, DNNL_ARG_DIFF_SRC, n->gx, true));
    RUNG_TRY(add(d, DNNL_ARG_DIFF_SCALE, n->gweight, true));
    return add(d, DNNL_ARG_DIFF_SHIFT, n->gbias, true);
}

rung_status rungi_dnn_norm_create(const rungi_query *q, const rungi_dnn_norm *norm,
                                  rungi_setup *setup)
{
    rungi_dnn *d;
    rungi_md x;
    RUNG_TRY(rungi_dnn_begin(&d));
    rung_status status = rungi_md_of(norm->x, &x);
    if (status == RUNG_OK) {
        status = make_desc(d, q, norm, x);
        rungi_md_free(&x);
    }
    if (status == RUNG_OK)
        status = add_arguments(d, q, norm);
    if (status != RUNG_OK) {
        rungi_dnn_destroy(d);
        return status;
    }
    return rungi_dnn_finish(d, setup);
}
