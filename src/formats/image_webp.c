// SPDX-License-Identifier: Apache-2.0
// WebP through libwebp (RFC 9649): lossy and lossless, still pictures.
#include <string.h>
#include <webp/decode.h>

#include "base/error.h"
#include "formats/image_file.h"

static uint32_t little_endian(const unsigned char *b)
{
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static rung_status fail(VP8StatusCode code, const char *name, size_t size)
{
    switch (code) {
    case VP8_STATUS_OUT_OF_MEMORY:
        return RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory to decode it", name);
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
        return RUNG_FAIL(RUNG_CORRUPT, "%s: cut: the WebP goes on after %zu bytes", name, size);
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        return RUNG_FAIL(RUNG_UNSUPPORTED, "%s: a WebP of a kind that libwebp lacks", name);
    default:
        return RUNG_FAIL(RUNG_FORMAT, "%s: damaged WebP", name);
    }
}

// The chunk "EXIF" stands behind the pixels; some programs begin it as a JPEG's segment does.
static void find_orientation(const unsigned char *data, size_t size, rungi_image_info *info)
{
    info->orientation = 1;
    for (size_t at = 12; at + 8 <= size;) {
        size_t length = little_endian(data + at + 4);
        if (length > size - at - 8)
            return;
        if (memcmp(data + at, "EXIF", 4) == 0) {
            size_t skip = length >= 6 && memcmp(data + at + 8, "Exif\0", 6) == 0 ? 6 : 0;
            int found = rungi_exif_orientation(data + at + 8 + skip, length - skip);
            info->bad_orientation = found < 0;
            info->orientation = found > 0 ? found : 1;
            return;
        }
        at += 8 + length + (length & 1);
    }
}

rung_status rungi_image_probe_webp(const unsigned char *data, size_t size, const char *name,
                                   rungi_image_info *info)
{
    WebPBitstreamFeatures features;
    VP8StatusCode code = WebPGetFeatures(data, size, &features);
    if (code != VP8_STATUS_OK)
        return fail(code, name, size);
    RUNG_CHECK(!features.has_animation, RUNG_UNSUPPORTED,
               "%s: an animated WebP: extract the picture that is meant", name);
    RUNG_TRY(rungi_image_check_size(name, (uint64_t)features.width, (uint64_t)features.height));
    // The file's own length stands in its header: decoding alone may not notice a cut.
    uint64_t whole = (uint64_t)little_endian(data + 4) + 8;
    RUNG_CHECK(whole <= size, RUNG_CORRUPT, "%s: cut: expected %llu bytes, found %zu", name,
               (unsigned long long)whole, size);
    info->width = features.width;
    info->height = features.height;
    info->channels = 3;
    info->colour = features.has_alpha ? RUNGI_COLOUR_RGBA : RUNGI_COLOUR_RGB;
    find_orientation(data, size, info);
    return RUNG_OK;
}

rung_status rungi_image_decode_webp(const unsigned char *data, size_t size, const char *name,
                                    rung_image *image_out)
{
    rungi_image_info info = {0};
    rung_image image = {0};
    WebPDecoderConfig config;
    RUNG_TRY(rungi_image_probe_webp(data, size, name, &info));
    RUNG_CHECK(WebPInitDecoderConfig(&config), RUNG_LIBRARY, "libwebp is of another version");
    RUNG_TRY(rungi_image_allocate(&image, name, (uint64_t)info.width, (uint64_t)info.height, 3));
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = image.pixels;
    config.output.u.RGBA.stride = info.width * 3;
    config.output.u.RGBA.size = (size_t)info.width * (size_t)info.height * 3;
    VP8StatusCode code = WebPDecode(data, size, &config);
    if (code != VP8_STATUS_OK) {
        rung_image_fini(&image);
        return fail(code, name, size);
    }
    *image_out = image;
    return RUNG_OK;
}
