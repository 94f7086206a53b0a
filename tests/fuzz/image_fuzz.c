// SPDX-License-Identifier: Apache-2.0
// Any bytes: a picture that can be written and read again, or a refusal; and parts of it.
#include "fuzz.h"
#include "rung/image.h"

#include "formats/image_file.h"

enum { LARGE = 1 << 16 };

// Parts equal the whole, or damage elsewhere lets only one of them succeed.
static void check_part(const uint8_t *data, size_t size, const rung_image *whole)
{
    rungi_decoder *decoder;
    rungi_image_info info;
    rungi_pixels pixels;
    FUZZ_CHECK(rungi_decoder_create(&decoder) == RUNG_OK);
    FUZZ_CHECK(rungi_decoder_begin(decoder, data, size, "fuzz", true, &info) == RUNG_OK);
    rungi_rect part = {info.width / 3, info.height / 3, (info.width + 2) / 3,
                       (info.height + 2) / 3};
    FUZZ_CHECK(rungi_decoder_read(decoder, &part, whole->channels, &pixels) == RUNG_OK);
    size_t c = (size_t)whole->channels, row = (size_t)part.width * c;
    for (int y = 0; y < part.height; y++)
        FUZZ_CHECK(
            memcmp(pixels.at + (size_t)y * pixels.stride,
                   whole->pixels + ((size_t)(part.y + y) * (size_t)info.width + (size_t)part.x) * c,
                   row) == 0);
    rungi_decoder_destroy(&decoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int channels = 0; channels <= 3; channels += 3) {
        rung_image image, again;
        rung_status status = rung_image_decode(data, size, "fuzz", channels, &image);
        if (status != RUNG_OK) {
            fuzz_check_refusal(status);
            continue;
        }
        FUZZ_CHECK(image.channels == 3 || (channels == 0 && image.channels == 1));
        check_part(data, size, &image);
        size_t bytes = (size_t)image.width * (size_t)image.height * (size_t)image.channels;
        rungi_string png = {0};
        if (bytes <= LARGE) {
            FUZZ_CHECK(rungi_image_encode_png(&image, "fuzz", &png) == RUNG_OK);
            FUZZ_CHECK(rung_image_decode(png.data, png.size, "fuzz", 0, &again) == RUNG_OK);
            FUZZ_CHECK(memcmp(image.pixels, again.pixels, bytes) == 0);
            rung_image_fini(&again);
            rungi_string_fini(&png);
        }
        rung_image_fini(&image);
    }
    return 0;
}
