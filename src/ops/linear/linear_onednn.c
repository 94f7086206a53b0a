// SPDX-License-Identifier: Apache-2.0
#include "ops/linear/linear.h"
#include "ops/onednn.h"

// Neither library is the faster one everywhere. Measured on Zen 3 (oneDNN 2.6.3, OpenBLAS 0.3.21;
// one and two threads): with 1 row oneDNN is 3 to 6 times as fast in all passes, with up to 64
// rows 1.0 to 1.5 times; with 256 rows OpenBLAS is 1.1 times as fast forward and up to 2 times in
// the data gradient. The weight gradient is 1.1 to 1.6 times as fast with oneDNN. On Zen 4
// (AVX-512) oneDNN is 0.9 to 1.6 times as fast with any number of rows, but for small products.
static bool prefers(const rungi_query *q)
{
    return q->isa >= RUNG_ISA_AVX512 || rungi_linear_sizes_of(q).rows <= 64;
}

static bool weight_prefers(const rungi_query *q)
{
    (void)q;
    return true;
}

static bool forward_can_run(const rungi_query *q, rungi_reason *why)
{
    return rungi_dnn_can_fuse(q, why) && rungi_dnn_takes(q, why);
}

static rung_status forward_create(const rungi_query *q, rungi_setup *setup)
{
    rungi_linear_sizes s = rungi_linear_sizes_of(q);
    rungi_dnn_matmul m = {.rank = 2};
    m.a = rungi_dnn_matrix_of(&q->in[0], s.rows, s.in, false);
    m.b = rungi_dnn_matrix_of(&q->in[1], s.out, s.in, true);
    m.c = rungi_dnn_matrix_of(&q->out[0], s.rows, s.out, false);
    m.bias = q->n_in > 2 && q->in[2].buffer >= 0 ? &q->in[2] : NULL;
    return rungi_dnn_matmul_create(q, &m, setup);
}

static bool weight_can_run(const rungi_query *q, rungi_reason *why)
{
    if (q->gin[1].buffer < 0)
        return rungi_refuse(why, "the gradient of the bias alone is not offered");
    return rungi_dnn_takes(q, why);
}

static rung_status weight_create(const rungi_query *q, rungi_setup *setup)
{
    rungi_linear_sizes s = rungi_linear_sizes_of(q);
    rungi_dnn_matmul m = {.rank = 2};
    m.a = rungi_dnn_matrix_of(&q->gout[0], s.rows, s.out, true);
    m.b = rungi_dnn_matrix_of(&q->in[0], s.rows, s.in, false);
    m.c = rungi_dnn_matrix_of(&q->gin[1], s.out, s.in, false);
    return rungi_dnn_matmul_create(q, &m, setup);
}

static void sum_rows_bf16(const uint16_t *gy, float *gb, int64_t rows, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        gb[i] = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++)
            gb[i] += rung_bf16_to_f32(gy[r * n + i]);
}

static rung_status weight_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    rungi_linear_sizes s = rungi_linear_sizes_of(q);
    float *gb = q->n_in > 2 ? rungi_ptr(c, &q->gin[2]) : NULL;
    if (gb && q->gout[0].dtype == RUNG_F32)
        rungi_linear_sum_rows(rungi_ptr(c, &q->gout[0]), gb, s.rows, s.out);
    else if (gb)
        sum_rows_bf16(rungi_ptr(c, &q->gout[0]), gb, s.rows, s.out);
    return rungi_dnn_run(c);
}

static rung_status data_create(const rungi_query *q, rungi_setup *setup)
{
    rungi_linear_sizes s = rungi_linear_sizes_of(q);
    rungi_dnn_matmul m = {.rank = 2};
    m.a = rungi_dnn_matrix_of(&q->gout[0], s.rows, s.out, false);
    m.b = rungi_dnn_matrix_of(&q->in[1], s.out, s.in, false);
    m.c = rungi_dnn_matrix_of(&q->gin[0], s.rows, s.in, false);
    return rungi_dnn_matmul_create(q, &m, setup);
}

const rungi_kernel rungi_linear_forward_onednn = {.name = "onednn",
                                                  .halves = true,
                                                  .kind = RUNGI_LIBRARY,
                                                  .can_run = forward_can_run,
                                                  .prefers = prefers,
                                                  .fuses = true,
                                                  .create = forward_create,
                                                  .destroy = rungi_dnn_destroy,
                                                  .run = rungi_dnn_run};
const rungi_kernel rungi_linear_weight_onednn = {.name = "onednn",
                                                 .halves = true,
                                                 .kind = RUNGI_LIBRARY,
                                                 .can_run = weight_can_run,
                                                 .prefers = weight_prefers,
                                                 .create = weight_create,
                                                 .destroy = rungi_dnn_destroy,
                                                 .run = weight_run};
const rungi_kernel rungi_linear_data_onednn = {.name = "onednn",
                                               .halves = true,
                                               .kind = RUNGI_LIBRARY,
                                               .can_run = rungi_dnn_takes,
                                               .prefers = prefers,
                                               .create = data_create,
                                               .destroy = rungi_dnn_destroy,
                                               .run = rungi_dnn_run};
