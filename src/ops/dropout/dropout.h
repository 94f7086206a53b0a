// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_OPS_DROPOUT_H
#define RUNGI_OPS_DROPOUT_H

#include "base/philox.h"
#include "ops/cases.h"

typedef struct rungi_dropout_attr {
    double p; // probability of zero, in [0, 1]
} rungi_dropout_attr;

// The random numbers of one call.
typedef struct rungi_dropout_source {
    rungi_random random;
    uint32_t threshold; // an element is dropped when its 32 random bits are below it
} rungi_dropout_source;

// How the elements belong to samples: element m in plain order is element m % size of sample
// first + m / size of the global batch.
typedef struct rungi_dropout_samples {
    int64_t first, size;
} rungi_dropout_samples;

// The probability in force: p in training, else 0.
double rungi_dropout_rate(const rungi_query *q);
// What kept elements are multiplied by: 1 / (1 - p), 0 when nothing is kept.
float rungi_dropout_scale(const rungi_query *q);
rungi_dropout_source rungi_dropout_source_of(const rungi_call *c);
rungi_dropout_samples rungi_dropout_samples_of(const rungi_call *c);

// Is element e of a sample kept? The definition: its 32 bits are half e % 8 of block e / 8 (the
// high ones) and of another block, which is only drawn where the high ones do not decide.
bool rungi_dropout_keeps(const rungi_dropout_source *s, int64_t sample, int64_t e);

typedef struct rungi_dropout_loops {
    // Mask bits of a sample's elements from 64 * group on, 64 to each of `count` words.
    void (*bits)(const rungi_dropout_source *s, int64_t sample, int64_t group, int64_t count,
                 uint64_t *words);
    // y[i] = bit i of mask ? x[i] * scale : 0
    void (*apply)(const float *x, const uint8_t *mask, float *y, int64_t count, float scale);
} rungi_dropout_loops;

extern const rungi_dropout_loops rungi_dropout_loops_cpu;
extern const rungi_dropout_loops *const rungi_dropout_loops_avx2; // NULL where there is no AVX2

// Mask bits of `count` elements of a sample from element `begin` on, bit 0 being the first. Writes
// whole words: (count + 63) / 64 of them.
void rungi_dropout_fill(const rungi_dropout_loops *loops, const rungi_dropout_source *s,
                        int64_t sample, int64_t begin, int64_t count, uint64_t *words);
// Rearranges the bits of an image from [C][H * W] to the order of a layout in memory. `from` and
// `to` hold (C * H * W + 63) / 64 + 1 words each.
void rungi_dropout_arrange(const uint64_t *from, uint64_t *to, int64_t channels, int64_t pixels,
                           rungi_layout layout);

extern const rungi_op rungi_op_dropout;
extern const rungi_kernel rungi_dropout_forward_reference, rungi_dropout_backward_reference;
extern const rungi_kernel *const rungi_dropout_forward_cpu[];
extern const rungi_kernel *const rungi_dropout_backward_cpu[];

#endif
