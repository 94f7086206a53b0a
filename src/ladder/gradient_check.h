// SPDX-License-Identifier: Apache-2.0
// The gradient that training computes against the float64 one.
#ifndef RUNGI_LADDER_GRADIENT_CHECK_H
#define RUNGI_LADDER_GRADIENT_CHECK_H

#include "train/session.h"

// Compares the gradient of some samples of the first batch, at the weights as they are, with that
// of a float64 plan of reference kernels: *out is the largest difference of a parameter's gradient,
// of its largest value there. Several ranks compute their parts, as in a step, and rank 0 compares;
// collective. NAN when the model is too large for that, and on the other ranks. Running statistics
// move; the loader goes back to its beginning.
rung_status rungi_gradient_error(rungi_session *s, double *out);

enum { RUNGI_GRADIENT_SAMPLES = 8 };
#define RUNGI_GRADIENT_FLOPS 2e9 // of forward: the reference kernels take some seconds a Gflop
double rungi_gradient_forward_flops(const rung_plan *plan);

// gradient_stages.c: the same for the stages of a pipeline, whose gradients rank 0 brings together.
rung_status rungi_gradient_error_stages(rungi_session *s, double *out);

#endif
