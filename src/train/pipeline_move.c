// SPDX-License-Identifier: Apache-2.0
// Values and gradients at the cuts. Receives are posted early and sends are finished late, so that
// both go on while the stages compute.
#include "base/context.h"
#include "base/error.h"
#include "train/pipeline_inside.h"

static rung_status finish(rungi_pipeline *p, rungi_comm_call **call)
{
    rungi_timeline *t = p->e->options.timeline;
    if (t)
        rungi_timeline_begin(t, RUNGI_QUEUE_EXCHANGE, RUNGI_TIME_EXCHANGE,
                             (int64_t)p->e->batch->step);
    rung_status status = rungi_comm_finish(p->o.comm, call, NULL);
    if (t)
        rungi_timeline_end(t, RUNGI_QUEUE_EXCHANGE);
    return status;
}

// ---- sends ------------------------------------------------------------------------------------

static rung_status finish_send(rungi_pipeline *p, int index)
{
    rungi_comm_call *call = p->sends[index].call;
    for (int i = index; i + 1 < p->n_sends; i++)
        p->sends[i] = p->sends[i + 1];
    p->n_sends--;
    return finish(p, &call);
}

rung_status rungi_pipeline_finish_sends(rungi_pipeline *p, int slot, bool gradients)
{
    for (int i = 0; i < p->n_sends;)
        if (p->sends[i].gradient == gradients && (slot < 0 || p->sends[i].slot == slot))
            RUNG_TRY(finish_send(p, i));
        else
            i++;
    return RUNG_OK;
}

static const char *label(bool gradients)
{
    return gradients ? "gradients at a cut" : "values at a cut";
}

static rung_status send(rungi_pipeline *p, int slot, const void *data, uint64_t bytes,
                        bool gradient)
{
    if (p->n_sends == RUNGI_STAGE_SENDS)
        RUNG_TRY(finish_send(p, 0));
    rungi_stage_send *s = &p->sends[p->n_sends];
    *s = (rungi_stage_send){.slot = slot, .gradient = gradient};
    RUNG_TRY(rungi_comm_start_send(p->o.comm, data, bytes, gradient ? p->stage - 1 : p->stage + 1,
                                   label(gradient), &s->call));
    p->n_sends++;
    return RUNG_OK;
}

rung_status rungi_pipeline_send_outputs(rungi_pipeline *p, int micro)
{
    const rungi_part *part = p->o.part;
    const rungi_stage_slot *s = &p->slot[micro % p->used];
    for (int i = 0; i < part->n_out; i++) {
        int tensor = s->now->plan->value_tensor[part->out[i].part];
        RUNG_TRY(send(p, micro % p->used, s->instance->ptr[tensor],
                      rungi_pipeline_bytes(p, &part->out[i], s->now->count), false));
    }
    return RUNG_OK;
}

rung_status rungi_pipeline_send_gradients(rungi_pipeline *p, int micro)
{
    const rungi_part *part = p->o.part;
    const rungi_stage_slot *s = &p->slot[micro % p->used];
    for (int i = 0; i < part->n_in; i++) {
        if (!part->in[i].gradient)
            continue;
        int tensor = s->now->plan->input_grad[part->in[i].part];
        RUNG_CHECK(tensor >= 0, RUNG_INTERNAL, "%s: no gradient goes back across the cut",
                   part->in[i].name);
        RUNG_TRY(send(p, micro % p->used, s->instance->ptr[tensor],
                      rungi_pipeline_bytes(p, &part->in[i], s->now->count), true));
    }
    return RUNG_OK;
}

// ---- receives ---------------------------------------------------------------------------------

// Posts what crosses a cut from another stage into `data`, one value after the other.
static rung_status post(rungi_pipeline *p, const rungi_crossing *list, int n, bool gradients,
                        int64_t count, char *data, rungi_comm_call **calls)
{
    for (int i = 0; i < n; i++) {
        uint64_t bytes = rungi_pipeline_bytes(p, &list[i], count);
        if (gradients && !list[i].gradient)
            continue;
        RUNG_TRY(rungi_comm_start_receive(p->o.comm, data, bytes,
                                          gradients ? p->stage + 1 : p->stage - 1, label(gradients),
                                          &calls[i]));
        data += bytes;
    }
    return RUNG_OK;
}

static rung_status post_inputs(rungi_pipeline *p, int micro)
{
    const rungi_part *part = p->o.part;
    rungi_stage_slot *s = &p->slot[micro % p->used];
    if (s->received_for == micro || !part->n_in)
        return RUNG_OK;
    // What came in may have passed through, and may still be on its way.
    RUNG_TRY(rungi_pipeline_finish_sends(p, micro % p->used, false));
    s->received_for = micro;
    return post(p, part->in, part->n_in, false, rungi_pipeline_micro(p, micro).count, s->inputs,
                s->receives);
}

static rung_status post_seeds(rungi_pipeline *p, int micro)
{
    const rungi_part *part = p->o.part;
    int k = micro % RUNGI_STAGE_SEEDS;
    if (p->seeded_for[k] == micro || !part->n_out)
        return RUNG_OK;
    if (micro >= RUNGI_STAGE_SEEDS) // likewise
        RUNG_TRY(rungi_pipeline_finish_sends(p, (micro - RUNGI_STAGE_SEEDS) % p->used, true));
    p->seeded_for[k] = micro;
    return post(p, part->out, part->n_out, true, rungi_pipeline_micro(p, micro).count, p->seeds[k],
                p->seed_calls[k]);
}

rung_status rungi_pipeline_prefetch(rungi_pipeline *p)
{
    int next = p->forwards;
    bool free_slot = next < p->used || (p->training && p->backwards > next - p->used);
    if (next < p->active && free_slot && p->slot[next % p->used].received_for != next)
        RUNG_TRY(post_inputs(p, next));
    if (p->training && p->backwards < p->active && p->backwards < p->forwards)
        RUNG_TRY(post_seeds(p, p->backwards));
    return RUNG_OK;
}

// Waits for posted values and binds each to the tensor that `tensor_of` tells.
static rung_status take(rungi_pipeline *p, const rungi_crossing *list, int n, bool gradients,
                        const rungi_stage_slot *s, char *data, rungi_comm_call **calls)
{
    for (int i = 0; i < n; i++) {
        if (gradients && !list[i].gradient)
            continue;
        RUNG_TRY(finish(p, &calls[i]));
        int tensor = gradients ? rungi_plan_seed(s->now->plan, list[i].part)
                               : s->now->plan->value_tensor[list[i].part];
        if (tensor >= 0)
            rungi_instance_bind(s->instance, tensor, data);
        data += rungi_pipeline_bytes(p, &list[i], s->now->count);
    }
    return RUNG_OK;
}

rung_status rungi_pipeline_take_inputs(rungi_pipeline *p, int micro)
{
    const rungi_part *part = p->o.part;
    rungi_stage_slot *s = &p->slot[micro % p->used];
    RUNG_TRY(post_inputs(p, micro));
    return take(p, part->in, part->n_in, false, s, s->inputs, s->receives);
}

rung_status rungi_pipeline_take_seeds(rungi_pipeline *p, int micro)
{
    const rungi_part *part = p->o.part;
    int k = micro % RUNGI_STAGE_SEEDS;
    RUNG_TRY(post_seeds(p, micro));
    return take(p, part->out, part->n_out, true, &p->slot[micro % p->used], p->seeds[k],
                p->seed_calls[k]);
}

void rungi_pipeline_drop_calls(rungi_pipeline *p)
{
    while (p->n_sends > 0)
        rungi_comm_finish(p->o.comm, &p->sends[--p->n_sends].call, NULL);
    for (int k = 0; k < RUNGI_PIPELINE_MICRO; k++)
        for (int i = 0; p->slot[k].receives && i < p->o.part->n_in; i++)
            if (p->slot[k].receives[i])
                rungi_comm_finish(p->o.comm, &p->slot[k].receives[i], NULL);
    for (int k = 0; k < RUNGI_STAGE_SEEDS; k++)
        for (int i = 0; p->seed_calls[k] && i < p->o.part->n_out; i++)
            if (p->seed_calls[k][i])
                rungi_comm_finish(p->o.comm, &p->seed_calls[k][i], NULL);
}
