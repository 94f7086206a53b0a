// SPDX-License-Identifier: Apache-2.0
// Layout pass: which layout each image [N, C, H, W] is kept in.
//
// A node whose kernels take images in any layout runs in the preferred one; elementwise and copying
// operators follow their inputs; everything else is plain. A value is kept in its producer's
// layout, and a consumer that needs another one gets a reordered copy (build.c).
#include "graph/plan.h"

static rungi_layout blocked_layout(const rung_plan *p)
{
    rung_isa isa = rung_context_isa(rung_device_context(p->device));
    return isa == RUNG_ISA_AVX512 ? RUNGI_BLOCKED16 : RUNGI_BLOCKED8;
}

static bool divides(rungi_layout layout, const rung_shape *shape)
{
    int block = layout == RUNGI_BLOCKED8 ? 8 : layout == RUNGI_BLOCKED16 ? 16 : 1;
    return shape->rank == 4 && shape->dim[1] % block == 0;
}

// The preferred layout of images of these shapes, a node's input and output.
static rungi_layout preferred(const rung_plan *p, const rung_shape *in, const rung_shape *out)
{
    if (in->rank != 4 || out->rank != 4 || p->options.layout == RUNG_LAYOUT_PLAIN)
        return RUNGI_PLAIN;
    rungi_layout blocked = blocked_layout(p);
    if (p->options.layout == RUNG_LAYOUT_BLOCKED && divides(blocked, in) && divides(blocked, out))
        return blocked;
    return RUNGI_CHANNELS_LAST;
}

// Elementwise: the layout of its full-sized inputs when they agree.
static rungi_layout followed(const rungi_node *node, const rungi_type *types,
                             const rungi_layout *value_layout)
{
    const rung_shape *out = &types[node->out[0]].shape;
    rungi_layout layout = RUNGI_PLAIN;
    for (int i = 0; i < node->n_in; i++) {
        int v = node->in[i];
        if (!v)
            continue;
        if (!rung_shape_equal(&types[v].shape, out))
            return RUNGI_PLAIN; // broadcasting is written for plain operands
        if (value_layout[v] != RUNGI_PLAIN)
            layout = value_layout[v];
    }
    return layout;
}

// Images of different shapes: the first layout of an input that all of them can have.
static rungi_layout shared(const rungi_node *node, const rungi_type *types,
                           const rungi_layout *value_layout)
{
    for (int i = 0; i < node->n_in; i++) {
        rungi_layout layout = value_layout[node->in[i]];
        bool fits = layout != RUNGI_PLAIN && divides(layout, &types[node->out[0]].shape);
        for (int k = 0; fits && k < node->n_in; k++)
            fits = divides(layout, &types[node->in[k]].shape);
        if (fits)
            return layout;
    }
    return RUNGI_PLAIN;
}

rung_status rungi_plan_layouts(const rung_plan *p, const rungi_type *types,
                               rungi_layout *value_layout, rungi_layout *node_layout)
{
    const rung_graph *g = p->graph;
    for (size_t k = 0; k < g->nodes.count; k++) {
        const rungi_node *node = &g->nodes.data[k];
        rungi_layout layout = RUNGI_PLAIN;
        if (node->op->layouts == RUNGI_LAYOUTS_IMAGE)
            layout = preferred(p, &types[node->in[0]].shape, &types[node->out[0]].shape);
        else if (node->op->layouts == RUNGI_LAYOUTS_SAME)
            layout = followed(node, types, value_layout);
        else if (node->op->layouts == RUNGI_LAYOUTS_EACH)
            layout = shared(node, types, value_layout);
        node_layout[k] = layout;
        for (int i = 0; i < node->n_out; i++)
            value_layout[node->out[i]] =
                types[node->out[i]].shape.rank == 4 && layout != RUNGI_PLAIN ? layout : RUNGI_PLAIN;
    }
    return RUNG_OK;
}
