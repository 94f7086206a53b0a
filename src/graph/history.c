// SPDX-License-Identifier: Apache-2.0
#include "graph/history.h"

const char *rungi_memory_kind_name(rungi_memory_kind kind)
{
    static const char *const names[] = {"activations", "activation gradients", "workspace"};
    return names[kind];
}

static rungi_memory_kind kind_of(const rungi_tensor *t)
{
    return t->value == 0 ? RUNGI_MEMORY_WORKSPACE
           : t->is_grad  ? RUNGI_MEMORY_GRADIENTS
                         : RUNGI_MEMORY_ACTIVATIONS;
}

static bool in_arena(const rung_plan *p, size_t i)
{
    const rungi_tensor *t = &p->tensors.data[i];
    return t->kind == RUNGI_TENSOR_ARENA && t->root == (int)i && t->first >= 0;
}

void rungi_plan_live(const rung_plan *p, uint64_t (*live)[RUNGI_MEMORY_KINDS])
{
    for (size_t i = 0; i < p->tensors.count; i++) {
        const rungi_tensor *t = &p->tensors.data[i];
        if (!in_arena(p, i))
            continue;
        for (int step = t->first; step <= t->last && step < (int)p->steps.count; step++)
            live[step][kind_of(t)] += (t->bytes + 63) / 64 * 64;
    }
}

static void describe(const rung_plan *p, const rungi_tensor *t, int step, rungi_held *out)
{
    const rung_graph *g = p->graph;
    *out = (rungi_held){.kind = kind_of(t),
                        .bytes = t->bytes,
                        .shape = t->operand.shape,
                        .dtype = t->operand.dtype};
    const rungi_node *node = &g->nodes.data[p->steps.data[step].q.node];
    if (t->value && g->values.data[t->value].kind == RUNGI_VALUE_NODE)
        node = &g->nodes.data[g->values.data[t->value].node];
    out->layer = node->name;
    out->op = node->op->name;
}

int rungi_plan_largest(const rung_plan *p, int step, rungi_held *held, int most)
{
    int count = 0;
    for (size_t i = 0; i < p->tensors.count; i++) {
        const rungi_tensor *t = &p->tensors.data[i];
        if (!in_arena(p, i) || t->first > step || t->last < step)
            continue;
        if (count == most && held[most - 1].bytes >= t->bytes)
            continue;
        int at = count < most ? count++ : most - 1;
        for (; at > 0 && held[at - 1].bytes < t->bytes; at--)
            held[at] = held[at - 1];
        describe(p, t, step, &held[at]);
    }
    return count;
}
