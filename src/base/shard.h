// SPDX-License-Identifier: Apache-2.0
// How a batch is cut: over the shards of `exact`, over ranks, over devices.
#ifndef RUNGI_BASE_SHARD_H
#define RUNGI_BASE_SHARD_H

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

// The same for `length` shards from `index` on, which lie side by side.
static inline rungi_shard rungi_shards_of(int64_t count, int shards, int index, int length)
{
    int64_t begin = rungi_shard_of(count, shards, index).begin;
    return (rungi_shard){begin, rungi_shard_of(count, shards, index + length).begin - begin};
}

#endif
