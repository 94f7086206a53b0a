// SPDX-License-Identifier: Apache-2.0
#include "train/session_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "train/session_stages.h"

// ---- saving -----------------------------------------------------------------------------------

void rungi_sources_fini(rungi_sources *s)
{
    for (size_t i = 0; i < s->names.count; i++)
        free(s->names.data[i]);
    rungi_array_fini(&s->names);
    rungi_array_fini(&s->list);
}

rung_status rungi_sources_add(rungi_sources *s, const char *name, rung_dtype dtype,
                              const rung_shape *shape, const void *data)
{
    rungi_safetensors_source source = {.name = name, .dtype = dtype, .shape = *shape, .data = data};
    RUNG_CHECK(rungi_array_push(&s->list, source), RUNG_NO_MEMORY, "no memory for a checkpoint");
    return RUNG_OK;
}

// "conv1.weight.momentum_buffer" on the heap, kept with the sources.
static const char *state_name(rungi_sources *s, const char *parameter, const char *state)
{
    char *name = rungi_text_format("%s.%s", parameter, state);
    if (name && !rungi_array_push(&s->names, name)) {
        free(name);
        return NULL;
    }
    return name;
}

rung_status rungi_sources_add_state(rungi_sources *s, const char *parameter, const char *state,
                                    const rung_shape *shape, const float *data)
{
    const char *name = state_name(s, parameter, state);
    RUNG_CHECK(name, RUNG_NO_MEMORY, "no memory for a checkpoint");
    return rungi_sources_add(s, name, RUNG_F32, shape, data);
}

rung_status rungi_session_model(const rungi_session *s, rungi_sources *out)
{
    if (s->stages)
        return rungi_session_stages_model(s, out);
    for (int i = 0; i < rung_state_count(s->state); i++) {
        rung_state_entry e = rung_state_at(s->state, i);
        RUNG_TRY(rungi_sources_add(out, e.name, e.dtype, &e.shape, e.data));
    }
    return RUNG_OK;
}

// Of this rank's own parameters.
static rung_status own_optimizer(const rungi_session *s, rungi_sources *out)
{
    for (int k = 0; k < rung_optimizer_state_count(s->optimizer); k++)
        for (int64_t i = 0; i < s->n_segments; i++) {
            rung_state_entry e;
            rung_state_find(s->state, s->segments[i].name, &e);
            RUNG_TRY(rungi_sources_add_state(
                out, s->segments[i].name, rung_optimizer_state_name(s->optimizer, k), &e.shape,
                rungi_session_optimizer_state(s, k) + s->segments[i].begin));
        }
    return RUNG_OK;
}

rung_status rungi_session_optimizer(const rungi_session *s, rungi_sources *out)
{
    return s->stages ? rungi_session_stages_optimizer(s, out) : own_optimizer(s, out);
}

// ---- loading ----------------------------------------------------------------------------------

rung_status rungi_session_load_model(rungi_session *s, rungi_checkpoint *checkpoint)
{
    rung_safetensors *file = rungi_checkpoint_tensors(checkpoint, RUNGI_CHECKPOINT_MODEL);
    RUNG_CHECK(file, RUNG_FORMAT, "%s has no " RUNGI_CHECKPOINT_MODEL,
               rungi_checkpoint_path(checkpoint));
    for (int i = 0; i < rung_state_count(s->state); i++) {
        rung_state_entry e = rung_state_at(s->state, i);
        rung_view view = {e.dtype, e.shape, e.data};
        if (rung_safetensors_load(file, e.name, &view, NULL) != RUNG_OK)
            return rungi_fail_prefix("%s", rungi_checkpoint_path(checkpoint));
    }
    return RUNG_OK;
}

rung_status rungi_session_load_optimizer(rungi_session *s, rungi_checkpoint *checkpoint)
{
    rung_safetensors *file = rungi_checkpoint_tensors(checkpoint, RUNGI_CHECKPOINT_OPTIMIZER);
    RUNG_CHECK(file, RUNG_FORMAT,
               "%s has no " RUNGI_CHECKPOINT_OPTIMIZER
               ": it holds weights only and training cannot be resumed from it",
               rungi_checkpoint_path(checkpoint));
    rungi_sources wanted = {0};
    RUNG_TRY(rungi_session_join_optimizer(s, false));
    rung_status status = own_optimizer(s, &wanted);
    for (size_t i = 0; status == RUNG_OK && i < wanted.list.count; i++) {
        const rungi_safetensors_source *w = &wanted.list.data[i];
        rung_view view = {w->dtype, w->shape, (void *)w->data};
        status = rung_safetensors_load(file, w->name, &view, NULL);
        if (status != RUNG_OK)
            rungi_fail_prefix("%s: %s", rungi_checkpoint_path(checkpoint),
                              RUNGI_CHECKPOINT_OPTIMIZER);
    }
    rungi_sources_fini(&wanted);
    rungi_session_part_optimizer(s, status == RUNG_OK);
    return status;
}
