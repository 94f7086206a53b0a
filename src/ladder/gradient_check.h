// SPDX-License-Identifier: Apache-2.0
// The gradient that training computes against the float64 one.
#ifndef RUNGI_LADDER_GRADIENT_CHECK_H
#define RUNGI_LADDER_GRADIENT_CHECK_H

#include "train/session.h"

// How far a gradient is from the float64 one. NAN: not computed.
typedef struct rungi_gradient_error {
    double largest;  // difference of a parameter's gradient, of its largest value
    double distance; // L2 norm of the difference of all gradients, of the L2 norm of all
} rungi_gradient_error;

// Compares the gradient of some samples of the first batch, at the weights as they are, with that
// of a float64 plan of reference kernels. Several ranks compute their parts, as in a step, and rank
// 0 compares; collective. NAN when the model is too large for that, and on the other ranks. Running
// statistics move; the loader goes back to its beginning.
//
// With `disturb` above 0 training's gradient is that at weights which rungi_disturb has moved so
// far, the float64 one that at the weights as they are and stay.
rung_status rungi_gradient_check(rungi_session *s, double disturb, uint64_t seed,
                                 rungi_gradient_error *out);

// Moves each weight by a random relative amount of at most `by`: what another rounding would do.
void rungi_disturb(const rungi_session *s, double by, uint64_t seed);

enum { RUNGI_GRADIENT_SAMPLES = 8 };
#define RUNGI_GRADIENT_FLOPS 2e9 // of forward: the reference kernels take some seconds a Gflop
double rungi_gradient_forward_flops(const rung_plan *plan);

// gradient_stages.c: the same for the stages of a pipeline, whose gradients rank 0 brings together.
rung_status rungi_gradient_check_stages(rungi_session *s, double disturb, uint64_t seed,
                                        rungi_gradient_error *out);

// Parts of both. What training's gradients are multiplied by; training's gradient, left in the
// state; sums over parameters, whose gradients are got[count] of training and want[count].
double rungi_gradient_scale(const rungi_session *s);
rung_status rungi_gradient_train(rungi_session *s, const rungi_batch_view *view, double disturb,
                                 uint64_t seed);
typedef struct rungi_gradient_sums {
    double worst, apart, norm; // the last two squared
} rungi_gradient_sums;
void rungi_gradient_add(rungi_gradient_sums *sums, const double *want, const float *got,
                        int64_t count, double scale);
rungi_gradient_error rungi_gradient_error_of(const rungi_gradient_sums *sums);

#endif
