// SPDX-License-Identifier: Apache-2.0
// Backward half of the fusion pass (`plan.fuse`): the backward step of an activation is merged into
// the step that takes its result as the gradient of its output, when nobody else reads that result
// and a kernel of the taker says it can apply it while reading:
//
//     gy -> [ relu.backward ] -> g -> [ batch_norm.backward ] -> gx
//     gy -> [ batch_norm.backward + relu ] -> gx
//
// Where the activation's output was made of the taker's output alone (not of a sum with a
// residual), some kernels need not read it: they can tell it from what they read anyway.
//
// Backward of a pooling (rungi_op.joins) is merged into all steps that take its result, if they
// all can do it, so that the gradient of the larger image is never stored:
//
//     gy, places -> [ max_pool2d.backward ] -> g -> [ conv2d.backward_weight ], [ .backward_data ]
//     gy, places -> [ conv2d.backward_weight + max_pool2d ], [ conv2d.backward_data + max_pool2d ]
#include "base/error.h"
#include "graph/plan.h"
#include "ops/halves.h"

// Does step `a` take one gradient and give one, both of an image that may be read in any order?
static bool is_activation(const rung_plan *p, const rungi_step *a)
{
    const rungi_query *q = &a->q;
    int g = q->n_in == 1 && q->gin ? q->gin[0].buffer : -1;
    if (g < 0 || q->op->layouts != RUNGI_LAYOUTS_SAME || q->op->n_out != 1 || q->op->n_hidden ||
        !rungi_query_pass(q)->in_place || rungi_query_pass(q)->reads_in)
        return false;
    const rungi_tensor *t = &p->tensors.data[g];
    return t->kind == RUNGI_TENSOR_ARENA && t->root == g && !t->keep && rungi_plan_reads(p, g) == 1;
}

// The later step that takes tensor g as the gradient of its only output; 0: none.
static size_t taker_of(const rung_plan *p, size_t from, int g)
{
    for (size_t i = from + 1; i < p->steps.count; i++) {
        const rungi_query *q = &p->steps.data[i].q;
        if (q->pass == RUNGI_FORWARD || q->op->n_out != 1 || q->gout[0].buffer < 0)
            continue;
        const rungi_tensor *t = &p->tensors.data[q->gout[0].buffer];
        if (t->root == g && t->operand.layout == p->tensors.data[g].operand.layout &&
            rung_shape_equal(&t->operand.shape, &p->tensors.data[g].operand.shape))
            return i;
    }
    return 0;
}

// Step b with activation a before it, with or without a's output; false when out of memory.
static bool join(rung_plan *p, const rungi_query *a, const rungi_query *b, bool with_output,
                 rungi_query *out)
{
    rungi_fused *fused = rungi_plan_block(p, sizeof *fused);
    rungi_operand *result = rungi_plan_block(p, sizeof *result);
    if (!fused || !result)
        return false;
    *result = a->out[0];
    if (!with_output)
        result->buffer = -1;
    *fused = (rungi_fused){a->op, a->attr, a->node, a->in, a->n_in, result};
    *out = *b;
    out->fused = fused;
    out->n_fused = 1;
    out->gout = a->gout;
    return true;
}

// Joins the steps if the kernel that would run b can do it so.
static rung_status try_join(rung_plan *p, const rungi_query *a, const rungi_query *b,
                            rungi_query *joined, bool *can_out)
{
    const rung_graph *g = p->graph;
    rungi_device_kind kind = p->device->backend->kind;
    rungi_policy policy = rungi_plan_policy(p);
    struct rungi_halves halves;
    const rungi_kernel *alone = rungi_halves_choose(b, kind, policy, NULL, &halves);
    bool made_of_b = g->nodes.data[a->node].in[0] == g->nodes.data[b->node].out[0];
    *can_out = false;
    for (int with = !made_of_b; with < 2 && !*can_out; with++) {
        RUNG_CHECK(join(p, a, b, with, joined), RUNG_NO_MEMORY, "no memory for a plan");
        const rungi_kernel *kernel = rungi_halves_choose(joined, kind, policy, NULL, &halves);
        *can_out = kernel && kernel == alone && kernel->kind != RUNGI_REFERENCE;
    }
    return RUNG_OK;
}

// ---- poolings ---------------------------------------------------------------------------------

enum { TAKERS = 4 };

// Steps that read the result g of a pooling's backward at `from`, as the gradient of their only
// output; 0: one of them is another kind of step, or there are too many.
static int takers_of(const rung_plan *p, size_t from, int g, size_t takers[TAKERS])
{
    const rungi_tensor *t = &p->tensors.data[g];
    int n = 0, reads = rungi_plan_reads(p, g);
    if (t->kind != RUNGI_TENSOR_ARENA || t->root != g || t->keep)
        return 0;
    for (size_t i = taker_of(p, from, g); i && n < TAKERS; i = taker_of(p, i, g))
        takers[n++] = i;
    return n == reads ? n : 0;
}

// Step b with pooling a before it, of whose outputs it reads what a's backward does.
static bool join_pooling(rung_plan *p, const rungi_query *a, const rungi_query *b, rungi_query *out)
{
    const rungi_operand *places = NULL;
    for (int i = 0; i < a->n_out; i++)
        if (a->out[i].buffer >= 0)
            places = &a->out[i];
    rungi_fused *fused = rungi_plan_block(p, sizeof *fused);
    if (!fused || !places)
        return false;
    *fused = (rungi_fused){a->op, a->attr, a->node, a->in, a->n_in, places};
    *out = *b;
    out->fused = fused;
    out->n_fused = 1;
    out->gout = a->gout;
    return true;
}

static rung_status try_pooling(rung_plan *p, size_t index, bool *done_out)
{
    rungi_device_kind kind = p->device->backend->kind;
    const rungi_query *a = &p->steps.data[index].q;
    rungi_query joined[TAKERS];
    size_t takers[TAKERS];
    *done_out = false;
    if (a->pass == RUNGI_FORWARD || !a->op->joins || a->gin[0].buffer < 0)
        return RUNG_OK;
    int n = takers_of(p, index, a->gin[0].buffer, takers);
    for (int i = 0; i < n; i++) {
        const rungi_query *b = &p->steps.data[takers[i]].q;
        struct rungi_halves halves, alone;
        if (b->n_fused)
            return RUNG_OK;
        RUNG_CHECK(join_pooling(p, a, b, &joined[i]), RUNG_NO_MEMORY, "no memory for a plan");
        const rungi_kernel *kernel =
            rungi_halves_choose(&joined[i], kind, rungi_plan_policy(p), NULL, &halves);
        if (!kernel || kernel->kind == RUNGI_REFERENCE || halves.kernel ||
            kernel != rungi_halves_choose(b, kind, rungi_plan_policy(p), NULL, &alone))
            return RUNG_OK;
    }
    for (int i = 0; i < n; i++)
        p->steps.data[takers[i]].q = joined[i];
    *done_out = n > 0;
    return RUNG_OK;
}

rung_status rungi_plan_fuse_backward(rung_plan *p)
{
    for (size_t i = (size_t)p->n_forward; i < p->steps.count; i++) {
        bool done;
        RUNG_TRY(try_pooling(p, i, &done));
        if (done)
            rungi_plan_remove_step(p, i--);
    }
    for (size_t i = (size_t)p->n_forward; i < p->steps.count; i++) {
        const rungi_step *a = &p->steps.data[i];
        if (!is_activation(p, a))
            continue;
        size_t taker = taker_of(p, i, a->q.gin[0].buffer);
        if (!taker || p->steps.data[taker].q.n_fused)
            continue;
        rungi_query joined;
        bool can;
        RUNG_TRY(try_join(p, &a->q, &p->steps.data[taker].q, &joined, &can));
        if (!can)
            continue;
        p->steps.data[taker].q = joined;
        rungi_plan_remove_step(p, i--);
    }
    return RUNG_OK;
}
