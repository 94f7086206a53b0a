// SPDX-License-Identifier: Apache-2.0
// Vectors of pooling windows side by side in plain layout.
#ifndef RUNGI_OPS_POOL_LANES_H
#define RUNGI_OPS_POOL_LANES_H

#include "ops/lanes.h"
#include "ops/pool_window.h"

// May the windows of row `row` from column j on be read by vectors: strides of 1 or 2, no padding,
// and not beyond the image's last row?
static inline bool rungi_pool_whole(const rungi_pool_windows *w, int64_t row, int64_t j)
{
    const rungi_pool_axis *cols = &w->cols;
    int64_t last = j + RUNGI_LANES - 1;
    if (cols->stride < 1 || cols->stride > 2 || last >= cols->out || cols->skip[j] ||
        cols->end[last] - cols->begin[last] != cols->kernel)
        return false;
    int64_t behind = (w->rows.end[row] - 1) * cols->in + cols->begin[j] + cols->kernel - 1 +
                     RUNGI_LANES * cols->stride;
    return behind <= w->rows.in * cols->in;
}

// Column to go on at: j, or further back where that makes a last vector, some of whose windows have
// been done before.
static inline int64_t rungi_pool_at(const rungi_pool_windows *w, int64_t row, int64_t j)
{
    int64_t back = w->cols.out - RUNGI_LANES;
    return j > back && back >= 0 && rungi_pool_whole(w, row, back) ? back : j;
}

#endif
