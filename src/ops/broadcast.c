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

int64_t rungi_broadcast_offset(const rung_shape *shape, const int64_t strides[RUNG_MAX_RANK],
                               int64_t i)
{
    int64_t offset = 0;
    for (int d = shape->rank - 1; d >= 0; d--) {
        offset += i % shape->dim[d] * strides[d];
        i /= shape->dim[d];
    }
    return offset;
}

double rungi_broadcast_sum(const rung_shape *full, const rung_shape *from, int64_t k,
                           double (*term)(const void *user, int64_t i), const void *user)
{
    int64_t from_strides[RUNG_MAX_RANK];
    rungi_broadcast_strides(from, full, from_strides);
    // What is summed over, with strides of the full shape, and where in that element k begins.
    rungi_walk w = {0};
    rung_shape over = *full;
    int64_t begin = 0, step = 1, count = 1;
    for (int d = full->rank - 1; d >= 0; d--) {
        if (from_strides[d]) {
            begin += k / from_strides[d] % full->dim[d] * step;
            over.dim[d] = 1;
        }
        w.strides[0][d] = step;
        step *= full->dim[d];
        count *= over.dim[d];
    }
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += term(user, begin + w.offset[0]);
        rungi_walk_next(&w, &over);
    }
    return sum;
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
