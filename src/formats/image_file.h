// SPDX-License-Identifier: Apache-2.0
// The decoders behind rung/image.h. Each gives 1 or 3 channels, whatever the file holds.
#ifndef RUNGI_FORMATS_IMAGE_FILE_H
#define RUNGI_FORMATS_IMAGE_FILE_H

#include "base/text.h"
#include "rung/image.h"

// Sets width, height and channels and allocates the pixels. Refuses sizes that are not positive or
// too large. On failure the image is as before.
rung_status rungi_image_allocate(rung_image *image, const char *name, uint64_t width,
                                 uint64_t height, int channels);

rung_status rungi_image_decode_png(const unsigned char *data, size_t size, const char *name,
                                   rung_image *image_out);
rung_status rungi_image_decode_pnm(const unsigned char *data, size_t size, const char *name,
                                   rung_image *image_out);
// Adds the PNG to `out`.
rung_status rungi_image_encode_png(const rung_image *image, const char *name, rungi_string *out);

#endif
