// SPDX-License-Identifier: Apache-2.0
// Sums by channel of an image, which the kernel that makes it leaves beside it, part by part, for a
// normalization that follows (rungi_query.sums_out, sums_in): one float32 tensor,
//
//     part 0   |shift of each channel|sums of x - shift|sums of (x - shift)^2|
//     part 1   |...
//     ...
//     values per channel of part 0, part 1, ...
//
// The parts follow from the shape alone and together have each value once. A part's shift is the
// mean of some of its own values, so that its variance comes out of the sums whatever the data: of
// n values, k of which the shift is the mean of, at most a factor of n / k in accuracy is lost.
#ifndef RUNGI_OPS_CHANNEL_SUMS_H
#define RUNGI_OPS_CHANNEL_SUMS_H

#include <stdint.h>

// Floats of a part, and of all of it.
static inline int64_t rungi_channel_sums_part(int64_t channels)
{
    return 3 * channels;
}

static inline int64_t rungi_channel_sums_size(int64_t parts, int64_t channels)
{
    return parts * (rungi_channel_sums_part(channels) + 1);
}

// How many parts a tensor of that many floats has.
static inline int64_t rungi_channel_sums_parts(int64_t size, int64_t channels)
{
    return size / (rungi_channel_sums_part(channels) + 1);
}

#endif
