// SPDX-License-Identifier: Apache-2.0
// Public functions that move elements, and matrix products.
#include "graph/graph.h"
#include "ops/concat/concat.h"
#include "ops/matmul/matmul.h"
#include "ops/pad/pad.h"
#include "ops/permute/permute.h"
#include "ops/slice/slice.h"
#include "rung/ops.h"

rung_value rung_concat(rung_graph *g, const rung_value *values, int n, int dim)
{
    return rungi_graph_add1(g, rungi_op_find("concat"), NULL, &(rungi_concat_attr){dim}, values, n);
}

rung_value rung_slice(rung_graph *g, rung_value x, int dim, int64_t start, int64_t end,
                      int64_t step)
{
    rungi_slice_attr attr = {dim, start, end, step};
    return rungi_graph_add1(g, rungi_op_find("slice"), NULL, &attr, &x, 1);
}

rung_value rung_pad(rung_graph *g, rung_value x, const int64_t *before, const int64_t *after,
                    double value)
{
    rungi_pad_attr attr = {.value = value};
    for (int d = 0; d < rung_value_shape(g, x).rank; d++) {
        attr.before[d] = before[d];
        attr.after[d] = after[d];
    }
    return rungi_graph_add1(g, rungi_op_find("pad"), NULL, &attr, &x, 1);
}

rung_value rung_permute(rung_graph *g, rung_value x, const int *dims)
{
    rungi_permute_attr attr = {.rank = rung_value_shape(g, x).rank};
    for (int d = 0; d < attr.rank; d++)
        attr.dims[d] = dims[d];
    return rungi_graph_add1(g, rungi_op_find("permute"), NULL, &attr, &x, 1);
}

rung_value rung_transpose(rung_graph *g, rung_value x, int dim0, int dim1)
{
    rungi_permute_attr attr = {.rank = rung_value_shape(g, x).rank};
    int a = dim0 < 0 ? dim0 + attr.rank : dim0, b = dim1 < 0 ? dim1 + attr.rank : dim1;
    for (int d = 0; d < attr.rank; d++)
        attr.dims[d] = d == a ? b : d == b ? a : d;
    if (a < 0 || a >= attr.rank || b < 0 || b >= attr.rank)
        attr.rank = 0; // no permutation: the shape rule says so
    return rungi_graph_add1(g, rungi_op_find("permute"), NULL, &attr, &x, 1);
}

rung_value rung_matmul_(rung_graph *g, rung_value a, rung_value b,
                        const rung_matmul_options *options)
{
    rungi_matmul_attr attr = {options->transpose_a, options->transpose_b};
    return rungi_graph_add1(g, rungi_op_find("matmul"), NULL, &attr, (rung_value[]){a, b}, 2);
}
