// SPDX-License-Identifier: Apache-2.0
#include <cblas.h>

#include "ops/broadcast.h"
#include "ops/element.h"
#include "ops/matmul/matmul.h"
#include "ops/onednn.h"
#include "ops/parallel.h"

// ---- the batch --------------------------------------------------------------------------------

typedef struct batch {
    int64_t strides[3][RUNG_MAX_RANK]; // of left, right and out
    int64_t count;
    bool sums; // several products go into one matrix
} batch;

static batch batch_of(const rungi_product *p)
{
    batch b = {.count = rungi_shape_size(&p->batch)};
    const rungi_operand *list[3] = {p->left, p->right, p->out};
    for (int i = 0; i < 3 && p->batch.rank; i++)
        rungi_matmul_strides(p, list[i], b.strides[i]);
    for (int d = 0; d < p->batch.rank; d++)
        b.sums |= p->batch.dim[d] > 1 && b.strides[2][d] == 0;
    return b;
}

// Offsets of product i; returns whether it is the first that goes into its matrix.
static bool offsets(const rungi_product *p, const batch *b, int64_t i, int64_t offset[3])
{
    bool first = true;
    offset[0] = offset[1] = offset[2] = 0;
    for (int d = p->batch.rank - 1; d >= 0; d--) {
        int64_t at = i % p->batch.dim[d];
        i /= p->batch.dim[d];
        for (int k = 0; k < 3; k++)
            offset[k] += at * b->strides[k][d];
        first &= at == 0 || b->strides[2][d] != 0;
    }
    return first;
}

// ---- OpenBLAS ---------------------------------------------------------------------------------

static void multiply(const rungi_product *p, const float *left, const float *right, float *out,
                     bool first)
{
    int64_t lda = p->turn_left ? p->m : p->k, ldb = p->turn_right ? p->k : p->n;
    cblas_sgemm(CblasRowMajor, p->turn_left ? CblasTrans : CblasNoTrans,
                p->turn_right ? CblasTrans : CblasNoTrans, (int)p->m, (int)p->n, (int)p->k, 1, left,
                (int)lda, right, (int)ldb, first ? 0 : 1, out, (int)p->n);
}

// Where there is one for each thread, products up to this size are given to one thread each.
enum { SMALL = 512 * 512 * 512 };

static rung_status openblas_run(const rungi_call *c)
{
    rungi_product p = rungi_matmul_product(c->q);
    rungi_matmul_fold(&p);
    batch b = batch_of(&p);
    const float *left = rungi_ptr(c, p.left), *right = rungi_ptr(c, p.right);
    float *out = rungi_ptr(c, p.out);
    int64_t work = p.m * p.n * p.k;
    bool apart = !b.sums && work <= SMALL && b.count >= c->q->threads;
    RUNGI_PARALLEL_FOR(apart ? c->q->threads : 1, b.count * work)
    for (int64_t i = 0; i < b.count; i++) {
        int64_t at[3];
        bool first = offsets(&p, &b, i, at);
        multiply(&p, left + at[0], right + at[1], out + at[2], first);
    }
    return RUNG_OK;
}

// ---- oneDNN -----------------------------------------------------------------------------------

static bool onednn_can_run(const rungi_query *q, rungi_reason *why)
{
    rungi_product p = rungi_matmul_product(q);
    rungi_matmul_fold(&p);
    if (batch_of(&p).sums)
        return rungi_refuse(why, "does not sum over a batch");
    return rungi_dnn_can_fuse(q, why) && rungi_dnn_takes(q, why);
}

// Measured on Zen 3 (oneDNN 2.6.3, OpenBLAS 0.3.21): oneDNN is 1.1 to 1.5 times as fast for batches
// and for up to 64 rows, elsewhere OpenBLAS is up to 1.2 (and once 2) times as fast.
static bool onednn_prefers(const rungi_query *q)
{
    rungi_product p = rungi_matmul_product(q);
    rungi_matmul_fold(&p);
    return p.batch.rank > 0 || p.m <= 64;
}

// One side with the batch's dimensions before its own two.
static rungi_dnn_matrix matrix_of(const rungi_product *p, const rungi_operand *o, int64_t rows,
                                  int64_t cols, bool turned)
{
    rungi_dnn_matrix m = rungi_dnn_matrix_of(o, turned ? cols : rows, turned ? rows : cols, turned);
    int64_t strides[RUNG_MAX_RANK], size = rows * cols;
    int rank = p->batch.rank;
    for (int i = 1; i >= 0; i--) {
        m.dims[rank + i] = m.dims[i];
        m.strides[rank + i] = m.strides[i];
    }
    if (rank)
        rungi_matmul_strides(p, o, strides);
    for (int d = 0; d < rank; d++) {
        m.dims[d] = strides[d] ? p->batch.dim[d] : 1;
        m.strides[d] = strides[d] ? strides[d] : size;
    }
    return m;
}

static rung_status onednn_create(const rungi_query *q, rungi_setup *setup)
{
    rungi_product p = rungi_matmul_product(q);
    rungi_matmul_fold(&p);
    rungi_dnn_matmul m = {.rank = p.batch.rank + 2};
    m.a = matrix_of(&p, p.left, p.m, p.k, p.turn_left);
    m.b = matrix_of(&p, p.right, p.k, p.n, p.turn_right);
    m.c = matrix_of(&p, p.out, p.m, p.n, false);
    return rungi_dnn_matmul_create(q, &m, setup);
}

// ---- reference --------------------------------------------------------------------------------

static double side(const rungi_call *c, const rungi_operand *o, int64_t at, int64_t rows,
                   int64_t cols, bool turned, int64_t i, int64_t j)
{
    return rungi_get(o->dtype, rungi_ptr(c, o), at + (turned ? j * rows + i : i * cols + j));
}

static rung_status reference_run(const rungi_call *c)
{
    rungi_product p = rungi_matmul_product(c->q);
    batch b = batch_of(&p);
    for (int64_t i = 0; i < rungi_operand_count(p.out); i++)
        rungi_set(p.out->dtype, rungi_ptr(c, p.out), i, 0);
    for (int64_t k = 0; k < b.count; k++) {
        int64_t at[3];
        offsets(&p, &b, k, at);
        for (int64_t i = 0; i < p.m * p.n; i++) {
            double sum = rungi_get(p.out->dtype, rungi_ptr(c, p.out), at[2] + i);
            for (int64_t l = 0; l < p.k; l++)
                sum += side(c, p.left, at[0], p.m, p.k, p.turn_left, i / p.n, l) *
                       side(c, p.right, at[1], p.k, p.n, p.turn_right, l, i % p.n);
            rungi_set(p.out->dtype, rungi_ptr(c, p.out), at[2] + i, sum);
        }
    }
    return RUNG_OK;
}

static const rungi_kernel openblas = {
    .name = "openblas", .kind = RUNGI_LIBRARY, .can_run = rungi_f32_only, .run = openblas_run};
static const rungi_kernel onednn = {.name = "onednn",
                                    .kind = RUNGI_LIBRARY,
                                    .halves = true,
                                    .can_run = onednn_can_run,
                                    .prefers = onednn_prefers,
                                    .fuses = true,
                                    .create = onednn_create,
                                    .destroy = rungi_dnn_destroy,
                                    .run = rungi_dnn_run};
static const rungi_kernel reference = {.name = "reference", .run = reference_run};

const rungi_kernel *const rungi_matmul_kernels[] = {&openblas, &onednn, &reference, NULL};
