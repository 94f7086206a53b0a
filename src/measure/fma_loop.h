// SPDX-License-Identifier: Apache-2.0
// The loop behind rungi_fma_*: compiled once an instruction set, for vectors of FMA_LANES floats.
#include "measure/ceilings.h"

typedef float fma_vector __attribute__((vector_size(FMA_LANES * 4)));

float FMA_NAME(int64_t count)
{
    fma_vector a[RUNGI_FMA_CHAINS], x, y;
    for (int i = 0; i < FMA_LANES; i++) {
        x[i] = 0.999f + 1e-5f * (float)i;
        y[i] = 1e-3f * (float)(i + 1);
        for (int k = 0; k < RUNGI_FMA_CHAINS; k++)
            a[k][i] = (float)(k + i);
    }
    for (int64_t round = 0; round < count; round++)
#pragma GCC unroll 12
        for (int k = 0; k < RUNGI_FMA_CHAINS; k++)
            a[k] = FMA_STEP(a[k], x, y);
    float sum = 0;
    for (int k = 0; k < RUNGI_FMA_CHAINS; k++)
        for (int i = 0; i < FMA_LANES; i++)
            sum += a[k][i];
    return sum;
}
