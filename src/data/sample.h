// SPDX-License-Identifier: Apache-2.0
// Random keys of samples, for the loader and the transforms.
#ifndef RUNGI_DATA_SAMPLE_H
#define RUNGI_DATA_SAMPLE_H

#include "rung/data.h"

// The key of a sample's own random choices.
rung_random rungi_sample_random(uint64_t seed, int64_t epoch, int64_t sample, int64_t occurrence);

// The key of a batch's random choices (collate).
rung_random rungi_batch_random(uint64_t seed, int64_t epoch, int64_t position);

// Part `stream` (1 ... 2^32 - 1) of a key: numbers that no other stream of it, nor the key itself,
// shares.
rung_random rungi_random_stream(const rung_random *random, uint32_t stream);

#endif
