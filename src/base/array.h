// SPDX-License-Identifier: Apache-2.0
// A growing array of any element type: a struct with `data`, `count` and `capacity`.
//
//   RUNGI_ARRAY(int) xs = {0};
//   if (!rungi_array_push(&xs, 3)) return RUNG_FAIL(RUNG_NO_MEMORY, ...);
//   rungi_array_fini(&xs);
#ifndef RUNGI_BASE_ARRAY_H
#define RUNGI_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define RUNGI_ARRAY(type) \
    struct {              \
        type *data;       \
        size_t count;     \
        size_t capacity;  \
    }

// Makes room for one more element; false when out of memory.
static inline bool rungi_array_grow_(void **data, size_t count, size_t *capacity, size_t size)
{
    if (count < *capacity)
        return true;
    size_t wanted = *capacity ? *capacity * 2 : 8;
    void *moved = reallocarray(*data, wanted, size);
    if (!moved)
        return false;
    *data = moved;
    *capacity = wanted;
    return true;
}

#define rungi_array_push(a, ...)                                                           \
    (rungi_array_grow_((void **)&(a)->data, (a)->count, &(a)->capacity, sizeof *(a)->data) \
         ? ((a)->data[(a)->count++] = (__VA_ARGS__), true)                                 \
         : false)

#define rungi_array_fini(a) (free((a)->data), (a)->data = NULL, (a)->count = 0, (a)->capacity = 0)

#endif
