// SPDX-License-Identifier: Apache-2.0
// Steps that add the gradients of several replicas while they use them.
#include <math.h>

#include "base/error.h"
#include "optim/optimizer.h"

void rungi_optimizer_use_replicas(rung_optimizer *opt, const rungi_optim_replicas *replicas)
{
    opt->replicas = replicas;
}

bool rungi_optimizer_takes_replicas(const rung_optimizer_update *u)
{
    return !rungi_optimizer_needs_all(u) && !u->measure && !u->low;
}

// Elements [begin, end) of a segment.
static rung_status look(const rung_optimizer *opt, const rungi_optim_segment *segment,
                        int64_t begin, int64_t end)
{
    float sums[RUNGI_OPTIM_BLOCK];
    opt->replicas->add(opt->replicas->user, begin, end - begin, sums);
    for (int64_t i = begin; i < end; i++)
        if (!isfinite(sums[i - begin]))
            return rungi_optimizer_fail_element(segment, i, sums[i - begin]);
    return RUNG_OK;
}

rung_status rungi_optimizer_look_at_replicas(const rung_optimizer *opt)
{
    for (int64_t i = 0; i < opt->segment_count; i++) {
        const rungi_optim_segment *s = &opt->segments[i];
        int64_t at = s->begin > opt->part_begin ? s->begin : opt->part_begin;
        int64_t end = s->end < opt->part_end ? s->end : opt->part_end;
        for (; at < end && !s->frozen; at += RUNGI_OPTIM_BLOCK)
            RUNG_TRY(look(opt, s, at, end - at < RUNGI_OPTIM_BLOCK ? end : at + RUNGI_OPTIM_BLOCK));
    }
    return RUNG_OK; // it lies in padding that a run bridges
}
