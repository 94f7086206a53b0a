// SPDX-License-Identifier: Apache-2.0
// How the own kernels of batch_norm cut their work, and the sums that they put together.
//
// Rows (counted over all images) are cut into chunks, groups into tiles, both by the shape alone;
// sums are taken per chunk and put together in the order of the chunks, so that threads do not
// show.
#ifndef RUNGI_OPS_BATCH_NORM_WORK_H
#define RUNGI_OPS_BATCH_NORM_WORK_H

#include "ops/batch_norm/batch_norm.h"
#include "tensor/half.h"

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

// An image's values: float32, or of 16 bits, of which the loops see float32 copies, block by block.
// `data` NULL: there is none.
typedef struct rungi_bn_array {
    void *data;
    rung_dtype dtype;
    const rungi_half_loops *half;
} rungi_bn_array;

rungi_bn_array rungi_bn_array_of(const rungi_call *c, const rungi_operand *o);

// A copy has room for so many values, and a block of rows of so many lanes has to fit.
enum { RUNGI_BN_ROOM = 4096 };

// Rows of a piece that are looked at together, to be summed or else: all, where nothing is copied.
int64_t rungi_bn_block(const rungi_bn_array *x, int64_t rows, int64_t lanes, bool sums);
// Elements [at, at + count): where they lie, or copied into `room`.
const float *rungi_bn_read(const rungi_bn_array *a, int64_t at, int64_t count, float *room);
// Where such elements are to be written: there, or into `room`, for rungi_bn_write.
float *rungi_bn_target(const rungi_bn_array *a, int64_t at, float *room);
void rungi_bn_write(const rungi_bn_array *a, int64_t at, int64_t count, const float *from);

// Range of channels of a tile.
void rungi_bn_channels_of(const rungi_bn_cut *cut, int64_t tile, int64_t *begin, int64_t *end);

// Sums of a chunk of a tile for the batch's statistics, and their merging into mean and var of the
// channels [begin, end).
void rungi_bn_take_moments(const rungi_bn_cut *cut, const rungi_bn_scratch *s,
                           const rungi_bn_loops *loops, const rungi_bn_array *x, int64_t chunk,
                           int64_t tile);
void rungi_bn_merge_moments(const rungi_bn_cut *cut, const rungi_bn_scratch *s, int64_t begin,
                            int64_t end);
// The same of sums that whoever made x left (ops/channel_sums.h).
typedef struct rungi_bn_left {
    const float *data; // NULL: there are none
    int64_t parts;
} rungi_bn_left;
void rungi_bn_merge_left(const rungi_bn_cut *cut, const rungi_bn_scratch *s,
                         const rungi_bn_left *left, int64_t begin, int64_t end);

// A gate of all elements and channels: y apart, of which the gate's own is not looked at.
typedef struct rungi_bn_gates {
    rungi_bn_gate gate;
    rungi_bn_array y;
} rungi_bn_gates;

// The part of it for elements [at, at + count) of a piece, y copied into `room` if need be.
rungi_bn_gate rungi_bn_gate_at(const rungi_bn_gates *gates, const rungi_bn_piece *piece, int64_t at,
                               int64_t count, float *room);

// Sums of a chunk of a tile for the gradients, and their merging into the cells of chunk 0.
void rungi_bn_take_gradients(const rungi_bn_cut *cut, const rungi_bn_scratch *s,
                             const rungi_bn_loops *loops, const rungi_bn_array *x,
                             const rungi_bn_array *gy, const rungi_bn_gates *gates,
                             const float *mean, int64_t chunk, int64_t tile);
void rungi_bn_merge_gradients(const rungi_bn_cut *cut, const rungi_bn_scratch *s, int64_t begin,
                              int64_t end);

#endif
