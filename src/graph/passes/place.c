// SPDX-License-Identifier: Apache-2.0
// Dynamic storage allocation is NP-hard. Blocks are placed one after the other, each at the lowest
// place that fits between those that live with it. Largest first is what TensorFlow Lite and others
// settled on (Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020);
// here it is one of several orders. The best of them is then improved by "squeaky wheel"
// optimization (Joslin and Clements, 1999): the blocks at the top of the memory are the ones that
// suffered from the order, so they are moved ahead in it, and all are placed anew.
#include "graph/passes/place.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum {
    ROUNDS = 400,             // of improvement
    WORK = 200 * 1000 * 1000, // pairs of blocks that may be looked at in them
};

typedef int (*order_fn)(const void *, const void *);

static int by_size(const void *a, const void *b)
{
    const rungi_place_block *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->id - y->id;
}

static int by_area(const void *a, const void *b)
{
    const rungi_place_block *x = a, *y = b;
    double ax = (double)x->bytes * (x->last - x->first + 1);
    double ay = (double)y->bytes * (y->last - y->first + 1);
    if (ax != ay)
        return ax < ay ? 1 : -1;
    return x->id - y->id;
}

static int by_start(const void *a, const void *b)
{
    const rungi_place_block *x = a, *y = b;
    if (x->first != y->first)
        return x->first - y->first;
    return by_size(a, b);
}

static int by_end(const void *a, const void *b)
{
    const rungi_place_block *x = a, *y = b;
    if (x->last != y->last)
        return y->last - x->last;
    return by_size(a, b);
}

static int by_length(const void *a, const void *b)
{
    const rungi_place_block *x = a, *y = b;
    int lx = x->last - x->first, ly = y->last - y->first;
    return lx != ly ? ly - lx : by_size(a, b);
}

size_t rungi_place_bound(const rungi_place_block *blocks, size_t count, int *peak_out)
{
    size_t largest = 0;
    int peak = 0;
    // The sum can only be at its largest where a block begins.
    for (size_t k = 0; k < count; k++) {
        int time = blocks[k].first;
        size_t live = 0;
        for (size_t i = 0; i < count; i++)
            if (blocks[i].first <= time && time <= blocks[i].last)
                live += blocks[i].bytes;
        if (live > largest || (live == largest && time < peak)) {
            largest = live;
            peak = time;
        }
    }
    if (peak_out)
        *peak_out = peak;
    return largest;
}

// ---- one placement ----------------------------------------------------------------------------

typedef struct placer {
    rungi_place_block *blocks; // in the order of placing
    size_t count;
    const rungi_place_block **placed; // by offset
} placer;

// Lowest place for block n among those that are placed.
static size_t lowest_fit(const placer *p, size_t n)
{
    const rungi_place_block *b = &p->blocks[n];
    size_t place = 0;
    for (size_t i = 0; i < n; i++) {
        const rungi_place_block *other = p->placed[i];
        if (other->first > b->last || b->first > other->last)
            continue;
        if (other->offset >= place + b->bytes)
            break; // nothing that follows lies lower
        size_t end = other->offset + other->bytes;
        if (end > place)
            place = end;
    }
    return place;
}

static size_t place_all(placer *p)
{
    size_t top = 0;
    for (size_t n = 0; n < p->count; n++) {
        rungi_place_block *b = &p->blocks[n];
        b->offset = lowest_fit(p, n);
        if (b->offset + b->bytes > top)
            top = b->offset + b->bytes;
        size_t at = n;
        for (; at > 0 && p->placed[at - 1]->offset > b->offset; at--)
            p->placed[at] = p->placed[at - 1];
        p->placed[at] = b;
    }
    return top;
}

// ---- improvement ------------------------------------------------------------------------------

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13; // xorshift32 (Marsaglia 2003)
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static void move_ahead(rungi_place_block *blocks, size_t from, size_t to)
{
    rungi_place_block moved = blocks[from];
    memmove(&blocks[to + 1], &blocks[to], (from - to) * sizeof *blocks);
    blocks[to] = moved;
}

// Moves the blocks that end above `goal` ahead by a random part of their way.
static bool blame(placer *p, size_t goal, uint32_t *random)
{
    bool any = false;
    for (size_t i = 1; i < p->count; i++) {
        const rungi_place_block *b = &p->blocks[i];
        if (b->offset + b->bytes <= goal)
            continue;
        move_ahead(p->blocks, i, next_random(random) % i);
        any = true;
    }
    return any;
}

// From the order in p->blocks; the best one is left in `best`.
static void improve(placer *p, size_t bound, rungi_place_block *best, size_t *bytes)
{
    size_t size = p->count * sizeof *best, pairs = p->count * p->count / 2 + 1;
    uint32_t random = 1;
    size_t rounds = WORK / pairs < ROUNDS ? WORK / pairs : ROUNDS;
    for (size_t round = 0; round<rounds && * bytes> bound; round++) {
        // Often anew from the best: a walk that only moves on loses it.
        if (round % 8 == 0)
            memcpy(p->blocks, best, size);
        // A goal half way to the bound lets more blocks move in some rounds.
        size_t goal = round % 2 ? bound : *bytes - 1;
        if (!blame(p, goal, &random))
            memcpy(p->blocks, best, size);
        size_t got = place_all(p);
        if (got < *bytes) {
            *bytes = got;
            memcpy(best, p->blocks, size);
        }
    }
}

rung_status rungi_place_blocks(rungi_place_block *blocks, size_t count, size_t bound,
                               size_t *bytes_out)
{
    static const order_fn orders[] = {by_size, by_area, by_start, by_length, by_end};
    placer p = {.count = count};
    size_t bytes = SIZE_MAX;
    p.blocks = calloc(count + 1, sizeof *p.blocks);
    p.placed = calloc(count + 1, sizeof *p.placed);
    if (!p.blocks || !p.placed) {
        free(p.blocks);
        free(p.placed);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory to plan memory");
    }
    memcpy(p.blocks, blocks, count * sizeof *blocks);
    for (size_t i = 0; i < sizeof orders / sizeof *orders && bytes > bound; i++) {
        qsort(p.blocks, count, sizeof *p.blocks, orders[i]);
        size_t got = place_all(&p);
        if (got < bytes) {
            bytes = got;
            memcpy(blocks, p.blocks, count * sizeof *blocks);
        }
    }
    improve(&p, bound, blocks, &bytes);
    free(p.blocks);
    free(p.placed);
    *bytes_out = count ? bytes : 0;
    return RUNG_OK;
}
