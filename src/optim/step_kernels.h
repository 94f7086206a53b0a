// SPDX-License-Identifier: Apache-2.0
// The loops of the optimizers over contiguous elements. Every instruction set computes the same
// bits: the loops use only +, -, *, / and sqrt in float32, each rounded on its own (the build
// forbids contraction), and sums of squares have a fixed shape.
#ifndef RUNGI_OPTIM_STEP_KERNELS_H
#define RUNGI_OPTIM_STEP_KERNELS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "rung/context.h"

// The numbers of one step for elements with equal settings.
typedef struct rungi_step_coef {
    float grad_scale;           // gradients are multiplied by it: unscaling and clipping by norm
    float grad_limit;           // and then kept within +-it; infinity when off
    float weight_decay;         // times the parameter, added to the gradient (not for AdamW)
    float shrink;               // AdamW: 1 - lr * weight decay; else 1
    float lr;                   // Adam: divided by the first bias correction
    float momentum;             // SGD: the buffer's factor, 0 in its first step
    float keep;                 // SGD: the gradient's, 1 - dampening; Adam: 1 - beta1
    float look_ahead;           // SGD: Nesterov's momentum
    float beta2, keep2;         // Adam: beta2, 1 - beta2
    float inv_sqrt_correction2; // Adam: 1 / sqrt(second bias correction)
    float eps;
} rungi_step_coef;

// Updates `count` elements; whether one of the gradients is NaN or infinite. Unused state is NULL.
// Buffers do not overlap; any alignment.
typedef bool rungi_step_fn(const rungi_step_coef *coef, float *param, const float *grad,
                           float *state0, float *state1, int64_t count);

// Does a step of SGD without momentum come to p -= lr * g, whatever g is?
static inline bool rungi_step_is_plain(const rungi_step_coef *c)
{
    return c->grad_scale == 1 && c->weight_decay == 0 && c->grad_limit == INFINITY;
}

// The plain step of SGD with factor * x[i], rounded, as the gradient, which is finite.
typedef void rungi_step_scaled_fn(const rungi_step_coef *coef, float *param, float factor,
                                  const float *x, int64_t count);

typedef struct rungi_step_kernels {
    rungi_step_scaled_fn *sgd_scaled;
    rungi_step_fn *sgd;
    rungi_step_fn *sgd_momentum;
    rungi_step_fn *sgd_nesterov;
    rungi_step_fn *adam; // AdamW too
    // Sum of x[i]^2 in float64: 16 lanes, element i in lane i % 16, then lanes by halves. NaN or
    // infinite exactly when an element is (squares of finite floats cannot overflow a double).
    double (*sum_squares)(const float *x, int64_t count);
    // Rounds to nearest even, as rung_f32_to_bf16.
    void (*to_bf16)(uint16_t *to, const float *from, int64_t count);
} rungi_step_kernels;

// The fastest loops for that instruction set.
const rungi_step_kernels *rungi_step_kernels_for(rung_isa isa);

// The tables of step_kernels.c and step_kernels_avx2.c.
extern const rungi_step_kernels rungi_step_kernels_cpu;
#if defined(__x86_64__)
extern const rungi_step_kernels rungi_step_kernels_avx2;
#endif

#endif
