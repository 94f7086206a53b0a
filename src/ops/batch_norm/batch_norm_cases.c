// SPDX-License-Identifier: Apache-2.0
#include "ops/batch_norm/batch_norm.h"

static const rungi_batch_norm_attr usual = {1e-5, 0.1, false};
static const rungi_batch_norm_attr wide = {0.1, 0.1, false};

// Weight, bias, and running statistics with them.
#define AFFINE(c) RUNGI_IN(c), RUNGI_IN(c)
#define RUNNING(c) RUNGI_IN(c), RUNGI_IN_AS(RUNGI_FILL_POSITIVE, c)

// Gradients are differences of sums of a few thousand values.
#define SUM 1e-5

const rungi_case rungi_batch_norm_cases[] = {
    {"image", {RUNGI_IN(3, 5, 4, 3), AFFINE(5)}, 3, &usual, SUM},
    {"8 channels", {RUNGI_IN(2, 8, 5, 5), AFFINE(8), RUNNING(8)}, 5, &usual, SUM},
    {"16 channels", {RUNGI_IN(2, 16, 3, 3), AFFINE(16)}, 3, &wide, SUM},
    {"50 channels", {RUNGI_IN(2, 50, 4, 4), AFFINE(50)}, 3, &usual, SUM},
    {"80 channels", {RUNGI_IN(2, 80, 3, 1), AFFINE(80)}, 3, &usual, SUM},
    {"one channel", {RUNGI_IN(2, 1, 3, 5), AFFINE(1)}, 3, &usual, SUM},
    {"1x1 images", {RUNGI_IN(6, 8, 1, 1), AFFINE(8)}, 3, &usual, SUM},
    {"batch 1", {RUNGI_IN(1, 3, 5, 5), AFFINE(3)}, 3, &usual, SUM},
    {"no affine", {RUNGI_IN(3, 4, 3, 3)}, 1, &usual, SUM},
    {"weight only", {RUNGI_IN(3, 4, 3, 3), RUNGI_IN(4)}, 2, &usual, SUM},
    {"features", {RUNGI_IN(7, 33), AFFINE(33)}, 3, &usual, SUM},
    {"sequence", {RUNGI_IN(3, 6, 41), AFFINE(6)}, 3, &usual, SUM},
    // Several blocks, chunks and threads.
    {"many rows", {RUNGI_IN(3, 24, 20, 33), AFFINE(24)}, 3, &usual, SUM},
    {.name = "evaluation",
     .in = {RUNGI_IN(2, 8, 4, 3), AFFINE(8), RUNNING(8)},
     .n_in = 5,
     .attr = &usual,
     .tolerance = SUM,
     .evaluation = true},
    {.name = "evaluation, features",
     .in = {RUNGI_IN(1, 19), AFFINE(19), RUNNING(19)},
     .n_in = 5,
     .attr = &usual,
     .tolerance = SUM,
     .evaluation = true},
    {.name = "evaluation without running statistics",
     .in = {RUNGI_IN(3, 8, 4, 3), AFFINE(8)},
     .n_in = 3,
     .attr = &usual,
     .tolerance = SUM,
     .evaluation = true},
    {.name = "64 channels at 32x32",
     .in = {RUNGI_IN(64, 64, 32, 32), AFFINE(64), RUNNING(64)},
     .n_in = 5,
     .attr = &usual,
     .bench = true},
    {.name = "resnet stem",
     .in = {RUNGI_IN(16, 64, 112, 112), AFFINE(64), RUNNING(64)},
     .n_in = 5,
     .attr = &usual,
     .bench = true},
    {.name = "resnet last stage",
     .in = {RUNGI_IN(16, 512, 7, 7), AFFINE(512), RUNNING(512)},
     .n_in = 5,
     .attr = &usual,
     .bench = true},
    {.name = "512 features",
     .in = {RUNGI_IN(64, 512), AFFINE(512), RUNNING(512)},
     .n_in = 5,
     .attr = &usual,
     .bench = true},
    {0},
};
