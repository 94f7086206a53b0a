// SPDX-License-Identifier: Apache-2.0
// random_erasing: a rectangle of an image of planes becomes one value.
#ifndef RUNGI_DATA_ERASE_H
#define RUNGI_DATA_ERASE_H

#include "rung/data.h"

typedef struct rungi_erase {
    rung_transform step; // with its defaults filled in
    uint32_t stream;
    rung_dtype dtype; // u8 or f32
    int channels, height, width;
} rungi_erase;

// Takes an image [channels, height, width] of u8 or f32. Errors: RUNG_MISMATCH, RUNG_INVALID.
rung_status rungi_erase_init(rungi_erase *erase, const rung_field *in, const rung_transform *step,
                             uint32_t stream);
// Changes `image` in place.
void rungi_erase_apply(const rungi_erase *erase, const rung_sample *sample, void *image);

#endif
