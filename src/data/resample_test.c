// SPDX-License-Identifier: Apache-2.0
// Resizing against Pillow, value by value (tools/fixtures/images.py); windows and mirrored pictures
// against the whole; SIMD against the plain loops.
#include "scratch.h"

#include "base/context.h"
#include "base/philox.h"
#include "data/resample.h"
#include "rung/npy.h"

// What can run here.
static const rungi_resample_kernels *kernels[2] = {&rungi_resample_plain};
static int kernel_count = 1;

static void resize(rungi_resample *r, const rungi_pixels *source, const rungi_resample_spec *spec,
                   uint8_t *out)
{
    rungi_rect need;
    size_t c = (size_t)source->channels, row = (size_t)spec->window.width * c;
    assert_ok(rungi_resample_plan(r, spec, &need));
    assert_true(need.x >= 0 && need.width > 0 && need.x + need.width <= source->width);
    assert_true(need.y >= 0 && need.height > 0 && need.y + need.height <= source->height);
    // A copy of what is needed alone, so that the address sanitizer sees what else is read.
    size_t stride = (size_t)need.width * c;
    uint8_t *part = malloc(stride * (size_t)need.height + RUNGI_PIXELS_SLACK);
    memset(part + stride * (size_t)need.height, 0xAA, RUNGI_PIXELS_SLACK);
    for (int y = 0; y < need.height; y++)
        memcpy(part + (size_t)y * stride,
               source->at + (size_t)(need.y + y) * source->stride + (size_t)need.x * c, stride);
    rungi_pixels pixels = {part, stride, need.width, need.height, source->channels};
    uint8_t *wide = malloc(row * (size_t)spec->window.height + RUNGI_PIXELS_SLACK);
    assert_ok(rungi_resample_run(r, &pixels, wide, row));
    memcpy(out, wide, row * (size_t)spec->window.height);
    free(wide);
    free(part);
}

static void same_as_pillow(void **state)
{
    (void)state;
    rung_image photo[2]; // grey, RGB
    rung_view expected;
    assert_ok(rung_image_read(IMAGES_FIXTURE("photo.png"), 1, &photo[0]));
    assert_ok(rung_image_read(IMAGES_FIXTURE("photo.png"), 3, &photo[1]));
    assert_ok(rung_npy_read(IMAGES_FIXTURE("resize.npy"), &expected));
    FILE *file = fopen(IMAGES_FIXTURE("resize.txt"), "r");
    assert_non_null(file);
    char filter[16];
    int channels, x, y, w, h, width, height, count = 0;
    size_t offset;
    while (fscanf(file, "%15s %d %d %d %d %d %d %d %zu", filter, &channels, &x, &y, &w, &h, &width,
                  &height, &offset) == 9) {
        const rung_image *image = &photo[channels == 3];
        size_t c = (size_t)channels, stride = (size_t)image->width * c;
        rungi_pixels source = {image->pixels + (size_t)y * stride + (size_t)x * c, stride, w, h,
                               channels};
        rungi_resample_spec spec = {
            .filter = strcmp(filter, "bicubic") == 0 ? RUNG_FILTER_BICUBIC : RUNG_FILTER_BILINEAR,
            .from_width = w,
            .from_height = h,
            .width = width,
            .height = height,
            .window = {0, 0, width, height},
        };
        size_t size = (size_t)width * (size_t)height * c;
        uint8_t *out = malloc(size);
        for (int k = 0; k < kernel_count; k++) {
            rungi_resample r = {.kernels = kernels[k]};
            resize(&r, &source, &spec, out);
            if (memcmp(out, (const uint8_t *)expected.data + offset, size) != 0)
                fail_msg("%s, %d channels, %dx%d at %d,%d to %dx%d, kernels %d: differs", filter,
                         channels, w, h, x, y, width, height, k);
            rungi_resample_fini(&r);
        }
        free(out);
        count++;
    }
    assert_int_equal(count, 26);
    fclose(file);
    free(expected.data);
    rung_image_fini(&photo[0]);
    rung_image_fini(&photo[1]);
}

static void mirror_rows(const uint8_t *from, int width, int height, int channels, uint8_t *to)
{
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            memcpy(to + ((size_t)y * (size_t)width + (size_t)x) * (size_t)channels,
                   from + ((size_t)y * (size_t)width + (size_t)(width - 1 - x)) * (size_t)channels,
                   (size_t)channels);
}

enum { SIDE = 90, LARGEST = SIDE * SIDE * 3 };

// Random sizes: any window of a result is that part of the whole result; a mirrored source or
// result is what mirroring the pixels gives; both kernels agree.
static void windows_and_mirrors(void **state)
{
    (void)state;
    rungi_random random = rungi_random_make(2, RUNGI_PURPOSE_TEST, 0, 0, 0);
    uint64_t at = 0;
    static uint8_t source[LARGEST], mirrored[LARGEST], whole[2][LARGEST], part[LARGEST],
        back[LARGEST];
    rungi_resample plain = {.kernels = kernels[0]}, fast = {.kernels = kernels[kernel_count - 1]};
    for (int trial = 0; trial < 400; trial++) {
        int sizes[4];
        for (int i = 0; i < 4; i++)
            sizes[i] = 1 + (int)rungi_random_below(&random, i < 2 && trial % 3 ? SIDE : 12, &at);
        if (trial % 2) {
            sizes[2] = 1 + (int)rungi_random_below(&random, SIDE, &at);
            sizes[3] = 1 + (int)rungi_random_below(&random, SIDE, &at);
        }
        int channels = trial % 4 ? 3 : 1, w = sizes[0], h = sizes[1];
        size_t c = (size_t)channels;
        for (size_t i = 0; i < (size_t)w * (size_t)h * c; i++)
            source[i] = (uint8_t)rungi_random_below(&random, 256, &at);
        mirror_rows(source, w, h, channels, mirrored);
        rungi_pixels pixels = {source, (size_t)w * c, w, h, channels};
        rungi_pixels pixels_mirrored = {mirrored, (size_t)w * c, w, h, channels};
        rungi_resample_spec spec = {.filter = (rung_filter)(trial % 5 == 0),
                                    .from_width = w,
                                    .from_height = h,
                                    .width = sizes[2],
                                    .height = sizes[3],
                                    .window = {0, 0, sizes[2], sizes[3]}};
        size_t size = (size_t)sizes[2] * (size_t)sizes[3] * c;
        resize(&plain, &pixels, &spec, whole[0]);
        resize(&fast, &pixels, &spec, whole[1]);
        assert_memory_equal(whole[0], whole[1], size);
        spec.mirror_from = true; // of the mirrored picture: the picture itself
        resize(&fast, &pixels_mirrored, &spec, part);
        assert_memory_equal(part, whole[0], size);
        spec.mirror_from = false;
        spec.mirror = true;
        resize(&fast, &pixels, &spec, part);
        mirror_rows(part, sizes[2], sizes[3], channels, back);
        assert_memory_equal(back, whole[0], size);
        spec.mirror = false;
        rungi_rect r = {0};
        r.width = 1 + (int)rungi_random_below(&random, (uint64_t)sizes[2], &at);
        r.height = 1 + (int)rungi_random_below(&random, (uint64_t)sizes[3], &at);
        r.x = (int)rungi_random_below(&random, (uint64_t)(sizes[2] - r.width) + 1, &at);
        r.y = (int)rungi_random_below(&random, (uint64_t)(sizes[3] - r.height) + 1, &at);
        spec.window = r;
        resize(&fast, &pixels, &spec, part);
        for (int y = 0; y < r.height; y++)
            assert_memory_equal(part + (size_t)y * (size_t)r.width * c,
                                whole[0] + ((size_t)(r.y + y) * (size_t)sizes[2] + (size_t)r.x) * c,
                                (size_t)r.width * c);
    }
    rungi_resample_fini(&plain);
    rungi_resample_fini(&fast);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_pillow),
        cmocka_unit_test(windows_and_mirrors),
    };
    const rungi_resample_kernels *best = rungi_resample_kernels_for(rungi_cpu_isa());
    if (best != kernels[0])
        kernels[kernel_count++] = best;
    return RUN_TESTS(tests);
}
