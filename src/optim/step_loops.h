// SPDX-License-Identifier: Apache-2.0
// Bodies of the optimizers' loops, compiled once per instruction set by the files that include it.
// With p the parameter, g the gradient, and the steps in PyTorch's order:
//
//   g = clamp(g * grad_scale, +-grad_limit) + weight_decay * p
//   SGD        p -= lr * g
//   momentum   b = momentum * b + (1 - dampening) * g;  p -= lr * b
//   Nesterov   b = momentum * b + (1 - dampening) * g;  p -= lr * (g + momentum * b)
//   Adam(W)    m += (1 - beta1) * (g - m);  v = beta2 * v + (1 - beta2) * g * g
//              p = p * shrink - lr' * m / (sqrt(v) / sqrt(1 - beta2^t) + eps),
//              lr' = lr / (1 - beta1^t)
//
// weight_decay = 0, shrink = 1, grad_scale = 1 and no limit change no bits, so that there are no
// variants for them, but for plain SGD: the others are bound by memory.
#include <math.h>
#include <string.h>

#include "optim/step_kernels.h"

// 1 for NaN and infinity, in integers, so that a loop that gathers it is still vectorized.
static inline uint32_t step_nonfinite(float grad)
{
    uint32_t bits;
    memcpy(&bits, &grad, sizeof bits);
    return (bits & 0x7f800000U) == 0x7f800000U;
}

static inline float step_gradient(const rungi_step_coef *c, float grad, float param)
{
    float g = grad * c->grad_scale;
    // NaN stays NaN
    g = g < -c->grad_limit ? -c->grad_limit : g;
    g = g > c->grad_limit ? c->grad_limit : g;
    return g + c->weight_decay * param;
}

static bool step_sgd_plain(const rungi_step_coef *coef, float *restrict param,
                           const float *restrict grad, float *restrict state0,
                           float *restrict state1, int64_t count)
{
    (void)state0, (void)state1;
    const float lr = coef->lr;
    uint32_t bad = 0;
    for (int64_t i = 0; i < count; i++) {
        bad |= step_nonfinite(grad[i]);
        param[i] -= lr * grad[i];
    }
    return bad;
}

static void step_sgd_scaled(const rungi_step_coef *coef, float *restrict param, float factor,
                            const float *restrict x, int64_t count)
{
    const float lr = coef->lr;
    for (int64_t i = 0; i < count; i++)
        param[i] -= lr * (factor * x[i]);
}

static bool step_sgd(const rungi_step_coef *coef, float *restrict param, const float *restrict grad,
                     float *restrict state0, float *restrict state1, int64_t count)
{
    (void)state0, (void)state1;
    const rungi_step_coef c = *coef;
    if (rungi_step_is_plain(coef))
        return step_sgd_plain(coef, param, grad, state0, state1, count);
    uint32_t bad = 0;
    for (int64_t i = 0; i < count; i++) {
        bad |= step_nonfinite(grad[i]);
        param[i] -= c.lr * step_gradient(&c, grad[i], param[i]);
    }
    return bad;
}

static bool step_sgd_momentum(const rungi_step_coef *coef, float *restrict param,
                              const float *restrict grad, float *restrict buffer,
                              float *restrict state1, int64_t count)
{
    (void)state1;
    const rungi_step_coef c = *coef;
    uint32_t bad = 0;
    for (int64_t i = 0; i < count; i++) {
        bad |= step_nonfinite(grad[i]);
        float g = step_gradient(&c, grad[i], param[i]);
        buffer[i] = c.momentum * buffer[i] + c.keep * g;
        param[i] -= c.lr * buffer[i];
    }
    return bad;
}

static bool step_sgd_nesterov(const rungi_step_coef *coef, float *restrict param,
                              const float *restrict grad, float *restrict buffer,
                              float *restrict state1, int64_t count)
{
    (void)state1;
    const rungi_step_coef c = *coef;
    uint32_t bad = 0;
    for (int64_t i = 0; i < count; i++) {
        bad |= step_nonfinite(grad[i]);
        float g = step_gradient(&c, grad[i], param[i]);
        buffer[i] = c.momentum * buffer[i] + c.keep * g;
        param[i] -= c.lr * (g + c.look_ahead * buffer[i]);
    }
    return bad;
}

static bool step_adam(const rungi_step_coef *coef, float *restrict param,
                      const float *restrict grad, float *restrict exp_avg,
                      float *restrict exp_avg_sq, int64_t count)
{
    const rungi_step_coef c = *coef;
    uint32_t bad = 0;
    for (int64_t i = 0; i < count; i++) {
        bad |= step_nonfinite(grad[i]);
        float g = step_gradient(&c, grad[i], param[i]);
        float m = exp_avg[i] + c.keep * (g - exp_avg[i]);
        float v = c.beta2 * exp_avg_sq[i] + c.keep2 * g * g;
        exp_avg[i] = m;
        exp_avg_sq[i] = v;
        param[i] = param[i] * c.shrink - c.lr * m / (sqrtf(v) * c.inv_sqrt_correction2 + c.eps);
    }
    return bad;
}

// GCC's vector extension, so that the lanes' order is written down once for all instruction sets.
// FMA would change nothing here: the square of a float is exact in a double.
typedef float step_f4 __attribute__((vector_size(16)));
typedef double step_d4 __attribute__((vector_size(32)));
#ifndef STEP_WIDEN
#    define STEP_WIDEN(narrow) __builtin_convertvector((narrow), step_d4)
#endif

static double step_sum_squares(const float *x, int64_t count)
{
    step_d4 lane[4] = {{0}};
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
        for (int j = 0; j < 4; j++) {
            step_f4 narrow;
            __builtin_memcpy(&narrow, x + i + 4 * j, sizeof narrow);
            step_d4 wide = STEP_WIDEN(narrow);
            lane[j] += wide * wide;
        }
    }
    for (; i < count; i++)
        lane[i / 4 % 4][i % 4] += (double)x[i] * (double)x[i];
    step_d4 half = (lane[0] + lane[2]) + (lane[1] + lane[3]);
    return (half[0] + half[2]) + (half[1] + half[3]);
}

static void step_to_bf16(uint16_t *restrict to, const float *restrict from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &from[i], sizeof bits);
        uint32_t rounded = (bits + 0x7fffU + (bits >> 16 & 1)) >> 16;
        uint32_t quiet = bits >> 16 | 0x40; // NaN stays NaN
        to[i] = (uint16_t)((bits & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
    }
}
