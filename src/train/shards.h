// SPDX-License-Identifier: Apache-2.0
// How a batch is cut by weights, and the fixed tree in which what its shards give is added.
#ifndef RUNGI_TRAIN_SHARDS_H
#define RUNGI_TRAIN_SHARDS_H

#include <stdbool.h>

#include "base/shard.h"

enum { RUNGI_TREE_BLOCK = 2048 }; // floats added at a time: they stay in the first cache

// buffers[0][begin, end) becomes the sum of all buffers there, added as a binary tree over the
// indexes: (0 + 1) + (2 + 3), ... The other buffers are used up. The tree depends on `count` alone.
void rungi_tree_add(float *const *buffers, int count, int64_t begin, int64_t end);

// The same where parts of the tree have been added already: buffers[i] holds the sum of the
// blocks[i] (a power of two) leaves from i on, and 0 stands for those within a block.
void rungi_tree_add_blocks(float *const *buffers, const int *blocks, int count, int64_t begin,
                           int64_t end);

// Part `index` of `count` samples cut in proportion to weights[parts], all above 0: within one
// sample of the exact share, but that no part is empty before there are fewer samples than parts;
// then the last ones are.
rungi_shard rungi_share_of(int64_t count, const double *weights, int parts, int index);
// The same tree over sums that come one after the other, with a buffer for each of its levels
// alone: a counter in base two. `sum` is number `round`, from 0 on: what it completes is added to
// it, and the result is kept in levels[...]; of the last one everything that is kept is added to
// it, which makes it the sum of all. Numbers below 2^n need n levels, for all but the last.
void rungi_tree_carry(float *sum, float *const *levels, int round, bool last, int64_t begin,
                      int64_t end);
// Levels that so many rounds need.
int rungi_tree_levels(int rounds);
// Branches of the tree, as large as can be, that its first `count` leaves are.
int rungi_tree_branches(int count);

#endif
