// SPDX-License-Identifier: Apache-2.0
// What all stages have, brought to rank 0 for a checkpoint.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "train/session_stages.h"

typedef struct rungi_stage_tensors {
    rungi_part part;
    rung_state *state; // of other ranks: a table whose values lie in `params` and `buffers`
    float *params, *grads;
    char *buffers;
    float *optimizer[RUNG_OPTIMIZER_STATES];
    int64_t *steps; // of the optimizer, by parameter in the order of the flat buffer
} rungi_stage_tensors;

static rung_status own_steps(const rungi_session *s, int64_t **steps_out)
{
    int64_t *steps = calloc((size_t)s->n_segments + 1, sizeof *steps);
    RUNG_CHECK(steps, RUNG_NO_MEMORY, "no memory for a checkpoint");
    for (int64_t i = 0; i < s->n_segments; i++)
        steps[i] = rung_optimizer_steps(s->optimizer, i);
    *steps_out = steps;
    return RUNG_OK;
}

static rung_status give(rungi_session *s, bool gradients)
{
    const rung_state *state = s->state;
    uint64_t flat = (uint64_t)state->flat_size * sizeof(float);
    int64_t *steps = NULL;
    RUNG_TRY(rungi_comm_send(s->comm, state->params, flat, 0, "parameters of a stage"));
    RUNG_TRY(rungi_comm_send(s->comm, state->buffers, (uint64_t)state->buffer_bytes, 0,
                             "buffers of a stage"));
    for (int k = 0; k < rung_optimizer_state_count(s->optimizer); k++)
        RUNG_TRY(rungi_comm_send(s->comm, rung_optimizer_state_data(s->optimizer, k), flat, 0,
                                 "optimizer state of a stage"));
    RUNG_TRY(own_steps(s, &steps));
    rung_status status = rungi_comm_send(s->comm, steps, (uint64_t)s->n_segments * sizeof *steps, 0,
                                         "optimizer steps of a stage");
    free(steps);
    RUNG_TRY(status);
    return gradients ? rungi_comm_send(s->comm, state->grads, flat, 0, "gradients of a stage")
                     : RUNG_OK;
}

static rung_status receive(rungi_session *s, uint64_t bytes, int from, const char *what,
                           void **data_out)
{
    *data_out = calloc(1, bytes + 1);
    RUNG_CHECK(*data_out, RUNG_NO_MEMORY, "no memory for a checkpoint");
    return rungi_comm_receive(s->comm, *data_out, bytes, from, what);
}

static rung_status take(rungi_session *s, int rank, bool gradients, rungi_stage_tensors *t)
{
    const rungi_stage_info *info = &s->stages->info[rank];
    RUNG_TRY(rungi_part_create(s->stages->whole, info->begin, info->end, true, &t->part));
    RUNG_TRY(rungi_state_describe(t->part.graph, s->device, &t->state));
    uint64_t flat = (uint64_t)t->state->flat_size * sizeof(float);
    RUNG_TRY(receive(s, flat, rank, "parameters of a stage", (void **)&t->params));
    RUNG_TRY(receive(s, (uint64_t)t->state->buffer_bytes, rank, "buffers of a stage",
                     (void **)&t->buffers));
    for (int k = 0; k < rung_optimizer_state_count(s->optimizer); k++)
        RUNG_TRY(receive(s, flat, rank, "optimizer state of a stage", (void **)&t->optimizer[k]));
    RUNG_TRY(receive(s, (uint64_t)t->state->n_params * sizeof *t->steps, rank,
                     "optimizer steps of a stage", (void **)&t->steps));
    if (gradients)
        RUNG_TRY(receive(s, flat, rank, "gradients of a stage", (void **)&t->grads));
    t->state->grads = t->grads;
    t->state->params = t->params;
    t->state->buffers = t->buffers;
    return RUNG_OK;
}

rung_status rungi_session_join_stages(rungi_session *s, bool gradients)
{
    if (s->rank)
        return give(s, gradients);
    rungi_stage_tensors *all = calloc((size_t)s->ranks, sizeof *all);
    RUNG_CHECK(all, RUNG_NO_MEMORY, "no memory for a checkpoint");
    s->stages->tensors = all;
    all[0].state = s->state;
    for (int k = 0; k < rung_optimizer_state_count(s->optimizer); k++)
        all[0].optimizer[k] = rung_optimizer_state_data(s->optimizer, k);
    RUNG_TRY(own_steps(s, &all[0].steps));
    for (int r = 1; r < s->ranks; r++)
        RUNG_TRY(take(s, r, gradients, &all[r]));
    return RUNG_OK;
}

void rungi_session_part_stages(rungi_session *s)
{
    rungi_stage_tensors *all = s->stages->tensors;
    for (int r = 0; all && r < s->ranks; r++) {
        rungi_stage_tensors *t = &all[r];
        free(t->steps);
        if (r == 0)
            continue;
        if (t->state) { // which does not own what it shows
            t->state->params = NULL;
            t->state->buffers = NULL;
        }
        rung_state_destroy(&t->state);
        rungi_part_fini(&t->part);
        free(t->params);
        free(t->grads);
        free(t->buffers);
        for (int k = 0; k < RUNG_OPTIMIZER_STATES; k++)
            free(t->optimizer[k]);
    }
    free(all);
    s->stages->tensors = NULL;
}

bool rungi_session_stages_find(const rungi_session *s, const char *name, rung_state_entry *out)
{
    for (int r = 0; r < s->ranks; r++)
        if (rung_state_find(s->stages->tensors[r].state, name, out))
            return true;
    return false;
}

rung_status rungi_session_stages_model(const rungi_session *s, rungi_sources *out)
{
    const rung_graph *g = s->stages->whole;
    for (size_t i = 1; i < g->values.count; i++) {
        const rungi_value *v = &g->values.data[i];
        rung_state_entry e;
        if (v->kind != RUNGI_VALUE_PARAM && v->kind != RUNGI_VALUE_BUFFER)
            continue;
        RUNG_CHECK(rungi_session_stages_find(s, v->name, &e), RUNG_INTERNAL, "no stage has %s",
                   v->name);
        RUNG_TRY(rungi_sources_add(out, e.name, e.dtype, &e.shape, e.data));
    }
    return RUNG_OK;
}

rung_status rungi_session_stages_optimizer(const rungi_session *s, rungi_sources *out)
{
    for (int k = 0; k < rung_optimizer_state_count(s->optimizer); k++)
        for (int r = s->ranks - 1; r >= 0; r--) {
            const rungi_stage_tensors *t = &s->stages->tensors[r];
            for (int i = 0; i < t->state->n_params; i++) {
                const rungi_entry *e = &t->state->entries[t->state->flat_order[i]];
                const rungi_value *v = &t->state->graph->values.data[e->value];
                RUNG_TRY(rungi_sources_add_state(out, v->name,
                                                 rung_optimizer_state_name(s->optimizer, k),
                                                 &v->shape, t->optimizer[k] + e->offset));
            }
        }
    return RUNG_OK;
}

void rungi_session_stages_steps(const rungi_session *s, json_t *steps)
{
    for (int r = s->ranks - 1; r >= 0; r--) {
        const rungi_stage_tensors *t = &s->stages->tensors[r];
        for (int i = 0; i < t->state->n_params; i++) {
            const rungi_entry *e = &t->state->entries[t->state->flat_order[i]];
            json_object_set_new(steps, t->state->graph->values.data[e->value].name,
                                json_integer(t->steps[i]));
        }
    }
}
