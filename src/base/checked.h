// SPDX-License-Identifier: Apache-2.0
// Size arithmetic that notices overflow. Each returns false and leaves *out alone on overflow.
#ifndef RUNGI_BASE_CHECKED_H
#define RUNGI_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool rungi_size_mul(size_t a, size_t b, size_t *out)
{
    size_t result; // the builtin stores the wrapped value
    if (__builtin_mul_overflow(a, b, &result))
        return false;
    *out = result;
    return true;
}

static inline bool rungi_size_add(size_t a, size_t b, size_t *out)
{
    size_t result; // the builtin stores the wrapped value
    if (__builtin_add_overflow(a, b, &result))
        return false;
    *out = result;
    return true;
}

static inline bool rungi_i64_mul(int64_t a, int64_t b, int64_t *out)
{
    int64_t result; // the builtin stores the wrapped value
    if (__builtin_mul_overflow(a, b, &result))
        return false;
    *out = result;
    return true;
}

static inline bool rungi_i64_add(int64_t a, int64_t b, int64_t *out)
{
    int64_t result; // the builtin stores the wrapped value
    if (__builtin_add_overflow(a, b, &result))
        return false;
    *out = result;
    return true;
}

// Rounds up to a multiple of `unit` (a power of two).
static inline bool rungi_size_round(size_t a, size_t unit, size_t *out)
{
    size_t sum;
    if (!rungi_size_add(a, unit - 1, &sum))
        return false;
    *out = sum & ~(unit - 1);
    return true;
}

#endif
