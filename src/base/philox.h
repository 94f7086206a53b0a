// SPDX-License-Identifier: Apache-2.0
// Random numbers as a pure function: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random
// Numbers: As Easy as 1, 2, 3, SC 2011).
//
// A rungi_random is a key folded from a seed, a purpose and up to three numbers that say what the
// numbers are for (epoch, sample, occurrence; step, layer, ...). Number `index` of it is a pure
// function of key and index: nothing depends on what was drawn before, by whom, or in what order.
#ifndef RUNGI_BASE_PHILOX_H
#define RUNGI_BASE_PHILOX_H

#include <stdint.h>

typedef struct rungi_philox4 {
    uint32_t v[4];
} rungi_philox4;

// What random numbers are drawn for. The values are part of what a seed means: never renumber.
typedef enum rungi_purpose {
    RUNGI_PURPOSE_INIT = 1,    // initial weights: (parameter id)
    RUNGI_PURPOSE_SHUFFLE = 2, // order of samples: (epoch)
    RUNGI_PURPOSE_AUGMENT = 3, // a sample's transforms: (epoch, sample, occurrence in the epoch)
    RUNGI_PURPOSE_DROPOUT = 4, // dropout: (step, layer id), index by global batch position, element
    RUNGI_PURPOSE_SYNTHETIC = 5, // generated data: (sample)
    RUNGI_PURPOSE_TEST = 6,
} rungi_purpose;

typedef struct rungi_random {
    uint32_t key[2];
} rungi_random;

// One block of Philox4x32-10.
rungi_philox4 rungi_philox(const uint32_t key[2], const uint32_t counter[4]);

// The generator for (seed, purpose, a, b, c).
rungi_random rungi_random_make(uint64_t seed, rungi_purpose purpose, uint64_t a, uint64_t b,
                               uint64_t c);

// Block `index` of the generator: four independent words.
rungi_philox4 rungi_random_block(const rungi_random *random, uint64_t index);

// 64 random bits, number `index` (its own block).
uint64_t rungi_random_u64(const rungi_random *random, uint64_t index);

// Uniform in [0, 1) with 24 bits, as PyTorch draws float32.
static inline float rungi_unit_f32(uint32_t bits)
{
    return (float)(bits >> 8) * 0x1p-24f;
}

// Uniform in [0, 1) with 53 bits.
static inline double rungi_unit_f64(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

// Uniform in [0, n), n > 0, without bias (Lemire, Fast Random Integer Generation in an Interval,
// 2019). Draws from words `*index` onward and advances *index.
uint64_t rungi_random_below(const rungi_random *random, uint64_t n, uint64_t *index);

// Standard normal number `index` (Box-Muller on its own block).
double rungi_random_normal(const rungi_random *random, uint64_t index);

#endif
