// SPDX-License-Identifier: Apache-2.0
// Shards of a batch, and the fixed tree in which what they give is added.
#ifndef RUNGI_TRAIN_SHARDS_H
#define RUNGI_TRAIN_SHARDS_H

#include <stdint.h>

typedef struct rungi_shard {
    int64_t begin, count;
} rungi_shard;

// Shard `index` of a batch of `count` samples cut into `shards`: sizes differ by at most one, the
// larger ones come first; sizes may be zero.
static inline rungi_shard rungi_shard_of(int64_t count, int shards, int index)
{
    int64_t base = count / shards, more = count % shards;
    return (rungi_shard){base * index + (index < more ? index : more), base + (index < more)};
}

enum { RUNGI_TREE_BLOCK = 2048 }; // floats added at a time: they stay in the first cache

// buffers[0][begin, end) becomes the sum of all buffers there, added as a binary tree over the
// indexes: (0 + 1) + (2 + 3), ... The other buffers are used up. The tree depends on `count` alone.
void rungi_tree_add(float *const *buffers, int count, int64_t begin, int64_t end);

#endif
