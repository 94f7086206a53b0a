// SPDX-License-Identifier: Apache-2.0
// Average pooling by oneDNN. (Of maximum pooling it keeps places in a format of its own, so that
// only a forward pass without backward could use it.)
#include "ops/onednn_inside.h"

typedef struct pool_md {
    rungi_md x, y;
    dnnl_dims_t kernel, stride, dilation, pad_l, pad_r;
    dnnl_alg_kind_t alg;
} pool_md;

#if DNNL_VERSION_MAJOR >= 3
static dnnl_status_t forward_desc(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                  const pool_md *m, dnnl_primitive_attr_t attr)
{
    return dnnl_pooling_forward_primitive_desc_create(desc, engine, dnnl_forward_training, m->alg,
                                                      m->x, m->y, m->stride, m->kernel, m->dilation,
                                                      m->pad_l, m->pad_r, attr);
}

static dnnl_status_t backward_desc(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                   const pool_md *m, dnnl_primitive_desc_t hint,
                                   dnnl_primitive_attr_t attr)
{
    return dnnl_pooling_backward_primitive_desc_create(desc, engine, m->alg, m->x, m->y, m->stride,
                                                       m->kernel, m->dilation, m->pad_l, m->pad_r,
                                                       hint, attr);
}
#else
static dnnl_status_t forward_desc(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                  const pool_md *m, dnnl_primitive_attr_t attr)
{
    dnnl_pooling_desc_t d;
    dnnl_status_t status = dnnl_pooling_forward_desc_init(
        &d, dnnl_forward_training, m->alg, &m->x, &m->y, m->stride, m->kernel, m->pad_l, m->pad_r);
    return status == dnnl_success ? dnnl_primitive_desc_create(desc, &d, attr, engine, NULL)
                                  : status;
}

static dnnl_status_t backward_desc(dnnl_primitive_desc_t *desc, dnnl_engine_t engine,
                                   const pool_md *m, dnnl_primitive_desc_t hint,
                                   dnnl_primitive_attr_t attr)
{
    dnnl_pooling_desc_t d;
    dnnl_status_t status = dnnl_pooling_backward_desc_init(&d, m->alg, &m->x, &m->y, m->stride,
                                                           m->kernel, m->pad_l, m->pad_r);
    return status == dnnl_success ? dnnl_primitive_desc_create(desc, &d, attr, engine, hint)
                                  : status;
}
#endif

static rung_status make_desc(rungi_dnn *d, const rungi_query *q, const pool_md *m)
{
    dnnl_primitive_attr_t attr;
    RUNG_TRY(rungi_dnn_attr(q, &attr));
    bool forward = q->pass == RUNGI_FORWARD;
    dnnl_primitive_desc_t ahead = NULL;
    dnnl_status_t status =
        forward_desc(forward ? &d->desc : &ahead, d->engine, m, forward ? attr : NULL);
    if (status == dnnl_success && !forward)
        status = backward_desc(&d->desc, d->engine, m, ahead, attr);
    if (ahead)
        dnnl_primitive_desc_destroy(ahead);
    dnnl_primitive_attr_destroy(attr);
    RUNG_CHECK(status == dnnl_success, RUNG_LIBRARY, "oneDNN: no pooling (status %d)", (int)status);
    return RUNG_OK;
}

static void fill(pool_md *m, const rungi_dnn_pool *p)
{
    m->alg = p->include_pad ? dnnl_pooling_avg_include_padding : dnnl_pooling_avg_exclude_padding;
    for (int i = 0; i < 2; i++) {
        int64_t in = p->x->shape.dim[2 + i], out = p->y->shape.dim[2 + i];
        m->kernel[i] = p->kernel[i];
        m->stride[i] = p->stride[i];
        m->dilation[i] = 0;
        m->pad_l[i] = p->pad[i];
        m->pad_r[i] = (out - 1) * p->stride[i] + p->kernel[i] - in - p->pad[i];
        if (m->pad_r[i] < 0) // columns that no window covers
            m->pad_r[i] = 0;
    }
}

rung_status rungi_dnn_pool_create(const rungi_query *q, const rungi_dnn_pool *pool,
                                  rungi_setup *setup)
{
    bool forward = q->pass == RUNGI_FORWARD;
    rungi_dnn *d;
    pool_md m;
    rungi_md x, y;
    fill(&m, pool);
    RUNG_TRY(rungi_dnn_begin(&d));
    rung_status status;
    RUNG_TRY_GOTO(undo, rungi_md_of(pool->x, &x));
    RUNG_TRY_GOTO(
        undo, rungi_dnn_add(d, forward ? DNNL_ARG_SRC : DNNL_ARG_DIFF_SRC, pool->x, x, !forward));
    RUNG_TRY_GOTO(undo, rungi_md_of(pool->y, &y));
    RUNG_TRY_GOTO(
        undo, rungi_dnn_add(d, forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, pool->y, y, forward));
    m.x = x;
    m.y = y;
    RUNG_TRY_GOTO(undo, make_desc(d, q, &m));
    return rungi_dnn_finish(d, setup);
undo:
    rungi_dnn_destroy(d);
    return status;
}
