// SPDX-License-Identifier: Apache-2.0
// Antialiased resizing of 8-bit pictures, equal in every value to Pillow's resize (Resample.c of
// Pillow 13, which has it from Graphics Gems and ImageMagick): columns first, then rows, each with
// weights of 22 bits after the point and rounding to 8 bits between. A filter is stretched by the
// scale when pictures get smaller.
//
// Only what the wanted window of the result needs is read and worked out.
#ifndef RUNGI_DATA_RESAMPLE_H
#define RUNGI_DATA_RESAMPLE_H

#include "formats/image_file.h"
#include "rung/context.h"
#include "rung/data.h"

// One axis: result i is the sum over k < length[i] of weights[i * taps + k] * from[first[i] + k].
typedef struct rungi_weights {
    int count, taps; // taps: room for each result, a multiple of 4
    int *first, *length;
    int32_t *weights; // times 2^22; zero behind `length`
    int longest;      // length
    int begin, end;   // the part of the source that is read
    void *memory;
    size_t size;
} rungi_weights;

typedef struct rungi_resample_kernels {
    // Columns of one row, 3 channels: `table` is what `prepare` made of the weights; `from` is
    // pixel x->begin. Up to 32 bytes behind the row's last pixel are read, and behind its result
    // written.
    void (*columns3)(const rungi_weights *x, const void *table, const uint8_t *from, uint8_t *to);
    size_t (*table_size)(const rungi_weights *x); // NULL: needs none
    void (*prepare)(const rungi_weights *x, void *table);
    // `bytes` columns of one row of the result from `taps` rows. Up to 32 bytes behind are read
    // and written.
    void (*rows)(const int32_t *weights, int taps, const uint8_t *from, size_t stride, size_t bytes,
                 uint8_t *to);
} rungi_resample_kernels;

extern const rungi_resample_kernels rungi_resample_plain;
#if defined(__x86_64__)
extern const rungi_resample_kernels rungi_resample_avx2;
#endif
const rungi_resample_kernels *rungi_resample_kernels_for(rung_isa isa);

typedef struct rungi_resample_spec {
    rung_filter filter;
    int from_width, from_height; // of the source
    int width, height;           // to which it is resized
    rungi_rect window;           // the part of the result that is wanted
    bool mirror_from, mirror;    // left and right are exchanged in the source, in the window
} rungi_resample_spec;

// Memory of one thread. Start from {.kernels = ...}.
typedef struct rungi_resample {
    const rungi_resample_kernels *kernels;
    rungi_weights x, y;
    rungi_block table, middle;
} rungi_resample;

void rungi_resample_fini(rungi_resample *r);

// Works out the weights. *need_out is the part of the source (not mirrored) that run() wants.
// Errors: RUNG_NO_MEMORY.
rung_status rungi_resample_plan(rungi_resample *r, const rungi_resample_spec *spec,
                                rungi_rect *need_out);

// `from` is that part. Writes the window's rows of `window.width` pixels at `stride` bytes, the
// last followed by at least RUNGI_PIXELS_SLACK bytes that may be written.
rung_status rungi_resample_run(rungi_resample *r, const rungi_pixels *from, uint8_t *to,
                               size_t stride);

#endif
