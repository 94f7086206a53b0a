// SPDX-License-Identifier: Apache-2.0
// Matrix products by oneDNN.
#include "ops/onednn_inside.h"

rungi_dnn_matrix rungi_dnn_matrix_of(const rungi_operand *operand, int64_t rows, int64_t cols,
                                     bool transposed)
{
    rungi_dnn_matrix m = {operand, {rows, cols}, {cols, 1}};
    if (transposed)
        m = (rungi_dnn_matrix){operand, {cols, rows}, {1, cols}};
    return m;
}

static dnnl_status_t matmul_desc(rungi_dnn *d, rungi_md a, rungi_md b, rungi_md *bias, rungi_md c,
                                 dnnl_primitive_attr_t attr)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_matmul_primitive_desc_create(&d->desc, d->engine, a, b, bias ? *bias : NULL, c,
                                             attr);
#else
    dnnl_matmul_desc_t desc;
    dnnl_status_t status = dnnl_matmul_desc_init(&desc, &a, &b, bias, &c);
    return status == dnnl_success
               ? dnnl_primitive_desc_create(&d->desc, &desc, attr, d->engine, NULL)
               : status;
#endif
}

// The bias as [1, ..., 1, n].
static rung_status bias_md(const rungi_dnn_matmul *m, rungi_md *md_out)
{
    int64_t dims[RUNG_MAX_RANK], strides[RUNG_MAX_RANK], n = m->c.dims[m->rank - 1];
    for (int i = 0; i < m->rank; i++) {
        dims[i] = i == m->rank - 1 ? n : 1;
        strides[i] = i == m->rank - 1 ? 1 : n;
    }
    return rungi_md_make(m->rank, dims, strides, m->bias->dtype, md_out);
}

static rung_status add(rungi_dnn *d, int arg, int rank, const rungi_dnn_matrix *m, bool output,
                       rungi_md *md_out)
{
    RUNG_TRY(rungi_md_make(rank, m->dims, m->strides, m->operand->dtype, md_out));
    return rungi_dnn_add(d, arg, m->operand, *md_out, output);
}

static rung_status make(rungi_dnn *d, const rungi_query *q, const rungi_dnn_matmul *m)
{
    rungi_md a, b, c, bias;
    RUNG_TRY(add(d, DNNL_ARG_SRC, m->rank, &m->a, false, &a));
    RUNG_TRY(add(d, DNNL_ARG_WEIGHTS, m->rank, &m->b, false, &b));
    RUNG_TRY(add(d, DNNL_ARG_DST, m->rank, &m->c, true, &c));
    if (m->bias) {
        RUNG_TRY(bias_md(m, &bias));
        RUNG_TRY(rungi_dnn_add(d, DNNL_ARG_BIAS, m->bias, bias, false));
    }
    dnnl_primitive_attr_t attr;
    RUNG_TRY(rungi_dnn_attr(q, &attr));
    dnnl_status_t status = matmul_desc(d, a, b, m->bias ? &bias : NULL, c, attr);
    dnnl_primitive_attr_destroy(attr);
    RUNG_CHECK(status == dnnl_success, RUNG_LIBRARY, "oneDNN: no matrix product (status %d)",
               (int)status);
    return RUNG_OK;
}

rung_status rungi_dnn_matmul_create(const rungi_query *q, const rungi_dnn_matmul *matmul,
                                    rungi_setup *setup)
{
    rungi_dnn *d;
    RUNG_TRY(rungi_dnn_begin(&d));
    rung_status status = make(d, q, matmul);
    if (status != RUNG_OK) {
        rungi_dnn_destroy(d);
        return status;
    }
    return rungi_dnn_finish(d, setup);
}
