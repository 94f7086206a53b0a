// SPDX-License-Identifier: Apache-2.0
// Makes the graph of a part.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph/part_inside.h"

typedef struct copier {
    const rungi_part_survey *s;
    rungi_part *part;
    rung_graph *to;
    bool low;     // see rungi_part_create
    int *id;      // by value of the whole: its id in the part; 0: it is not in it
    int *node_id; // by node of the whole
} copier;

static bool in_part(const copier *c, int node)
{
    return node >= c->part->begin && node < c->part->end;
}

// Is the parameter or buffer read in the part, by a layer that is left out too? One that nobody
// reads belongs to the first part.
static bool owns_entry(const copier *c, int value)
{
    bool read = false;
    for (size_t k = 0; k < c->s->g->nodes.count; k++)
        for (int n = 0; n < c->s->g->nodes.data[k].n_in; n++) {
            if (c->s->g->nodes.data[k].in[n] != value)
                continue;
            if (in_part(c, (int)k))
                return true;
            read = true;
        }
    return !read && c->part->begin == 0;
}

static bool reads_input(const copier *c, int value)
{
    for (int k = c->part->begin; k < c->part->end; k++)
        for (int n = 0; c->s->live[k] && n < c->s->g->nodes.data[k].n_in; n++)
            if (c->s->g->nodes.data[k].in[n] == value)
                return true;
    for (size_t i = 0; c->part->begin == 0 && i < c->s->g->outputs.count; i++)
        if (c->s->g->outputs.data[i].value == value)
            return true; // an input that is an output as it is
    return false;
}

static bool belongs(const copier *c, int value)
{
    const rungi_value *v = &c->s->g->values.data[value];
    switch (v->kind) {
    case RUNGI_VALUE_INPUT:
        return reads_input(c, value);
    case RUNGI_VALUE_PARAM:
    case RUNGI_VALUE_BUFFER:
        return owns_entry(c, value);
    default:
        return (in_part(c, v->node) && c->s->live[v->node]) ||
               rungi_part_crosses(c->s, value, c->part->begin);
    }
}

// What crosses a cut has one name on both sides, that no layer has.
static const char *crossing_name(const copier *c, int value)
{
    const rungi_value *v = &c->s->g->values.data[value];
    char text[512];
    snprintf(text, sizeof text, "%s@%d", v->name, value);
    return rungi_graph_text(c->to, text);
}

static rung_status copy_value(copier *c, int value)
{
    rungi_value v = c->s->g->values.data[value];
    bool comes = rungi_part_crosses(c->s, value, c->part->begin);
    if (comes) {
        v.kind = RUNGI_VALUE_INPUT;
        v.name = crossing_name(c, value);
        v.node = v.out = 0;
        v.wants_grad = rungi_part_crossing_gradient(c->s, value);
        v.low = c->low && c->s->low[value];
    } else {
        v.name = rungi_graph_text(c->to, v.name);
        if (v.kind == RUNGI_VALUE_NODE)
            v.node = c->node_id[v.node];
    }
    RUNG_CHECK(rungi_array_push(&c->to->values, v), RUNG_NO_MEMORY,
               "no memory for a part of a graph");
    c->id[value] = (int)c->to->values.count - 1;
    return RUNG_OK;
}

static int *copy_ids(copier *c, const int *from, int count)
{
    int *ids = rungi_graph_alloc(c->to, sizeof *ids * (size_t)(count + 1));
    for (int i = 0; ids && i < count; i++)
        ids[i] = c->id[from[i]];
    return ids;
}

static rung_status copy_node(copier *c, int k)
{
    rungi_node node = c->s->g->nodes.data[k];
    void *attr = rungi_graph_alloc(c->to, node.op->attr_size);
    node.in = copy_ids(c, node.in, node.n_in);
    node.out = copy_ids(c, node.out, node.n_out);
    RUNG_CHECK(attr && node.in && node.out, RUNG_NO_MEMORY, "no memory for a part of a graph");
    if (node.op->attr_size)
        memcpy(attr, node.attr, node.op->attr_size);
    node.attr = attr;
    node.name = rungi_graph_text(c->to, node.name);
    RUNG_CHECK(rungi_array_push(&c->to->nodes, node), RUNG_NO_MEMORY,
               "no memory for a part of a graph");
    return RUNG_OK;
}

static rung_status add_output(copier *c, const char *name, int value, bool seeded)
{
    rungi_output o = {rungi_graph_text(c->to, name), c->id[value], seeded};
    RUNG_CHECK(rungi_array_push(&c->to->outputs, o), RUNG_NO_MEMORY,
               "no memory for a part of a graph");
    return RUNG_OK;
}

// Outputs of the whole that are made here; an input that is one by itself is of the first part.
static rung_status copy_outputs(copier *c)
{
    const rung_graph *g = c->s->g;
    for (size_t i = 0; i < g->outputs.count; i++) {
        const rungi_output *o = &g->outputs.data[i];
        const rungi_value *v = &g->values.data[o->value];
        bool own = v->kind == RUNGI_VALUE_NODE ? in_part(c, v->node) : c->part->begin == 0;
        if (own)
            RUNG_TRY(add_output(c, o->name, o->value, o->seeded));
        if (own && o->value == g->loss)
            c->to->loss = c->id[o->value];
    }
    return RUNG_OK;
}

// The values that cross a cut: before the part, or behind it, where they become outputs.
static rung_status list_crossings(copier *c, int node, bool outputs, rungi_crossing **list_out,
                                  int *count_out)
{
    const rung_graph *g = c->s->g;
    rungi_crossing *list = rungi_graph_alloc(c->to, sizeof *list * g->values.count);
    RUNG_CHECK(list, RUNG_NO_MEMORY, "no memory for a part of a graph");
    *list_out = list;
    for (int i = 1; i < (int)g->values.count; i++) {
        if (!rungi_part_crosses(c->s, i, node))
            continue;
        bool gradient = rungi_part_crossing_gradient(c->s, i);
        const char *name = crossing_name(c, i);
        bool low = c->low && c->s->low[i];
        if (outputs)
            RUNG_TRY(add_output(c, name, i, gradient));
        c->to->values.data[c->id[i]].low = low;
        list[(*count_out)++] = (rungi_crossing){i, c->id[i], name, gradient, low};
    }
    return RUNG_OK;
}

static rung_status copy_symbols(copier *c)
{
    c->to->n_symbols = c->s->g->n_symbols;
    for (int i = 1; i < c->to->n_symbols; i++)
        c->to->symbols[i] = rungi_graph_text(c->to, c->s->g->symbols[i]);
    return RUNG_OK;
}

static rung_status copy_all(copier *c)
{
    rungi_part *p = c->part;
    int count = 0;
    RUNG_TRY(copy_symbols(c));
    for (int k = p->begin; k < p->end; k++)
        if (c->s->live[k])
            c->node_id[k] = count++;
    for (int i = 1; i < (int)c->s->g->values.count; i++)
        if (belongs(c, i))
            RUNG_TRY(copy_value(c, i));
    for (int k = p->begin; k < p->end; k++)
        if (c->s->live[k])
            RUNG_TRY(copy_node(c, k));
    RUNG_TRY(copy_outputs(c));
    RUNG_TRY(list_crossings(c, p->begin, false, &p->in, &p->n_in));
    RUNG_TRY(list_crossings(c, p->end, true, &p->out, &p->n_out));
    return rung_graph_check(c->to);
}

static rung_status create(const rungi_part_survey *s, int begin, int end, bool low,
                          rungi_part *part)
{
    size_t nodes = s->g->nodes.count;
    RUNG_CHECK(begin >= 0 && begin < end && (size_t)end <= nodes, RUNG_INVALID,
               "layers %d to %d are no part of a graph of %zu", begin, end, nodes);
    if (begin > 0)
        RUNG_TRY(rungi_part_check_cut(s, begin));
    if ((size_t)end < nodes)
        RUNG_TRY(rungi_part_check_cut(s, end));
    RUNG_TRY(rung_graph_create(s->g->context, &part->graph));
    copier c = {.s = s, .part = part, .to = part->graph, .low = low};
    c.id = calloc(s->g->values.count, sizeof *c.id);
    c.node_id = calloc(nodes + 1, sizeof *c.node_id);
    rung_status status = c.id && c.node_id
                             ? copy_all(&c)
                             : RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a part of a graph");
    free(c.id);
    free(c.node_id);
    return status;
}

rung_status rungi_part_create(const rung_graph *whole, int begin, int end, bool low,
                              rungi_part *part_out)
{
    rungi_part_survey s;
    rungi_part part = {.begin = begin, .end = end};
    RUNG_TRY(rungi_part_survey_init(&s, whole));
    rung_status status = create(&s, begin, end, low, &part);
    rungi_part_survey_fini(&s);
    if (status != RUNG_OK) {
        rungi_part_fini(&part);
        return status;
    }
    *part_out = part;
    return RUNG_OK;
}

void rungi_part_fini(rungi_part *part)
{
    rung_graph_destroy(&part->graph);
    *part = (rungi_part){0};
}
