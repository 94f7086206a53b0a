// SPDX-License-Identifier: Apache-2.0
#include "ops/broadcast.h"

bool rungi_broadcast_shape(const rung_shape *a, const rung_shape *b, rung_shape *out)
{
    rung_shape shape = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int i = 1; i <= shape.rank; i++) {
        int64_t da = i <= a->rank ? a->dim[a->rank - i] : 1;
        int64_t db = i <= b->rank ? b->dim[b->rank - i] : 1;
        if (da != db && da != 1 && db != 1)
            return false;
        shape.dim[shape.rank - i] = da == 1 ? db : da;
    }
    *out = shape;
    return true;
}

void rungi_broadcast_strides(const rung_shape *in, const rung_shape *out,
                             int64_t strides[RUNG_MAX_RANK])
{
    int64_t step = 1;
    for (int i = 0; i < RUNG_MAX_RANK; i++)
        strides[i] = 0;
    for (int i = 1; i <= in->rank; i++) {
        int64_t size = in->dim[in->rank - i];
        strides[out->rank - i] = size == 1 ? 0 : step;
        step *= size;
    }
}

void rungi_walk_next(rungi_walk *w, const rung_shape *shape)
{
    for (int d = shape->rank - 1; d >= 0; d--) {
        w->index[d]++;
        for (int k = 0; k < 3; k++)
            w->offset[k] += w->strides[k][d];
        if (w->index[d] < shape->dim[d])
            return;
        for (int k = 0; k < 3; k++)
            w->offset[k] -= w->strides[k][d] * shape->dim[d];
        w->index[d] = 0;
    }
}
