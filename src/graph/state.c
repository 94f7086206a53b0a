// SPDX-License-Identifier: Apache-2.0
#include "graph/state.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/device.h"

enum { ALIGN_FLOATS = 16, ALIGN_BYTES = 64 };

// Fills entries in order of definition and their element counts.
static rung_status collect(rung_state *s)
{
    const rung_graph *g = s->graph;
    size_t n = g->values.count;
    s->entries = calloc(n, sizeof *s->entries);
    s->entry_of = calloc(n, sizeof *s->entry_of);
    s->flat_order = calloc(n, sizeof *s->flat_order);
    RUNG_CHECK(s->entries && s->entry_of && s->flat_order, RUNG_NO_MEMORY,
               "no memory for the state's table");
    for (size_t i = 0; i < n; i++) {
        const rungi_value *v = &g->values.data[i];
        s->entry_of[i] = -1;
        if (v->kind != RUNGI_VALUE_PARAM && v->kind != RUNGI_VALUE_BUFFER)
            continue;
        rungi_entry *e = &s->entries[s->n_entries];
        e->value = (int)i;
        e->offset = -1;
        if (rung_shape_count(&v->shape, &e->count) != RUNG_OK)
            return rungi_fail_prefix("parameter %s", v->name);
        s->entry_of[i] = s->n_entries++;
    }
    return RUNG_OK;
}

// Order of the flat buffer: reverse order of first use; parameters nobody uses come last.
static void order_params(rung_state *s)
{
    const rung_graph *g = s->graph;
    int used = 0;
    bool *seen = calloc((size_t)s->n_entries + 1, sizeof *seen);
    if (!seen)
        return;
    for (size_t k = 0; k < g->nodes.count; k++)
        for (int i = 0; i < g->nodes.data[k].n_in; i++) {
            int entry = s->entry_of[g->nodes.data[k].in[i]];
            if (entry < 0 || seen[entry] ||
                g->values.data[s->entries[entry].value].kind != RUNGI_VALUE_PARAM)
                continue;
            seen[entry] = true;
            s->flat_order[used++] = entry;
        }
    for (int i = 0; i < used / 2; i++) {
        int other = s->flat_order[used - 1 - i];
        s->flat_order[used - 1 - i] = s->flat_order[i];
        s->flat_order[i] = other;
    }
    for (int i = 0; i < s->n_entries; i++)
        if (!seen[i] && g->values.data[s->entries[i].value].kind == RUNGI_VALUE_PARAM)
            s->flat_order[used++] = i;
    s->n_params = used;
    free(seen);
}

static void place(rung_state *s)
{
    for (int i = 0; i < s->n_params; i++) {
        rungi_entry *e = &s->entries[s->flat_order[i]];
        e->offset = s->flat_size;
        s->flat_size += (e->count + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
    }
    for (int i = 0; i < s->n_entries; i++) {
        rungi_entry *e = &s->entries[i];
        const rungi_value *v = &s->graph->values.data[e->value];
        if (v->kind != RUNGI_VALUE_BUFFER)
            continue;
        e->offset = s->buffer_bytes;
        int64_t bytes = e->count * (int64_t)rung_dtype_size(v->dtype);
        s->buffer_bytes += (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    }
}

rung_status rungi_state_describe(const rung_graph *graph, rung_device *device,
                                 rung_state **state_out)
{
    RUNG_TRY(rung_graph_check(graph));
    rung_state *s = calloc(1, sizeof *s);
    RUNG_CHECK(s, RUNG_NO_MEMORY, "no memory for a state");
    s->graph = graph;
    s->device = device;
    rung_status status = collect(s);
    if (status != RUNG_OK) {
        rung_state_destroy(&s);
        return status;
    }
    order_params(s);
    place(s);
    *state_out = s;
    return RUNG_OK;
}

rung_status rung_state_create(const rung_graph *graph, rung_device *device, rung_state **state_out)
{
    rung_state *s;
    rung_status status;
    RUNG_TRY(rungi_state_describe(graph, device, &s));
    uint64_t bytes = (uint64_t)s->flat_size * sizeof(float);
    RUNG_TRY_GOTO(undo,
                  rungi_device_alloc_zero(device, bytes, "parameters", (void **)&s->own_params));
    RUNG_TRY_GOTO(undo,
                  rungi_device_alloc_zero(device, bytes, "gradients", (void **)&s->own_grads));
    RUNG_TRY_GOTO(undo, rungi_device_alloc_zero(device, (uint64_t)s->buffer_bytes, "buffers",
                                                (void **)&s->buffers));
    s->params = s->own_params;
    s->grads = s->own_grads;
    *state_out = s;
    return RUNG_OK;
undo:
    rung_state_destroy(&s);
    return status;
}

void rungi_state_lend_grads(rung_state *s, float *grads)
{
    rungi_device_free_now(s->device, s->own_grads);
    s->own_grads = NULL;
    s->grads = grads;
}

void rungi_state_lend_params(rung_state *s, float *params)
{
    memcpy(params, s->params, (size_t)s->flat_size * sizeof *params);
    rungi_device_free_now(s->device, s->own_params);
    s->own_params = NULL;
    s->params = params;
}

void rung_state_destroy(rung_state **state)
{
    if (!state || !*state)
        return;
    rung_state *s = *state;
    rung_device_free(s->device, s->own_params);
    rung_device_free(s->device, s->own_grads);
    rung_device_free(s->device, s->buffers);
    free(s->entries);
    free(s->entry_of);
    free(s->flat_order);
    free(s);
    *state = NULL;
}

int rung_state_count(const rung_state *state)
{
    return state->n_entries;
}

rung_state_entry rung_state_at(const rung_state *state, int index)
{
    const rungi_entry *e = &state->entries[index];
    const rungi_value *v = &state->graph->values.data[e->value];
    rung_state_entry out = {.name = v->name, .dtype = v->dtype, .shape = v->shape};
    out.buffer = v->kind == RUNGI_VALUE_BUFFER;
    out.trainable = !out.buffer && !v->frozen;
    out.no_decay = v->param.no_decay;
    out.data = out.buffer ? (void *)(state->buffers + e->offset) : state->params + e->offset;
    out.grad = out.trainable ? state->grads + e->offset : NULL;
    return out;
}

bool rung_state_find(const rung_state *state, const char *name, rung_state_entry *entry_out)
{
    for (int i = 0; i < state->n_entries; i++)
        if (strcmp(state->graph->values.data[state->entries[i].value].name, name) == 0) {
            *entry_out = rung_state_at(state, i);
            return true;
        }
    return false;
}

int64_t rung_state_param_count(const rung_state *state)
{
    int64_t count = 0;
    for (int i = 0; i < state->n_params; i++)
        count += state->entries[state->flat_order[i]].count;
    return count;
}

float *rung_state_params(const rung_state *state, int64_t *size_out)
{
    *size_out = state->flat_size;
    return state->params;
}

float *rung_state_grads(const rung_state *state, int64_t *size_out)
{
    *size_out = state->flat_size;
    return state->grads;
}
