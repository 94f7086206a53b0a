// SPDX-License-Identifier: Apache-2.0
// Transforms against steps done one by one on plain arrays: the test finds out by trial which
// random choices were made, and checks that all are made.
#include "data/data_testing.h"

#include <math.h>

#include "data/sample.h"
#include "data/transform.h"

enum { MAX = 16 };

// An image of doubles, [channel][row][column].
typedef struct image {
    int channels, height, width;
    float at[4][MAX][MAX];
} image;

static image crop(const image *in, int padding, bool reflect, int top, int left, int height,
                  int width)
{
    image out = {in->channels, height, width, {{{0}}}};
    for (int c = 0; c < in->channels; c++)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++) {
                int from_y = y + top - padding, from_x = x + left - padding;
                if (reflect) {
                    from_y = abs(from_y);
                    from_x = abs(from_x);
                    if (from_y > in->height - 1)
                        from_y = in->height - 1 - (from_y - (in->height - 1));
                    if (from_x > in->width - 1)
                        from_x = in->width - 1 - (from_x - (in->width - 1));
                }
                if (from_y >= 0 && from_y < in->height && from_x >= 0 && from_x < in->width)
                    out.at[c][y][x] = in->at[c][from_y][from_x];
            }
    return out;
}

static image flip(const image *in)
{
    image out = *in;
    for (int c = 0; c < in->channels; c++)
        for (int y = 0; y < in->height; y++)
            for (int x = 0; x < in->width; x++)
                out.at[c][y][x] = in->at[c][y][in->width - 1 - x];
    return out;
}

static image normalize(const image *in, const float *mean, const float *std)
{
    image out = *in;
    for (int c = 0; c < in->channels; c++)
        for (int y = 0; y < in->height; y++)
            for (int x = 0; x < in->width; x++)
                out.at[c][y][x] = (in->at[c][y][x] - mean[c]) / std[c];
    return out;
}

// A test image of bytes in either order, and the same divided by 255.
static image make_image(int channels, int height, int width, bool hwc, uint8_t *bytes)
{
    image out = {channels, height, width, {{{0}}}};
    for (int c = 0; c < channels; c++)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++) {
                uint8_t byte = (uint8_t)(1 + c * 71 + y * 37 + x * 11 + x * y);
                int at = hwc ? (y * width + x) * channels + c : (c * height + y) * width + x;
                bytes[at] = byte;
                out.at[c][y][x] = (float)byte / 255.0f;
            }
    return out;
}

static bool equal(const image *want, const float *got)
{
    for (int c = 0; c < want->channels; c++)
        for (int y = 0; y < want->height; y++)
            for (int x = 0; x < want->width; x++)
                if (want->at[c][y][x] != got[(c * want->height + y) * want->width + x])
                    return false;
    return true;
}

static rung_field image_field(int channels, int height, int width, bool hwc)
{
    rung_shape shape =
        hwc ? RUNG_SHAPE(height, width, channels) : RUNG_SHAPE(channels, height, width);
    return (rung_field){"image", RUNG_U8, shape, hwc ? RUNG_PIXELS_HWC : RUNG_PIXELS_CHW};
}

// Compiles, applies to one sample, and destroys.
static rung_status apply(const rung_field *field, const rung_transform *steps, int count,
                         int64_t sample_index, const void *in, void *out, rung_field *out_field)
{
    rungi_chain *chain = NULL;
    rung_status status = rungi_chain_create(field, 0, steps, count, &chain);
    if (status != RUNG_OK)
        return status;
    rungi_chain_worker *worker = NULL;
    assert_ok(rungi_chain_worker_create(chain, RUNG_ISA_AUTO, &worker));
    rung_view view = {field->dtype, field->shape, (void *)(uintptr_t)in};
    rung_sample sample = {.index = sample_index,
                          .random = rungi_sample_random(1, 0, sample_index, 0)};
    status = rungi_chain_apply(chain, &sample, &view, worker, out);
    if (out_field)
        *out_field = *rungi_chain_output(chain);
    rungi_chain_worker_destroy(&worker);
    rungi_chain_destroy(&chain);
    return status;
}

static void to_float_and_normalize(void **state)
{
    (void)state;
    const rung_transform steps[] = {
        {.kind = RUNG_TRANSFORM_TO_FLOAT},
        {.kind = RUNG_TRANSFORM_NORMALIZE, .mean = {0.1f, 0.5f, 0.9f}, .std = {0.3f, 0.7f, 1.1f}},
    };
    for (int hwc = 0; hwc < 2; hwc++) {
        uint8_t bytes[3 * 4 * 5];
        float got[3 * 4 * 5];
        rung_field field = image_field(3, 4, 5, hwc), out;
        image plain = make_image(3, 4, 5, hwc, bytes);
        assert_ok(apply(&field, steps, 1, 0, bytes, got, &out));
        assert_true(equal(&plain, got));
        assert_int_equal(out.dtype, RUNG_F32);
        assert_int_equal(out.pixels, RUNG_PIXELS_CHW);
        assert_true(rung_shape_equal(&out.shape, &RUNG_SHAPE(3, 4, 5)));
        assert_ok(apply(&field, steps, 2, 0, bytes, got, NULL));
        image normalized = normalize(&plain, steps[1].mean, steps[1].std);
        assert_true(equal(&normalized, got));
    }
    // float images: to_float leaves them alone
    rung_field field = {"image", RUNG_F32, RUNG_SHAPE(1, 1, 3), RUNG_PIXELS_CHW};
    const float in[3] = {-1, 0.5f, 300};
    float got[3];
    assert_ok(apply(&field, steps, 2, 0, in, got, NULL));
    for (int i = 0; i < 3; i++)
        assert_true(got[i] == (in[i] - 0.1f) / 0.3f);
}

// Every byte value, exactly.
static void all_bytes(void **state)
{
    (void)state;
    uint8_t bytes[256];
    float got[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (uint8_t)i;
    rung_field field = image_field(1, 16, 16, false);
    const rung_transform steps[] = {
        {.kind = RUNG_TRANSFORM_TO_FLOAT},
        {.kind = RUNG_TRANSFORM_NORMALIZE, .mean = {0.2860f}, .std = {0.3530f}},
    };
    assert_ok(apply(&field, steps, 2, 0, bytes, got, NULL));
    for (int i = 0; i < 256; i++)
        assert_true(got[i] == ((float)i / 255.0f - 0.2860f) / 0.3530f);
}

// For each sample exactly one choice explains the result; over the samples all choices are made.
static void check_choices(const rung_transform *steps, int count, int padding, bool reflect,
                          bool flips, bool hwc)
{
    enum { H = 5, W = 6, CH = 4, CW = 5, SAMPLES = 1500 };
    static const float mean[3] = {0.4f, 0.5f, 0.6f}, std[3] = {0.2f, 0.25f, 0.3f};
    uint8_t bytes[3 * H * W];
    float got[3 * CH * CW];
    image plain = make_image(3, H, W, hwc, bytes);
    rung_field field = image_field(3, H, W, hwc);
    int tops = H + 2 * padding - CH + 1, lefts = W + 2 * padding - CW + 1, made = 0;
    bool seen[16][16][2] = {{{false}}};
    for (int s = 0; s < SAMPLES; s++) {
        assert_ok(apply(&field, steps, count, s, bytes, got, NULL));
        int found = 0;
        for (int top = 0; top < tops; top++)
            for (int left = 0; left < lefts; left++)
                for (int f = 0; f <= flips; f++) {
                    image want = crop(&plain, padding, reflect, top, left, CH, CW);
                    want = f ? flip(&want) : want;
                    want = normalize(&want, mean, std);
                    if (!equal(&want, got))
                        continue;
                    found++;
                    made += !seen[top][left][f];
                    seen[top][left][f] = true;
                }
        // A mirrored edge can look the same from both sides.
        assert_true(found == 1 || (reflect && found > 1));
    }
    assert_int_equal(made, tops * lefts * (flips + 1));
}

#define TEST_CROP(pad, mode)                                                         \
    {                                                                                \
        .kind = RUNG_TRANSFORM_RANDOM_CROP, .height = 4, .width = 5, .padding = pad, \
        .padding_mode = mode                                                         \
    }
#define TEST_NORMALIZE                                                                             \
    {                                                                                              \
        .kind = RUNG_TRANSFORM_NORMALIZE, .mean = {0.4f, 0.5f, 0.6f}, .std = { 0.2f, 0.25f, 0.3f } \
    }

static void crop_and_flip(void **state)
{
    (void)state;
    const rung_transform zero[] = {
        {.kind = RUNG_TRANSFORM_TO_FLOAT},
        TEST_CROP(2, RUNG_CROP_PADDING_ZERO),
        {.kind = RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP},
        TEST_NORMALIZE,
    };
    const rung_transform reflect[] = {
        TEST_CROP(2, RUNG_CROP_PADDING_REFLECT), // on bytes
        {.kind = RUNG_TRANSFORM_TO_FLOAT},
        TEST_NORMALIZE,
        {.kind = RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP},
    };
    const rung_transform none[] = {
        TEST_CROP(0, RUNG_CROP_PADDING_ZERO),
        {.kind = RUNG_TRANSFORM_TO_FLOAT},
        TEST_NORMALIZE,
    };
    check_choices(zero, 4, 2, false, true, false);
    check_choices(zero, 4, 2, false, true, true);
    check_choices(reflect, 4, 2, true, true, false);
    check_choices(reflect, 4, 2, true, true, true);
    check_choices(none, 3, 0, false, false, false);
}

// What is put around the image goes through the steps that follow, not through those before.
static void fill_follows_the_order_of_steps(void **state)
{
    (void)state;
    const uint8_t in[1] = {255};
    float got[9];
    rung_field field = image_field(1, 1, 1, false);
    const rung_transform normalize_step = {
        .kind = RUNG_TRANSFORM_NORMALIZE, .mean = {0.5f}, .std = {0.25f}};
    const rung_transform pad3 = {.kind = RUNG_TRANSFORM_PAD, .height = 3, .width = 3};
    const rung_transform pad2 = {.kind = RUNG_TRANSFORM_PAD, .height = 2, .width = 1};
    const rung_transform to_float = {.kind = RUNG_TRANSFORM_TO_FLOAT};
    assert_ok(
        apply(&field, (rung_transform[]){to_float, pad3, normalize_step}, 3, 0, in, got, NULL));
    for (int i = 0; i < 9; i++)
        assert_true(got[i] == (i == 4 ? 2.0f : -2.0f));
    assert_ok(
        apply(&field, (rung_transform[]){to_float, normalize_step, pad3}, 3, 0, in, got, NULL));
    for (int i = 0; i < 9; i++)
        assert_true(got[i] == (i == 4 ? 2.0f : 0.0f));
    // pad2 puts -2 below the pixel, pad3 then 0 around both: [2; -2] in the middle column
    rung_transform both[] = {to_float, pad2, normalize_step, pad3};
    assert_ok(apply(&field, both, 4, 0, in, got, NULL));
    const float want[9] = {0, 2, 0, 0, -2, 0, 0, 0, 0};
    for (int i = 0; i < 9; i++)
        assert_true(got[i] == want[i]);
}

// Fashion-MNIST for a network of 3 x 32 x 32.
static void pad_and_repeat_channels(void **state)
{
    (void)state;
    static uint8_t in[28 * 28];
    static float got[3 * 32 * 32];
    rung_field field = image_field(1, 28, 28, false), out;
    for (int i = 0; i < 28 * 28; i++)
        in[i] = (uint8_t)(i % 251);
    const rung_transform steps[] = {
        {.kind = RUNG_TRANSFORM_TO_FLOAT},
        {.kind = RUNG_TRANSFORM_NORMALIZE, .mean = {0.25f}, .std = {0.5f}},
        {.kind = RUNG_TRANSFORM_PAD, .height = 32, .width = 32},
        {.kind = RUNG_TRANSFORM_REPEAT_CHANNELS, .channels = 3},
    };
    assert_ok(apply(&field, steps, 4, 0, in, got, &out));
    assert_true(rung_shape_equal(&out.shape, &RUNG_SHAPE(3, 32, 32)));
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < 32; y++)
            for (int x = 0; x < 32; x++) {
                bool inside = y >= 2 && y < 30 && x >= 2 && x < 30;
                float want = inside ? ((float)in[(y - 2) * 28 + x - 2] / 255.0f - 0.25f) / 0.5f : 0;
                assert_true(got[(c * 32 + y) * 32 + x] == want);
            }
}

// A mirror over a padded image is a pass of its own, and still right.
static void reflect_after_pad(void **state)
{
    (void)state;
    const uint8_t in[1] = {7};
    uint8_t got[5 * 5];
    rung_field field = image_field(1, 1, 1, false), out;
    const rung_transform steps[] = {
        {.kind = RUNG_TRANSFORM_PAD, .height = 3, .width = 3},
        {.kind = RUNG_TRANSFORM_RANDOM_CROP,
         .height = 7,
         .width = 7,
         .padding = 2,
         .padding_mode = RUNG_CROP_PADDING_REFLECT},
        {.kind = RUNG_TRANSFORM_RANDOM_CROP, .height = 5, .width = 5},
    };
    // 0 7 0 mirrored by two on both sides: 0 7 | 0 7 0 | 7 0 in both directions
    bool bright[7];
    for (int i = 0; i < 7; i++)
        bright[i] = i % 2 == 1;
    for (int s = 0; s < 20; s++) {
        assert_ok(apply(&field, steps, 3, s, in, got, &out));
        assert_int_equal(out.dtype, RUNG_U8);
        int found = 0;
        for (int top = 0; top < 3; top++)
            for (int left = 0; left < 3; left++) {
                bool same = true;
                for (int i = 0; i < 25; i++)
                    same &= got[i] == (bright[top + i / 5] && bright[left + i % 5] ? 7 : 0);
                found += same;
            }
        assert_true(found >= 1);
    }
}

static rung_status negate(void *user, const rung_sample *sample, const rung_random *random,
                          const rung_view *in, rung_view *out)
{
    (void)sample;
    *(uint64_t *)user = rung_random_u64(random, 0);
    for (int64_t i = 0; i < in->shape.dim[0] * in->shape.dim[1] * in->shape.dim[2]; i++)
        ((float *)out->data)[i] = -((const float *)in->data)[i];
    return RUNG_OK;
}

static rung_status give_up(void *user, const rung_sample *sample, const rung_random *random,
                           const rung_view *in, rung_view *out)
{
    (void)user, (void)random, (void)in, (void)out;
    return rung_hook_fail(RUNG_DATA, "cannot bear number %d", (int)sample->index);
}

static rung_status first_pixel(void *user, const rung_sample *sample, const rung_random *random,
                               const rung_view *in, rung_view *out)
{
    (void)user, (void)sample, (void)random;
    *(double *)out->data = ((const float *)in->data)[0];
    return RUNG_OK;
}

static void custom_steps(void **state)
{
    (void)state;
    uint8_t bytes[3 * 4 * 5];
    float got[3 * 4 * 5];
    uint64_t first, second, alone;
    rung_field field = image_field(3, 4, 5, true), out;
    image want = make_image(3, 4, 5, true, bytes);
    want = flip(&want);
    const rung_transform to_float = {.kind = RUNG_TRANSFORM_TO_FLOAT};
    const rung_transform flip_step = {.kind = RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP,
                                      .probability = 1};
    rung_transform a = {.kind = RUNG_TRANSFORM_CUSTOM, .apply = negate, .user = &first};
    rung_transform b = {.kind = RUNG_TRANSFORM_CUSTOM, .apply = negate, .user = &second};
    assert_ok(apply(&field, (rung_transform[]){to_float, a, flip_step, b}, 4, 6, bytes, got, &out));
    assert_true(equal(&want, got));
    assert_true(first != second); // a key of its own for each step
    a.user = &alone;
    assert_ok(apply(&field, (rung_transform[]){to_float, a}, 2, 6, bytes, got, NULL));
    assert_true(alone == first); // whatever stands around it
    rung_field scalar = {"brightness", RUNG_F64, RUNG_SCALAR, RUNG_PIXELS_NONE};
    rung_transform c = {.kind = RUNG_TRANSFORM_CUSTOM, .apply = first_pixel, .output = &scalar};
    double pixel;
    assert_ok(apply(&field, (rung_transform[]){to_float, flip_step, c}, 3, 6, bytes, &pixel, &out));
    assert_true(pixel == (double)want.at[0][0][0]);
    assert_int_equal(out.dtype, RUNG_F64);
    assert_string_equal(out.name, "image");
    rung_transform d = {.kind = RUNG_TRANSFORM_CUSTOM, .name = "picky", .apply = give_up};
    assert_fails(RUNG_DATA, "transform picky: cannot bear number 6",
                 apply(&field, (rung_transform[]){to_float, d}, 2, 6, bytes, got, NULL));
}

// Whether a sample is mirrored does not depend on the crop before it.
static void choices_do_not_depend_on_neighbours(void **state)
{
    (void)state;
    const uint8_t in[2] = {10, 20};
    uint8_t alone[2], cropped[2];
    rung_field field = image_field(1, 1, 2, false);
    const rung_transform flip_step = {.kind = RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP};
    const rung_transform crop_step = {.kind = RUNG_TRANSFORM_RANDOM_CROP, .height = 1, .width = 2};
    int flipped = 0;
    for (int s = 0; s < 64; s++) {
        assert_ok(apply(&field, &flip_step, 1, s, in, alone, NULL));
        assert_ok(apply(&field, (rung_transform[]){crop_step, flip_step}, 2, s, in, cropped, NULL));
        assert_memory_equal(alone, cropped, 2);
        flipped += alone[0] == 20;
    }
    assert_true(flipped > 16 && flipped < 48);
    const rung_transform never = {.kind = RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP, .probability = -1};
    for (int s = 0; s < 64; s++) {
        assert_ok(apply(&field, &never, 1, s, in, alone, NULL));
        assert_memory_equal(alone, in, 2);
    }
}

static rung_status try_step(const rung_field *field, rung_transform step)
{
    rungi_chain *chain = NULL;
    rung_status status = rungi_chain_create(field, 0, &step, 1, &chain);
    assert_true((chain != NULL) == (status == RUNG_OK));
    rungi_chain_destroy(&chain);
    return status;
}

static void refused(void **state)
{
    (void)state;
    rung_field bytes = image_field(3, 8, 8, false);
    rung_field floats = {"image", RUNG_F32, RUNG_SHAPE(3, 8, 8), RUNG_PIXELS_CHW};
    rung_field label = {"label", RUNG_I64, RUNG_SCALAR, RUNG_PIXELS_NONE};
    rung_field many = image_field(17, 8, 8, false);
    assert_fails(RUNG_MISMATCH, "field label", try_step(&label, (rung_transform){.kind = 1}));
    assert_fails(RUNG_MISMATCH, "17 channels", try_step(&many, (rung_transform){.kind = 1}));
    assert_fails(RUNG_INVALID, "no step has the number 0", try_step(&bytes, (rung_transform){0}));
    assert_fails(RUNG_INVALID, "put to_float before",
                 try_step(&bytes, (rung_transform){.kind = RUNG_TRANSFORM_NORMALIZE}));
    assert_fails(
        RUNG_INVALID, "channel 2",
        try_step(&floats, (rung_transform){.kind = RUNG_TRANSFORM_NORMALIZE, .std = {1, 1}}));
    assert_fails(RUNG_MISMATCH, "cannot cut 13 x 4 from 8 x 8 padded by 2",
                 try_step(&bytes, (rung_transform){.kind = RUNG_TRANSFORM_RANDOM_CROP,
                                                   .height = 13,
                                                   .width = 4,
                                                   .padding = 2}));
    assert_fails(RUNG_MISMATCH, "cannot be reflected",
                 try_step(&bytes, (rung_transform){.kind = RUNG_TRANSFORM_RANDOM_CROP,
                                                   .height = 8,
                                                   .width = 8,
                                                   .padding = 8,
                                                   .padding_mode = RUNG_CROP_PADDING_REFLECT}));
    assert_fails(RUNG_INVALID, "probability",
                 try_step(&bytes, (rung_transform){.kind = RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP,
                                                   .probability = 1.5f}));
    assert_fails(
        RUNG_MISMATCH, "cannot pad 8 x 8 to 7 x 9",
        try_step(&bytes, (rung_transform){.kind = RUNG_TRANSFORM_PAD, .height = 7, .width = 9}));
    assert_fails(
        RUNG_MISMATCH, "has 3 channels",
        try_step(&bytes, (rung_transform){.kind = RUNG_TRANSFORM_REPEAT_CHANNELS, .channels = 3}));
    assert_fails(RUNG_INVALID, "no apply",
                 try_step(&bytes, (rung_transform){.kind = RUNG_TRANSFORM_CUSTOM}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(to_float_and_normalize),
        cmocka_unit_test(all_bytes),
        cmocka_unit_test(crop_and_flip),
        cmocka_unit_test(fill_follows_the_order_of_steps),
        cmocka_unit_test(pad_and_repeat_channels),
        cmocka_unit_test(reflect_after_pad),
        cmocka_unit_test(custom_steps),
        cmocka_unit_test(choices_do_not_depend_on_neighbours),
        cmocka_unit_test(refused),
    };
    return RUN_TESTS(tests);
}
