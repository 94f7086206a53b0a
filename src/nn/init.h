// SPDX-License-Identifier: Apache-2.0
// Initial values of parameters, with the distributions of torch.nn.init.
//
// Element i of a parameter is a pure function of (seed, parameter id, i): nothing depends on
// threads, on the order in which parameters are made, or on which part of one is filled.
#ifndef RUNGI_NN_INIT_H
#define RUNGI_NN_INIT_H

#include <stdint.h>

#include "rung/graph.h"

// Fans of a weight of rank 2 or more (shape rules as above). Errors: RUNG_MISMATCH.
rung_status rungi_init_fans(const rung_shape *shape, int64_t *fan_in_out, int64_t *fan_out_out);

// Writes elements [first, first + count) of a parameter of that shape to `out`. `parameter` is its
// number in the model, fixed before any pass. Uses up to `threads` threads.
// Errors: RUNG_MISMATCH when the distribution needs fans that the shape does not have;
// RUNG_INVALID.
rung_status rungi_init_fill(const rung_init *init, const rung_shape *shape, uint64_t seed,
                            uint64_t parameter, int64_t first, int64_t count, int threads,
                            float *out);

// Quantile function of the standard normal distribution, p in (0, 1), to 1e-15 relative. Wichura,
// Algorithm AS 241: The Percentage Points of the Normal Distribution, 1988 (PPND16).
double rungi_normal_quantile(double p);

#endif
