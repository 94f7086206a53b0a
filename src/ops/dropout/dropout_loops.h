// SPDX-License-Identifier: Apache-2.0
// Applying a mask of bits, compiled once per instruction set.
#include "ops/dropout/dropout.h"
#include "ops/lanes.h"

static void dropout_apply(const float *x, const uint8_t *mask, float *y, int64_t count, float scale)
{
    const rungi_vi bits = {
        1,
        2,
        4,
        8,
#if defined(__AVX2__)
        16,
        32,
        64,
        128,
#endif
    };
    rungi_vf s = rungi_splat(scale);
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        for (int j = 0; j < 8; j += RUNGI_LANES) {
            rungi_vi on = ((mask[i / 8] >> j) - (rungi_vi){0}) & bits;
            rungi_vf v = rungi_load(x + i + j) * s;
            rungi_store(y + i + j, (rungi_vf)((rungi_vi)v & (on == bits)));
        }
    for (; i < count; i++)
        y[i] = mask[i / 8] >> i % 8 & 1 ? x[i] * scale : 0;
}
