// SPDX-License-Identifier: Apache-2.0
#include "comm/combine.h"

#include "comm/combine_loops.h"

static const rungi_combine_loops loops_plain = COMBINE_TABLE;
#if defined(__x86_64__)
extern const rungi_combine_loops rungi_combine_loops_avx2;
#endif

const rungi_combine_loops *rungi_combine_loops_for(rung_isa isa)
{
#if defined(__x86_64__)
    if (isa >= RUNG_ISA_AVX2)
        return &rungi_combine_loops_avx2;
#endif
    (void)isa;
    return &loops_plain;
}

enum { BLOCK_BYTES = 4096, LEVELS = 11 }; // 2^(LEVELS - 1) = RUNGI_COMBINE_RANKS

// One block of a tree.
typedef struct block {
    rungi_combine_fn *pair;
    int count;
    int64_t n;
    const char *in[RUNGI_COMBINE_RANKS];
    _Alignas(64) char sums[LEVELS][BLOCK_BYTES];
} block;

// The sum over ranks [first, first + 2^level) where they exist: an input, or `dest`.
static const void *subtree(block *b, int first, int level, void *dest)
{
    if (level == 0)
        return b->in[first];
    int middle = first + (1 << (level - 1));
    const void *left = subtree(b, first, level - 1, dest);
    if (middle >= b->count)
        return left;
    const void *right = subtree(b, middle, level - 1, b->sums[level - 1]);
    b->pair(dest, left, right, b->n);
    return dest;
}

// The sum of a block over all ranks: its last addition goes to `dest`, which may be an input.
static const void *sum(block *b, int level, void *dest)
{
    if (level == 0)
        return b->in[0];
    int middle = 1 << (level - 1);
    const void *left = subtree(b, 0, level - 1, b->sums[level]);
    const void *right = subtree(b, middle, level - 1, b->sums[level - 1]);
    b->pair(dest, left, right, b->n);
    return dest;
}

void rungi_combine_tree(const rungi_combine_loops *loops, rung_dtype dtype, rungi_comm_op op,
                        const void *const *in, int count, void *const *out, int outs, int64_t n)
{
    if (count == 2 && outs == 2 && dtype == RUNG_F32 && op == RUNGI_COMM_SUM && in[0] == out[0] &&
        in[1] == out[1]) {
        loops->both(out[0], out[1], n);
        return;
    }
    int level = 0;
    while (1 << level < count)
        level++;
    block b; // large: filled as far as it is used
    b.pair = loops->pair[dtype][op];
    b.count = count;
    int64_t size = (int64_t)rung_dtype_size(dtype), step = BLOCK_BYTES / size;
    for (int64_t at = 0; at < n; at += step) {
        b.n = n - at < step ? n - at : step;
        for (int i = 0; i < count; i++)
            b.in[i] = (const char *)in[i] + at * size;
        const void *result = sum(&b, level, (char *)out[0] + at * size);
        for (int k = 0; k < outs; k++) {
            char *to = (char *)out[k] + at * size;
            if (to != result)
                memcpy(to, result, (size_t)(b.n * size));
        }
    }
}
