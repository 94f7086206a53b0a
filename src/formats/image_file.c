// SPDX-License-Identifier: Apache-2.0
#include "formats/image_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"

static const size_t FILE_MAX = (size_t)1 << 30;

rung_status rungi_image_check_size(const char *name, uint64_t width, uint64_t height)
{
    RUNG_CHECK(width > 0 && height > 0, RUNG_FORMAT, "%s: picture of no size", name);
    RUNG_CHECK(width <= RUNG_IMAGE_PIXELS_MAX && height <= RUNG_IMAGE_PIXELS_MAX / width,
               RUNG_UNSUPPORTED, "%s: picture of %llu x %llu is above %d pixels", name,
               (unsigned long long)width, (unsigned long long)height, RUNG_IMAGE_PIXELS_MAX);
    return RUNG_OK;
}

rung_status rungi_image_allocate(rung_image *image, const char *name, uint64_t width,
                                 uint64_t height, int channels)
{
    RUNG_TRY(rungi_image_check_size(name, width, height));
    uint8_t *pixels = malloc((size_t)width * height * (size_t)channels + RUNGI_PIXELS_SLACK);
    RUNG_CHECK(pixels, RUNG_NO_MEMORY, "%s: no memory for its pixels", name);
    *image = (rung_image){(int)width, (int)height, channels, pixels};
    return RUNG_OK;
}

rung_status rung_image_decode(const void *data, size_t size, const char *name, int channels,
                              rung_image *image_out)
{
    rungi_decoder *decoder = NULL;
    rungi_image_info info;
    rungi_pixels pixels;
    rung_image image = {0};
    rung_status status;
    RUNG_CHECK(name && image_out && (data || !size), RUNG_INVALID,
               "rung_image_decode: no data, name or output");
    RUNG_CHECK(channels == 0 || channels == 1 || channels == 3, RUNG_INVALID,
               "%s: %d channels asked for; 0, 1 and 3 are possible", name, channels);
    RUNG_TRY(rungi_decoder_create(&decoder));
    RUNG_TRY_GOTO(done, rungi_decoder_begin(decoder, data, size, name, true, &info));
    channels = channels ? channels : info.channels;
    RUNG_TRY_GOTO(done, rungi_decoder_read(decoder, &(rungi_rect){0, 0, info.width, info.height},
                                           channels, &pixels));
    RUNG_TRY_GOTO(done, rungi_image_allocate(&image, name, (uint64_t)info.width,
                                             (uint64_t)info.height, channels));
    size_t row = (size_t)info.width * (size_t)channels;
    for (size_t y = 0; y < (size_t)info.height; y++)
        memcpy(image.pixels + y * row, pixels.at + y * pixels.stride, row);
    *image_out = image;
done:
    rungi_decoder_destroy(&decoder);
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
