// SPDX-License-Identifier: Apache-2.0
// Sums by channel (`plan.fuse`): a kernel that can sum its output while that is in its cache leaves
// the sums for the normalization that reads it, which then need not read it for them:
//
//     x -> [ conv2d ] -> image -> [ batch_norm: sums of image; normalizes image ] -> y
//     x -> [ conv2d ] -> image, sums -> [ batch_norm: normalizes image ] -> y
//
// The kernels are those that were chosen without it: where the image comes from one that cannot do
// it (a library's, or one that is given copies of 16 bits), or from another plan, the normalization
// sums for itself. So it does when backward does it once more with what it had kept.
#include "base/error.h"
#include "graph/plan.h"
#include "ops/channel_sums.h"

// The forward step before `reader` whose output 0 is that tensor, and which can leave its sums.
static rungi_step *summing_step(rung_plan *p, size_t reader, int tensor, int64_t *parts_out)
{
    for (size_t i = reader; i-- > 0;) {
        rungi_step *s = &p->steps.data[i];
        if (s->q.out[0].buffer != tensor)
            continue;
        bool able =
            s->kernel->sum_parts && !s->q.halves && !s->q.sums_out && s->q.out[0].dtype == RUNG_F32;
        *parts_out = able ? s->kernel->sum_parts(&s->q) : 0;
        return *parts_out ? s : NULL;
    }
    return NULL;
}

static bool takes_sums(const rungi_step *s)
{
    return s->kernel->takes_sums && !s->q.halves && s->q.in[0].buffer >= 0 &&
           s->kernel->takes_sums(&s->q);
}

rung_status rungi_plan_sums(rung_plan *p)
{
    for (size_t i = 1; i < (size_t)p->n_forward; i++) {
        rungi_query *q = &p->steps.data[i].q;
        int64_t parts;
        rungi_step *from =
            takes_sums(&p->steps.data[i]) ? summing_step(p, i, q->in[0].buffer, &parts) : NULL;
        if (!from)
            continue;
        int64_t size = rungi_channel_sums_size(parts, q->in[0].shape.dim[1]);
        rungi_tensor t = {.kind = RUNGI_TENSOR_ARENA};
        t.operand = (rungi_operand){.dtype = RUNG_F32, .shape = {.rank = 1, .dim = {size}}};
        int sums = rungi_plan_tensor(p, &t);
        rungi_operand *operand = rungi_plan_block(p, sizeof *operand);
        RUNG_CHECK(sums >= 0 && operand, RUNG_NO_MEMORY, "no memory for a plan");
        *operand = p->tensors.data[sums].operand;
        from->q.sums_out = q->sums_in = operand;
    }
    return RUNG_OK;
}
