// SPDX-License-Identifier: Apache-2.0
// The decoders behind rung/image.h. Each gives 1 or 3 channels, whatever the file holds.
//
//   rungi_decoder_begin(decoder, data, size, name, &info);   reads the header
//   rungi_decoder_read(decoder, &part, channels, &pixels);   decodes a part of the picture
//
// Parts are in the coordinates of the picture as it should be seen: info.width and .height are
// those after the rotation that the camera noted (EXIF), unless the decoder was told to leave it
// alone.
#ifndef RUNGI_FORMATS_IMAGE_FILE_H
#define RUNGI_FORMATS_IMAGE_FILE_H

#include <stdbool.h>

#include "base/text.h"
#include "rung/image.h"

typedef enum rungi_image_kind {
    RUNGI_IMAGE_JPEG,
    RUNGI_IMAGE_PNG,
    RUNGI_IMAGE_WEBP,
    RUNGI_IMAGE_PNM,
} rungi_image_kind;

typedef enum rungi_colour {
    RUNGI_COLOUR_RGB,
    RUNGI_COLOUR_GREY,
    RUNGI_COLOUR_GREY_ALPHA,
    RUNGI_COLOUR_RGBA,
    RUNGI_COLOUR_PALETTE,
    RUNGI_COLOUR_CMYK, // and YCCK
    RUNGI_COLOUR_COUNT
} rungi_colour;

typedef struct rungi_image_info {
    rungi_image_kind kind;
    int width, height;    // as seen
    int channels;         // 1 or 3: what the file holds, without transparency
    rungi_colour colour;  // in full
    bool deep;            // samples of more than 8 bits
    int orientation;      // EXIF: 1 ... 8; 1 when there is none
    bool bad_orientation; // there is one, but damaged: taken for none
} rungi_image_info;

typedef struct rungi_rect {
    int x, y, width, height;
} rungi_rect;

// Pixels somewhere: channels interleaved, `stride` bytes from row to row. At least
// RUNGI_PIXELS_SLACK bytes behind the last row may be read.
typedef struct rungi_pixels {
    const uint8_t *at;
    size_t stride;
    int width, height, channels;
} rungi_pixels;

enum { RUNGI_PIXELS_SLACK = 64 };

// Largest memory of what a decoder keeps of a picture besides its pixels.
enum { RUNGI_IMAGE_WORK_MAX = 1 << 28 };

// ---- the decoder, image_decoder.c

// Decodes one picture after the other and keeps its memory for the next. For one thread at a time.
typedef struct rungi_decoder rungi_decoder;

rung_status rungi_decoder_create(rungi_decoder **decoder_out);
void rungi_decoder_destroy(rungi_decoder **decoder);

// Takes a picture: looks what it is and reads its header. `data` and `name` (which begins messages)
// are borrowed until the next begin. `rotate`: follow EXIF's note.
// Errors: those of rung_image_decode. Sizes are refused here, before memory is asked for.
rung_status rungi_decoder_begin(rungi_decoder *decoder, const void *data, size_t size,
                                const char *name, bool rotate, rungi_image_info *info_out);

// Decodes `part`, which lies within the picture, as 1 or 3 channels. The result is the decoder's
// and valid until its next call. Every value is that of decoding the whole and cutting: a JPEG is
// decoded no further than the part needs. May be called once after begin.
rung_status rungi_decoder_read(rungi_decoder *decoder, const rungi_rect *part, int channels,
                               rungi_pixels *pixels_out);

// ---- helpers

// A block that grows: at least `size` bytes, aligned to 64; its content is lost. False: no memory.
typedef struct rungi_block {
    uint8_t *data;
    size_t size;
} rungi_block;
bool rungi_block_reserve(rungi_block *block, size_t size);

// Refuses sizes that are not positive or too large.
rung_status rungi_image_check_size(const char *name, uint64_t width, uint64_t height);
// Sets width, height and channels and allocates the pixels after that check. On failure the image
// is as before.
rung_status rungi_image_allocate(rung_image *image, const char *name, uint64_t width,
                                 uint64_t height, int channels);

// RGB to grey, and grey to RGB, of `count` pixels. `grey` may be `rgb`.
void rungi_grey_of_rgb(const uint8_t *rgb, uint8_t *grey, size_t count);
void rungi_rgb_of_grey(const uint8_t *grey, uint8_t *rgb, size_t count);

// EXIF's orientation (tag 0x112) in the TIFF structure that begins at `tiff`: 1 ... 8; 0 when there
// is none; -1 when the structure is damaged. image_exif.c
int rungi_exif_orientation(const uint8_t *tiff, size_t size);

// ---- formats other than JPEG: whole pictures

rung_status rungi_image_decode_png(const unsigned char *data, size_t size, const char *name,
                                   rung_image *image_out);
rung_status rungi_image_decode_pnm(const unsigned char *data, size_t size, const char *name,
                                   rung_image *image_out);
rung_status rungi_image_decode_webp(const unsigned char *data, size_t size, const char *name,
                                    rung_image *image_out);
// Size, channels and orientation without decoding. `info` has been zeroed.
rung_status rungi_image_probe_png(const unsigned char *data, size_t size, const char *name,
                                  rungi_image_info *info);
rung_status rungi_image_probe_pnm(const unsigned char *data, size_t size, const char *name,
                                  rungi_image_info *info);
rung_status rungi_image_probe_webp(const unsigned char *data, size_t size, const char *name,
                                   rungi_image_info *info);
// Adds the PNG to `out`.
rung_status rungi_image_encode_png(const rung_image *image, const char *name, rungi_string *out);

// ---- JPEG, image_jpeg.c

typedef struct rungi_jpeg rungi_jpeg;

rung_status rungi_jpeg_create(rungi_jpeg **jpeg_out);
void rungi_jpeg_destroy(rungi_jpeg **jpeg);
// As the decoder's, but in the file's own coordinates: width and height are not turned.
rung_status rungi_jpeg_begin(rungi_jpeg *jpeg, const unsigned char *data, size_t size,
                             const char *name, rungi_image_info *info);
rung_status rungi_jpeg_read(rungi_jpeg *jpeg, const rungi_rect *part, int channels,
                            rungi_pixels *pixels_out);

#endif
