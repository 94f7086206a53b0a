// SPDX-License-Identifier: Apache-2.0
#include "tensor/half.h"

#include <string.h>

static void widen_f16(const uint16_t *restrict from, float *restrict to, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = rung_f16_to_f32(from[i]);
}

static void narrow_f16(const float *restrict from, uint16_t *restrict to, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = rung_f32_to_f16(from[i]);
}

// Without branches, so that compilers make vectors of them.
static void widen_bf16(const uint16_t *restrict from, float *restrict to, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(to + i, &bits, sizeof bits);
    }
}

static void narrow_bf16(const float *restrict from, uint16_t *restrict to, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, from + i, sizeof bits);
        uint32_t rounded = bits + 0x7FFF + (bits >> 16 & 1);
        uint32_t nan = (uint32_t) - ((bits & 0x7FFFFFFF) > 0x7F800000);
        to[i] = (uint16_t)((nan & (bits | 0x400000)) >> 16 | (~nan & rounded) >> 16);
    }
}

const rungi_half_loops rungi_half_loops_plain = {.widen_f16 = widen_f16,
                                                 .widen_bf16 = widen_bf16,
                                                 .narrow_f16 = narrow_f16,
                                                 .narrow_bf16 = narrow_bf16};

const rungi_half_loops *rungi_half_loops_for(rung_isa isa)
{
#if defined(__x86_64__)
    if (isa >= RUNG_ISA_AVX2)
        return &rungi_half_loops_avx2;
#endif
    (void)isa;
    return &rungi_half_loops_plain;
}
