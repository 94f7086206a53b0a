// SPDX-License-Identifier: Apache-2.0
// The steps that find a picture's pixels: decode, crop, mirror, resize. They are not done one after
// the other: what they come to is worked out first (a part of the file, a size, a window of that),
// then only the pixels that the window needs are decoded and resized. Each value is that of the
// steps done one by one on 8-bit pixels.
#ifndef RUNGI_DATA_PICTURE_H
#define RUNGI_DATA_PICTURE_H

#include "data/resample.h"
#include "rung/data.h"

enum { RUNGI_MAX_PICTURE_STEPS = 16 };

typedef struct rungi_picture_step {
    rung_transform step;
    uint32_t stream; // of random numbers
} rungi_picture_step;

typedef struct rungi_picture {
    rung_field in, out; // `in`: a file, or u8 pixels; `out`: u8 [height, width, channels]
    bool keep_orientation;
    int channels;
    int height, width; // after the steps so far; 0: pictures differ
    int count;
    rungi_picture_step steps[RUNGI_MAX_PICTURE_STEPS];
} rungi_picture;

// Is this step one of those that only pictures know (others may run here or in the fused pass)?
bool rungi_picture_only(const rung_transform *step);
// Can this step be done here?
bool rungi_picture_takes(const rung_transform *step);

// Begins with pictures of files or an image of u8. Errors: RUNG_MISMATCH.
rung_status rungi_picture_begin(rungi_picture *picture, const rung_field *in);
// Adds a step. Errors: RUNG_INVALID, RUNG_MISMATCH.
rung_status rungi_picture_add(rungi_picture *picture, const rung_transform *step, uint32_t stream);
// Sets `out`. Errors: RUNG_MISMATCH when the size is still not known.
rung_status rungi_picture_finish(rungi_picture *picture);

// What a thread keeps from one sample to the next.
typedef struct rungi_picture_worker {
    rungi_decoder *decoder;
    rungi_resample resample;
    rungi_block blocks[3];
    const rung_clock *clock; // NULL: decoding is not timed
    int64_t decoding;        // nanoseconds of it
} rungi_picture_worker;

rung_status rungi_picture_worker_init(rungi_picture_worker *worker, rung_isa isa);
void rungi_picture_worker_fini(rungi_picture_worker *worker);

// Runs the steps on one sample. RUNGI_PIXELS_SLACK bytes behind `out` may be written.
// Errors: those of rung_image_decode; RUNG_DATA when a picture is too small for a crop.
rung_status rungi_picture_apply(const rungi_picture *picture, rungi_picture_worker *worker,
                                const rung_sample *sample, const rung_view *in, uint8_t *out);

#endif
