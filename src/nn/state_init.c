// SPDX-License-Identifier: Apache-2.0
// Initial values of a state. (Apart from state.c because distributions belong to nn.)
#include "base/error.h"
#include "graph/state.h"
#include "nn/init.h"

static void fill_buffer(const rung_state_entry *e, int64_t count, double initial)
{
    for (int64_t i = 0; i < count; i++)
        rung_convert(e->dtype, (char *)e->data + (size_t)i * rung_dtype_size(e->dtype), RUNG_F64,
                     &initial, 1, NULL);
}

rung_status rung_state_init(rung_state *state, uint64_t seed)
{
    int threads = rung_device_threads(state->device);
    for (int i = 0; i < state->n_entries; i++) {
        const rungi_value *v = &state->graph->values.data[state->entries[i].value];
        rung_state_entry e = rung_state_at(state, i);
        int64_t count = state->entries[i].count;
        if (e.buffer)
            fill_buffer(&e, count, v->initial);
        else if (rungi_init_fill(&v->param.init, &v->shape, seed, v->key, 0, count, threads,
                                 e.data) != RUNG_OK)
            return rungi_fail_prefix("parameter %s", e.name);
    }
    return RUNG_OK;
}
