// SPDX-License-Identifier: Apache-2.0
// Sums and maxima in 32 lanes, in GCC's vector extension, so that the order of additions is written
// down once for all instruction sets.
#ifndef RUNGI_OPS_ROW_LANES_H
#define RUNGI_OPS_ROW_LANES_H

#include <math.h>
#include <stdint.h>

typedef float rungi_f8 __attribute__((vector_size(32)));
typedef int32_t rungi_i8 __attribute__((vector_size(32)));

#define RUNGI_LOAD8(to, from) __builtin_memcpy(&(to), (from), sizeof(to))

// Element i in lane i % 32, the last n % 8 elements in the last eight lanes, then lanes by halves:
// for up to some thousand elements.
static inline float rungi_lanes_sum(const float *x, int64_t n)
{
    rungi_f8 lane[4] = {{0}}, part;
    int64_t i = 0;
    for (; i + 32 <= n; i += 32)
        for (int k = 0; k < 4; k++) {
            RUNGI_LOAD8(part, x + i + 8 * k);
            lane[k] += part;
        }
    for (int k = 0; k < 3; k++)
        if (i + 8 <= n) {
            RUNGI_LOAD8(part, x + i);
            lane[k] += part;
            i += 8;
        }
    float rest[8] = {0};
    for (int k = 0; i < n; i++)
        rest[k++] = x[i];
    RUNGI_LOAD8(part, rest);
    rungi_f8 all = (lane[0] + lane[2]) + (lane[1] + (lane[3] + part));
    return ((all[0] + all[4]) + (all[2] + all[6])) + ((all[1] + all[5]) + (all[3] + all[7]));
}

static inline float rungi_larger(float a, float b)
{
    return !(a <= b) && b == b ? a : b;
}

#define RUNGI_LARGER8(a, b, to)                                              \
    do {                                                                     \
        rungi_i8 pick_ = ~((a) <= (b)) & ((b) == (b));                       \
        (to) = (rungi_f8)(((rungi_i8)(a)&pick_) | ((rungi_i8)(b) & ~pick_)); \
    } while (0)

// The largest element; NaN is larger than all.
static inline float rungi_lanes_max(const float *x, int64_t n)
{
    float top = -INFINITY;
    int64_t i = 0;
    if (n >= 8) {
        rungi_f8 lane[4], part;
        for (int k = 0; k < 4; k++)
            lane[k] = top - (rungi_f8){0};
        for (; i + 32 <= n; i += 32)
            for (int k = 0; k < 4; k++) {
                RUNGI_LOAD8(part, x + i + 8 * k);
                RUNGI_LARGER8(part, lane[k], lane[k]);
            }
        for (; i + 8 <= n; i += 8) {
            RUNGI_LOAD8(part, x + i);
            RUNGI_LARGER8(part, lane[0], lane[0]);
        }
        RUNGI_LARGER8(lane[0], lane[1], lane[0]);
        RUNGI_LARGER8(lane[2], lane[3], lane[2]);
        RUNGI_LARGER8(lane[0], lane[2], lane[0]);
        for (int k = 0; k < 8; k++)
            top = rungi_larger(lane[0][k], top);
    }
    for (; i < n; i++)
        top = rungi_larger(x[i], top);
    return top;
}

#endif
