// SPDX-License-Identifier: Apache-2.0
// From graph to steps: which nodes are needed, a tensor for each value, the forward steps, and the
// backward steps in reverse order with gradients summed where a value is used more than once.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "graph/plan.h"
#include "ops/cast/cast.h"
#include "tensor/half.h"

typedef struct builder {
    rung_plan *p;
    const rung_graph *g;
    rungi_type *types;          // by value
    rungi_layout *value_layout; // by value
    rungi_layout *node_layout;  // by node
    bool *node_live;            // by node: something wanted depends on it
    bool *wants_grad;           // by value: a trainable parameter lies behind it
    bool *reaches_loss;         // by value
    // By value and layout, -1: in its own dtype, and cast to another one.
    int (*tensor)[2][4];
    int *grad;                       // by value: its gradient so far, in the value's own layout; -1
    int *first_use;                  // accumulate: by value, the first node that takes it
    const rungi_operand **in, **out; // by node: forward operands
    bool failed;                     // out of memory
} builder;

// ---- small tools ------------------------------------------------------------------------------

void *rungi_plan_block(rung_plan *p, size_t bytes)
{
    void *block = calloc(1, bytes ? bytes : 1);
    if (block && !rungi_array_push(&p->blocks, block)) {
        free(block);
        return NULL;
    }
    return block;
}

int rungi_plan_tensor(rung_plan *p, const rungi_tensor *tensor)
{
    if (!rungi_array_push(&p->tensors, *tensor))
        return -1;
    int index = (int)p->tensors.count - 1;
    rungi_tensor *t = &p->tensors.data[index];
    t->operand.buffer = index;
    t->root = index;
    t->bytes = rungi_operand_bytes(&t->operand);
    return index;
}

int rungi_plan_alias(rung_plan *p, int root, const rungi_operand *operand)
{
    rungi_tensor alias = p->tensors.data[root];
    int top = alias.root;
    alias.operand = *operand;
    int index = rungi_plan_tensor(p, &alias);
    if (index >= 0)
        p->tensors.data[index].root = top;
    return index;
}

static rungi_operand absent(void)
{
    return (rungi_operand){.buffer = -1};
}

static rungi_operand operand_of(const builder *b, int tensor)
{
    return tensor < 0 ? absent() : b->p->tensors.data[tensor].operand;
}

static int new_tensor_of(builder *b, int value, rung_dtype dtype, rungi_layout layout, bool is_grad)
{
    rungi_tensor t = {.kind = RUNGI_TENSOR_ARENA, .value = value, .is_grad = is_grad};
    t.operand = (rungi_operand){.dtype = dtype, .layout = layout, .shape = b->types[value].shape};
    if (is_grad && !rung_dtype_is_float(t.operand.dtype))
        t.operand.dtype = RUNG_F32;
    int index = rungi_plan_tensor(b->p, &t);
    b->failed |= index < 0;
    return index;
}

static int new_tensor(builder *b, int value, rungi_layout layout, bool is_grad)
{
    return new_tensor_of(b, value, b->types[value].dtype, layout, is_grad);
}

static rungi_operand *operands(builder *b, int count)
{
    rungi_operand *list = rungi_plan_block(b->p, sizeof(rungi_operand) * (size_t)(count + 1));
    if (!list) {
        b->failed = true;
        return NULL;
    }
    for (int i = 0; i < count; i++)
        list[i] = absent();
    return list;
}

static void add_step(builder *b, const rungi_query *q)
{
    rungi_step step = {.q = *q, .workspace = -1, .updates = -1};
    step.q.threads = b->p->options.threads;
    step.q.isa = rung_context_isa(rung_device_context(b->p->device));
    step.q.winograd = b->p->options.winograd;
    step.q.winograd_f4 = b->p->options.winograd_bf16 == RUNG_WINOGRAD_F4;
    step.q.native = b->p->options.compute == RUNG_COMPUTE_NATIVE;
    step.q.key = b->g->nodes.data[q->node].key;
    b->failed |= !rungi_array_push(&b->p->steps, step);
}

// A step of an operator that the planner itself puts in: `add` (two inputs), `reorder` or `cast`
// (one).
static void add_helper(builder *b, const char *name, int node, int in0, int in1, int out)
{
    int n_in = in1 < 0 ? 1 : 2;
    rungi_operand *list = operands(b, n_in + 1);
    if (!list)
        return;
    list[0] = operand_of(b, in0);
    if (in1 >= 0)
        list[1] = operand_of(b, in1);
    list[n_in] = operand_of(b, out);
    const rungi_op *op = rungi_op_find(name);
    void *attr = rungi_plan_block(b->p, op->attr_size);
    if (attr && op == &rungi_op_cast)
        ((rungi_cast_attr *)attr)->to = list[n_in].dtype;
    add_step(b, &(rungi_query){.op = op,
                               .attr = attr,
                               .node = node,
                               .pass = RUNGI_FORWARD,
                               .in = list,
                               .n_in = n_in,
                               .out = list + n_in,
                               .n_out = 1});
}

// Are two layouts of this shape the same bytes?
static bool same_bytes(const rung_shape *s, rungi_layout a, rungi_layout b)
{
    if (a == b)
        return true;
    return s->rank == 4 && (s->dim[1] == 1 || s->dim[2] * s->dim[3] == 1);
}

// ---- liveness ---------------------------------------------------------------------------------

static bool output_wanted(const rung_plan *p, const char *name)
{
    if (!p->options.outputs)
        return true;
    if (p->options.gradients && strcmp(name, "loss") == 0)
        return true;
    for (int i = 0; i < p->options.n_outputs; i++)
        if (strcmp(p->options.outputs[i], name) == 0)
            return true;
    return false;
}

static void mark_live(builder *b)
{
    const rung_graph *g = b->g;
    bool *value_live = rungi_plan_block(b->p, g->values.count);
    if (!value_live) {
        b->failed = true;
        return;
    }
    for (size_t i = 0; i < g->outputs.count; i++)
        if (output_wanted(b->p, g->outputs.data[i].name))
            value_live[g->outputs.data[i].value] = true;
    for (size_t k = g->nodes.count; k-- > 0;) {
        const rungi_node *node = &g->nodes.data[k];
        for (int i = 0; i < node->n_out; i++)
            b->node_live[k] |= value_live[node->out[i]];
        for (int i = 0; b->node_live[k] && i < node->n_in; i++)
            value_live[node->in[i]] = true;
    }
}

// Which gradients backward must make: values that reach the loss, or an output whose gradient is
// given, and depend on a parameter or an input whose gradient is wanted.
static void mark_gradients(builder *b)
{
    const rung_graph *g = b->g;
    rungi_graph_wanted(g, b->wants_grad);
    b->reaches_loss[g->loss] = true;
    for (size_t i = 0; i < g->outputs.count; i++)
        if (g->outputs.data[i].seeded)
            b->reaches_loss[g->outputs.data[i].value] = true;
    for (size_t k = g->nodes.count; k-- > 0;) {
        const rungi_node *node = &g->nodes.data[k];
        bool reaches = false;
        for (int i = 0; i < node->op->n_out; i++)
            reaches |= b->reaches_loss[node->out[i]];
        for (int i = 0; reaches && i < node->n_in; i++)
            b->reaches_loss[node->in[i]] = true;
    }
    b->reaches_loss[0] = false;
}

// ---- forward ----------------------------------------------------------------------------------

static rungi_tensor_kind tensor_kind(rungi_value_kind kind)
{
    return kind == RUNGI_VALUE_INPUT    ? RUNGI_TENSOR_INPUT
           : kind == RUNGI_VALUE_PARAM  ? RUNGI_TENSOR_PARAM
           : kind == RUNGI_VALUE_BUFFER ? RUNGI_TENSOR_BUFFER
                                        : RUNGI_TENSOR_ARENA;
}

// The tensor that holds a value in a layout; puts in a reorder where it is kept in another one.
static int tensor_in(builder *b, int node, int value, rungi_layout layout)
{
    if (!value)
        return -1;
    int *slot = &b->tensor[value][0][layout];
    if (*slot >= 0)
        return *slot;
    rungi_layout own = b->value_layout[value];
    if (b->tensor[value][0][own] < 0) { // a leaf seen for the first time
        int leaf = new_tensor(b, value, own, false);
        if (leaf < 0)
            return -1;
        b->p->tensors.data[leaf].kind = tensor_kind(b->g->values.data[value].kind);
        b->tensor[value][0][own] = leaf;
        if (own == layout)
            return leaf;
    }
    int from = b->tensor[value][0][own];
    if (same_bytes(&b->types[value].shape, own, layout)) {
        rungi_operand seen = operand_of(b, from);
        seen.layout = layout;
        *slot = rungi_plan_alias(b->p, from, &seen);
        b->failed |= *slot < 0;
    } else {
        *slot = new_tensor(b, value, layout, false);
        add_helper(b, "reorder", node, from, -1, *slot);
    }
    return *slot;
}

// The same in a dtype: puts in a cast where it is kept in another one.
static int tensor_as(builder *b, int node, int value, rungi_layout layout, rung_dtype dtype)
{
    if (!value || dtype == b->types[value].dtype)
        return tensor_in(b, node, value, layout);
    int *slot = &b->tensor[value][1][layout],
        from = *slot < 0 ? tensor_in(b, node, value, layout) : -1;
    if (from < 0)
        return *slot;
    *slot = new_tensor_of(b, value, dtype, layout, false);
    add_helper(b, "cast", node, from, -1, *slot);
    return *slot;
}

// Layout in which node k takes its input i.
static rungi_layout input_layout(const builder *b, size_t k, int i)
{
    const rungi_node *node = &b->g->nodes.data[k];
    bool image = node->op->layouts == RUNGI_LAYOUTS_SAME ||
                 node->op->layouts == RUNGI_LAYOUTS_EACH ||
                 (node->op->layouts == RUNGI_LAYOUTS_IMAGE && i == 0);
    return image && b->types[node->in[i]].shape.rank == 4 ? b->node_layout[k] : RUNGI_PLAIN;
}

static bool runs_in_training(const builder *b, const rungi_node *node)
{
    return b->p->options.training && !node->eval;
}

static bool synchronized(const builder *b, const rungi_node *node)
{
    return b->p->options.synchronize && node->op->meets && runs_in_training(b, node);
}

// Output 0 is input 0, maybe under another shape: no kernel, one buffer.
static bool is_alias(const builder *b, const rungi_node *node)
{
    return node->op->view || (node->op->passes_through &&
                              node->op->passes_through(node->attr, runs_in_training(b, node)));
}

static void forward_alias(builder *b, size_t k, int in)
{
    const rungi_node *node = &b->g->nodes.data[k];
    int value = node->out[0];
    rungi_operand seen = {.dtype = b->types[value].dtype,
                          .layout = b->value_layout[value],
                          .shape = b->types[value].shape};
    int tensor = rungi_plan_alias(b->p, in, &seen);
    if (tensor < 0) {
        b->failed = true;
        return;
    }
    b->p->tensors.data[tensor].value = value;
    b->tensor[value][0][seen.layout] = tensor;
}

static void forward_node(builder *b, size_t k)
{
    const rungi_node *node = &b->g->nodes.data[k];
    rungi_operand *in = operands(b, node->n_in);
    rungi_operand *out = operands(b, node->n_out);
    if (!in || !out)
        return;
    b->in[k] = in;
    b->out[k] = out;
    for (int i = 0; i < node->n_in; i++)
        in[i] =
            operand_of(b, tensor_as(b, (int)k, node->in[i], input_layout(b, k, i),
                                    rungi_plan_takes(b->p, node, i, b->types[node->in[i]].dtype)));
    if (is_alias(b, node)) {
        forward_alias(b, k, in[0].buffer);
        out[0] = operand_of(b, b->tensor[node->out[0]][0][b->value_layout[node->out[0]]]);
        return;
    }
    bool training = runs_in_training(b, node);
    bool gradients =
        b->p->options.gradients && b->wants_grad[node->out[0]] && b->reaches_loss[node->out[0]];
    for (int i = 0; i < node->n_out; i++) {
        bool hidden = i >= node->op->n_out;
        if (hidden && !gradients && !(training && node->op->finish))
            continue;
        int value = node->out[i];
        rungi_layout layout = b->value_layout[value];
        b->tensor[value][0][layout] = new_tensor(b, value, layout, false);
        out[i] = operand_of(b, b->tensor[value][0][layout]);
        if (hidden && training && node->op->finish && !b->failed)
            b->p->tensors.data[out[i].buffer].kind = RUNGI_TENSOR_KEPT;
    }
    add_step(b, &(rungi_query){.op = node->op,
                               .attr = node->attr,
                               .node = (int)k,
                               .pass = RUNGI_FORWARD,
                               .in = in,
                               .n_in = node->n_in,
                               .out = out,
                               .n_out = node->n_out,
                               .training = training,
                               .gradients = gradients,
                               .synchronized = synchronized(b, node)});
}

// ---- backward ---------------------------------------------------------------------------------

// May the gradient of `value` be added to in place while node k is handled? Not while another value
// whose gradient lies in the same memory is still to be read.
static bool may_add_in_place(const builder *b, int value, size_t k)
{
    int root = b->p->tensors.data[b->grad[value]].root;
    for (size_t w = 1; w < b->g->values.count; w++) {
        if ((int)w == value || b->grad[w] < 0 || b->p->tensors.data[b->grad[w]].root != root)
            continue;
        const rungi_value *other = &b->g->values.data[w];
        if ((other->kind == RUNGI_VALUE_NODE && (size_t)other->node <= k) ||
            (other->kind == RUNGI_VALUE_INPUT && other->wants_grad))
            return false;
    }
    return b->p->tensors.data[root].kind != RUNGI_TENSOR_CONST &&
           b->p->tensors.data[root].kind != RUNGI_TENSOR_SEED;
}

static int stored_grad(builder *b, int value)
{
    rungi_tensor t = {.kind = RUNGI_TENSOR_GRAD, .value = value, .is_grad = true};
    t.operand = (rungi_operand){.dtype = b->types[value].dtype, .shape = b->types[value].shape};
    int index = rungi_plan_tensor(b->p, &t);
    b->failed |= index < 0;
    return index;
}

// What backward writes a parameter's gradient to: where it is stored or, to add it to what is there
// when it is complete, the arena.
static int param_grad(builder *b, int value)
{
    return b->p->options.accumulate ? new_tensor(b, value, b->value_layout[value], true)
                                    : stored_grad(b, value);
}

// After backward of node k: adds the gradients that no earlier node contributes to.
static void add_complete(builder *b, size_t k)
{
    const rungi_node *node = &b->g->nodes.data[k];
    for (int i = 0; i < node->n_in; i++) {
        int value = node->in[i];
        if (!value || b->g->values.data[value].kind != RUNGI_VALUE_PARAM || b->grad[value] < 0 ||
            b->first_use[value] != (int)k)
            continue;
        int stored = stored_grad(b, value);
        if (stored >= 0)
            add_helper(b, "add", (int)k, stored, b->grad[value], stored);
        b->first_use[value] = -1; // done, also where the node takes it twice
    }
}

// Takes tensor `part`, written by node k, as a contribution to the gradient of `value`. A part that
// is another value's gradient too (`shared`) becomes an alias of it.
static void contribute(builder *b, size_t k, int value, int part, bool shared)
{
    bool param = b->g->values.data[value].kind == RUNGI_VALUE_PARAM;
    rungi_layout own = b->value_layout[value];
    const rung_shape *shape = &b->types[value].shape;
    if (!rung_shape_equal(&b->p->tensors.data[part].operand.shape, shape)) {
        rungi_operand reshaped = operand_of(b, part); // a view's gradient, which is plain
        reshaped.shape = *shape;
        part = rungi_plan_alias(b->p, part, &reshaped);
    }
    rungi_layout layout = part < 0 ? own : b->p->tensors.data[part].operand.layout;
    if (part >= 0 && !same_bytes(shape, layout, own)) {
        int moved = new_tensor(b, value, own, true);
        add_helper(b, "reorder", (int)k, part, -1, moved);
        part = moved;
        shared = false;
    } else if (part >= 0 && (shared || layout != own)) {
        rungi_operand own_view = operand_of(b, part);
        own_view.layout = own;
        part = rungi_plan_alias(b->p, part, &own_view);
    }
    if (part < 0) {
        b->failed = true;
        return;
    }
    if (b->grad[value] < 0) {
        b->grad[value] = param ? param_grad(b, value) : part;
        if (param)
            add_helper(b, "reorder", (int)k, part, -1, b->grad[value]);
        return;
    }
    int sum = b->grad[value];
    if (!param && !may_add_in_place(b, value, k))
        sum = new_tensor(b, value, own, true);
    add_helper(b, "add", (int)k, b->grad[value], part, sum);
    b->grad[value] = sum;
}

static bool wanted(const builder *b, const rungi_node *node, int i)
{
    int v = node->in[i];
    return v && b->wants_grad[v] && b->reaches_loss[v];
}

// The gradient passes through unchanged: no kernel, the same memory.
static bool passes_through(const builder *b, size_t k, const rungi_pass *pass, int i)
{
    const rungi_node *node = &b->g->nodes.data[k];
    return pass->identity == i + 1 && b->types[node->in[i]].dtype == b->types[node->out[0]].dtype &&
           rung_shape_equal(&b->types[node->in[i]].shape, &b->types[node->out[0]].shape);
}

// Tensor that a kernel writes the gradient of input i to: the gradient itself when it is the first
// contribution and kept in the same layout, else a temporary.
static int gradient_target(builder *b, size_t k, int i, bool *direct)
{
    const rungi_node *node = &b->g->nodes.data[k];
    int value = node->in[i];
    rungi_layout layout = b->in[k][i].layout;
    *direct = b->grad[value] < 0 && layout == b->value_layout[value];
    if (*direct && b->g->values.data[value].kind == RUNGI_VALUE_PARAM)
        return param_grad(b, value);
    return new_tensor(b, value, layout, true);
}

static rungi_operand *masked(builder *b, const rungi_operand *list, int n, uint32_t mask)
{
    rungi_operand *copy = operands(b, n);
    for (int i = 0; copy && i < n; i++) {
        copy[i] = list[i];
        if (!(mask & rungi_bit(i)))
            copy[i].buffer = -1;
    }
    return copy;
}

static void backward_kernel(builder *b, size_t k, int pass_index, const rungi_operand *gout)
{
    const rungi_node *node = &b->g->nodes.data[k];
    const rungi_pass *pass = &node->op->backward[pass_index];
    rungi_operand *gin = operands(b, node->n_in);
    bool *direct = rungi_plan_block(b->p, (size_t)node->n_in);
    bool any = false;
    if (!gin || !direct) {
        b->failed = true;
        return;
    }
    for (int i = 0; i < node->n_in; i++) {
        if (!(pass->gives & rungi_bit(i)) || !wanted(b, node, i))
            continue;
        gin[i] = operand_of(b, gradient_target(b, k, i, &direct[i]));
        if (direct[i]) // claimed at once: the same value may be another input too
            b->grad[node->in[i]] = gin[i].buffer;
        any = true;
    }
    if (!any)
        return;
    add_step(b, &(rungi_query){.op = node->op,
                               .attr = node->attr,
                               .node = (int)k,
                               .pass = pass_index,
                               .in = masked(b, b->in[k], node->n_in, pass->reads_in),
                               .n_in = node->n_in,
                               .out = masked(b, b->out[k], node->n_out, pass->reads_out),
                               .n_out = node->n_out,
                               .gout = gout,
                               .gin = gin,
                               .training = runs_in_training(b, node),
                               .gradients = true,
                               .synchronized = synchronized(b, node)});
    for (int i = 0; i < node->n_in; i++)
        if (gin[i].buffer >= 0 && !direct[i])
            contribute(b, k, node->in[i], gin[i].buffer, false);
}

static void backward_node(builder *b, size_t k)
{
    const rungi_node *node = &b->g->nodes.data[k];
    rungi_operand *gout = operands(b, node->op->n_out);
    bool any = false;
    for (int i = 0; gout && i < node->op->n_out; i++) {
        gout[i] = operand_of(b, b->grad[node->out[i]]);
        any |= gout[i].buffer >= 0;
    }
    if (!any)
        return;
    if (is_alias(b, node)) {
        if (wanted(b, node, 0))
            contribute(b, k, node->in[0], gout[0].buffer, true);
        return;
    }
    for (int pass = 0; pass < 3 && node->op->backward[pass].name; pass++) {
        const rungi_pass *what = &node->op->backward[pass];
        int through = what->identity - 1;
        if (through >= 0 && passes_through(b, k, what, through)) {
            if (wanted(b, node, through))
                contribute(b, k, node->in[through], gout[0].buffer, true);
        } else {
            backward_kernel(b, k, pass, gout);
        }
    }
}

// The dtype in which callers see a value.
static rung_dtype seen_as(const builder *b, int value)
{
    const rungi_value *v = &b->g->values.data[value];
    rung_dtype own = b->types[value].dtype;
    return rungi_dtype_is_half(own) && !v->low ? v->dtype : own;
}

// A gradient that is given, contiguous and plain, is the first contribution to its value's.
static void add_seed(builder *b, int value)
{
    const rungi_value *v = &b->g->values.data[value];
    size_t node = v->kind == RUNGI_VALUE_NODE ? (size_t)v->node : 0;
    rungi_tensor seed = {.kind = RUNGI_TENSOR_SEED, .value = value, .is_grad = true};
    seed.operand = (rungi_operand){.dtype = seen_as(b, value), .shape = b->types[value].shape};
    int index = rungi_plan_tensor(b->p, &seed);
    b->failed |= index < 0;
    if (index < 0 || b->grad[value] >= 0)
        return;
    if (seed.operand.dtype != b->types[value].dtype) {
        int given = index;
        index = new_tensor(b, value, RUNGI_PLAIN, true);
        add_helper(b, "cast", (int)node, given, -1, index);
    }
    contribute(b, node, value, index, true);
}

// Gradients of inputs can be read after backward.
static void keep_input_gradients(builder *b)
{
    for (size_t i = 1; i < b->g->values.count; i++) {
        const rungi_value *v = &b->g->values.data[i];
        if (v->kind != RUNGI_VALUE_INPUT || !v->wants_grad || b->grad[i] < 0)
            continue;
        b->p->input_grad[i] = b->grad[i];
        b->p->tensors.data[b->p->tensors.data[b->grad[i]].root].keep = true;
    }
}

static void build_backward(builder *b)
{
    if (b->g->loss) {
        rungi_tensor seed = {.kind = RUNGI_TENSOR_CONST, .value = b->g->loss, .is_grad = true};
        seed.operand.dtype = RUNG_F32;
        seed.fill = 1;
        b->p->seed = b->grad[b->g->loss] = rungi_plan_tensor(b->p, &seed);
    }
    for (size_t i = 0; i < b->g->outputs.count && !b->failed; i++)
        if (b->g->outputs.data[i].seeded && output_wanted(b->p, b->g->outputs.data[i].name))
            add_seed(b, b->g->outputs.data[i].value);
    for (size_t k = b->g->nodes.count; k-- > 0;)
        for (int i = 0; b->node_live[k] && i < b->g->nodes.data[k].n_in; i++)
            b->first_use[b->g->nodes.data[k].in[i]] = (int)k;
    for (size_t k = b->g->nodes.count; k-- > 0 && !b->failed;) {
        if (!b->node_live[k])
            continue;
        backward_node(b, k);
        if (b->p->options.accumulate)
            add_complete(b, k);
    }
    keep_input_gradients(b);
}

// ---- all of it --------------------------------------------------------------------------------

static bool allocate(builder *b)
{
    size_t values = b->g->values.count, nodes = b->g->nodes.count + 1;
    rung_plan *p = b->p;
    b->types = rungi_plan_block(p, values * sizeof *b->types);
    b->value_layout = rungi_plan_block(p, values * sizeof *b->value_layout);
    b->node_layout = rungi_plan_block(p, nodes * sizeof *b->node_layout);
    b->node_live = rungi_plan_block(p, nodes * sizeof *b->node_live);
    b->wants_grad = rungi_plan_block(p, values * sizeof *b->wants_grad);
    b->reaches_loss = rungi_plan_block(p, values * sizeof *b->reaches_loss);
    b->tensor = rungi_plan_block(p, values * sizeof *b->tensor);
    b->grad = rungi_plan_block(p, values * sizeof *b->grad);
    b->first_use = rungi_plan_block(p, values * sizeof *b->first_use);
    b->in = rungi_plan_block(p, nodes * sizeof *b->in);
    b->out = rungi_plan_block(p, nodes * sizeof *b->out);
    p->value_tensor = rungi_plan_block(p, values * sizeof *p->value_tensor);
    p->input_grad = rungi_plan_block(p, values * sizeof *p->input_grad);
    if (!b->types || !b->value_layout || !b->node_layout || !b->node_live || !b->wants_grad ||
        !b->reaches_loss || !b->tensor || !b->grad || !b->first_use || !b->in || !b->out ||
        !p->value_tensor || !p->input_grad)
        return false;
    for (size_t i = 0; i < values; i++) {
        b->grad[i] = p->input_grad[i] = -1;
        for (int l = 0; l < 8; l++)
            b->tensor[i][l / 4][l % 4] = -1;
    }
    return true;
}

// Names outputs: an output kept in another layout or precision is wanted plain, as callers see it.
static void keep_outputs(builder *b)
{
    for (size_t i = 0; i < b->g->outputs.count && !b->failed; i++) {
        if (!output_wanted(b->p, b->g->outputs.data[i].name))
            continue;
        int value = b->g->outputs.data[i].value;
        const rungi_value *v = &b->g->values.data[value];
        int tensor = tensor_as(b, v->kind == RUNGI_VALUE_NODE ? v->node : 0, value, RUNGI_PLAIN,
                               seen_as(b, value));
        if (tensor >= 0)
            b->p->tensors.data[b->p->tensors.data[tensor].root].keep = true;
    }
}

rung_status rungi_plan_build(rung_plan *p)
{
    builder b = {.p = p, .g = p->graph};
    RUNG_CHECK(allocate(&b), RUNG_NO_MEMORY, "no memory for a plan");
    RUNG_TRY(rungi_graph_infer(p->graph, p->symbols, b.types));
    for (size_t i = 0; p->options.float64 && i < p->graph->values.count; i++)
        if (b.types[i].dtype == RUNG_F32)
            b.types[i].dtype = RUNG_F64;
    rungi_autocast(p->graph, p->options.precision, b.types);
    RUNG_TRY(rungi_plan_layouts(p, b.types, b.value_layout, b.node_layout));
    mark_live(&b);
    if (p->options.gradients)
        mark_gradients(&b);
    for (size_t k = 0; k < b.g->nodes.count && !b.failed; k++)
        if (b.node_live[k])
            forward_node(&b, k);
    keep_outputs(&b);
    p->n_forward = (int)p->steps.count;
    if (p->options.gradients)
        build_backward(&b);
    for (size_t i = 0; i < b.g->values.count; i++)
        p->value_tensor[i] = b.tensor[i][seen_as(&b, (int)i) != b.types[i].dtype][RUNGI_PLAIN];
    RUNG_CHECK(!b.failed, RUNG_NO_MEMORY, "no memory for a plan");
    return RUNG_OK;
}
