// SPDX-License-Identifier: Apache-2.0
// Fusion pass (`plan.fuse`): an elementwise forward step is merged into the step that produces its
// input, when nobody else reads that value and a kernel of the producer says it can apply it before
// storing. Backward stays as it is: it reads only what is still stored. The merged step stands
// where the elementwise one stood, since that may read what is made in between (a residual).
//
// So is a pooling step (rungi_op.joins), whose hidden output, the places of the maxima, becomes one
// of the merged step:
//
//     x -> [ conv2d ] -> image -> [ max_pool2d ] -> y, places -> [ relu ] -> z
//     x -> [ conv2d + max_pool2d + relu ] -> z, places
#include <string.h>

#include "base/error.h"
#include "graph/plan.h"
#include "ops/halves.h"

typedef struct count_reads {
    const rung_plan *p;
    int root;
    int reads;
} count_reads;

static void count_read(void *user, const rungi_operand *operand, bool write)
{
    count_reads *c = user;
    if (!write && c->p->tensors.data[operand->buffer].root == c->root)
        c->reads++;
}

int rungi_plan_reads(const rung_plan *p, int tensor)
{
    count_reads c = {p, p->tensors.data[tensor].root, 0};
    for (size_t i = 0; i < p->steps.count; i++)
        rungi_step_operands(&p->steps.data[i], count_read, &c);
    return c.reads;
}

// The fused form of producer `a` and elementwise step `b`, as a query; false when out of memory.
static bool join(rung_plan *p, const rungi_query *a, const rungi_query *b, rungi_query *out)
{
    *out = *a;
    rungi_fused *list = rungi_plan_block(p, sizeof(rungi_fused) * (size_t)(a->n_fused + 1));
    int hidden = b->n_out - b->op->n_out;
    rungi_operand *results =
        rungi_plan_block(p, sizeof(rungi_operand) * (size_t)(a->n_out + hidden));
    if (!list || !results)
        return false;
    if (a->n_fused)
        memcpy(list, a->fused, sizeof(rungi_fused) * (size_t)a->n_fused);
    list[a->n_fused] = (rungi_fused){b->op, b->attr, b->node, b->in, b->n_in, b->out};
    memcpy(results, a->out, sizeof(rungi_operand) * (size_t)a->n_out);
    results[0] = b->out[0];
    memcpy(results + a->n_out, b->out + b->op->n_out, sizeof(rungi_operand) * (size_t)hidden);
    out->fused = list;
    out->n_fused = a->n_fused + 1;
    out->out = results;
    out->n_out = a->n_out + hidden;
    return true;
}

// Can step b be merged into the earlier step a?
static bool may_join(const rung_plan *p, const rungi_step *a, const rungi_step *b)
{
    const rungi_query *qa = &a->q, *qb = &b->q;
    int between = qa->out[0].buffer;
    bool elementwise = qb->op->layouts == RUNGI_LAYOUTS_SAME && qb->op->forward.in_place;
    if ((!elementwise && !qb->op->joins) || qb->n_in < 1 || qb->in[0].buffer != between ||
        between < 0)
        return false;
    for (int i = qb->op->n_out; i < qb->n_out && elementwise; i++)
        if (qb->out[i].buffer >= 0)
            return false; // it keeps something of its own
    const rungi_tensor *t = &p->tensors.data[between];
    return t->kind == RUNGI_TENSOR_ARENA && t->root == between && !t->keep &&
           qb->out[0].dtype == qa->out[0].dtype && rungi_plan_reads(p, between) == 1;
}

static size_t producer_of(const rung_plan *p, size_t reader, int tensor)
{
    for (size_t i = reader; i-- > 0;)
        if (p->steps.data[i].q.out[0].buffer == tensor)
            return i;
    return reader;
}

// The kernel that would do a step as it is.
static const rungi_kernel *chosen(const rung_plan *p, const rungi_query *q)
{
    struct rungi_halves halves;
    return rungi_halves_choose(q, p->device->backend->kind, rungi_plan_policy(p), NULL, &halves);
}

rung_status rungi_plan_fuse(rung_plan *p)
{
    rungi_policy policy = rungi_plan_policy(p);
    for (size_t i = 1; i < (size_t)p->n_forward; i++) {
        const rungi_step *step = &p->steps.data[i];
        if (step->q.n_in < 1 || step->q.in[0].buffer < 0)
            continue;
        size_t before = producer_of(p, i, step->q.in[0].buffer);
        if (before == i || !may_join(p, &p->steps.data[before], step))
            continue;
        rungi_query joined;
        RUNG_CHECK(join(p, &p->steps.data[before].q, &step->q, &joined), RUNG_NO_MEMORY,
                   "no memory for a plan");
        struct rungi_halves halves;
        const rungi_kernel *kernel =
            rungi_halves_choose(&joined, p->device->backend->kind, policy, NULL, &halves);
        if (!kernel || kernel->kind == RUNGI_REFERENCE)
            continue;
        if (step->q.op->joins && (halves.kernel || kernel != chosen(p, &p->steps.data[before].q)))
            continue;
        p->steps.data[i].q = joined;
        rungi_plan_remove_step(p, before);
        i--;
    }
    return RUNG_OK;
}
