// SPDX-License-Identifier: Apache-2.0
// Pictures of all kinds against Pillow (tools/fixtures/images.py); parts of JPEGs against the
// whole; cut, damaged and huge files.
#include "scratch.h"

// jpeglib.h needs FILE.
#include <stdio.h>

#include <jpeglib.h>

#include "base/philox.h"
#include "formats/image_file.h"
#include "rung/npy.h"

typedef struct fixture {
    char name[64];
    int width, height;
    size_t offset;
} fixture;

enum { FIXTURES_MAX = 64 };

static int read_index(fixture *list)
{
    FILE *file = fopen(IMAGES_FIXTURE("index.txt"), "r");
    assert_non_null(file);
    int count = 0;
    while (count < FIXTURES_MAX &&
           fscanf(file, "%63s %d %d %zu", list[count].name, &list[count].width, &list[count].height,
                  &list[count].offset) == 4)
        count++;
    fclose(file);
    assert_true(count > 30);
    return count;
}

static char *read_file(const char *name, size_t *size)
{
    char path[RUNGI_PATH_MAX];
    assert_ok(rungi_path_format(path, "%s%s", IMAGES_FIXTURE(""), name));
    return scratch_read(path, size);
}

static int largest_difference(const uint8_t *a, const uint8_t *b, size_t count)
{
    int largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = abs(a[i] - b[i]) > largest ? abs(a[i] - b[i]) : largest;
    return largest;
}

static void same_as_pillow(void **state)
{
    (void)state;
    fixture list[FIXTURES_MAX];
    rung_view expected;
    assert_ok(rung_npy_read(IMAGES_FIXTURE("expected.npy"), &expected));
    int count = read_index(list);
    for (int i = 0; i < count; i++) {
        size_t size;
        char *data = read_file(list[i].name, &size);
        const uint8_t *want = (const uint8_t *)expected.data + list[i].offset;
        rung_image image, grey;
        assert_ok(rung_image_decode(data, size, list[i].name, 3, &image));
        assert_int_equal(image.width, list[i].width);
        assert_int_equal(image.height, list[i].height);
        size_t pixels = (size_t)image.width * (size_t)image.height;
        // Lossy WebP is interpolated as libwebp of that version does; all else is equal.
        int most = strcmp(list[i].name, "lossy.webp") == 0 ? 1 : 0;
        int difference = largest_difference(image.pixels, want, 3 * pixels);
        if (difference > most)
            fail_msg("%s: differs by %d", list[i].name, difference);
        // As one channel: the documented weights.
        assert_ok(rung_image_decode(data, size, list[i].name, 1, &grey));
        for (size_t p = 0; p < pixels; p++) {
            const uint8_t *q = image.pixels + 3 * p;
            assert_int_equal(grey.pixels[p],
                             (19595u * q[0] + 38470u * q[1] + 7471u * q[2] + 32768) >> 16);
        }
        rung_image_fini(&image);
        rung_image_fini(&grey);
        free(data);
    }
    free(expected.data);
}

// The rotation can be switched off; damaged notes are told.
static void orientation(void **state)
{
    (void)state;
    rungi_decoder *decoder;
    rungi_image_info info;
    size_t size;
    assert_ok(rungi_decoder_create(&decoder));
    char *data = read_file("exif_6.png", &size);
    assert_ok(rungi_decoder_begin(decoder, data, size, "x", false, &info));
    assert_int_equal(info.width, 4);
    assert_int_equal(info.height, 2);
    assert_int_equal(info.orientation, 1);
    assert_ok(rungi_decoder_begin(decoder, data, size, "x", true, &info));
    assert_int_equal(info.width, 2);
    assert_int_equal(info.height, 4);
    assert_int_equal(info.orientation, 6);
    free(data);
    static const char *const bad[] = {"exif_9.png", "exif_bad.jpg"};
    for (int i = 0; i < 2; i++) {
        data = read_file(bad[i], &size);
        assert_ok(rungi_decoder_begin(decoder, data, size, "x", true, &info));
        assert_true(info.bad_orientation);
        assert_int_equal(info.orientation, 1);
        free(data);
    }
    rungi_decoder_destroy(&decoder);
}

// Decodes `part` and compares it with that part of the whole.
static void check_part(rungi_decoder *decoder, const char *name, const char *data, size_t size,
                       const rung_image *whole, const rungi_rect *part)
{
    rungi_image_info info;
    rungi_pixels pixels;
    size_t c = (size_t)whole->channels;
    assert_ok(rungi_decoder_begin(decoder, data, size, name, true, &info));
    assert_ok(rungi_decoder_read(decoder, part, whole->channels, &pixels));
    assert_int_equal(pixels.width, part->width);
    assert_int_equal(pixels.height, part->height);
    for (int y = 0; y < part->height; y++) {
        const uint8_t *want =
            whole->pixels + ((size_t)(part->y + y) * (size_t)whole->width + (size_t)part->x) * c;
        if (memcmp(pixels.at + (size_t)y * pixels.stride, want, (size_t)part->width * c) != 0)
            fail_msg("%s: row %d of the part %d,%d %dx%d differs from the whole", name, y, part->x,
                     part->y, part->width, part->height);
    }
}

static void check_parts(const char *name, const char *data, size_t size, int trials)
{
    rungi_decoder *decoder;
    assert_ok(rungi_decoder_create(&decoder));
    rungi_random random = rungi_random_make(9, RUNGI_PURPOSE_TEST, 0, 0, 0);
    uint64_t at = 0;
    for (int channels = 1; channels <= 3; channels += 2) {
        rung_image whole;
        assert_ok(rung_image_decode(data, size, name, channels, &whole));
        for (int trial = 0; trial < trials; trial++) {
            rungi_rect r;
            r.width = 1 + (int)rungi_random_below(&random, (uint64_t)whole.width, &at);
            r.height = 1 + (int)rungi_random_below(&random, (uint64_t)whole.height, &at);
            r.x = (int)rungi_random_below(&random, (uint64_t)(whole.width - r.width) + 1, &at);
            r.y = (int)rungi_random_below(&random, (uint64_t)(whole.height - r.height) + 1, &at);
            check_part(decoder, name, data, size, &whole, &r);
        }
        rung_image_fini(&whole);
    }
    rungi_decoder_destroy(&decoder);
}

static void parts_of_fixtures(void **state)
{
    (void)state;
    fixture list[FIXTURES_MAX];
    int count = read_index(list);
    for (int i = 0; i < count; i++) {
        size_t size;
        char *data = read_file(list[i].name, &size);
        check_parts(list[i].name, data, size, 100);
        free(data);
    }
}

// Encodes noise with the given sampling factors of the first component (the others have 1).
static unsigned char *encode(int width, int height, int components, int h, int v, bool progressive,
                             int restart, unsigned long *size)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned char *out = NULL;
    *size = 0;
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &out, size);
    c.image_width = (JDIMENSION)width;
    c.image_height = (JDIMENSION)height;
    c.input_components = components;
    c.in_color_space = components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_set_defaults(&c);
    if (components == 4)
        jpeg_set_colorspace(&c, JCS_YCCK);
    jpeg_set_quality(&c, 90, TRUE);
    c.comp_info[0].h_samp_factor = h;
    c.comp_info[0].v_samp_factor = v;
    if (components == 4) {
        c.comp_info[3].h_samp_factor = h;
        c.comp_info[3].v_samp_factor = v;
    }
    c.restart_in_rows = restart;
    if (progressive)
        jpeg_simple_progression(&c);
    jpeg_start_compress(&c, TRUE);
    unsigned char *row = malloc((size_t)width * 4);
    rungi_random random = rungi_random_make(3, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (int y = 0; y < height; y++) {
        for (int i = 0; i < width * components; i++)
            row[i] =
                (unsigned char)(128 + 90 * ((i / 17 + y / 11) % 2) +
                                (int)(rungi_random_u64(&random, (uint64_t)(y * 4096 + i)) % 30));
        JSAMPROW rows = row;
        jpeg_write_scanlines(&c, &rows, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(row);
    return out;
}

// Every way of storing colour at a part of the size.
static void parts_of_samplings(void **state)
{
    (void)state;
    static const int factors[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}};
    for (size_t f = 0; f < sizeof factors / sizeof *factors; f++)
        for (int kind = 0; kind < 4; kind++) {
            char name[64];
            unsigned long size;
            if (kind == 2 && factors[f][0] * factors[f][1] > 4)
                continue; // more blocks in one unit than JPEG allows
            snprintf(name, sizeof name, "%dx%d kind %d", factors[f][0], factors[f][1], kind);
            unsigned char *data = encode(163, 117, kind == 2 ? 4 : 3, factors[f][0], factors[f][1],
                                         kind == 1, kind == 3, &size);
            check_parts(name, (const char *)data, size, 60);
            free(data);
        }
}

static rung_status decode(const char *data, size_t size, const char *name)
{
    rung_image image;
    char *exact = malloc(size + 1); // of its size, for the address sanitizer
    memcpy(exact + 1, data, size);
    rung_status status = rung_image_decode(exact + 1, size, name, 3, &image);
    if (status == RUNG_OK)
        rung_image_fini(&image);
    free(exact);
    return status;
}

static void cut(void **state)
{
    (void)state;
    static const char *const names[] = {"rgb_420.jpg",   "progressive_422.jpg", "grey.jpg",
                                        "cmyk.jpg",      "restart.jpg",         "lossy.webp",
                                        "lossless.webp", "exif_6.webp",         "exif_8.png"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t size;
        char *data = read_file(names[i], &size);
        for (size_t length = 0; length < size - 2; length++) {
            rung_status status = decode(data, length, "x.jpg");
            if (status == RUNG_OK)
                fail_msg("%s: cut to %zu of %zu bytes, taken for whole", names[i], length, size);
            assert_null(strchr(rung_error_last()->message, '\n'));
        }
        free(data);
    }
    // The message says what is missing.
    size_t size;
    char *data = read_file("rgb_420.jpg", &size);
    assert_fails(RUNG_CORRUPT, "x.jpg: cut: the JPEG goes on after",
                 decode(data, size / 2, "x.jpg"));
    assert_fails(RUNG_CORRUPT, "in row", decode(data, size / 2, "x.jpg"));
    assert_fails(RUNG_CORRUPT, "of 45", decode(data, size / 2, "x.jpg"));
    assert_fails(RUNG_CORRUPT, "within its header", decode(data, 100, "x.jpg"));
    assert_ok(decode(data, size - 2, "x.jpg")); // the end mark alone: every pixel is there
    free(data);
    data = read_file("progressive_420.jpg", &size);
    assert_fails(RUNG_CORRUPT, "its last scans are missing", decode(data, size - 2, "x.jpg"));
    free(data);
}

// A cut is noticed even where the part that is asked for is whole.
static void cut_below_the_part(void **state)
{
    (void)state;
    size_t size;
    char *data = read_file("rgb_444.jpg", &size);
    rungi_decoder *decoder;
    rungi_image_info info;
    assert_ok(rungi_decoder_create(&decoder));
    assert_fails(RUNG_CORRUPT, "cut",
                 rungi_decoder_begin(decoder, data, size * 9 / 10, "x", true, &info));
    assert_ok(rungi_decoder_begin(decoder, data, size, "x", true, &info)); // usable again
    rungi_decoder_destroy(&decoder);
    free(data);
}

static void damage(void **state)
{
    (void)state;
    fixture list[FIXTURES_MAX];
    int count = read_index(list);
    rungi_random random = rungi_random_make(7, RUNGI_PURPOSE_TEST, 0, 0, 0);
    uint64_t at = 0;
    for (int i = 0; i < count; i++) {
        size_t size;
        char *data = read_file(list[i].name, &size);
        for (int trial = 0; trial < 200; trial++) {
            size_t where = rungi_random_below(&random,
                                              trial % 2    ? size
                                              : size < 700 ? size
                                                           : 700,
                                              &at);
            char kept = data[where];
            data[where] = (char)rungi_random_below(&random, 256, &at);
            if (decode(data, size, "x") != RUNG_OK)
                assert_null(strchr(rung_error_last()->message, '\n'));
            data[where] = kept;
        }
        free(data);
    }
}

// Headers of enormous pictures are refused by their size.
static void bombs(void **state)
{
    (void)state;
    size_t size;
    char *data = read_file("rgb_444.jpg", &size);
    size_t at = 2;
    while ((unsigned char)data[at + 1] != 0xc0)
        at += 2 + ((size_t)(unsigned char)data[at + 2] << 8 | (unsigned char)data[at + 3]);
    memcpy(data + at + 5, "\xfa\0\xfa\0", 4); // 64000 x 64000
    assert_fails(RUNG_UNSUPPORTED, "x: picture of 64000 x 64000 is above", decode(data, size, "x"));
    free(data);
    data = read_file("progressive_444.jpg", &size);
    for (at = 2; (unsigned char)data[at + 1] != 0xc2;)
        at += 2 + ((size_t)(unsigned char)data[at + 2] << 8 | (unsigned char)data[at + 3]);
    memcpy(data + at + 5, "\x24\0\x24\0", 4); // 9216 x 9216
    assert_fails(RUNG_UNSUPPORTED, "progressive JPEG of 9216 x 9216 takes",
                 decode(data, size, "x"));
    free(data);
    // A PNG whose data cannot fill what its header promises.
    static const char png[] =
        "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x20\0\0\0\x20\0\x08\2\0\0\0\xfd\xc8\x5d\x0e"
        "\0\0\0\0IDAT\x35\xaf\x06\x1e";
    assert_fails(RUNG_CORRUPT, "cut", decode(png, sizeof png - 1, "x"));
    assert_fails(RUNG_FORMAT, "not a picture of kind JPEG, PNG, WebP", decode("BM....", 6, "x"));
    assert_fails(RUNG_CORRUPT, "found 0 bytes", decode("", 0, "x"));
}

// Names do not matter.
static void kinds_by_content(void **state)
{
    (void)state;
    size_t size;
    char *data = read_file("lossless.webp", &size);
    rungi_decoder *decoder;
    rungi_image_info info;
    assert_ok(rungi_decoder_create(&decoder));
    assert_ok(rungi_decoder_begin(decoder, data, size, "a.jpg", true, &info));
    assert_int_equal(info.kind, RUNGI_IMAGE_WEBP);
    rungi_decoder_destroy(&decoder);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_pillow),
        cmocka_unit_test(orientation),
        cmocka_unit_test(parts_of_fixtures),
        cmocka_unit_test(parts_of_samplings),
        cmocka_unit_test(cut),
        cmocka_unit_test(cut_below_the_part),
        cmocka_unit_test(damage),
        cmocka_unit_test(bombs),
        cmocka_unit_test(kinds_by_content),
    };
    return RUN_TESTS(tests);
}
