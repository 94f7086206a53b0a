// SPDX-License-Identifier: Apache-2.0
#include "ops/cases.h"
#include "ops/conv2d/conv2d.h"

static const rungi_conv2d_attr same = {{1, 1}, {1, 1}, {1, 1}, 1};
static const rungi_conv2d_attr valid = {{1, 1}, {0, 0}, {1, 1}, 1};
static const rungi_conv2d_attr strided = {{2, 2}, {1, 1}, {1, 1}, 1};
static const rungi_conv2d_attr strided_valid = {{2, 2}, {0, 0}, {1, 1}, 1};
static const rungi_conv2d_attr thirds = {{3, 2}, {2, 1}, {1, 1}, 1};
static const rungi_conv2d_attr uneven = {{2, 1}, {0, 2}, {1, 2}, 1};
static const rungi_conv2d_attr dilated = {{1, 1}, {2, 2}, {2, 2}, 1};
static const rungi_conv2d_attr grouped = {{1, 1}, {1, 1}, {1, 1}, 4};
static const rungi_conv2d_attr depthwise = {{1, 1}, {1, 1}, {1, 1}, 8};
static const rungi_conv2d_attr stem = {{2, 2}, {3, 3}, {1, 1}, 1};

// Sums of up to 3 * 3 * 100 products, or over all pixels for the weight: some rounding errors more
// than a short sum.
#define SUM 5e-6

const rungi_case rungi_conv2d_cases[] = {
    {"3x3", {RUNGI_IN(2, 3, 7, 5), RUNGI_IN(4, 3, 3, 3), RUNGI_IN(4)}, 3, &same, SUM},
    {"3x3 no bias", {RUNGI_IN(2, 8, 6, 6), RUNGI_IN(16, 8, 3, 3)}, 2, &same, SUM},
    {"valid", {RUNGI_IN(1, 1, 5, 5), RUNGI_IN(2, 1, 5, 5), RUNGI_IN(2)}, 3, &valid, SUM},
    {"1x1 image", {RUNGI_IN(3, 5, 1, 1), RUNGI_IN(7, 5, 1, 1), RUNGI_IN(7)}, 3, &valid, SUM},
    {"1x1 image padded", {RUNGI_IN(1, 3, 1, 1), RUNGI_IN(2, 3, 3, 3)}, 2, &same, SUM},
    {"stride over the edge",
     {RUNGI_IN(2, 3, 8, 6), RUNGI_IN(5, 3, 3, 3), RUNGI_IN(5)},
     3,
     &strided,
     SUM},
    {"uneven", {RUNGI_IN(1, 2, 7, 6), RUNGI_IN(3, 2, 2, 3), RUNGI_IN(3)}, 3, &uneven, SUM},
    {"dilated", {RUNGI_IN(1, 4, 9, 8), RUNGI_IN(8, 4, 3, 3), RUNGI_IN(8)}, 3, &dilated, SUM},
    {"groups", {RUNGI_IN(2, 8, 5, 5), RUNGI_IN(12, 2, 3, 3), RUNGI_IN(12)}, 3, &grouped, SUM},
    {"depthwise", {RUNGI_IN(2, 8, 5, 5), RUNGI_IN(8, 1, 3, 3), RUNGI_IN(8)}, 3, &depthwise, SUM},
    {"50 channels", {RUNGI_IN(1, 50, 4, 4), RUNGI_IN(50, 50, 3, 3), RUNGI_IN(50)}, 3, &same, SUM},
    {"16 channels", {RUNGI_IN(2, 16, 6, 6), RUNGI_IN(32, 16, 3, 3), RUNGI_IN(32)}, 3, &same, SUM},
    // Winograd's tiles of 4x4 outputs: one that is larger than the image, odd remainders, no
    // padding, tails of vectors and panels. conv2d_winograd_test.c has those of many channels.
    {"5x7", {RUNGI_IN(1, 3, 5, 7), RUNGI_IN(50, 3, 3, 3), RUNGI_IN(50)}, 3, &same, SUM},
    {"5x7 valid", {RUNGI_IN(3, 17, 5, 7), RUNGI_IN(9, 17, 3, 3), RUNGI_IN(9)}, 3, &valid, SUM},
    {"3x3 image", {RUNGI_IN(2, 20, 3, 3), RUNGI_IN(24, 20, 3, 3), RUNGI_IN(24)}, 3, &valid, SUM},
    {"2x3 image", {RUNGI_IN(2, 5, 2, 3), RUNGI_IN(12, 5, 3, 3), RUNGI_IN(12)}, 3, &same, SUM},
    {"100 channels", {RUNGI_IN(1, 50, 6, 9), RUNGI_IN(100, 50, 3, 3)}, 2, &same, SUM},
    {"many tiles", {RUNGI_IN(5, 12, 25, 19), RUNGI_IN(16, 12, 3, 3), RUNGI_IN(16)}, 3, &same, SUM},
    // Direct products: strides, windows smaller than them, panels and rows that leave remainders,
    // several bands, several images in one, a wide image.
    {"1x1", {RUNGI_IN(3, 20, 9, 7), RUNGI_IN(33, 20, 1, 1), RUNGI_IN(33)}, 3, &valid, SUM},
    {"1x1 stride 2", {RUNGI_IN(3, 18, 9, 8), RUNGI_IN(17, 18, 1, 1)}, 2, &strided_valid, SUM},
    {"stem", {RUNGI_IN(2, 3, 37, 40), RUNGI_IN(10, 3, 7, 7), RUNGI_IN(10)}, 3, &stem, SUM},
    {"thirds", {RUNGI_IN(2, 5, 17, 19), RUNGI_IN(9, 5, 4, 5), RUNGI_IN(9)}, 3, &thirds, SUM},
    {"strided", {RUNGI_IN(5, 40, 15, 14), RUNGI_IN(24, 40, 3, 3)}, 2, &strided, SUM},
    {"wide", {RUNGI_IN(1, 2, 3, 1300), RUNGI_IN(3, 2, 3, 3), RUNGI_IN(3)}, 3, &strided, SUM},
    {.name = "cnn conv1",
     .in = {RUNGI_IN(64, 3, 32, 32), RUNGI_IN(50, 3, 3, 3), RUNGI_IN(50)},
     .n_in = 3,
     .attr = &same,
     .bench = true},
    {.name = "cnn conv2",
     .in = {RUNGI_IN(64, 50, 32, 32), RUNGI_IN(50, 50, 3, 3), RUNGI_IN(50)},
     .n_in = 3,
     .attr = &same,
     .bench = true},
    {.name = "cnn conv4",
     .in = {RUNGI_IN(64, 100, 16, 16), RUNGI_IN(100, 100, 3, 3), RUNGI_IN(100)},
     .n_in = 3,
     .attr = &same,
     .bench = true},
    {.name = "resnet stem",
     .in = {RUNGI_IN(16, 3, 224, 224), RUNGI_IN(64, 3, 7, 7)},
     .n_in = 2,
     .attr = &stem,
     .bench = true},
    {.name = "resnet 3x3 stride 2, 64 channels",
     .in = {RUNGI_IN(16, 64, 56, 56), RUNGI_IN(128, 64, 3, 3)},
     .n_in = 2,
     .attr = &strided,
     .bench = true},
    {.name = "resnet 3x3 stride 2, 128 channels",
     .in = {RUNGI_IN(16, 128, 28, 28), RUNGI_IN(256, 128, 3, 3)},
     .n_in = 2,
     .attr = &strided,
     .bench = true},
    {.name = "resnet 3x3 stride 2, 256 channels",
     .in = {RUNGI_IN(16, 256, 14, 14), RUNGI_IN(512, 256, 3, 3)},
     .n_in = 2,
     .attr = &strided,
     .bench = true},
    {.name = "resnet 1x1 stride 2",
     .in = {RUNGI_IN(16, 64, 56, 56), RUNGI_IN(128, 64, 1, 1)},
     .n_in = 2,
     .attr = &strided_valid,
     .bench = true},
    {.name = "resnet 1x1",
     .in = {RUNGI_IN(16, 64, 56, 56), RUNGI_IN(256, 64, 1, 1)},
     .n_in = 2,
     .attr = &valid,
     .bench = true},
    {.name = "resnet 3x3",
     .in = {RUNGI_IN(16, 64, 56, 56), RUNGI_IN(64, 64, 3, 3)},
     .n_in = 2,
     .attr = &same,
     .bench = true},
    {.name = "cnn conv3",
     .in = {RUNGI_IN(64, 50, 16, 16), RUNGI_IN(100, 50, 3, 3)},
     .n_in = 2,
     .attr = &same,
     .bench = true},
    {.name = "resnet 3x3, 128 channels",
     .in = {RUNGI_IN(16, 128, 28, 28), RUNGI_IN(128, 128, 3, 3)},
     .n_in = 2,
     .attr = &same,
     .bench = true},
    {.name = "resnet 3x3, 256 channels",
     .in = {RUNGI_IN(16, 256, 14, 14), RUNGI_IN(256, 256, 3, 3)},
     .n_in = 2,
     .attr = &same,
     .bench = true},
    {.name = "resnet 3x3, 512 channels",
     .in = {RUNGI_IN(16, 512, 7, 7), RUNGI_IN(512, 512, 3, 3)},
     .n_in = 2,
     .attr = &same,
     .bench = true},
    {0},
};
