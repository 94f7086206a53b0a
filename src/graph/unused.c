// SPDX-License-Identifier: Apache-2.0
// Which parameters the loss does not depend on, or in a part of a graph what follows: known from
// the graph, before anything runs.
#include <stdlib.h>

#include "base/error.h"
#include "graph/graph.h"

// Does the gradient of the node's output reach its input i?
static bool passes_back(const rungi_node *node, int i)
{
    if (node->op->view)
        return i == 0;
    for (int p = 0; p < 3 && node->op->backward[p].name; p++)
        if ((node->op->backward[p].gives & rungi_bit(i)) || node->op->backward[p].identity == i + 1)
            return true;
    return false;
}

rung_status rungi_graph_gradients(const rung_graph *g, bool **reached_out)
{
    bool *reached = calloc(g->values.count + 1, sizeof *reached);
    RUNG_CHECK(reached, RUNG_NO_MEMORY, "no memory to look through a graph");
    reached[g->loss] = g->loss != 0;
    for (size_t i = 0; i < g->outputs.count; i++) // of a part of a graph
        reached[g->outputs.data[i].value] |= g->outputs.data[i].seeded;
    for (size_t k = g->nodes.count; k-- > 0;) {
        const rungi_node *node = &g->nodes.data[k];
        bool any = false;
        for (int i = 0; i < node->op->n_out; i++)
            any |= reached[node->out[i]];
        for (int i = 0; any && i < node->n_in; i++)
            reached[node->in[i]] |= node->in[i] && passes_back(node, i);
    }
    *reached_out = reached;
    return RUNG_OK;
}

int rung_graph_unused(const rung_graph *graph, const char **names, int room)
{
    bool *reached;
    int count = 0;
    if (rungi_graph_gradients(graph, &reached) != RUNG_OK)
        return -1;
    for (size_t i = 1; i < graph->values.count; i++) {
        const rungi_value *v = &graph->values.data[i];
        if (v->kind != RUNGI_VALUE_PARAM || v->frozen || reached[i])
            continue;
        if (count < room)
            names[count] = v->name;
        count++;
    }
    free(reached);
    return count;
}
