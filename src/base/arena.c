// SPDX-License-Identifier: Apache-2.0
#include "base/arena.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { BLOCK_MIN = 16384, ALIGN_MAX = 4096 };
#define NOWHERE SIZE_MAX

struct rungi_arena_block {
    rungi_arena_block *next;
    size_t capacity;
    size_t filled; // bytes used when the arena went on to the next block
    alignas(max_align_t) unsigned char data[];
};

// Where an object of `size` bytes fits into `block` when `used` bytes are taken, or NOWHERE.
static size_t place(const rungi_arena_block *block, size_t used, size_t size, size_t align)
{
    uintptr_t base = (uintptr_t)block->data;
    size_t start = (size_t)(((base + used + align - 1) & ~(uintptr_t)(align - 1)) - base);
    if (start > block->capacity || size > block->capacity - start)
        return NOWHERE;
    return start;
}

static rungi_arena_block *block_create(size_t size, size_t align)
{
    size_t capacity, total;
    if (!rungi_size_add(size, align, &capacity))
        return NULL;
    if (capacity < BLOCK_MIN)
        capacity = BLOCK_MIN;
    if (!rungi_size_add(capacity, sizeof(rungi_arena_block), &total))
        return NULL;
    rungi_arena_block *block = malloc(total);
    if (block)
        *block = (rungi_arena_block){.capacity = capacity};
    return block;
}

// The next block after the current one that has room: one left by a reset, else a new one.
static bool advance(rungi_arena *arena, size_t size, size_t align)
{
    rungi_arena_block **link = arena->current ? &arena->current->next : &arena->first;
    rungi_arena_block *block = *link;
    if (!block || place(block, 0, size, align) == NOWHERE) {
        rungi_arena_block *fresh = block_create(size, align);
        if (!fresh)
            return false;
        fresh->next = block;
        *link = fresh;
        block = fresh;
    }
    if (arena->current)
        arena->current->filled = arena->used;
    arena->current = block;
    arena->used = 0;
    return true;
}

void *rungi_arena_alloc(rungi_arena *arena, size_t count, size_t size, size_t align)
{
    assert(align > 0 && align <= ALIGN_MAX && (align & (align - 1)) == 0);
    size_t bytes;
    if (!rungi_size_mul(count, size, &bytes))
        return NULL;
    size_t start = arena->current ? place(arena->current, arena->used, bytes, align) : NOWHERE;
    if (start == NOWHERE) {
        if (!advance(arena, bytes, align))
            return NULL;
        start = place(arena->current, 0, bytes, align);
    }
    arena->used = start + bytes;
    return memset(arena->current->data + start, 0, bytes);
}

void *rungi_arena_copy(rungi_arena *arena, const void *data, size_t size, size_t align)
{
    void *copy = rungi_arena_alloc(arena, 1, size, align);
    if (copy && size > 0)
        memcpy(copy, data, size);
    return copy;
}

char *rungi_arena_text(rungi_arena *arena, const char *text)
{
    return rungi_arena_copy(arena, text, strlen(text) + 1, 1);
}

char *rungi_arena_format(rungi_arena *arena, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (length < 0)
        return NULL;
    char *out = rungi_arena_alloc(arena, 1, (size_t)length + 1, 1);
    if (!out)
        return NULL;
    va_start(args, fmt);
    vsnprintf(out, (size_t)length + 1, fmt, args);
    va_end(args);
    return out;
}

size_t rungi_arena_size(const rungi_arena *arena)
{
    size_t total = 0;
    for (const rungi_arena_block *b = arena->first; b && arena->current; b = b->next) {
        if (b == arena->current)
            return total + arena->used;
        total += b->filled;
    }
    return total;
}

void rungi_arena_reset(rungi_arena *arena)
{
    arena->current = NULL;
    arena->used = 0;
}

void rungi_arena_fini(rungi_arena *arena)
{
    for (rungi_arena_block *b = arena->first; b;) {
        rungi_arena_block *next = b->next;
        free(b);
        b = next;
    }
    *arena = (rungi_arena){0};
}
