// SPDX-License-Identifier: Apache-2.0
// Any bytes: a picture that can be written and read again, or a refusal.
#include "fuzz.h"
#include "rung/image.h"

#include "formats/image_file.h"

enum { LARGE = 1 << 16 };

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
