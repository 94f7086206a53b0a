// SPDX-License-Identifier: Apache-2.0
// The fused pass: any run of built-in transforms as one loop over the pixels of the result.
//
// Built-in steps either move pixels (crop, flip, pad), and then rows and columns apart, or change
// values per channel. So the result's pixel (c, y, x) is value[c](in[channel][row[y]][column[x]]),
// where a step that pads may say "fill" instead of a row or column. Of u8 images, `value` is a
// table of 256 floats per channel, worked out by the very operations that the steps stand for.
#ifndef RUNGI_DATA_FUSED_H
#define RUNGI_DATA_FUSED_H

#include "rung/data.h"

enum { RUNGI_MAX_FUSED = 16, RUNGI_MAX_SIDE = 1 << 15 };

// A step that moves pixels, with the sizes of its input.
typedef struct rungi_move {
    rung_transform step;
    uint32_t stream;   // of random numbers
    int values_before; // how many value steps stand before it
    int height, width, out_height, out_width;
} rungi_move;

// A step that changes values: divides by 255, or normalizes each channel of the result.
typedef struct rungi_value {
    bool divide_255;
    float mean[RUNG_MAX_IMAGE_CHANNELS], std[RUNG_MAX_IMAGE_CHANNELS];
} rungi_value;

typedef struct rungi_fused {
    rung_field in, out;
    int in_channels, out_channels;
    int height, width, out_height, out_width;
    size_t channel_stride, row_stride, pixel_stride; // of the input, in elements
    int move_count, value_count;
    rungi_move moves[RUNGI_MAX_FUSED];
    rungi_value values[RUNGI_MAX_FUSED];
    float table[RUNG_MAX_IMAGE_CHANNELS][256];
    float fill[RUNGI_MAX_FUSED][RUNG_MAX_IMAGE_CHANNELS]; // of move i
    bool repeats_first[RUNG_MAX_IMAGE_CHANNELS];          // this channel is a copy of the first
} rungi_fused;

// Begins a pass with the image `in`. Errors: RUNG_MISMATCH, RUNG_INVALID when it is no image.
rung_status rungi_fused_begin(rungi_fused *fused, const rung_field *in);
// Adds a step. Errors: RUNG_MISMATCH, RUNG_INVALID.
rung_status rungi_fused_add(rungi_fused *fused, const rung_transform *step, uint32_t stream);
// Works out the tables.
void rungi_fused_finish(rungi_fused *fused);

// Bytes of scratch that a thread needs.
size_t rungi_fused_scratch(const rungi_fused *fused);
void rungi_fused_apply(const rungi_fused *fused, const rung_sample *sample, const void *in,
                       void *scratch, void *out);

// "random_crop": for messages.
const char *rungi_transform_name(const rung_transform *step);

#endif
