// SPDX-License-Identifier: Apache-2.0
// Which computing in 16 bits there is: bfloat16 by the dot products of AVX-512 (AVX512_BF16), which
// oneDNN's convolutions and matrix products use, and Winograd's convolutions. Without instructions
// for it, computing in 16 bits is slower than in float32: so there is none.
#include <stdio.h>

#include "base/context.h"
#include "rung/plan.h"

static bool refuse(char *why, size_t size, const char *reason)
{
    if (why)
        snprintf(why, size, "%s", reason);
    return false;
}

bool rung_compute_native(const rung_context *context, rung_dtype precision, char *why, size_t size)
{
    if (precision != RUNG_BF16)
        return refuse(why, size, "no kernel computes in float16 on a CPU");
#if defined(__x86_64__)
    if ((context ? rung_context_isa(context) : rungi_cpu_isa()) < RUNG_ISA_AVX512)
        return refuse(why, size, "this CPU, or device.isa, has no AVX-512 with bf16 dot products");
    if (__builtin_cpu_supports("avx512bf16"))
        return true;
#endif
    (void)context;
    return refuse(why, size, "this CPU has no bf16 dot products (AVX512_BF16)");
}
