// SPDX-License-Identifier: Apache-2.0
// The Winograd loops, compiled once per instruction set.
#include "ops/conv2d/conv2d_winograd_gemm.h"
//
#include "ops/conv2d/conv2d_winograd_output.h"

#define WINO_TABLE                                                                           \
    {                                                                                        \
        .lanes = WINO_LANES, .tile = RUNGI_WINO_TILE, .pack = 1, .halves = WINO_LANES == 16, \
        .panel_count = wino_panel_count, .input = wino_input, .gradient = wino_gradient,     \
        .weights = wino_weights, .multiply = wino_multiply, .output = wino_output,           \
        .finish = wino_finish,                                                               \
    }
