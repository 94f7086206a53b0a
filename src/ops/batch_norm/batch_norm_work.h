// SPDX-License-Identifier: Apache-2.0
// How the own kernels of batch_norm cut their work, and the sums that they put together.
//
// Rows (counted over all images) are cut into chunks, groups into tiles, both by the shape alone;
// sums are taken per chunk and put together in the order of the chunks, so that threads do not
// show.
#ifndef RUNGI_OPS_BATCH_NORM_WORK_H
#define RUNGI_OPS_BATCH_NORM_WORK_H

#include "ops/batch_norm/batch_norm.h"

typedef struct rungi_bn_cut {
    rungi_bn_form form;
    int64_t total, chunk, chunks; // rows: all, of a chunk, how many chunks
    int64_t tile, tiles;          // groups: of a tile, how many tiles
} rungi_bn_cut;

rungi_bn_cut rungi_bn_cut_of(const rungi_operand *x);

// Backward keeps a, b and c of rungi_bn_loops.grad and a gate's scale and bias.
enum { RUNGI_BN_NUMBERS = 5 };

// Scratch, in the call's workspace: sums by chunk and channel, then numbers by channel.
typedef struct rungi_bn_scratch {
    double *s1, *s2;                 // [chunks][channels]
    float *shift;                    // [chunks][channels]
    double *numbers;                 // rungi_bn_meet_*: mean and var lie in it
    double *mean, *var;              // [channels]; backward: of all ranks, the sums s1 and s2
    float *number[RUNGI_BN_NUMBERS]; // [channels]
} rungi_bn_scratch;

size_t rungi_bn_scratch_bytes(const rungi_bn_cut *cut);
rungi_bn_scratch rungi_bn_scratch_of(const rungi_bn_cut *cut, void *workspace);

// Rows of one group that lie in one image.
typedef struct rungi_bn_piece {
    int64_t at;      // first element
    int64_t rows;    // how many
    int64_t channel; // first channel
    int64_t cell;    // of the chunk's sums of that channel
} rungi_bn_piece;

// Walks through the pieces of a chunk of a tile in the order in which they lie in memory.
typedef struct rungi_bn_walk {
    const rungi_bn_cut *cut;
    int64_t chunk, row, end;
    int64_t group, first, last;
} rungi_bn_walk;

rungi_bn_walk rungi_bn_walk_of(const rungi_bn_cut *cut, int64_t chunk, int64_t tile);
bool rungi_bn_next(rungi_bn_walk *walk, rungi_bn_piece *piece);

// Range of channels of a tile.
void rungi_bn_channels_of(const rungi_bn_cut *cut, int64_t tile, int64_t *begin, int64_t *end);

// Sums of a chunk of a tile for the batch's statistics, and their merging into mean and var of the
// channels [begin, end).
void rungi_bn_take_moments(const rungi_bn_cut *cut, const rungi_bn_scratch *s,
                           const rungi_bn_loops *loops, const float *x, int64_t chunk,
                           int64_t tile);
void rungi_bn_merge_moments(const rungi_bn_cut *cut, const rungi_bn_scratch *s, int64_t begin,
                            int64_t end);

// The part of a gate (of all elements and channels) for a piece.
rungi_bn_gate rungi_bn_gate_at(const rungi_bn_gate *gate, const rungi_bn_piece *piece);

// Sums of a chunk of a tile for the gradients, and their merging into the cells of chunk 0.
void rungi_bn_take_gradients(const rungi_bn_cut *cut, const rungi_bn_scratch *s,
                             const rungi_bn_loops *loops, const float *x, const float *gy,
                             const rungi_bn_gate *gate, const float *mean, int64_t chunk,
                             int64_t tile);
void rungi_bn_merge_gradients(const rungi_bn_cut *cut, const rungi_bn_scratch *s, int64_t begin,
                              int64_t end);

#endif
