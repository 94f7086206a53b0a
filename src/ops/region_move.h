// SPDX-License-Identifier: Apache-2.0
// Moves of strided blocks of elements, the engine of region.c.
#ifndef RUNGI_OPS_REGION_MOVE_H
#define RUNGI_OPS_REGION_MOVE_H

#include <stddef.h>
#include <stdint.h>

enum { RUNGI_MOVE_FROM, RUNGI_MOVE_TO, RUNGI_MOVE_RANK = 8 };

typedef struct rungi_move {
    int rank;
    int64_t size[RUNGI_MOVE_RANK];
    int64_t stride[2][RUNGI_MOVE_RANK]; // in elements
    size_t element;                     // bytes: 1, 2, 4 or 8
} rungi_move;

// Copies every element of the block.
void rungi_move_run(const rungi_move *move, const void *from, void *to, int threads);
// Writes one element's bytes to every element of the block (the TO strides count).
void rungi_move_fill(const rungi_move *move, const void *element, void *to, int threads);

#endif
