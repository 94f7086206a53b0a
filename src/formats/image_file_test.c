// SPDX-License-Identifier: Apache-2.0
// Against what Pillow makes of the same files (tools/fixtures/formats.py).
#include "scratch.h"

#include <unistd.h>

#include "base/philox.h"
#include "rung/image.h"
#include "rung/npy.h"

enum { WIDTH = 7, HEIGHT = 5, PIXELS = WIDTH * HEIGHT };

// In the order of tools/fixtures/formats.py.
static const struct {
    const char *name;
    int channels;
} files[] = {
    {"grey1.png", 1},      {"grey2.png", 1},
    {"grey4.png", 1},      {"grey8.png", 1},
    {"grey8_trns.png", 1}, {"grey_alpha.png", 1},
    {"palette.png", 3},    {"palette_trns.png", 3},
    {"rgb.png", 3},        {"rgb_interlaced.png", 3},
    {"rgba.png", 3},       {"rgb16.png", 3},
    {"rgba16.png", 3},     {"p2.pgm", 1},
    {"p3.ppm", 3},         {"p5.pgm", 1},
    {"p6.ppm", 3},         {"p6_170.ppm", 3},
    {"p6_1000.ppm", 3},
};
enum { FILE_COUNT = sizeof files / sizeof *files };

static void read_fixture(const char *name, int channels, rung_image *image)
{
    char path[RUNGI_PATH_MAX];
    assert_ok(rungi_path_format(path, "%s/%s", FORMATS_FIXTURE(""), name));
    assert_ok(rung_image_read(path, channels, image));
    assert_int_equal(image->width, WIDTH);
    assert_int_equal(image->height, HEIGHT);
}

static void same_as_pillow(void **state)
{
    (void)state;
    rung_view rgb, grey;
    assert_ok(rung_npy_read(FORMATS_FIXTURE("images_rgb.npy"), &rgb));
    assert_ok(rung_npy_read(FORMATS_FIXTURE("images_grey.npy"), &grey));
    assert_true(rung_shape_equal(&rgb.shape, &RUNG_SHAPE(FILE_COUNT, HEIGHT, WIDTH, 3)));
    for (int i = 0; i < FILE_COUNT; i++) {
        rung_image image;
        read_fixture(files[i].name, 0, &image);
        assert_int_equal(image.channels, files[i].channels);
        rung_image_fini(&image);
        assert_null(image.pixels);
        read_fixture(files[i].name, 3, &image);
        assert_memory_equal(image.pixels, (uint8_t *)rgb.data + i * PIXELS * 3, PIXELS * 3);
        rung_image_fini(&image);
        read_fixture(files[i].name, 1, &image);
        assert_memory_equal(image.pixels, (uint8_t *)grey.data + i * PIXELS, PIXELS);
        rung_image_fini(&image);
    }
    free(rgb.data);
    free(grey.data);
}

// 16-bit grey gives its high byte; the fixture's high bytes are grey8's samples.
static void sixteen_bit_grey(void **state)
{
    (void)state;
    rung_image deep, flat;
    read_fixture("grey16.png", 0, &deep);
    read_fixture("grey8.png", 0, &flat);
    assert_int_equal(deep.channels, 1);
    assert_memory_equal(deep.pixels, flat.pixels, PIXELS);
    rung_image_fini(&deep);
    rung_image_fini(&flat);
}

static void writes_and_reads_back(void **state)
{
    (void)state;
    char folder[RUNGI_PATH_MAX], path[RUNGI_PATH_MAX];
    scratch_make(folder);
    assert_ok(rungi_path_format(path, "%s/x.png", folder));
    static uint8_t pixels[40 * 30 * 3];
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(i * i / 7);
    for (int channels = 1; channels <= 3; channels += 2) {
        rung_image image = {40, 30, channels, pixels}, back;
        assert_ok(rung_image_write_png(path, &image));
        assert_ok(rung_image_read(path, 0, &back));
        assert_int_equal(back.width, 40);
        assert_int_equal(back.height, 30);
        assert_int_equal(back.channels, channels);
        assert_memory_equal(back.pixels, pixels, 40u * 30 * (unsigned)channels);
        rung_image_fini(&back);
    }
    rung_image bad = {0, 30, 1, pixels};
    assert_fails(RUNG_INVALID, "not a valid picture", rung_image_write_png(path, &bad));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static rung_status decode(const char *text, size_t size)
{
    rung_image image;
    rung_status status = rung_image_decode(text, size, "x", 3, &image);
    if (status == RUNG_OK)
        rung_image_fini(&image);
    return status;
}

static void refuses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"P5 2 2 255\nabcd", NULL},
        {"P5 2 2 255\nabcdtrailing bytes", NULL},
        {"P2 1 1 1\n1", NULL},
        {"P5 2 2 255\nabc", "cut: expected 15 bytes, found 14"},
        {"P5 2 2 256\nabcdefg", "cut: expected"},
        {"P5 2 2 254\nabc\xff", "sample 255 is above"},
        {"P2 2 1 9\n1 10", "sample 10 is above"},
        {"P2 2 1 9\n1 x0", "not a number"},
        {"P2 2 1 9\n1 -1", "not a number"},
        {"P2 2 1 9\n1  ", "cut: ends before its pixels"},
        {"P5 0 2 255\n", "of no size"},
        {"P5 2 2 0\nabcd", "largest value"},
        {"P5 2 2 65536\nabcd", "largest value"},
        {"P5 99999999999999999999 2 255\nabcd", "not a number"},
        {"P5 900000000 900000000 255\nabcd", "cut: expected"},
        {"P5 2", "cut: ends before its height"},
        {"P5 2 2 255", "cut: ends before its pixels"},
        {"P1 2 2\n1 0 1 0", "not a picture of kind"},
        {"P4 2 2\n", "not a picture of kind"},
        {"GIF89a", "not a picture of kind"},
        {"", "found 0 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rung_status status = decode(cases[i].text, strlen(cases[i].text));
        if ((status == RUNG_OK) != !cases[i].reason ||
            (status && !strstr(rung_error_last()->message, cases[i].reason)))
            fail_msg("%s: got %s", cases[i].text, status ? rung_error_last()->message : "success");
    }
    rung_image image;
    assert_fails(RUNG_INVALID, "2 channels", rung_image_decode("P5", 2, "x", 2, &image));
    assert_fails(RUNG_NOT_FOUND, "cannot open", rung_image_read("/nonexistent.png", 0, &image));
    assert_fails(RUNG_IO, "is a folder", rung_image_read("/tmp", 0, &image));
    // A PNG of 40,000 x 40,000 in its header is refused before anything is allocated.
    static const char huge[] =
        "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x9c\x40\0\0\x9c\x40\x08\0\0\0\0\x74\x67\x51\xd9"
        "\0\0\0\0IDAT\x35\xaf\x06\x1e";
    assert_fails(RUNG_UNSUPPORTED, "picture of 40000 x 40000 is above",
                 decode(huge, sizeof huge - 1));
}

// Each file cut at every byte, and with random changes: a picture or a refusal, never a crash.
static void damage(void **state)
{
    (void)state;
    rungi_random random = rungi_random_make(6, RUNGI_PURPOSE_TEST, 0, 0, 0);
    uint64_t at = 0;
    for (int i = 0; i < FILE_COUNT; i++) {
        char path[RUNGI_PATH_MAX];
        size_t size;
        assert_ok(rungi_path_format(path, "%s/%s", FORMATS_FIXTURE(""), files[i].name));
        char *good = scratch_read(path, &size);
        for (size_t cut = 0; cut < size - 1; cut++) {
            char *part = malloc(cut + 1); // of its size, for the address sanitizer
            memcpy(part, good, cut);
            rung_status status = decode(part, cut);
            // The newline at the end of plain files is no loss.
            assert_true(status != RUNG_OK || cut + 2 >= size);
            assert_null(strchr(rung_error_last()->message, '\n'));
            free(part);
        }
        for (int trial = 0; trial < 500; trial++) {
            size_t where = rungi_random_below(&random, size, &at);
            char kept = good[where];
            good[where] = (char)rungi_random_below(&random, 256, &at);
            (void)decode(good, size);
            good[where] = kept;
        }
        free(good);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_pillow),
        cmocka_unit_test(sixteen_bit_grey),
        cmocka_unit_test(writes_and_reads_back),
        cmocka_unit_test(refuses),
        cmocka_unit_test(damage),
    };
    return RUN_TESTS(tests);
}
