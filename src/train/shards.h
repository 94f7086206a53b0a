// SPDX-License-Identifier: Apache-2.0
// How a batch is cut by weights, and the fixed tree in which what its shards give is added.
#ifndef RUNGI_TRAIN_SHARDS_H
#define RUNGI_TRAIN_SHARDS_H

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

#endif
