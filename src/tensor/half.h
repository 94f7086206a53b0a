// SPDX-License-Identifier: Apache-2.0
// Arrays of 16-bit floats to float32 and back, as fast as memory allows. Rounding is to nearest
// even, NaN stays NaN, what is beyond the range becomes an infinity: the numbers are those of
// rung_f16_to_f32 and its kin, with every instruction set; but F16C makes the signalling NaNs of
// f16 quiet.
#ifndef RUNGI_TENSOR_HALF_H
#define RUNGI_TENSOR_HALF_H

#include <stdbool.h>
#include <stdint.h>

#include "rung/context.h"
#include "rung/tensor.h"

typedef void rungi_widen_fn(const uint16_t *from, float *to, int64_t count);
typedef void rungi_narrow_fn(const float *from, uint16_t *to, int64_t count);

typedef struct rungi_half_loops {
    rungi_widen_fn *widen_f16, *widen_bf16;
    rungi_narrow_fn *narrow_f16, *narrow_bf16;
} rungi_half_loops;

// The fastest loops for that instruction set. Arrays may not overlap.
const rungi_half_loops *rungi_half_loops_for(rung_isa isa);

extern const rungi_half_loops rungi_half_loops_plain;
#if defined(__x86_64__)
extern const rungi_half_loops rungi_half_loops_avx2;
#endif

static inline bool rungi_dtype_is_half(rung_dtype dtype)
{
    return dtype == RUNG_F16 || dtype == RUNG_BF16;
}

static inline rungi_widen_fn *rungi_widen_of(const rungi_half_loops *loops, rung_dtype from)
{
    return from == RUNG_F16 ? loops->widen_f16 : loops->widen_bf16;
}

static inline rungi_narrow_fn *rungi_narrow_of(const rungi_half_loops *loops, rung_dtype to)
{
    return to == RUNG_F16 ? loops->narrow_f16 : loops->narrow_bf16;
}

#endif
