// SPDX-License-Identifier: Apache-2.0
// MixUp (Zhang et al., 2018) and CutMix (Yun et al., 2019) of a batch, as torchvision's transforms
// v2: each sample is mixed with the one before it (the first with the last), all by one lambda.
#ifndef RUNGI_DATA_MIX_H
#define RUNGI_DATA_MIX_H

#include "rung/data.h"

// What is done to a batch.
typedef struct rungi_mix_draw {
    bool mixup, cutmix;
    double lambda;      // share of a sample's own class
    int x0, y0, x1, y1; // CutMix: the part that comes from the other sample
} rungi_mix_draw;

// A number from Beta(alpha, alpha); moves *index. alpha < 1: Joehnk (1964); else the ratio of gamma
// numbers, Marsaglia and Tsang (2000).
double rungi_beta(const rung_random *random, double alpha, uint64_t *index);

// Draws for a batch of images of height x width. `random` is the batch's.
rungi_mix_draw rungi_mix_choose(const rung_mix *mix, const rung_random *random, int height,
                                int width);

// Mixes `count` images f32 [channels, height, width] in place, and writes targets f32 [count,
// classes] of their labels. `spare` has room for one image. Errors: RUNG_DATA for a label that is
// out of range.
rung_status rungi_mix_apply(const rungi_mix_draw *draw, float *images, int64_t count,
                            const int64_t shape[3], const int64_t *labels, int classes,
                            float *targets, float *spare);

#endif
