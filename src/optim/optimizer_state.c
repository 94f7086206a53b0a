// SPDX-License-Identifier: Apache-2.0
// An optimizer for the parameters of a state.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph/graph.h"
#include "graph/state.h"
#include "rung/optim.h"

static int by_begin(const void *a, const void *b)
{
    int64_t x = ((const rung_segment *)a)->begin, y = ((const rung_segment *)b)->begin;
    return (x > y) - (x < y);
}

// Does the graph's loss not depend on it? A graph without a loss leaves that open.
static bool is_unused(const rung_state *state, const char *name)
{
    enum { ROOM = 1024 };

    const char *names[ROOM];
    int count = state->graph->loss ? rung_graph_unused(state->graph, names, ROOM) : 0;
    for (int i = 0; i < count && i < ROOM; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

rung_status rung_optimizer_for_state(const rung_context *context,
                                     const rung_optimizer_options *options, const rung_state *state,
                                     rung_optimizer **optimizer_out)
{
    static const rung_param_group no_decay = {.lr_multiplier = 1, .weight_decay = 0};
    RUNG_CHECK(options->group_count == 0, RUNG_INVALID,
               "rung_optimizer_for_state makes the groups itself: give none");
    int count = rung_state_count(state);
    int64_t size, n = 0;
    const float *params = rung_state_params(state, &size);
    rung_segment *segments = calloc((size_t)count + 1, sizeof *segments);
    RUNG_CHECK(segments, RUNG_NO_MEMORY, "no memory for an optimizer");
    rung_status status = RUNG_OK;
    for (int i = 0; i < count && status == RUNG_OK; i++) {
        rung_state_entry e = rung_state_at(state, i);
        int64_t elements;
        if (e.buffer)
            continue;
        status = rung_shape_count(&e.shape, &elements);
        if (status != RUNG_OK)
            break;
        int64_t begin = (const float *)e.data - params;
        segments[n++] = (rung_segment){.name = e.name,
                                       .begin = begin,
                                       .end = begin + elements,
                                       .group = e.no_decay,
                                       .frozen = !e.trainable || is_unused(state, e.name)};
    }
    qsort(segments, (size_t)n, sizeof *segments, by_begin);
    rung_optimizer_options o = *options;
    o.groups = &no_decay;
    o.group_count = 1;
    if (status == RUNG_OK)
        status = rung_optimizer_create(context, &o, segments, n, optimizer_out);
    free(segments);
    return status;
}
