// SPDX-License-Identifier: Apache-2.0
// Autocast pass (`train.precision`): which values are kept in 16 bits, by the classes of operators
// that PyTorch's torch.autocast has (PyTorch documentation, Automatic Mixed Precision, "Op
// Eligibility"; the classes are in the operators' descriptors).
//
// - What an operator of the class low gives is of 16 bits, and so is what it takes: parameters and
//   float32 inputs are cast for it, each once a step, whoever else reads the copy.
// - What an operator of the class high gives is float32.
// - Others follow: 16 bits where all float values that they take are, else float32. A
//   normalization's numbers do not count and stay float32 (rungi_op.stays), and so do its hidden
//   outputs.
//
// A gradient has its value's type: those of parameters are float32. Everything else is left to the
// kernels: one that takes an operand as it is computes in its precision, the others are given
// float32 copies (ops/halves.h). So no casts are needed where a value of 16 bits meets float32.
#include "graph/plan.h"
#include "tensor/half.h"

static bool counts(const rungi_node *node, const rungi_type *types, int i)
{
    return node->in[i] && !(node->op->stays & rungi_bit(i)) &&
           rung_dtype_is_float(types[node->in[i]].dtype);
}

// Are all float values that the node takes of 16 bits? A view has one that matters.
static bool takes_halves(const rungi_node *node, const rungi_type *types)
{
    int n = node->op->view ? 1 : node->n_in, halves = 0;
    for (int i = 0; i < n; i++) {
        if (!counts(node, types, i))
            continue;
        if (!rungi_dtype_is_half(types[node->in[i]].dtype))
            return false;
        halves++;
    }
    return halves > 0;
}

void rungi_autocast(const rung_graph *g, rung_dtype low, rungi_type *types)
{
    if (low == RUNG_F32)
        return;
    for (size_t i = 1; i < g->values.count; i++) // what another part gives
        if (g->values.data[i].low && g->values.data[i].kind == RUNGI_VALUE_INPUT)
            types[i].dtype = low;
    for (size_t k = 0; k < g->nodes.count; k++) {
        const rungi_node *node = &g->nodes.data[k];
        bool half = node->op->precision == RUNGI_LOW ||
                    (node->op->precision == RUNGI_FOLLOW && takes_halves(node, types));
        for (int i = 0; half && i < node->op->n_out; i++)
            if (types[node->out[i]].dtype == RUNG_F32)
                types[node->out[i]].dtype = low;
    }
}

rung_dtype rungi_plan_takes(const rung_plan *p, const rungi_node *node, int i, rung_dtype dtype)
{
    bool cast = p->options.precision != RUNG_F32 && dtype == RUNG_F32 &&
                node->op->precision == RUNGI_LOW && !(node->op->stays & rungi_bit(i));
    return cast ? p->options.precision : dtype;
}
