// SPDX-License-Identifier: Apache-2.0
// Placing blocks with known lifetimes in one stretch of memory: dynamic storage allocation.
#ifndef RUNGI_GRAPH_PASSES_PLACE_H
#define RUNGI_GRAPH_PASSES_PLACE_H

#include <stddef.h>

#include "rung/status.h"

typedef struct rungi_place_block {
    int id; // the caller's; equal blocks are taken in its order
    size_t bytes;
    int first, last; // times between which it lives, both included; not negative
    size_t offset;   // out
} rungi_place_block;

// The largest sum of blocks that live at one time, and the first such time (peak_out may be NULL).
// No placement takes less.
size_t rungi_place_bound(const rungi_place_block *blocks, size_t count, int *peak_out);

// Gives each block an offset so that blocks that live at the same time do not overlap. Several
// greedy orders are tried, then the best is improved; it ends early at `bound`. The blocks are
// brought into another order. The same blocks always give the same places.
// Errors: RUNG_NO_MEMORY.
rung_status rungi_place_blocks(rungi_place_block *blocks, size_t count, size_t bound,
                               size_t *bytes_out);

#endif
