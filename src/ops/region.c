// SPDX-License-Identifier: Apache-2.0
#include "ops/region.h"

#include <string.h>

#include "ops/element.h"
#include "ops/parallel.h"
#include "ops/region_move.h"

// ---- places -----------------------------------------------------------------------------------

int rungi_dim_of(int dim, int rank)
{
    int d = dim < 0 ? dim + rank : dim;
    return d >= 0 && d < rank ? d : -1;
}

void rungi_unravel(const rung_shape *shape, int64_t i, int64_t *index)
{
    for (int d = shape->rank - 1; d >= 0; d--) {
        index[d] = i % shape->dim[d];
        i /= shape->dim[d];
    }
}

int64_t rungi_place_at(const rungi_operand *o, const int64_t *index)
{
    if (o->layout != RUNGI_PLAIN) {
        rungi_strides s = rungi_strides_of(o->layout, &o->shape);
        return rungi_at(&s, index[0], index[1], index[2], index[3]);
    }
    int64_t place = 0;
    for (int d = 0; d < o->shape.rank; d++)
        place = place * o->shape.dim[d] + index[d];
    return place;
}

int64_t rungi_place(const rungi_operand *o, int64_t i)
{
    int64_t index[RUNG_MAX_RANK];
    if (o->layout == RUNGI_PLAIN)
        return i;
    rungi_unravel(&o->shape, i, index);
    return rungi_place_at(o, index);
}

static int block_of(const rungi_operand *o)
{
    return o->layout == RUNGI_BLOCKED8 ? 8 : o->layout == RUNGI_BLOCKED16 ? 16 : 1;
}

static void strides_of(const rungi_operand *o, int64_t strides[RUNG_MAX_RANK])
{
    int64_t step = 1;
    for (int d = o->shape.rank - 1; d >= 0; d--) {
        strides[d] = step;
        step *= o->shape.dim[d];
    }
    if (o->layout == RUNGI_PLAIN)
        return;
    rungi_strides s = rungi_strides_of(o->layout, &o->shape);
    strides[0] = s.n;
    strides[1] = o->layout == RUNGI_CHANNELS_LAST ? 1 : s.cb; // of a block of channels
    strides[2] = s.h;
    strides[3] = s.w;
}

bool rungi_region_fits(const rungi_region *r, const rung_shape *size, rungi_reason *why)
{
    int block = block_of(r->operand);
    if (block > 1 && (r->start[1] % block || size->dim[1] % block || r->step[1] > 1))
        return rungi_refuse(why, "channels are cut inside of a block");
    return true;
}

static int axis_of(const rungi_region *r, int d)
{
    bool same = true;
    for (int i = 0; i < r->operand->shape.rank; i++)
        same &= r->axis[i] == 0;
    return same ? d : r->axis[d];
}

// Adds the dimensions of a region's part to the move; returns the region's first element.
static int64_t describe(const rungi_region *r, const rung_shape *size, int side, rungi_move *m)
{
    int64_t strides[RUNG_MAX_RANK], first = 0;
    int block = block_of(r->operand);
    strides_of(r->operand, strides);
    m->rank = 0;
    for (int d = 0; d < size->rank; d++) {
        int axis = axis_of(r, d), unit = axis == 1 ? block : 1;
        first += r->start[axis] / unit * strides[axis];
        m->size[m->rank] = size->dim[d] / unit;
        m->stride[side][m->rank++] = strides[axis] * (r->step[axis] > 0 ? r->step[axis] : 1);
    }
    if (block > 1) {
        m->size[m->rank] = block;
        m->stride[side][m->rank++] = 1;
    }
    return first;
}

void rungi_region_copy(const rungi_call *c, const rungi_region *from, const rungi_region *to,
                       const rung_shape *size)
{
    rungi_move m = {.element = rung_dtype_size(to->operand->dtype)};
    int64_t source = describe(from, size, RUNGI_MOVE_FROM, &m);
    int64_t target = describe(to, size, RUNGI_MOVE_TO, &m);
    rungi_move_run(&m, (const char *)rungi_ptr(c, from->operand) + (size_t)source * m.element,
                   (char *)rungi_ptr(c, to->operand) + (size_t)target * m.element, c->q->threads);
}

// ---- filling ----------------------------------------------------------------------------------

static void fill_part(const rungi_call *c, const rungi_region *r, const rung_shape *size,
                      double value)
{
    rungi_move m = {.element = rung_dtype_size(r->operand->dtype)};
    double bits;
    if (rungi_shape_size(size) == 0)
        return;
    rungi_set(r->operand->dtype, &bits, 0, value);
    int64_t target = describe(r, size, RUNGI_MOVE_TO, &m);
    rungi_move_fill(&m, &bits, (char *)rungi_ptr(c, r->operand) + (size_t)target * m.element,
                    c->q->threads);
}

// Dimension by dimension what lies before and behind the region, within what it spans in the
// dimensions that were done.
void rungi_region_fill_around(const rungi_call *c, const rungi_region *inside,
                              const rung_shape *size, double value)
{
    rungi_region part = {.operand = inside->operand};
    rung_shape span = inside->operand->shape;
    for (int d = 0; d < span.rank; d++) {
        int64_t whole = span.dim[d], end = inside->start[d] + size->dim[d];
        part.start[d] = 0;
        span.dim[d] = inside->start[d];
        fill_part(c, &part, &span, value);
        part.start[d] = end;
        span.dim[d] = whole - end;
        fill_part(c, &part, &span, value);
        part.start[d] = inside->start[d];
        span.dim[d] = size->dim[d];
    }
}
