// SPDX-License-Identifier: Apache-2.0
// A tensor seen along one dimension: [outer, n, inner], for operators that work along it.
#ifndef RUNGI_OPS_ROWS_H
#define RUNGI_OPS_ROWS_H

#include "base/error.h"
#include "rung/tensor.h"

typedef struct rungi_rows {
    int dim; // 0 or more
    int64_t outer, n, inner;
} rungi_rows;

// `dim` counts from the end where negative; it is in range.
static inline rungi_rows rungi_rows_of(const rung_shape *shape, int dim)
{
    rungi_rows r = {.dim = dim < 0 ? dim + shape->rank : dim, .outer = 1, .n = 1, .inner = 1};
    for (int d = 0; d < shape->rank; d++)
        *(d < r.dim ? &r.outer : d == r.dim ? &r.n : &r.inner) *= shape->dim[d];
    return r;
}

// Is `dim` in range? For shape rules.
static inline rung_status rungi_rows_check(const rung_shape *shape, int dim)
{
    char text[RUNG_SHAPE_TEXT];
    RUNG_CHECK(dim >= -shape->rank && dim < shape->rank, RUNG_MISMATCH, "%s has no dimension %d",
               rung_shape_text(shape, text, sizeof text), dim);
    return RUNG_OK;
}

#endif
