// SPDX-License-Identifier: Apache-2.0
// Counts allocations of rung's own code: a program linked with --wrap for each of these functions
// (tests/CMakeLists.txt lists it) takes the calls of its own objects and of rung's library here,
// not those inside of shared libraries. Included by one file of the program.
#ifndef RUNGI_TESTS_ALLOCATION_COUNT_H
#define RUNGI_TESTS_ALLOCATION_COUNT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

static atomic_llong allocations_made;

// Calls since the program began, of all threads.
static inline int64_t allocation_count(void)
{
    return atomic_load(&allocations_made);
}

#define COUNT_ALLOCATIONS(name, parameters, arguments) \
    void *__real_##name parameters;                    \
    void *__wrap_##name parameters;                    \
    void *__wrap_##name parameters                     \
    {                                                  \
        atomic_fetch_add(&allocations_made, 1);        \
        return __real_##name arguments;                \
    }

COUNT_ALLOCATIONS(malloc, (size_t size), (size))
COUNT_ALLOCATIONS(calloc, (size_t count, size_t size), (count, size))
COUNT_ALLOCATIONS(realloc, (void *old, size_t size), (old, size))
COUNT_ALLOCATIONS(reallocarray, (void *old, size_t count, size_t size), (old, count, size))
COUNT_ALLOCATIONS(aligned_alloc, (size_t alignment, size_t size), (alignment, size))
COUNT_ALLOCATIONS(strdup, (const char *text), (text))

#endif
