// SPDX-License-Identifier: Apache-2.0
// Winograd's kernels of bf16: see conv2d_winograd_half.h.
#include "ops/conv2d/conv2d_winograd_half.h"

#include <stdlib.h>

#include "ops/conv2d/conv2d.h"
#include "ops/conv2d/conv2d_winograd_half_loops.h"

// The products take half of float32's time, the transforms the same: so twice the channels for
// which that pays. Measured on Zen 4, one thread, forward of six layers beside oneDNN's of bf16:
// 64x32->32@32 31.7 ms for 34.7, 64x48->48@32 56.0 for 74.2, 64x64->64@32 89.1 for 131.0.
enum { ENOUGH_CHANNELS = 32 };

const rungi_wino_loops rungi_wino_half_plain[2] = WINO_HALF_TABLE;

static const rungi_wino_loops *loops_for(const rungi_query *q)
{
#if defined(__x86_64__)
    if (q->isa >= RUNG_ISA_AVX512 && __builtin_cpu_supports("avx512bf16"))
        return &rungi_wino_half_avx512bf16[q->winograd_f4];
    if (q->isa >= RUNG_ISA_AVX2)
        return &rungi_wino_half_avx2[q->winograd_f4];
#endif
    return &rungi_wino_half_plain[q->winograd_f4];
}

static bool only_bf16(const rungi_operand *list, int n)
{
    for (int i = 0; i < n; i++)
        if (list[i].buffer >= 0 && list[i].dtype != RUNG_BF16)
            return false;
    return true;
}

static bool takes(const rungi_query *q, const rungi_operand *result, rungi_reason *why)
{
    if (!only_bf16(q->in, q->n_in) || !only_bf16(result, 1))
        return rungi_refuse(why, "bf16 only");
    return q->native || rungi_refuse(why, "no instructions for these 16 bits");
}

static bool forward_can_run(const rungi_query *q, rungi_reason *why)
{
    return takes(q, &q->out[0], why) && rungi_wino_can_run_forward(q, why);
}

static bool data_can_run(const rungi_query *q, rungi_reason *why)
{
    if (q->n_fused)
        return rungi_refuse(why, "cannot apply %s", q->fused[0].op->name);
    if (!only_bf16(q->gout, 1))
        return rungi_refuse(why, "bf16 only");
    return takes(q, &q->gin[0], why) && rungi_wino_can_run(q, &q->gin[0], &q->gout[0], why);
}

static bool pays(const rungi_query *q)
{
    const int64_t *w = q->in[1].shape.dim;
    return w[0] >= ENOUGH_CHANNELS && w[1] >= ENOUGH_CHANNELS;
}

static double flops(const rungi_query *q)
{
    return rungi_wino_flops(q, q->winograd_f4 ? 4 : 2);
}

static rung_status create(const rungi_query *q, rungi_setup *setup)
{
    return rungi_wino_create(q, loops_for(q), setup);
}

const rungi_kernel rungi_conv2d_forward_winograd_half = {.name = "winograd_bf16",
                                                         .kind = RUNGI_OWN,
                                                         .can_run = forward_can_run,
                                                         .prefers = pays,
                                                         .flops = flops,
                                                         .fuses = true,
                                                         .halves = true,
                                                         .create = create,
                                                         .destroy = free,
                                                         .run = rungi_wino_run};
const rungi_kernel rungi_conv2d_data_winograd_half = {.name = "winograd_bf16",
                                                      .kind = RUNGI_OWN,
                                                      .can_run = data_can_run,
                                                      .prefers = pays,
                                                      .flops = flops,
                                                      .halves = true,
                                                      .create = create,
                                                      .destroy = free,
                                                      .run = rungi_wino_run};
