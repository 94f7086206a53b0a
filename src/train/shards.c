// SPDX-License-Identifier: Apache-2.0
#include "train/shards.h"

static void add_into(float *restrict a, const float *restrict b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        a[i] += b[i];
}

void rungi_tree_add(float *const *buffers, int count, int64_t begin, int64_t end)
{
    for (int64_t at = begin; at < end; at += RUNGI_TREE_BLOCK) {
        int64_t n = end - at < RUNGI_TREE_BLOCK ? end - at : RUNGI_TREE_BLOCK;
        for (int stride = 1; stride < count; stride *= 2)
            for (int i = 0; i + stride < count; i += 2 * stride)
                add_into(buffers[i] + at, buffers[i + stride] + at, n);
    }
}
