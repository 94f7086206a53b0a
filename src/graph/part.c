// SPDX-License-Identifier: Apache-2.0
#include "graph/part_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

void rungi_part_survey_fini(rungi_part_survey *s)
{
    free(s->live);
    free(s->wanted);
    free(s->gradient);
    free(s->last);
    free(s->low);
}

static rung_status find_live(rungi_part_survey *s)
{
    const rung_graph *g = s->g;
    bool *needed = calloc(g->values.count, sizeof *needed);
    RUNG_CHECK(needed, RUNG_NO_MEMORY, "no memory for a part of a graph");
    for (size_t i = 0; i < g->outputs.count; i++)
        needed[g->outputs.data[i].value] = true;
    for (size_t k = g->nodes.count; k-- > 0;) {
        const rungi_node *node = &g->nodes.data[k];
        for (int i = 0; i < node->n_out; i++)
            s->live[k] |= needed[node->out[i]];
        for (int i = 0; s->live[k] && i < node->n_in; i++) {
            needed[node->in[i]] = true;
            if (s->last[node->in[i]] < 0)
                s->last[node->in[i]] = (int)k;
        }
    }
    free(needed);
    return RUNG_OK;
}

// Does a backward pass of the node give the gradient of input i?
static bool gives(const rungi_node *node, int i)
{
    if (node->op->view)
        return i == 0;
    for (int p = 0; p < 3 && node->op->backward[p].name; p++)
        if (node->op->backward[p].gives & rungi_bit(i))
            return true;
    return false;
}

static void find_gradients(rungi_part_survey *s)
{
    const rung_graph *g = s->g;
    rungi_graph_wanted(g, s->wanted);
    for (size_t i = 0; i < g->outputs.count; i++)
        s->gradient[g->outputs.data[i].value] |= g->outputs.data[i].seeded;
    s->gradient[g->loss] = g->loss != 0;
    for (size_t k = g->nodes.count; k-- > 0;) {
        const rungi_node *node = &g->nodes.data[k];
        bool any = false;
        for (int i = 0; i < node->op->n_out; i++)
            any |= s->gradient[node->out[i]];
        for (int i = 0; any && i < node->n_in; i++)
            if (node->in[i] && s->wanted[node->in[i]] && gives(node, i))
                s->gradient[node->in[i]] = true;
    }
}

static rung_status find_low(rungi_part_survey *s)
{
    const rung_graph *g = s->g;
    rungi_type *types = calloc(g->values.count, sizeof *types);
    RUNG_CHECK(types, RUNG_NO_MEMORY, "no memory for a part of a graph");
    for (size_t i = 0; i < g->values.count; i++)
        types[i].dtype = g->values.data[i].dtype;
    rungi_autocast(g, RUNG_BF16, types);
    for (size_t i = 1; i < g->values.count; i++)
        s->low[i] = types[i].dtype != g->values.data[i].dtype;
    free(types);
    return RUNG_OK;
}

rung_status rungi_part_survey_init(rungi_part_survey *s, const rung_graph *g)
{
    RUNG_TRY(rung_graph_check(g));
    *s = (rungi_part_survey){.g = g};
    s->live = calloc(g->nodes.count + 1, sizeof *s->live);
    s->wanted = calloc(g->values.count, sizeof *s->wanted);
    s->gradient = calloc(g->values.count, sizeof *s->gradient);
    s->last = malloc(g->values.count * sizeof *s->last);
    s->low = calloc(g->values.count, sizeof *s->low);
    rung_status status = RUNG_OK;
    if (!s->live || !s->wanted || !s->gradient || !s->last || !s->low)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a part of a graph");
    for (size_t i = 0; status == RUNG_OK && i < g->values.count; i++)
        s->last[i] = -1;
    if (status == RUNG_OK)
        status = find_live(s);
    if (status == RUNG_OK)
        status = find_low(s);
    if (status != RUNG_OK) {
        rungi_part_survey_fini(s);
        return status;
    }
    find_gradients(s);
    return RUNG_OK;
}

bool rungi_part_crosses(const rungi_part_survey *s, int value, int node)
{
    const rungi_value *v = &s->g->values.data[value];
    return v->kind == RUNGI_VALUE_NODE && v->node < node && s->last[value] >= node;
}

bool rungi_part_crossing_gradient(const rungi_part_survey *s, int value)
{
    return s->gradient[value] && s->wanted[value];
}

rung_status rungi_part_crossings(const rung_graph *whole, int node, rungi_crossing_fn fn,
                                 void *user)
{
    rungi_part_survey s;
    RUNG_TRY(rungi_part_survey_init(&s, whole));
    for (int i = 1; i < (int)whole->values.count; i++)
        if (rungi_part_crosses(&s, i, node))
            fn(user, i, rungi_part_crossing_gradient(&s, i), s.low[i]);
    rungi_part_survey_fini(&s);
    return RUNG_OK;
}

// Is the shape written with numbers and symbols alone?
static bool shape_is_known(const rung_graph *g, const rung_shape *shape)
{
    for (int d = 0; d < shape->rank; d++)
        if (shape->dim[d] < 0 && rungi_symbol_index(g, shape->dim[d]) < 0)
            return false;
    return true;
}

rung_status rungi_part_check_cut(const rungi_part_survey *s, int node)
{
    for (int i = 1; i < (int)s->g->values.count; i++)
        RUNG_CHECK(!rungi_part_crosses(s, i, node) ||
                       shape_is_known(s->g, &s->g->values.data[i].shape),
                   RUNG_UNSUPPORTED,
                   "the network cannot be cut before %s: the shape of what %s gives is computed "
                   "from a symbolic dimension",
                   s->g->nodes.data[node].name, s->g->values.data[i].name);
    return RUNG_OK;
}

bool rungi_part_can_cut(const rung_graph *whole, int node, char *why, size_t size)
{
    rungi_part_survey s;
    rung_status status = rungi_part_survey_init(&s, whole);
    if (status == RUNG_OK) {
        status = rungi_part_check_cut(&s, node);
        rungi_part_survey_fini(&s);
    }
    if (status != RUNG_OK)
        snprintf(why, size, "%s", rung_error_last()->message);
    return status == RUNG_OK;
}

uint64_t rungi_crossing_bytes(const rung_graph *part, const rungi_crossing *crossing, int64_t batch,
                              rung_dtype precision)
{
    const rungi_value *v = &part->values.data[crossing->part];
    int64_t symbols[RUNGI_MAX_SYMBOLS] = {batch};
    rung_shape shape = rungi_shape_resolve(part, &v->shape, symbols);
    bool low = crossing->low && precision != RUNG_F32;
    return (uint64_t)rungi_shape_size(&shape) * rung_dtype_size(low ? precision : v->dtype);
}

int rungi_part_tied(const rung_graph *whole, int node)
{
    for (int i = 1; i < (int)whole->values.count; i++) {
        rungi_value_kind kind = whole->values.data[i].kind;
        bool sides[2] = {false, false};
        if (kind != RUNGI_VALUE_PARAM && kind != RUNGI_VALUE_BUFFER)
            continue;
        for (size_t k = 0; k < whole->nodes.count; k++)
            for (int n = 0; n < whole->nodes.data[k].n_in; n++)
                if (whole->nodes.data[k].in[n] == i)
                    sides[(int)k >= node] = true;
        if (sides[0] && sides[1])
            return i;
    }
    return 0;
}
