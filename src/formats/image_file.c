// SPDX-License-Identifier: Apache-2.0
#include "formats/image_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"

static const size_t FILE_MAX = (size_t)1 << 30;

rung_status rungi_image_allocate(rung_image *image, const char *name, uint64_t width,
                                 uint64_t height, int channels)
{
    RUNG_CHECK(width > 0 && height > 0, RUNG_FORMAT, "%s: picture of no size", name);
    RUNG_CHECK(width <= RUNG_IMAGE_PIXELS_MAX && height <= RUNG_IMAGE_PIXELS_MAX / width,
               RUNG_UNSUPPORTED, "%s: picture of %llu x %llu is above %d pixels", name,
               (unsigned long long)width, (unsigned long long)height, RUNG_IMAGE_PIXELS_MAX);
    uint8_t *pixels = malloc((size_t)width * height * (size_t)channels);
    RUNG_CHECK(pixels, RUNG_NO_MEMORY, "%s: no memory for its pixels", name);
    *image = (rung_image){(int)width, (int)height, channels, pixels};
    return RUNG_OK;
}

static rung_status convert(rung_image *image, const char *name, int channels)
{
    if (channels == 0 || image->channels == channels)
        return RUNG_OK;
    rung_image to;
    RUNG_TRY(
        rungi_image_allocate(&to, name, (uint64_t)image->width, (uint64_t)image->height, channels));
    size_t count = (size_t)image->width * (size_t)image->height;
    const uint8_t *s = image->pixels;
    for (size_t i = 0; i < count; i++)
        if (channels == 3)
            memset(to.pixels + 3 * i, s[i], 3);
        else
            to.pixels[i] = (uint8_t)((s[3 * i] * 19595u + s[3 * i + 1] * 38470u +
                                      s[3 * i + 2] * 7471u + 0x8000u) >>
                                     16);
    rung_image_fini(image);
    *image = to;
    return RUNG_OK;
}

rung_status rung_image_decode(const void *data, size_t size, const char *name, int channels,
                              rung_image *image_out)
{
    const unsigned char *bytes = data;
    rung_image image = {0};
    RUNG_CHECK(name && image_out && (data || !size), RUNG_INVALID,
               "rung_image_decode: no data, name or output");
    RUNG_CHECK(channels == 0 || channels == 1 || channels == 3, RUNG_INVALID,
               "%s: %d channels asked for; 0, 1 and 3 are possible", name, channels);
    RUNG_CHECK(size > 0, RUNG_CORRUPT, "%s: cut: expected a picture, found 0 bytes", name);
    if (size > 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0)
        RUNG_TRY(rungi_image_decode_png(bytes, size, name, &image));
    else if (size > 2 && bytes[0] == 'P' && memchr("2356", bytes[1], 4))
        RUNG_TRY(rungi_image_decode_pnm(bytes, size, name, &image));
    else
        return RUNG_FAIL(RUNG_FORMAT, "%s: not a picture of kind PNG, PGM or PPM", name);
    rung_status status = convert(&image, name, channels);
    if (status == RUNG_OK)
        *image_out = image;
    else
        rung_image_fini(&image);
    return status;
}

rung_status rung_image_read(const char *path, int channels, rung_image *image_out)
{
    char *data = NULL;
    size_t size = 0;
    RUNG_CHECK(path && image_out, RUNG_INVALID, "rung_image_read: no path or no output");
    RUNG_TRY(rungi_fs_read(path, FILE_MAX, &data, &size));
    rung_status status = rung_image_decode(data, size, path, channels, image_out);
    free(data);
    return status;
}

rung_status rung_image_write_png(const char *path, const rung_image *image)
{
    rungi_string out = {0};
    RUNG_CHECK(path && image && image->pixels && image->width > 0 && image->height > 0 &&
                   (image->channels == 1 || image->channels == 3) &&
                   image->height <= RUNG_IMAGE_PIXELS_MAX / image->width,
               RUNG_INVALID, "rung_image_write_png: no path or not a valid picture");
    rung_status status = rungi_image_encode_png(image, path, &out);
    if (status == RUNG_OK)
        status = rungi_file_replace(path, out.data, out.size, NULL);
    rungi_string_fini(&out);
    return status;
}

void rung_image_fini(rung_image *image)
{
    free(image->pixels);
    *image = (rung_image){0};
}
