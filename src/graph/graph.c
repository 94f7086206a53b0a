// SPDX-License-Identifier: Apache-2.0
#include "graph/graph.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct rungi_chunk {
    rungi_chunk *next;
    max_align_t data[];
};

// Probe values: symbol s has probes[s][p]. Primes that no real dimension is likely to be, all
// different, so that a dimension equals a symbol under both probes only if it is that symbol, and
// messages about probed shapes can be given back their symbols.
static const int64_t probes[RUNGI_MAX_SYMBOLS][RUNGI_PROBES] = {
    {100003, 101513}, {103043, 104551}, {106087, 107599}, {109111, 110623},
    {112139, 113647}, {115163, 116681}, {118189, 119699}, {121229, 122741},
};

rung_status rung_graph_create(rung_context *context, rung_graph **graph_out)
{
    rung_graph *g = calloc(1, sizeof *g);
    RUNG_CHECK(g, RUNG_NO_MEMORY, "no memory for a graph");
    g->context = context;
    g->symbols[0] = "batch";
    g->n_symbols = 1;
    if (!rungi_array_push(&g->values, (rungi_value){0})) {
        free(g);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a graph");
    }
    *graph_out = g;
    return RUNG_OK;
}

void rung_graph_destroy(rung_graph **graph)
{
    if (!graph || !*graph)
        return;
    rung_graph *g = *graph;
    while (g->chunks) {
        rungi_chunk *next = g->chunks->next;
        free(g->chunks);
        g->chunks = next;
    }
    rungi_array_fini(&g->values);
    rungi_array_fini(&g->nodes);
    rungi_array_fini(&g->outputs);
    rungi_array_fini(&g->scopes);
    free(g);
    *graph = NULL;
}

rung_status rung_graph_check(const rung_graph *graph)
{
    return graph->error.status == RUNG_OK ? RUNG_OK : rungi_fail_adopt(&graph->error);
}

bool rungi_graph_ok(const rung_graph *g)
{
    return g->error.status == RUNG_OK;
}

// Puts the symbols' names back into a message about probed shapes.
static void name_symbols(const rung_graph *g, char *message)
{
    for (int s = 0; s < g->n_symbols; s++) {
        char digits[24];
        const char *name = s == 0 ? "N" : g->symbols[s];
        int length = snprintf(digits, sizeof digits, "%" PRId64, probes[s][0]);
        for (char *at = message; (at = strstr(at, digits)) && strlen(name) <= (size_t)length;) {
            memcpy(at, name, strlen(name));
            memmove(at + strlen(name), at + length, strlen(at + length) + 1);
        }
    }
}

void rungi_graph_stick(rung_graph *g, const char *name)
{
    if (g->error.status != RUNG_OK)
        return;
    if (name && *name)
        rungi_fail_prefix("layer %s", name);
    g->error = *rung_error_last();
    name_symbols(g, g->error.message);
}

static void stick_memory(rung_graph *g)
{
    RUNG_FAIL(RUNG_NO_MEMORY, "no memory for the graph");
    rungi_graph_stick(g, NULL);
}

void *rungi_graph_alloc(rung_graph *g, size_t bytes)
{
    rungi_chunk *chunk = calloc(1, sizeof *chunk + bytes);
    if (!chunk) {
        stick_memory(g);
        return NULL;
    }
    chunk->next = g->chunks;
    g->chunks = chunk;
    return chunk->data;
}

const char *rungi_graph_text(rung_graph *g, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = rungi_graph_alloc(g, size);
    if (copy)
        memcpy(copy, text, size);
    return copy ? copy : "";
}

// ---- symbols ----------------------------------------------------------------------------------

int64_t rung_symbol(rung_graph *graph, const char *name)
{
    for (int i = 0; i < graph->n_symbols; i++)
        if (strcmp(graph->symbols[i], name) == 0)
            return RUNG_BATCH - i;
    if (graph->n_symbols == RUNGI_MAX_SYMBOLS) {
        RUNG_FAIL(RUNG_INVALID, "symbol '%s': a graph has at most %d symbolic dimensions", name,
                  RUNGI_MAX_SYMBOLS);
        rungi_graph_stick(graph, NULL);
        return RUNG_BATCH;
    }
    graph->symbols[graph->n_symbols] = rungi_graph_text(graph, name);
    return RUNG_BATCH - graph->n_symbols++;
}

int rungi_symbol_index(const rung_graph *g, int64_t dim)
{
    int64_t index = RUNG_BATCH - dim;
    return index >= 0 && index < g->n_symbols ? (int)index : -1;
}

rung_shape rungi_shape_resolve(const rung_graph *g, const rung_shape *shape, const int64_t *values)
{
    rung_shape out = *shape;
    for (int i = 0; i < shape->rank; i++) {
        int symbol = rungi_symbol_index(g, shape->dim[i]);
        if (symbol >= 0)
            out.dim[i] = values[symbol];
    }
    return out;
}

static void probe_values(int p, int64_t values[RUNGI_MAX_SYMBOLS])
{
    for (int s = 0; s < RUNGI_MAX_SYMBOLS; s++)
        values[s] = probes[s][p];
}

// The symbolic shape behind two probed ones.
static rung_shape symbolic(const rung_graph *g, const rung_shape *a, const rung_shape *b)
{
    rung_shape out = *a;
    for (int i = 0; i < a->rank; i++) {
        if (a->dim[i] == b->dim[i])
            continue;
        out.dim[i] = -1;
        for (int s = 0; s < g->n_symbols; s++)
            if (a->dim[i] == probes[s][0] && b->dim[i] == probes[s][1])
                out.dim[i] = RUNG_BATCH - s;
    }
    return out;
}

// ---- values -----------------------------------------------------------------------------------

static rung_value add_value(rung_graph *g, const rungi_value *value)
{
    if (!rungi_array_push(&g->values, *value)) {
        stick_memory(g);
        return (rung_value){0};
    }
    return (rung_value){(int)g->values.count - 1};
}

// The scoped form of a name, in the graph's memory.
static const char *scoped(rung_graph *g, const char *name)
{
    rungi_string full = {0};
    for (size_t i = 0; i < g->scopes.count; i++)
        rungi_string_add(&full, "%s.", g->scopes.data[i]);
    rungi_string_add(&full, "%s", name);
    const char *text = rungi_graph_text(g, rungi_string_text(&full));
    rungi_string_fini(&full);
    return text;
}

static bool name_taken(const rung_graph *g, rungi_value_kind kind, const char *name)
{
    for (size_t i = 1; i < g->values.count; i++)
        if (g->values.data[i].kind == kind && strcmp(g->values.data[i].name, name) == 0)
            return true;
    return false;
}

static rung_value add_named(rung_graph *g, rungi_value *value, const char *name)
{
    if (!rungi_graph_ok(g))
        return (rung_value){0};
    value->name = scoped(g, name);
    if (!*name || name_taken(g, value->kind, value->name)) {
        RUNG_FAIL(RUNG_INVALID, *name ? "the name '%s' is taken" : "a name is missing%s",
                  value->name);
        rungi_graph_stick(g, NULL);
        return (rung_value){0};
    }
    for (int p = 0; p < RUNGI_PROBES; p++) {
        int64_t values[RUNGI_MAX_SYMBOLS];
        probe_values(p, values);
        value->probe[p] = rungi_shape_resolve(g, &value->shape, values);
        int64_t count;
        if (rung_shape_count(&value->probe[p], &count) != RUNG_OK) {
            rungi_graph_stick(g, value->name);
            return (rung_value){0};
        }
    }
    return add_value(g, value);
}

rung_value rung_input(rung_graph *graph, const char *name, rung_dtype dtype, rung_shape shape)
{
    rungi_value value = {.kind = RUNGI_VALUE_INPUT, .dtype = dtype, .shape = shape};
    return add_named(graph, &value, name);
}

// Parameters and buffers so far.
static uint64_t count_entries(const rung_graph *g)
{
    uint64_t count = 0;
    for (size_t i = 1; i < g->values.count; i++)
        count += g->values.data[i].kind == RUNGI_VALUE_PARAM ||
                 g->values.data[i].kind == RUNGI_VALUE_BUFFER;
    return count;
}

rung_value rung_param(rung_graph *graph, const char *name, rung_shape shape,
                      const rung_param_options *options)
{
    rungi_value value = {.kind = RUNGI_VALUE_PARAM, .dtype = RUNG_F32, .shape = shape};
    if (options)
        value.param = *options;
    value.key = count_entries(graph);
    return add_named(graph, &value, name);
}

rung_value rung_buffer(rung_graph *graph, const char *name, rung_dtype dtype, rung_shape shape,
                       double initial)
{
    rungi_value value = {
        .kind = RUNGI_VALUE_BUFFER, .dtype = dtype, .shape = shape, .initial = initial};
    value.key = count_entries(graph);
    return add_named(graph, &value, name);
}

void rung_scope_push(rung_graph *graph, const char *scope)
{
    if (!rungi_array_push(&graph->scopes, rungi_graph_text(graph, scope)))
        stick_memory(graph);
}

void rung_scope_pop(rung_graph *graph)
{
    if (graph->scopes.count)
        graph->scopes.count--;
}

rung_shape rung_value_shape(const rung_graph *graph, rung_value value)
{
    return rung_value_given(value) ? graph->values.data[value.id].shape : (rung_shape){0};
}

rung_dtype rung_value_dtype(const rung_graph *graph, rung_value value)
{
    return rung_value_given(value) ? graph->values.data[value.id].dtype : RUNG_F32;
}

int64_t rungi_graph_fixed_dim(rung_graph *g, rung_value value, int dim, const char *layer,
                              const char *what)
{
    if (!rungi_graph_ok(g) || !rung_value_given(value))
        return -1;
    const rung_shape *shape = &g->values.data[value.id].shape;
    char text[RUNG_SHAPE_TEXT];
    if (dim < 0)
        dim += shape->rank;
    if (dim < 0 || dim >= shape->rank)
        RUNG_FAIL(RUNG_MISMATCH, "the input %s has no dimension for %s",
                  rung_shape_text(shape, text, sizeof text), what);
    else if (shape->dim[dim] < 0)
        RUNG_FAIL(RUNG_MISMATCH, "%s must not depend on a symbolic dimension; the input is %s",
                  what, rung_shape_text(shape, text, sizeof text));
    else
        return shape->dim[dim];
    rungi_graph_stick(g, layer);
    return -1;
}

void rung_graph_output(rung_graph *graph, const char *name, rung_value value)
{
    if (!rungi_graph_ok(graph))
        return;
    rungi_output output = {.name = rungi_graph_text(graph, name), .value = value.id};
    bool taken = false;
    for (size_t i = 0; i < graph->outputs.count; i++)
        taken |= strcmp(graph->outputs.data[i].name, name) == 0;
    if (!rung_value_given(value) || taken) {
        RUNG_FAIL(RUNG_INVALID, taken ? "output '%s' is named twice" : "output '%s' is not a value",
                  name);
        rungi_graph_stick(graph, NULL);
    } else if (!rungi_array_push(&graph->outputs, output)) {
        stick_memory(graph);
    }
}

void rung_graph_loss(rung_graph *graph, rung_value value)
{
    if (!rungi_graph_ok(graph))
        return;
    char text[RUNG_SHAPE_TEXT];
    const rungi_value *v = &graph->values.data[value.id];
    if (!rung_value_given(value))
        RUNG_FAIL(RUNG_INVALID, "the loss is not a value");
    else if (graph->loss)
        RUNG_FAIL(RUNG_INVALID, "the graph has a loss already");
    else if (v->shape.rank != 0)
        RUNG_FAIL(RUNG_MISMATCH, "the loss must be a scalar; '%s' is %s", v->name,
                  rung_shape_text(&v->shape, text, sizeof text));
    else {
        graph->loss = value.id;
        rung_graph_output(graph, "loss", value);
        return;
    }
    rungi_graph_stick(graph, NULL);
}

int rung_graph_set_eval(rung_graph *graph, const char *pattern)
{
    int matched = 0;
    for (size_t i = 0; i < graph->nodes.count; i++)
        if (rungi_text_match(pattern, graph->nodes.data[i].name)) {
            graph->nodes.data[i].eval = true;
            matched++;
        }
    return matched;
}

int rung_graph_freeze(rung_graph *graph, const char *pattern)
{
    int matched = 0;
    for (size_t i = 1; i < graph->values.count; i++) {
        rungi_value *v = &graph->values.data[i];
        if (v->kind == RUNGI_VALUE_PARAM && rungi_text_match(pattern, v->name)) {
            v->frozen = true;
            matched++;
        }
    }
    return matched;
}

// ---- nodes ------------------------------------------------------------------------------------

enum { MAX_OUT = 8 };

// Checks the inputs of a use and runs its shape rule under probe `p`.
static rung_status infer_probe(const rung_graph *g, const rungi_op *op, const void *attr,
                               const rung_value *inputs, int n, int p, rungi_type *out)
{
    rungi_type *in = calloc((size_t)(n ? n : 1), sizeof *in);
    RUNG_CHECK(in, RUNG_NO_MEMORY, "no memory for the graph");
    for (int i = 0; i < n; i++) {
        const rungi_value *v = &g->values.data[inputs[i].id];
        in[i] = (rungi_type){v->dtype, v->probe[p]};
        if (!rung_value_given(inputs[i]))
            in[i].shape.rank = -1;
    }
    rung_status status = op->infer(&(rungi_infer){attr, in, n, out});
    free(in);
    return status;
}

static rung_status check_inputs(const rung_graph *g, const rungi_op *op, const rung_value *inputs,
                                int n)
{
    RUNG_CHECK(n >= op->min_in && (op->max_in == RUNGI_ALL || n <= op->max_in), RUNG_INVALID,
               "%s takes %d to %d inputs, got %d", op->name, op->min_in, op->max_in, n);
    for (int i = 0; i < n; i++) {
        bool inside = inputs[i].id >= 0 && (size_t)inputs[i].id < g->values.count;
        RUNG_CHECK(inside && (i >= op->min_in || rung_value_given(inputs[i])), RUNG_INVALID,
                   "input %d of %s is missing", i, op->name);
    }
    return RUNG_OK;
}

static const char *node_name(rung_graph *g, const rungi_op *op, const char *name)
{
    if (name && *name)
        return scoped(g, name);
    int count = 0;
    for (size_t i = 0; i < g->nodes.count; i++)
        count += g->nodes.data[i].op == op;
    char made[64];
    snprintf(made, sizeof made, "%s_%d", op->name, count + 1);
    return scoped(g, made);
}

static bool add_outputs(rung_graph *g, rungi_node *node, rungi_type types[RUNGI_PROBES][MAX_OUT])
{
    node->out = rungi_graph_alloc(g, sizeof(int) * (size_t)node->n_out);
    for (int i = 0; node->out && i < node->n_out; i++) {
        rungi_value value = {.kind = RUNGI_VALUE_NODE,
                             .name = node->name,
                             .dtype = types[0][i].dtype,
                             .node = (int)g->nodes.count,
                             .out = i};
        for (int p = 0; p < RUNGI_PROBES; p++)
            value.probe[p] = types[p][i].shape;
        value.shape = symbolic(g, &value.probe[0], &value.probe[1]);
        node->out[i] = add_value(g, &value).id;
    }
    return rungi_graph_ok(g);
}

void rungi_graph_add(rung_graph *g, const rungi_op *op, const char *name, const void *attr,
                     const rung_value *inputs, int n, rung_value *outputs)
{
    for (int i = 0; i < op->n_out; i++)
        outputs[i] = (rung_value){0};
    if (!rungi_graph_ok(g))
        return;
    rungi_node node = {
        .op = op, .n_in = n, .n_out = op->n_out + op->n_hidden, .key = g->nodes.count};
    node.name = node_name(g, op, name);
    rungi_type types[RUNGI_PROBES][MAX_OUT] = {0};
    rung_status status = check_inputs(g, op, inputs, n);
    for (int p = 0; p < RUNGI_PROBES && status == RUNG_OK; p++)
        status = infer_probe(g, op, attr, inputs, n, p, types[p]);
    if (status != RUNG_OK) {
        rungi_graph_stick(g, node.name);
        return;
    }
    void *copy = rungi_graph_alloc(g, op->attr_size);
    node.in = rungi_graph_alloc(g, sizeof(int) * (size_t)(n ? n : 1));
    if (!copy || !node.in)
        return;
    if (op->attr_size)
        memcpy(copy, attr, op->attr_size);
    node.attr = copy;
    for (int i = 0; i < n; i++)
        node.in[i] = inputs[i].id;
    if (!add_outputs(g, &node, types))
        return;
    if (!rungi_array_push(&g->nodes, node)) {
        stick_memory(g);
        return;
    }
    for (int i = 0; i < op->n_out; i++)
        outputs[i] = (rung_value){node.out[i]};
}

rung_value rungi_graph_add1(rung_graph *g, const rungi_op *op, const char *name, const void *attr,
                            const rung_value *inputs, int n)
{
    rung_value output;
    rungi_graph_add(g, op, name, attr, inputs, n, &output);
    return output;
}

void rungi_graph_wanted(const rung_graph *g, bool *wanted)
{
    wanted[0] = false;
    for (size_t i = 1; i < g->values.count; i++) {
        const rungi_value *v = &g->values.data[i];
        wanted[i] = (v->kind == RUNGI_VALUE_PARAM && !v->frozen) ||
                    (v->kind == RUNGI_VALUE_INPUT && v->wants_grad);
    }
    for (size_t k = 0; k < g->nodes.count; k++) {
        const rungi_node *node = &g->nodes.data[k];
        bool any = false;
        for (int i = 0; i < node->n_in; i++)
            any |= wanted[node->in[i]];
        bool differentiable = node->op->backward[0].name || node->op->view;
        for (int i = 0; i < node->op->n_out; i++)
            wanted[node->out[i]] = any && differentiable;
    }
}

rung_status rungi_graph_infer(const rung_graph *g, const int64_t *symbols, rungi_type *types)
{
    for (size_t i = 1; i < g->values.count; i++) {
        const rungi_value *v = &g->values.data[i];
        if (v->kind != RUNGI_VALUE_NODE)
            types[i] = (rungi_type){v->dtype, rungi_shape_resolve(g, &v->shape, symbols)};
    }
    for (size_t k = 0; k < g->nodes.count; k++) {
        const rungi_node *node = &g->nodes.data[k];
        rungi_type out[MAX_OUT];
        rungi_type *in = calloc((size_t)(node->n_in ? node->n_in : 1), sizeof *in);
        RUNG_CHECK(in, RUNG_NO_MEMORY, "no memory to infer shapes");
        for (int i = 0; i < node->n_in; i++) {
            in[i] = types[node->in[i]];
            if (!node->in[i])
                in[i].shape.rank = -1;
        }
        rung_status status = node->op->infer(&(rungi_infer){node->attr, in, node->n_in, out});
        free(in);
        if (status != RUNG_OK)
            return rungi_fail_prefix("layer %s", node->name);
        for (int i = 0; i < node->n_out; i++)
            types[node->out[i]] = out[i];
    }
    return RUNG_OK;
}
