// SPDX-License-Identifier: Apache-2.0
// reshape: the same elements in row-major order under another shape. A view: no kernel, no copy.
#include "ops/reshape/reshape.h"

#include "base/error.h"
#include "ops/cases.h"

static rung_status infer(rungi_infer *i)
{
    const rungi_reshape_attr *a = i->attr;
    const rung_shape *in = &i->in[0].shape;
    rung_shape out = a->shape;
    char from[RUNG_SHAPE_TEXT], to[RUNG_SHAPE_TEXT];
    int64_t count, known = 1;
    int open = -1;
    RUNG_TRY(rung_shape_count(in, &count));
    rung_shape_text(in, from, sizeof from);
    rung_shape_text(&a->shape, to, sizeof to);
    for (int d = 0; d < out.rank; d++) {
        if (out.dim[d] == 0) {
            RUNG_CHECK(d < in->rank, RUNG_MISMATCH, "cannot reshape %s to %s: no dimension %d",
                       from, to, d);
            out.dim[d] = in->dim[d];
        }
        RUNG_CHECK(out.dim[d] > 0 || (out.dim[d] == -1 && open < 0), RUNG_MISMATCH,
                   "cannot reshape %s to %s", from, to);
        if (out.dim[d] == -1)
            open = d;
        else
            known *= out.dim[d];
    }
    if (open >= 0)
        out.dim[open] = count / known;
    RUNG_CHECK(known * (open >= 0 ? out.dim[open] : 1) == count, RUNG_MISMATCH,
               "cannot reshape %s to %s: the number of elements differs", from, to);
    i->out[0] = (rungi_type){i->in[0].dtype, out};
    return RUNG_OK;
}

static const rungi_case cases[] = {{0}}; // no arithmetic: tests/graph_test.c

const rungi_op rungi_op_reshape = {
    .name = "reshape",
    .attr_size = sizeof(rungi_reshape_attr),
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .precision = RUNGI_FOLLOW,
    .view = true,
    .infer = infer,
    .forward = {.name = "forward"},
    .cases = cases,
};
