// SPDX-License-Identifier: Apache-2.0
// Changes of colour against torchvision on Pillow's pictures (tools/fixtures/images.py).
#include "scratch.h"

#include "data/colour.h"
#include "rung/image.h"
#include "rung/npy.h"

static void change(const char *kind, double factor, uint8_t *pixels, size_t count, int channels)
{
    if (strcmp(kind, "brightness") == 0)
        rungi_colour_brightness(pixels, count, channels, (float)factor);
    else if (strcmp(kind, "contrast") == 0)
        rungi_colour_contrast(pixels, count, channels, (float)factor);
    else if (strcmp(kind, "saturation") == 0)
        rungi_colour_saturation(pixels, count, channels, (float)factor);
    else if (strcmp(kind, "hue") == 0)
        rungi_colour_hue(pixels, count, channels, factor);
    else
        rungi_colour_grey(pixels, count, channels);
}

static void same_as_torchvision(void **state)
{
    (void)state;
    rung_image image;
    rung_view expected;
    char kind[32];
    double factor;
    int cases = 0;
    assert_ok(rung_npy_read(IMAGES_FIXTURE("colours.npy"), &expected));
    FILE *list = fopen(IMAGES_FIXTURE("colours.txt"), "r");
    assert_non_null(list);
    for (; fscanf(list, "%31s %lf", kind, &factor) == 2; cases++) {
        assert_ok(rung_image_read(IMAGES_FIXTURE("rgb_444.jpg"), 3, &image));
        size_t count = (size_t)image.width * (size_t)image.height;
        const uint8_t *want = (const uint8_t *)expected.data + (size_t)cases * 3 * count;
        change(kind, factor, image.pixels, count, 3);
        for (size_t i = 0; i < 3 * count; i++)
            if (image.pixels[i] != want[i])
                fail_msg("%s %g: value %zu is %d, expected %d", kind, factor, i, image.pixels[i],
                         want[i]);
        rung_image_fini(&image);
    }
    assert_int_equal(cases, expected.shape.dim[0]);
    fclose(list);
    free(expected.data);
}

// One channel: as three equal ones, where colour plays no part.
static void one_channel(void **state)
{
    (void)state;
    static const char *const kinds[] = {"brightness", "contrast", "saturation", "hue", "grey"};
    for (int k = 0; k < 5; k++) {
        uint8_t grey[256], rgb[3 * 256];
        for (int i = 0; i < 256; i++)
            grey[i] = rgb[3 * i] = rgb[3 * i + 1] = rgb[3 * i + 2] = (uint8_t)(i * 5);
        change(kinds[k], 0.4, grey, 256, 1);
        change(kinds[k], 0.4, rgb, 256, 3);
        for (int i = 0; i < 256; i++)
            assert_int_equal(grey[i], rgb[3 * i + 1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_torchvision),
        cmocka_unit_test(one_channel),
    };
    return RUN_TESTS(tests);
}
