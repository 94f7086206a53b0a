// SPDX-License-Identifier: Apache-2.0
// Loops of the elementwise operators, compiled once per instruction set (see ops/simd.h).
#include "ops/simd.h"
#include "ops/unary.h"
#include "ops/unary_formulas.h"

#define UNARY_LOOPS(name)                                                                 \
    static void name##_forward(const float *x, float *y, int64_t n,                       \
                               const rungi_unary_param *param)                            \
    {                                                                                     \
        const rungi_unary_param p = *param;                                               \
        RUNGI_VECTORIZE                                                                   \
        for (int64_t i = 0; i < n; i++)                                                   \
            y[i] = name##_value(x[i], p);                                                 \
    }                                                                                     \
    static void name##_backward(const float *kept, const float *gy, float *gx, int64_t n, \
                                const rungi_unary_param *param)                           \
    {                                                                                     \
        const rungi_unary_param p = *param;                                               \
        RUNGI_VECTORIZE                                                                   \
        for (int64_t i = 0; i < n; i++)                                                   \
            gx[i] = name##_gradient(kept[i], gy[i], p);                                   \
    }
RUNGI_UNARY_FORMULAS(UNARY_LOOPS)

#define UNARY_FORWARD(name) name##_forward,
#define UNARY_BACKWARD(name) name##_backward,
#define UNARY_TABLE                                         \
    {                                                       \
        .forward = {RUNGI_UNARY_FORMULAS(UNARY_FORWARD)},   \
        .backward = {RUNGI_UNARY_FORMULAS(UNARY_BACKWARD)}, \
    }
