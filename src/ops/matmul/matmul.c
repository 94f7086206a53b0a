// SPDX-License-Identifier: Apache-2.0
// matmul: y = a b over the last two dimensions, as torch.matmul for tensors of two and more
// dimensions; those before broadcast. Either side may be taken transposed.
// da = dy b^T, db = a^T dy, summed over what was stretched.
#include "ops/matmul/matmul.h"

#include "base/error.h"
#include "ops/broadcast.h"

static rung_shape batch_of(const rung_shape *s)
{
    rung_shape batch = *s;
    batch.rank -= 2;
    return batch;
}

static rung_status infer(rungi_infer *i)
{
    const rungi_matmul_attr *attr = i->attr;
    const rung_shape *a = &i->in[0].shape, *b = &i->in[1].shape;
    char at[RUNG_SHAPE_TEXT], bt[RUNG_SHAPE_TEXT];
    rung_shape_text(a, at, sizeof at);
    rung_shape_text(b, bt, sizeof bt);
    RUNG_CHECK(a->rank >= 2 && b->rank >= 2, RUNG_MISMATCH,
               "matmul takes tensors of two and more dimensions; got %s and %s", at, bt);
    int64_t m = a->dim[a->rank - 2 + attr->transpose_a];
    int64_t k = a->dim[a->rank - 1 - attr->transpose_a];
    int64_t n = b->dim[b->rank - 1 - attr->transpose_b];
    RUNG_CHECK(k == b->dim[b->rank - 2 + attr->transpose_b], RUNG_MISMATCH,
               "cannot multiply %s%s and %s%s", at, attr->transpose_a ? " (transposed)" : "", bt,
               attr->transpose_b ? " (transposed)" : "");
    rung_shape batch, as = batch_of(a), bs = batch_of(b);
    RUNG_CHECK(rungi_broadcast_shape(&as, &bs, &batch), RUNG_MISMATCH,
               "the batches of %s and %s do not fit", at, bt);
    batch.dim[batch.rank++] = m;
    batch.dim[batch.rank++] = n;
    i->out[0] = (rungi_type){i->in[0].dtype, batch};
    return RUNG_OK;
}

static void describe(const void *attr, rungi_string *out)
{
    const rungi_matmul_attr *a = attr;
    rungi_string_add(out, "a%s b%s", a->transpose_a ? "^T" : "", a->transpose_b ? "^T" : "");
}

rungi_product rungi_matmul_product(const rungi_query *q)
{
    const rungi_matmul_attr *attr = q->attr;
    const rungi_operand *a = &q->in[0], *b = &q->in[1];
    bool ta = attr->transpose_a, tb = attr->transpose_b;
    int64_t m = a->shape.dim[a->shape.rank - 2 + ta], k = a->shape.dim[a->shape.rank - 1 - ta];
    int64_t n = b->shape.dim[b->shape.rank - 1 - tb];
    rungi_product p = {.left = a, .right = b, .turn_left = ta, .turn_right = tb};
    p.m = m;
    p.n = n;
    p.k = k;
    if (q->pass == RUNGI_FORWARD) {
        p.out = &q->out[0];
        p.batch = batch_of(&p.out->shape);
        return p;
    }
    const rungi_operand *gy = &q->gout[0];
    p.batch = batch_of(&gy->shape);
    if (q->pass == RUNGI_MATMUL_BACK_A) {
        p.out = &q->gin[0];
        // op(a) gets dy op(b)^T; a itself, when it was transposed, gets op(b) dy^T.
        p.left = ta ? b : gy;
        p.right = ta ? gy : b;
        p.turn_left = ta ? tb : false;
        p.turn_right = ta ? true : !tb;
        p.m = ta ? k : m;
        p.n = ta ? m : k;
        p.k = n;
    } else {
        p.out = &q->gin[1];
        p.left = tb ? gy : a;
        p.right = tb ? a : gy;
        p.turn_left = tb ? true : !ta;
        p.turn_right = tb ? ta : false;
        p.m = tb ? n : k;
        p.n = tb ? k : n;
        p.k = m;
    }
    return p;
}

void rungi_matmul_strides(const rungi_product *p, const rungi_operand *o,
                          int64_t strides[RUNG_MAX_RANK])
{
    rung_shape own = batch_of(&o->shape);
    int64_t size = o->shape.dim[o->shape.rank - 2] * o->shape.dim[o->shape.rank - 1];
    rungi_broadcast_strides(&own, &p->batch, strides);
    for (int d = 0; d < RUNG_MAX_RANK; d++)
        strides[d] *= size;
}

static int64_t matrices(const rungi_operand *o)
{
    rung_shape batch = batch_of(&o->shape);
    return rungi_shape_size(&batch);
}

void rungi_matmul_fold(rungi_product *p)
{
    int64_t count = rungi_shape_size(&p->batch);
    bool left = matrices(p->left) == count, right = matrices(p->right) == count;
    bool out = matrices(p->out) == count;
    if (count == 1)
        p->batch.rank = 0;
    else if (left && out && !p->turn_left && matrices(p->right) == 1)
        p->m *= count;
    else if (left && right && p->turn_left && !p->turn_right && matrices(p->out) == 1)
        p->k *= count;
    else
        return;
    p->batch.rank = 0;
}

static double flops(const rungi_query *q)
{
    rungi_product p = rungi_matmul_product(q);
    return 2.0 * (double)rungi_shape_size(&p.batch) * (double)p.m * (double)p.n * (double)p.k;
}

static const rungi_matmul_attr plain = {false, false}, ta = {true, false}, tb = {false, true},
                               both = {true, true};

static const rungi_case cases[] = {
    {"plain", {RUNGI_IN(3, 4), RUNGI_IN(4, 5)}, 2, &plain, 5e-6},
    {"a transposed", {RUNGI_IN(4, 3), RUNGI_IN(4, 5)}, 2, &ta, 5e-6},
    {"b transposed", {RUNGI_IN(3, 4), RUNGI_IN(5, 4)}, 2, &tb, 5e-6},
    {"both transposed", {RUNGI_IN(4, 3), RUNGI_IN(5, 4)}, 2, &both, 5e-6},
    {"1 x 1", {RUNGI_IN(1, 1), RUNGI_IN(1, 1)}, 2, &plain, 5e-6},
    {"batch", {RUNGI_IN(3, 4, 7), RUNGI_IN(3, 7, 2)}, 2, &plain, 5e-6},
    {"batch, a transposed", {RUNGI_IN(3, 7, 4), RUNGI_IN(3, 7, 2)}, 2, &ta, 5e-6},
    {"heads", {RUNGI_IN(2, 3, 5, 4), RUNGI_IN(2, 3, 5, 4)}, 2, &tb, 5e-6},
    {"one matrix for all", {RUNGI_IN(3, 2, 4), RUNGI_IN(4, 5)}, 2, &plain, 5e-6},
    {"one matrix for all, transposed", {RUNGI_IN(3, 2, 4), RUNGI_IN(1, 5, 4)}, 2, &tb, 5e-6},
    {"one on the left", {RUNGI_IN(2, 4), RUNGI_IN(3, 4, 5)}, 2, &plain, 5e-6},
    {"one on the left, transposed", {RUNGI_IN(4, 2), RUNGI_IN(3, 5, 4)}, 2, &both, 5e-6},
    {"both stretch", {RUNGI_IN(2, 1, 3, 4), RUNGI_IN(5, 4, 2)}, 2, &plain, 5e-6},
    {.name = "512",
     .in = {RUNGI_IN(512, 512), RUNGI_IN(512, 512)},
     .n_in = 2,
     .attr = &plain,
     .bench = true},
    {.name = "scores of 12 heads",
     .in = {RUNGI_IN(4, 12, 64, 64), RUNGI_IN(4, 12, 64, 64)},
     .n_in = 2,
     .attr = &tb,
     .bench = true},
    {.name = "scores, 256 tokens",
     .in = {RUNGI_IN(4, 12, 256, 64), RUNGI_IN(4, 12, 256, 64)},
     .n_in = 2,
     .attr = &tb,
     .bench = true},
    {.name = "one matrix for all",
     .in = {RUNGI_IN(4, 64, 768), RUNGI_IN(768, 768)},
     .n_in = 2,
     .attr = &plain,
     .bench = true},
    {0},
};

const rungi_op rungi_op_matmul = {
    .name = "matmul",
    .attr_size = sizeof(rungi_matmul_attr),
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .precision = RUNGI_LOW,
    .infer = infer,
    .describe = describe,
    .flops = flops,
    .forward = {.name = "forward", .kernels = {rungi_matmul_kernels}},
    .backward = {{.name = "backward_a",
                  .gives = 1 << 0,
                  .reads_in = 1 << 1,
                  .kernels = {rungi_matmul_kernels}},
                 {.name = "backward_b",
                  .gives = 1 << 1,
                  .reads_in = 1 << 0,
                  .kernels = {rungi_matmul_kernels}}},
    .cases = cases,
};
