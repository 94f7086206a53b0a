// SPDX-License-Identifier: Apache-2.0
// Running statistics of a stage: once a micro-batch. Accumulated batches that are not cut move them
// once a step, with what has been kept of each round.
#include <string.h>

#include "base/error.h"
#include "train/pipeline_inside.h"

static bool once_a_step(const rungi_pipeline *p)
{
    return p->o.schedule == RUNGI_PIPELINE_NONE && p->active > 1;
}

static rung_status reserve(rungi_pipeline *p, size_t bytes)
{
    rung_device *device = p->e->state->device;
    if (bytes <= p->kept_bytes)
        return RUNG_OK;
    rung_device_free(device, p->kept);
    p->kept = NULL;
    p->kept_bytes = 0;
    RUNG_TRY(rung_device_alloc(device, bytes, "statistics of micro-batches", (void **)&p->kept));
    p->kept_bytes = bytes;
    return RUNG_OK;
}

rung_status rungi_pipeline_keep_statistics(rungi_pipeline *p, int micro)
{
    rungi_stage_slot *s = &p->slot[micro % p->used];
    rungi_stage_plan *x = s->now;
    size_t bytes = x->plan->kept_bytes;
    if (!bytes || !once_a_step(p))
        return rungi_instances_finish(&s->instance, 1);
    if (micro == 0)
        RUNG_TRY(reserve(p, bytes * (size_t)p->active));
    if (!x->remote[micro])
        RUNG_TRY(rungi_instance_create_remote(x->plan, &x->remote[micro]));
    char *at = p->kept + bytes * (size_t)micro;
    memcpy(at, s->instance->kept, bytes);
    rungi_instance_place_kept(x->remote[micro], at);
    return RUNG_OK;
}

rung_status rungi_pipeline_finish_statistics(rungi_pipeline *p)
{
    rungi_instance *all[RUNGI_MAX_SHARDS];
    rungi_stage_slot *s;
    if (!once_a_step(p))
        return RUNG_OK;
    for (int m = 0; m < p->active; m++) {
        RUNG_TRY(rungi_pipeline_slot(p, m, &s));
        if (!s->now->plan->kept_bytes)
            return RUNG_OK;
        all[m] = s->now->remote[m];
    }
    return rungi_instances_finish(all, p->active);
}
