// SPDX-License-Identifier: Apache-2.0
// JPEGs rewritten with restart markers: the same pixels, whole and in part, and what lies above a
// part is not even looked at.
#include "formats/jpeg_rows.h"

#include <dirent.h>

#include "base/philox.h"
#include "formats/image_file.h"
#include "scratch.h"

typedef struct picture {
    char *data;
    size_t size;
    rungi_string rows; // the same, rewritten
    rung_image whole;
    int channels;
} picture;

static bool open_picture(const char *name, int channels, picture *p)
{
    char path[RUNGI_PATH_MAX];
    size_t length = strlen(name);
    if (length < 5 || strcmp(name + length - 4, ".jpg") != 0)
        return false;
    *p = (picture){.channels = channels};
    assert_ok(rungi_path_format(path, "%s%s", IMAGES_FIXTURE(""), name));
    p->data = scratch_read(path, &p->size);
    assert_ok(rung_image_decode(p->data, p->size, name, channels, &p->whole));
    assert_ok(rungi_jpeg_write_rows(p->data, p->size, name, &p->rows));
    return true;
}

static void close_picture(picture *p)
{
    rung_image_fini(&p->whole);
    rungi_string_fini(&p->rows);
    free(p->data);
}

// Decodes a part of the rewritten picture and compares it.
static void check_part(const picture *p, const char *name, const rungi_rect *part)
{
    rungi_decoder *decoder;
    rungi_image_info info;
    rungi_pixels pixels;
    assert_ok(rungi_decoder_create(&decoder));
    assert_ok(rungi_decoder_begin(decoder, p->rows.data, p->rows.size, name, true, &info));
    assert_int_equal(info.width, p->whole.width);
    assert_int_equal(info.height, p->whole.height);
    assert_ok(rungi_decoder_read(decoder, part, p->channels, &pixels));
    size_t c = (size_t)p->channels, line = c * (size_t)part->width;
    for (int y = 0; y < part->height; y++) {
        const uint8_t *want =
            p->whole.pixels +
            c * ((size_t)(part->y + y) * (size_t)p->whole.width + (size_t)part->x);
        if (memcmp(pixels.at + pixels.stride * (size_t)y, want, line) != 0)
            fail_msg("%s: rows differ at %d of part %d,%d %dx%d", name, y, part->x, part->y,
                     part->width, part->height);
    }
    rungi_decoder_destroy(&decoder);
}

static int below(const rungi_random *random, uint64_t *index, int n)
{
    return (int)rungi_random_below(random, (uint64_t)n, index);
}

static void same_pixels(void **state)
{
    (void)state;
    int pictures = 0;
    DIR *folder = opendir(IMAGES_FIXTURE(""));
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        for (int channels = 1; channels <= 3; channels += 2) {
            picture p;
            if (!open_picture(entry->d_name, channels, &p))
                continue;
            int w = p.whole.width, h = p.whole.height;
            rungi_random random = rungi_random_make(3, RUNGI_PURPOSE_TEST, 0, 0, 0);
            uint64_t next = 0;
            check_part(&p, entry->d_name, &(rungi_rect){0, 0, w, h});
            for (int y = 0; y < h; y++) // every first row
                check_part(&p, entry->d_name, &(rungi_rect){0, y, w, h - y < 5 ? h - y : 5});
            for (int i = 0; i < 50; i++) {
                int x = below(&random, &next, w), y = below(&random, &next, h);
                rungi_rect part = {x, y, 1 + below(&random, &next, w - x),
                                   1 + below(&random, &next, h - y)};
                check_part(&p, entry->d_name, &part);
            }
            pictures++;
            close_picture(&p);
        }
    closedir(folder);
    assert_true(pictures > 30);
}

// Rubbish between the first two markers: a part below does not notice, the whole does.
static void rows_above_are_not_decoded(void **state)
{
    (void)state;
    picture p;
    assert_true(open_picture("rgb_420.jpg", 3, &p));
    rungi_decoder *decoder;
    rungi_image_info info;
    rungi_pixels pixels;
    assert_ok(rungi_decoder_create(&decoder));
    unsigned char *all = (unsigned char *)p.rows.data, *end = all + p.rows.size, *at = all;
    while (!(at[0] == 0xff && at[1] == 0xd0))
        at++;
    unsigned char *stop = at + 2;
    while (!(stop[0] == 0xff && stop[1] == 0xd1))
        stop++;
    assert_true(stop + 2 < end && stop - at > 40);
    memset(at + 2, 0x55, (size_t)(stop - at) - 2);
    rungi_rect low = {0, 34, p.whole.width, p.whole.height - 34};
    check_part(&p, "rgb_420.jpg", &low);
    rungi_rect high = {0, 0, p.whole.width, p.whole.height};
    assert_ok(rungi_decoder_begin(decoder, all, p.rows.size, "p", false, &info));
    assert_true(rungi_decoder_read(decoder, &high, 3, &pixels) != RUNG_OK ||
                memcmp(pixels.at + 20 * pixels.stride,
                       p.whole.pixels + 20 * 3 * (size_t)p.whole.width,
                       3 * (size_t)p.whole.width) != 0);
    // A marker out of order: nothing is passed over, and decoding says so.
    at[1] = 0xd3;
    assert_ok(rungi_decoder_begin(decoder, all, p.rows.size, "p", false, &info));
    assert_fails(RUNG_FORMAT, "p: damaged JPEG", rungi_decoder_read(decoder, &low, 3, &pixels));
    rungi_decoder_destroy(&decoder);
    close_picture(&p);
}

// Cut behind the markers that are passed over: told, by the row in the whole picture.
static void cut_below(void **state)
{
    (void)state;
    picture p;
    assert_true(open_picture("rgb_444.jpg", 3, &p));
    rungi_decoder *decoder;
    rungi_image_info info;
    rungi_pixels pixels;
    int refused = 0;
    assert_ok(rungi_decoder_create(&decoder));
    rungi_rect low = {0, p.whole.height - 4, p.whole.width, 4};
    for (size_t size = p.rows.size - 2; size > p.rows.size / 2; size--) {
        char *copy = malloc(size);
        memcpy(copy, p.rows.data, size);
        rung_status status = rungi_decoder_begin(decoder, copy, size, "p", false, &info);
        if (status == RUNG_OK)
            status = rungi_decoder_read(decoder, &low, 3, &pixels);
        refused += status != RUNG_OK;
        free(copy);
    }
    assert_true(refused > (int)p.rows.size / 2 - 20);
    rungi_decoder_destroy(&decoder);
    close_picture(&p);
}

static void keeps_what_is_said(void **state)
{
    (void)state;
    rungi_string out = {0};
    size_t size;
    // EXIF's orientation stays.
    char *turned = scratch_read(IMAGES_FIXTURE("exif_6.jpg"), &size);
    rungi_decoder *decoder;
    rungi_image_info info;
    assert_ok(rungi_decoder_create(&decoder));
    assert_ok(rungi_jpeg_write_rows(turned, size, "t", &out));
    assert_ok(rungi_decoder_begin(decoder, out.data, out.size, "t", true, &info));
    assert_int_equal(info.orientation, 6);
    rungi_decoder_destroy(&decoder);
    // What is no JPEG is copied; a damaged one is refused.
    char *png = scratch_read(IMAGES_FIXTURE("exif_1.png"), &size);
    assert_ok(rungi_jpeg_write_rows(png, size, "p", &out));
    assert_int_equal(out.size, size);
    assert_memory_equal(out.data, png, size);
    free(png);
    assert_fails(RUNG_FORMAT, "t: damaged JPEG", rungi_jpeg_write_rows(turned, 300, "t", &out));
    free(turned);
    rungi_string_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_pixels),
        cmocka_unit_test(rows_above_are_not_decoded),
        cmocka_unit_test(cut_below),
        cmocka_unit_test(keeps_what_is_said),
    };
    return RUN_TESTS(tests);
}
