// SPDX-License-Identifier: Apache-2.0
// Pictures as files through the chain: against torchvision (tools/fixtures/images.py), and against
// the steps done one by one on the whole decoded picture.
#include "scratch.h"

#include <math.h>

#include "base/context.h"
#include "data/colour.h"
#include "data/resample.h"
#include "data/sample.h"
#include "data/transform.h"
#include "rung/npy.h"

static const rung_field file_field = {"image", RUNG_U8, {1, {0}}, RUNG_PIXELS_FILE};

typedef struct file {
    char *data;
    size_t size;
} file;

static file read_file(const char *name)
{
    char path[RUNGI_PATH_MAX];
    file f;
    assert_ok(rungi_path_format(path, "%s%s", IMAGES_FIXTURE(""), name));
    f.data = scratch_read(path, &f.size);
    // With the slack that a source promises.
    f.data = realloc(f.data, f.size + RUNGI_PIXELS_SLACK);
    assert_non_null(f.data);
    return f;
}

static rung_random random_of(int64_t index)
{
    return rungi_sample_random(1, 0, index, 0);
}

static rung_status apply(const rung_field *field, const rung_transform *steps, int count,
                         int64_t index, const void *data, size_t size, void *out,
                         rung_field *out_field)
{
    rungi_chain *chain = NULL;
    rungi_chain_worker *worker = NULL;
    rung_status made = rungi_chain_create(field, 0, steps, count, &chain);
    if (made != RUNG_OK)
        return made;
    rung_view view = {field->dtype, field->shape, (void *)(uintptr_t)data};
    if (field->pixels == RUNG_PIXELS_FILE)
        view.shape.dim[0] = (int64_t)size;
    rung_sample sample = {.index = index, .random = random_of(index)};
    assert_ok(
        rungi_chain_worker_create(chain, index % 2 ? RUNG_ISA_SCALAR : rungi_cpu_isa(), &worker));
    rung_status status = rungi_chain_apply(chain, &sample, &view, worker, out);
    if (out_field)
        *out_field = *rungi_chain_output(chain);
    rungi_chain_worker_destroy(&worker);
    rungi_chain_destroy(&chain);
    return status;
}

static void same_as_torchvision(void **state)
{
    (void)state;
    rung_view expected;
    assert_ok(rung_npy_read(IMAGES_FIXTURE("chains.npy"), &expected));
    FILE *list = fopen(IMAGES_FIXTURE("chains.txt"), "r");
    assert_non_null(list);
    char name[64];
    int h, w, bicubic, ch, cw, height, width, cases = 0;
    size_t offset;
    while (fscanf(list, "%63s %d %d %d %d %d %d %d %zu", name, &h, &w, &bicubic, &ch, &cw, &height,
                  &width, &offset) == 9) {
        file f = read_file(name);
        rung_transform steps[2] = {0};
        int count = 0;
        if (h)
            steps[count++] = (rung_transform){.kind = RUNG_TRANSFORM_RESIZE,
                                              .height = h,
                                              .width = w,
                                              .filter = (rung_filter)bicubic};
        if (ch)
            steps[count++] =
                (rung_transform){.kind = RUNG_TRANSFORM_CENTER_CROP, .height = ch, .width = cw};
        size_t plane = (size_t)height * (size_t)width;
        uint8_t *got = malloc(3 * plane);
        const uint8_t *want = (const uint8_t *)expected.data + offset;
        rung_field out;
        for (int isa = 0; isa < 2; isa++) {
            assert_ok(apply(&file_field, steps, count, isa, f.data, f.size, got, &out));
            assert_true(rung_shape_equal(&out.shape, &RUNG_SHAPE(3, height, width)));
            assert_int_equal(out.pixels, RUNG_PIXELS_CHW);
            for (size_t i = 0; i < plane; i++)
                for (size_t c = 0; c < 3; c++)
                    if (got[c * plane + i] != want[3 * i + c])
                        fail_msg("%s, case %d: pixel %zu differs", name, cases, i);
        }
        free(got);
        free(f.data);
        cases++;
    }
    assert_int_equal(cases, 11);
    fclose(list);
    free(expected.data);
}

// ---- the steps one by one

typedef struct plain {
    int width, height;
    uint8_t pixels[3 * 256 * 256];
} plain;

static void plain_crop(const plain *from, int x, int y, int width, int height, plain *to)
{
    to->width = width;
    to->height = height;
    for (int r = 0; r < height; r++)
        memcpy(to->pixels + 3 * (size_t)(r * width),
               from->pixels + 3 * (size_t)((y + r) * from->width + x), 3 * (size_t)width);
}

static void plain_mirror(plain *image)
{
    for (int y = 0; y < image->height; y++)
        for (int x = 0; x < image->width / 2; x++)
            for (int c = 0; c < 3; c++) {
                uint8_t *a = image->pixels + 3 * (y * image->width + x) + c;
                uint8_t *b = image->pixels + 3 * (y * image->width + image->width - 1 - x) + c;
                uint8_t kept = *a;
                *a = *b;
                *b = kept;
            }
}

static void plain_resize(const plain *from, int width, int height, plain *to)
{
    rungi_resample r = {.kernels = &rungi_resample_plain};
    rungi_rect need;
    rungi_resample_spec spec = {.from_width = from->width,
                                .from_height = from->height,
                                .width = width,
                                .height = height,
                                .window = {0, 0, width, height}};
    rungi_pixels pixels = {from->pixels, 3 * (size_t)from->width, from->width, from->height, 3};
    assert_ok(rungi_resample_plan(&r, &spec, &need));
    pixels.at += 3 * (size_t)(need.y * from->width + need.x);
    pixels.width = need.width;
    pixels.height = need.height;
    to->width = width;
    to->height = height;
    assert_ok(rungi_resample_run(&r, &pixels, to->pixels, 3 * (size_t)width));
    rungi_resample_fini(&r);
}

static void plain_decode(const file *f, plain *image)
{
    rung_image decoded;
    assert_ok(rung_image_decode(f->data, f->size, "x", 3, &decoded));
    image->width = decoded.width;
    image->height = decoded.height;
    memcpy(image->pixels, decoded.pixels, 3 * (size_t)(decoded.width * decoded.height));
    rung_image_fini(&decoded);
}

static void assert_planes(const plain *want, const uint8_t *got, const char *what, int64_t index)
{
    size_t plane = (size_t)want->width * (size_t)want->height;
    for (size_t i = 0; i < plane; i++)
        for (size_t c = 0; c < 3; c++)
            if (got[c * plane + i] != want->pixels[3 * i + c])
                fail_msg("%s, sample %d: pixel %zu differs", what, (int)index, i);
}

static const char *const names[] = {"rgb_420.jpg", "rgb_422.jpg",   "rgb_444.jpg",
                                    "restart.jpg", "cmyk.jpg",      "progressive_420.jpg",
                                    "grey.jpg",    "lossless.webp", "photo.png",
                                    "exif_5.jpg",  "exif_2.jpg",    "exif_7.png"};
enum { NAMES = sizeof names / sizeof *names };

static rung_random stream_of(int64_t index, rung_transform_kind kind, uint32_t earlier)
{
    rung_random random = random_of(index);
    return rungi_random_stream(&random, (uint32_t)kind << 16 | earlier);
}

// torchvision's rule, written again.
static void expect_random_resized(plain *image, int64_t index, double low, double high, int side,
                                  plain *out)
{
    static plain part;
    rung_random random = stream_of(index, RUNG_TRANSFORM_RANDOM_RESIZED_CROP, 0);
    double area = image->width * image->height;
    int w = 0, h = 0, x = 0, y = 0;
    bool found = false;
    for (uint64_t i = 0; i < 10 && !found; i++) {
        double target = area * (low + (high - low) * rung_random_uniform(&random, 2 * i));
        double ratio =
            exp(log(0.75) + (log(4.0 / 3) - log(0.75)) * rung_random_uniform(&random, 2 * i + 1));
        w = (int)rint(sqrt(target * ratio));
        h = (int)rint(sqrt(target / ratio));
        if (w > 0 && w <= image->width && h > 0 && h <= image->height) {
            uint64_t next = 20;
            y = (int)rung_random_below(&random, image->height - h + 1, &next);
            x = (int)rung_random_below(&random, image->width - w + 1, &next);
            found = true;
        }
    }
    if (!found) {
        double ratio = (double)image->width / image->height;
        w = ratio > 4.0 / 3 ? (int)rint(image->height * (4.0 / 3)) : image->width;
        h = ratio < 0.75 ? (int)rint(image->width / 0.75) : image->height;
        y = (image->height - h) / 2;
        x = (image->width - w) / 2;
    }
    plain_crop(image, x, y, w, h, &part);
    plain_resize(&part, side, side, out);
}

static void random_resized_crop(void **state)
{
    (void)state;
    static plain image, want;
    static uint8_t got[3 * 28 * 28];
    for (int64_t index = 0; index < 40 * NAMES; index++) {
        file f = read_file(names[index % NAMES]);
        // Three ranges: torchvision's, small parts, and one that no picture has.
        double low = index % 3 == 0 ? 0.08 : index % 3 == 1 ? 0.02 : 3, high = low < 1 ? 1 : 4;
        rung_transform steps[] = {
            {.kind = RUNG_TRANSFORM_RANDOM_RESIZED_CROP, .height = 28, .width = 28},
            {.kind = RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP}};
        if (index % 3) {
            steps[0].scale[0] = low;
            steps[0].scale[1] = high;
        }
        assert_ok(apply(&file_field, steps, 2, index, f.data, f.size, got, NULL));
        plain_decode(&f, &image);
        expect_random_resized(&image, index, low, high, 28, &want);
        rung_random random = stream_of(index, RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP, 0);
        if (rung_random_uniform(&random, 0) < 0.5)
            plain_mirror(&want);
        assert_planes(&want, got, names[index % NAMES], index);
        free(f.data);
    }
}

// Mirrored before and after, resized twice, cut in between.
static void long_chain(void **state)
{
    (void)state;
    static plain image, a, b;
    static uint8_t got[3 * 20 * 24];
    const rung_transform steps[] = {
        {.kind = RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP},
        {.kind = RUNG_TRANSFORM_RESIZE, .height = 40, .width = 50},
        {.kind = RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP},
        {.kind = RUNG_TRANSFORM_RANDOM_CROP, .height = 31, .width = 29},
        {.kind = RUNG_TRANSFORM_RESIZE, .height = 22, .width = 33},
        {.kind = RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP},
        {.kind = RUNG_TRANSFORM_RANDOM_CROP, .height = 20, .width = 24}};
    for (int64_t index = 0; index < 10 * NAMES; index++) {
        file f = read_file(names[index % NAMES]);
        assert_ok(apply(&file_field, steps, 7, index, f.data, f.size, got, NULL));
        plain_decode(&f, &image);
        bool flips[3];
        int x[2] = {0}, y[2] = {0};
        for (uint32_t i = 0; i < 3; i++) {
            rung_random r = stream_of(index, RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP, i);
            flips[i] = rung_random_uniform(&r, 0) < 0.5;
        }
        for (uint32_t i = 0; i < 2; i++) {
            rung_random r = stream_of(index, RUNG_TRANSFORM_RANDOM_CROP, i);
            uint64_t next = 0;
            y[i] = (int)rung_random_below(&r, i ? 22 - 20 + 1 : 40 - 31 + 1, &next);
            x[i] = (int)rung_random_below(&r, i ? 33 - 24 + 1 : 50 - 29 + 1, &next);
        }
        if (flips[0])
            plain_mirror(&image);
        plain_resize(&image, 50, 40, &a);
        if (flips[1])
            plain_mirror(&a);
        plain_crop(&a, x[0], y[0], 29, 31, &b);
        plain_resize(&b, 33, 22, &a);
        if (flips[2])
            plain_mirror(&a);
        plain_crop(&a, x[1], y[1], 24, 20, &b);
        assert_planes(&b, got, names[index % NAMES], index);
        free(f.data);
    }
}

// A crop with padding here is that of the fused pass, bit for bit.
static void padding_as_in_fused_pass(void **state)
{
    (void)state;
    enum { H = 12, W = 17 };
    uint8_t in[3 * H * W], a[3 * H * W], b[3 * H * W];
    for (int i = 0; i < 3 * H * W; i++)
        in[i] = (uint8_t)(i * 31 % 251);
    for (int64_t index = 0; index < 200; index++) {
        bool hwc = index % 3 == 0;
        rung_field field = {"image", RUNG_U8, hwc ? RUNG_SHAPE(H, W, 3) : RUNG_SHAPE(3, H, W),
                            hwc ? RUNG_PIXELS_HWC : RUNG_PIXELS_CHW};
        const rung_transform crop = {.kind = RUNG_TRANSFORM_RANDOM_CROP,
                                     .height = H,
                                     .width = W,
                                     .padding = 1 + (int)(index % 8),
                                     .padding_mode = (rung_crop_padding)(index % 2)};
        const rung_transform flip = {.kind = RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP};
        const rung_transform fused[] = {flip, crop},
                             picture[] = {{.kind = RUNG_TRANSFORM_RESIZE, .height = H, .width = W},
                                          flip,
                                          crop};
        assert_ok(apply(&field, fused, 2, index, in, 0, a, NULL));
        assert_ok(apply(&field, picture, 3, index, in, 0, b, NULL));
        assert_memory_equal(a, b, sizeof a);
    }
}

// Values after it: as from the bytes; and one channel.
static void floats_and_grey(void **state)
{
    (void)state;
    static plain image, small;
    static uint8_t bytes[3 * 16 * 16];
    static float got[3 * 16 * 16];
    file f = read_file("rgb_420.jpg");
    const rung_transform steps[] = {
        {.kind = RUNG_TRANSFORM_DECODE, .channels = 3},
        {.kind = RUNG_TRANSFORM_RESIZE, .height = 16, .width = 16},
        {.kind = RUNG_TRANSFORM_TO_FLOAT},
        {.kind = RUNG_TRANSFORM_NORMALIZE, .mean = {0.5f, 0.4f, 0.3f}, .std = {0.2f, 0.3f, 0.4f}}};
    assert_ok(apply(&file_field, steps, 2, 0, f.data, f.size, bytes, NULL));
    assert_ok(apply(&file_field, steps, 4, 0, f.data, f.size, got, NULL));
    for (int i = 0; i < 3 * 256; i++) {
        const rung_transform *n = &steps[3];
        assert_true(got[i] == ((float)bytes[i] / 255.0f - n->mean[i / 256]) / n->std[i / 256]);
    }
    plain_decode(&f, &image);
    plain_resize(&image, 16, 16, &small);
    assert_planes(&small, bytes, "floats", 0);
    rung_field out;
    rung_transform grey[] = {{.kind = RUNG_TRANSFORM_DECODE, .channels = 1}, steps[1]};
    assert_ok(apply(&file_field, grey, 2, 0, f.data, f.size, bytes, &out));
    assert_true(rung_shape_equal(&out.shape, &RUNG_SHAPE(1, 16, 16)));
    free(f.data);
    // The camera's note can be left alone.
    f = read_file("exif_6.png"); // 4 x 2 in the file
    rung_transform keep[] = {{.kind = RUNG_TRANSFORM_DECODE, .keep_orientation = true},
                             {.kind = RUNG_TRANSFORM_CENTER_CROP, .height = 2, .width = 4}};
    assert_ok(apply(&file_field, keep, 2, 0, f.data, f.size, bytes, NULL));
    plain_decode(&f, &image); // 2 x 4, turned: its first column upwards is the file's first row
    for (int x = 0; x < 4; x++)
        assert_int_equal(bytes[x], image.pixels[3 * (x * 2 + 1)]);
    free(f.data);
}

// The steps one by one, by the same draws; of grey too.
static void colour_steps(void **state)
{
    (void)state;
    static plain image, small;
    static uint8_t got[3 * 24 * 24];
    const rung_transform steps[] = {{.kind = RUNG_TRANSFORM_RESIZE, .height = 24, .width = 24},
                                    {.kind = RUNG_TRANSFORM_COLOR_JITTER,
                                     .brightness = 0.4f,
                                     .contrast = 1.5f,
                                     .saturation = 0.3f,
                                     .hue = 0.2f},
                                    {.kind = RUNG_TRANSFORM_RANDOM_GRAYSCALE, .probability = 0.3f}};
    static const double low[3] = {0.6, 0, 0.7}, high[3] = {1.4, 2.5, 1.3};
    int orders[4][4] = {0}, greys = 0;
    for (int64_t index = 0; index < 300; index++) {
        file f = read_file(names[index % NAMES]);
        assert_ok(apply(&file_field, steps, 3, index, f.data, f.size, got, NULL));
        plain_decode(&f, &image);
        plain_resize(&image, 24, 24, &small);
        rung_random random = stream_of(index, RUNG_TRANSFORM_COLOR_JITTER, 0);
        double factors[4];
        for (uint64_t i = 0; i < 4; i++)
            factors[i] = rung_random_uniform(&random, i);
        int order[4] = {0, 1, 2, 3};
        uint64_t next = 4;
        for (int i = 3; i > 0; i--) {
            int other = (int)rung_random_below(&random, i + 1, &next), kept = order[i];
            order[i] = order[other];
            order[other] = kept;
        }
        for (int i = 0; i < 4; i++) {
            int kind = order[i];
            orders[kind][i]++;
            // Amounts are floats: their sums too.
            double a = (double)(kind == 0   ? steps[1].brightness
                                : kind == 1 ? steps[1].contrast
                                            : steps[1].saturation);
            double from = a < 1 ? 1 - a : 0, to = 1 + a;
            float factor = (float)(from + (to - from) * factors[kind]);
            if (kind < 3)
                assert_true(factor >= (float)low[kind] - 1e-5f &&
                            factor <= (float)high[kind] + 1e-5f);
            if (kind == 0)
                rungi_colour_brightness(small.pixels, 576, 3, factor);
            else if (kind == 1)
                rungi_colour_contrast(small.pixels, 576, 3, factor);
            else if (kind == 2)
                rungi_colour_saturation(small.pixels, 576, 3, factor);
            else
                rungi_colour_hue(small.pixels, 576, 3, (double)steps[1].hue * (2 * factors[3] - 1));
        }
        random = stream_of(index, RUNG_TRANSFORM_RANDOM_GRAYSCALE, 0);
        if (rung_random_uniform(&random, 0) < (double)0.3f) {
            rungi_colour_grey(small.pixels, 576, 3);
            greys++;
        }
        assert_planes(&small, got, "colours", index);
        free(f.data);
    }
    for (int kind = 0; kind < 4; kind++)
        for (int i = 0; i < 4; i++)
            assert_in_range(orders[kind][i], 45, 105); // 75 each; 4 deviations
    assert_in_range(greys, 58, 122);
}

// Rectangles of the asked size, somewhere, of zeros; the rest is untouched.
static void erasing(void **state)
{
    (void)state;
    enum { H = 40, W = 30 };
    static float in[2 * H * W], out[2 * H * W];
    rung_field field = {"image", RUNG_F32, RUNG_SHAPE(2, H, W), RUNG_PIXELS_CHW};
    const rung_transform step = {.kind = RUNG_TRANSFORM_RANDOM_ERASING, .value = -2};
    int erased = 0, places[2] = {0};
    for (int i = 0; i < 2 * H * W; i++)
        in[i] = (float)i + 1;
    for (int64_t index = 0; index < 400; index++) {
        assert_ok(apply(&field, &step, 1, index, in, 0, out, NULL));
        int top = H, bottom = -1, left = W, right = -1, count = 0;
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                float a = out[y * W + x], b = out[(H + y) * W + x];
                if (a != -2) {
                    assert_true(a == in[y * W + x] && b == in[(H + y) * W + x]);
                    continue;
                }
                assert_true(b == -2);
                count++;
                top = y < top ? y : top;
                bottom = y > bottom ? y : bottom;
                left = x < left ? x : left;
                right = x > right ? x : right;
            }
        if (count == 0)
            continue;
        erased++;
        int h = bottom - top + 1, w = right - left + 1;
        assert_int_equal(count, h * w);
        assert_true(h < H && w < W);
        // Sides are rounded: half a pixel each way.
        double area = (double)H * W;
        assert_true((h + 0.5) * (w + 0.5) >= 0.02 * area && (h - 0.5) * (w - 0.5) <= 0.33 * area);
        assert_true((h + 0.5) / (w - 0.5) >= 0.3 && (h - 0.5) / (w + 0.5) <= 3.3);
        places[0] += top < H - 1 - bottom;
        places[1] += left < W - 1 - right;
    }
    assert_in_range(erased, 150, 250);
    assert_in_range(places[0], erased / 4, erased * 3 / 4);
    assert_in_range(places[1], erased / 4, erased * 3 / 4);
}

static rung_status compile(const rung_field *field, const rung_transform *steps, int count)
{
    rungi_chain *chain = NULL;
    rung_status status = rungi_chain_create(field, 0, steps, count, &chain);
    if (chain)
        rungi_chain_destroy(&chain);
    return status;
}

static void refusals(void **state)
{
    (void)state;
    const rung_transform to_float = {.kind = RUNG_TRANSFORM_TO_FLOAT},
                         shorter = {.kind = RUNG_TRANSFORM_RESIZE, .height = 20},
                         decode = {.kind = RUNG_TRANSFORM_DECODE};
    rung_field fixed = {"image", RUNG_U8, RUNG_SHAPE(3, 8, 8), RUNG_PIXELS_CHW};
    assert_fails(RUNG_MISMATCH, "field image differ in size", compile(&file_field, NULL, 0));
    assert_fails(RUNG_MISMATCH, "must come first", compile(&file_field, &to_float, 1));
    assert_fails(RUNG_MISMATCH, "differ in size",
                 compile(&file_field, (rung_transform[]){shorter, to_float}, 2));
    assert_fails(RUNG_MISMATCH, "decode: must be the first",
                 compile(&file_field, (rung_transform[]){shorter, decode}, 2));
    assert_fails(RUNG_MISMATCH, "decode: must be the first", compile(&fixed, &decode, 1));
    assert_fails(RUNG_MISMATCH, "put them before to_float",
                 compile(&fixed, (rung_transform[]){to_float, shorter}, 2));
    rung_transform bad = {.kind = RUNG_TRANSFORM_DECODE, .channels = 2};
    assert_fails(RUNG_INVALID, "channels is 2", compile(&file_field, &bad, 1));
    bad = (rung_transform){.kind = RUNG_TRANSFORM_RESIZE};
    assert_fails(RUNG_INVALID, "resize: the size is 0", compile(&file_field, &bad, 1));
    bad = (rung_transform){.kind = RUNG_TRANSFORM_CENTER_CROP, .height = 3};
    assert_fails(RUNG_INVALID, "center_crop: cannot make 3 x 0", compile(&file_field, &bad, 1));
    bad = (rung_transform){
        .kind = RUNG_TRANSFORM_RANDOM_RESIZED_CROP, .height = 3, .width = 3, .scale = {0.5, 0.1}};
    assert_fails(RUNG_INVALID, "scale is 0.5 to 0.1", compile(&file_field, &bad, 1));
    bad = (rung_transform){.kind = RUNG_TRANSFORM_COLOR_JITTER, .hue = 0.6f};
    assert_fails(RUNG_INVALID, "hue is 0.6, must be 0 to 0.5", compile(&fixed, &bad, 1));
    bad = (rung_transform){.kind = RUNG_TRANSFORM_RANDOM_ERASING, .scale = {0.5, 0.1}};
    assert_fails(RUNG_INVALID, "random_erasing: scale is 0.5 to 0.1", compile(&fixed, &bad, 1));
    assert_ok(compile(&fixed, &shorter, 1)); // 8 x 8 becomes 20 x 20

    file f = read_file("rgb_420.jpg");
    uint8_t out[8];
    bad = (rung_transform){.kind = RUNG_TRANSFORM_RANDOM_CROP, .height = 60, .width = 10};
    assert_fails(RUNG_DATA, "the picture is 61 x 45, too small to cut 10 x 60",
                 apply(&file_field, &bad, 1, 0, f.data, f.size, out, NULL));
    bad = (rung_transform){.kind = RUNG_TRANSFORM_CENTER_CROP, .height = 1, .width = 1};
    assert_fails(RUNG_CORRUPT, "image: cut: the JPEG goes on",
                 apply(&file_field, &bad, 1, 0, f.data, f.size / 2, out, NULL));
    free(f.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_torchvision),
        cmocka_unit_test(random_resized_crop),
        cmocka_unit_test(long_chain),
        cmocka_unit_test(padding_as_in_fused_pass),
        cmocka_unit_test(floats_and_grey),
        cmocka_unit_test(colour_steps),
        cmocka_unit_test(erasing),
        cmocka_unit_test(refusals),
    };
    return RUN_TESTS(tests);
}
