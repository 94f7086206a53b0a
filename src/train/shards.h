// SPDX-License-Identifier: Apache-2.0
// The fixed tree in which what the shards of a batch give is added.
#ifndef RUNGI_TRAIN_SHARDS_H
#define RUNGI_TRAIN_SHARDS_H

#include "base/shard.h"

enum { RUNGI_TREE_BLOCK = 2048 }; // floats added at a time: they stay in the first cache

// buffers[0][begin, end) becomes the sum of all buffers there, added as a binary tree over the
// indexes: (0 + 1) + (2 + 3), ... The other buffers are used up. The tree depends on `count` alone.
void rungi_tree_add(float *const *buffers, int count, int64_t begin, int64_t end);

#endif
