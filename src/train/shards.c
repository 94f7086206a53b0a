// SPDX-License-Identifier: Apache-2.0
#include "train/shards.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static void add_into(float *restrict a, const float *restrict b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        a[i] += b[i];
}

void rungi_tree_add(float *const *buffers, int count, int64_t begin, int64_t end)
{
    rungi_tree_add_blocks(buffers, NULL, count, begin, end);
}

void rungi_tree_add_blocks(float *const *buffers, const int *blocks, int count, int64_t begin,
                           int64_t end)
{
    for (int64_t at = begin; at < end; at += RUNGI_TREE_BLOCK) {
        int64_t n = end - at < RUNGI_TREE_BLOCK ? end - at : RUNGI_TREE_BLOCK;
        for (int stride = 1; stride < count; stride *= 2)
            for (int i = 0; i + stride < count; i += 2 * stride)
                if (!blocks || (blocks[i] && blocks[i] <= stride))
                    add_into(buffers[i] + at, buffers[i + stride] + at, n);
    }
}

rungi_shard rungi_share_of(int64_t count, const double *weights, int parts, int index)
{
    double all = 0, before = 0;
    int64_t begin = 0;
    for (int i = 0; i < parts; i++)
        all += weights[i];
    for (int i = 0;; i++) {
        before += weights[i];
        int64_t end = (int64_t)ceil((double)count * before / all - 1e-9);
        int64_t most = count - (parts - 1 - i); // leaves one for each that follows
        end = i == parts - 1 || end > most ? most : end;
        end = end <= begin ? begin + 1 : end;
        end = end > count ? count : end;
        if (i == index)
            return (rungi_shard){begin, end - begin};
        begin = end;
    }
}

static void carry(float *sum, float *const *levels, int round, bool last, int64_t at, int64_t n)
{
    int level = 0;
    for (; round >> level & 1; level++)
        add_into(sum, levels[level] + at, n);
    if (!last)
        memcpy(levels[level] + at, sum, (size_t)n * sizeof *sum);
    for (; last && round >> level; level++)
        if (round >> level & 1)
            add_into(sum, levels[level] + at, n);
}

void rungi_tree_carry(float *sum, float *const *levels, int round, bool last, int64_t begin,
                      int64_t end)
{
    for (int64_t at = begin; at < end; at += RUNGI_TREE_BLOCK)
        carry(sum + at, levels, round, last, at,
              end - at < RUNGI_TREE_BLOCK ? end - at : RUNGI_TREE_BLOCK);
}

int rungi_tree_branches(int count)
{
    int branches = 0;
    for (; count; count &= count - 1) // one for each power of two in it
        branches++;
    return branches;
}

int rungi_tree_levels(int rounds)
{
    int levels = 0;
    while ((rounds - 1) >> levels)
        levels++;
    return levels;
}
