// SPDX-License-Identifier: Apache-2.0
// A bump arena: many small objects that die together, such as the values and operators of a graph.
//
//   rungi_arena arena = {0};
//   node *n = rungi_arena_new(&arena, node, 1); // zeroed; NULL when out of memory
//   rungi_arena_fini(&arena);                   // frees everything at once
//
// Addresses never move. One thread at a time.
#ifndef RUNGI_BASE_ARENA_H
#define RUNGI_BASE_ARENA_H

#include <stdalign.h>
#include <stddef.h>

#include "rung/status.h"

typedef struct rungi_arena_block rungi_arena_block;

// Starts from {0}.
typedef struct rungi_arena {
    rungi_arena_block *first;   // blocks in the order of use
    rungi_arena_block *current; // the one being filled
    size_t used;                // bytes used of `current`
} rungi_arena;

// `count` objects of `size` bytes, zeroed, aligned to `align` (a power of two up to 4096). NULL
// when out of memory or when the product overflows. A count of 0 gives a valid pointer to nothing.
void *rungi_arena_alloc(rungi_arena *arena, size_t count, size_t size, size_t align);

#define rungi_arena_new(arena, type, count) \
    ((type *)rungi_arena_alloc((arena), (count), sizeof(type), alignof(type)))

// A copy of `text`, or of formatted text; NULL when out of memory.
char *rungi_arena_text(rungi_arena *arena, const char *text);
char *rungi_arena_format(rungi_arena *arena, const char *fmt, ...) RUNG_PRINTF(2, 3);
// A copy of `size` bytes; NULL when out of memory.
void *rungi_arena_copy(rungi_arena *arena, const void *data, size_t size, size_t align);

// Bytes handed out since the last reset, padding included.
size_t rungi_arena_size(const rungi_arena *arena);

// Forgets all objects and keeps the memory for the next ones.
void rungi_arena_reset(rungi_arena *arena);
// Frees everything. The arena is empty afterwards and can be used again.
void rungi_arena_fini(rungi_arena *arena);

#endif
