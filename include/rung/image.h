// SPDX-License-Identifier: Apache-2.0
// Pictures: JPEG, PNG, WebP and PGM/PPM (P2, P3, P5, P6), told apart by what they hold and not by
// their names, to 8-bit grey or RGB; and PNG out.
//
// The rules are those of Pillow's convert("L") and convert("RGB"): transparency is dropped (not
// blended), palettes and samples of 1, 2 and 4 bits are expanded, gamma and colour profiles are
// left alone, grey is (19595 R + 38470 G + 7471 B + 32768) >> 16. Samples of 16 bits of a PNG give
// their high byte; PGM/PPM samples are scaled by 255 / maxval and rounded to nearest even. CMYK and
// YCCK JPEGs are taken as inverted, as Adobe's programs write them, and R = K - (255 - C) K / 255.
// Pictures are turned as the camera noted (EXIF's orientation, all 8 values, in JPEG, PNG and
// WebP); a damaged note counts as none. A picture that is cut or damaged is an error, never half
// grey.
#ifndef RUNG_IMAGE_H
#define RUNG_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "rung/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Larger pictures are refused before memory is asked for: 256 MiB of RGB (the size from which
// Pillow warns).
enum { RUNG_IMAGE_PIXELS_MAX = 89478485 };

// Rows from top to bottom without padding, channels interleaved: 1 (grey) or 3 (RGB).
typedef struct rung_image {
    int width, height, channels;
    uint8_t *pixels; // owned by the struct
} rung_image;

// Reads a picture. `channels` is 1, 3, or 0 for what the file holds. The caller gives *image_out to
// rung_image_fini.
// Errors: RUNG_NOT_FOUND, RUNG_IO; RUNG_FORMAT when it is none of these kinds or malformed;
// RUNG_CORRUPT when it is cut; RUNG_UNSUPPORTED above RUNG_IMAGE_PIXELS_MAX, for progressive JPEGs
// that take more than 256 MiB besides, and for animated WebPs; RUNG_NO_MEMORY.
RUNG_API rung_status rung_image_read(const char *path, int channels, rung_image *image_out);

// The same from memory; `name` begins messages.
RUNG_API rung_status rung_image_decode(const void *data, size_t size, const char *name,
                                       int channels, rung_image *image_out);

// Writes an 8-bit PNG. The file appears whole or not at all.
RUNG_API rung_status rung_image_write_png(const char *path, const rung_image *image);

// Frees the pixels.
RUNG_API void rung_image_fini(rung_image *image);

#ifdef __cplusplus
}
#endif

#endif
