// SPDX-License-Identifier: Apache-2.0
// Sources without files: arrays and generated data.
#include "data/data_testing.h"

#include <math.h>

static void arrays_borrowed_and_copied(void **state)
{
    (void)state;
    float images[3][2][2] = {{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}, {{9, 10}, {11, 12}}};
    int64_t labels[3] = {2, 0, 1};
    rung_array_field fields[] = {
        {"x", {RUNG_F32, RUNG_SHAPE(3, 2, 2), images}, RUNG_PIXELS_NONE},
        {"y", {RUNG_I64, RUNG_SHAPE(3), labels}, RUNG_PIXELS_NONE},
    };
    rung_source *borrowed, *copied;
    assert_ok(rung_source_arrays(NULL, fields, 2, 3, false, &borrowed));
    assert_ok(rung_source_arrays(NULL, fields, 2, 3, true, &copied));
    assert_int_equal(borrowed->count, 3);
    assert_int_equal(borrowed->class_count, 3);
    assert_true(rung_shape_equal(&borrowed->fields[0].shape, &RUNG_SHAPE(2, 2)));
    assert_int_equal(borrowed->fields[1].shape.rank, 0);
    images[1][0][0] = -5;
    float x[2][2];
    int64_t y;
    rung_view views[2] = {{.data = x}, {.data = &y}};
    rung_sample sample = {.index = 1};
    assert_ok(borrowed->read(borrowed->self, NULL, &sample, views));
    assert_true(x[0][0] == -5 && x[1][1] == 8 && y == 0);
    assert_ok(copied->read(copied->self, NULL, &sample, views));
    assert_true(x[0][0] == 5 && x[1][1] == 8 && y == 0);
    rung_source_destroy(&borrowed);
    rung_source_destroy(&copied);
    rung_source_destroy(&copied); // NULL by now
}

static void arrays_refused(void **state)
{
    (void)state;
    float data[6] = {0};
    rung_source *source = NULL;
    rung_array_field fields[] = {
        {"x", {RUNG_F32, RUNG_SHAPE(3, 2), data}, RUNG_PIXELS_NONE},
        {"y", {RUNG_F32, RUNG_SHAPE(2), data}, RUNG_PIXELS_NONE},
    };
    assert_fails(RUNG_MISMATCH, "field y has 2 samples, field x has 3",
                 rung_source_arrays(NULL, fields, 2, 0, false, &source));
    fields[0].all.shape.dim[0] = 0;
    assert_fails(RUNG_DATA, "no samples", rung_source_arrays(NULL, fields, 1, 0, false, &source));
    fields[0].all.shape = RUNG_SCALAR;
    assert_fails(RUNG_MISMATCH, "rank 0", rung_source_arrays(NULL, fields, 1, 0, false, &source));
    fields[0].all.shape = RUNG_SHAPE(3, 2);
    fields[0].pixels = RUNG_PIXELS_CHW;
    assert_fails(RUNG_MISMATCH, "holds images",
                 rung_source_arrays(NULL, fields, 1, 0, false, &source));
    assert_fails(RUNG_INVALID, "0 fields", rung_source_arrays(NULL, fields, 0, 0, false, &source));
    assert_null(source);
}

static void read_u8(const rung_source *source, int64_t index, uint8_t *image, int64_t *label)
{
    rung_view views[2] = {{.data = image}, {.data = label}};
    rung_sample sample = {.index = index};
    assert_ok(source->read(source->self, NULL, &sample, views));
}

// A nearest-mean classifier fitted on the first samples must be right on the others: so a network
// can learn it.
static void synthetic_can_be_learned(void **state)
{
    (void)state;
    enum { CLASSES = 10, ELEMENTS = 3 * 8 * 8, FIT = 200, TEST = 200 };
    rung_source *source;
    rung_synthetic_options options = {.count = FIT + TEST,
                                      .shape = RUNG_SHAPE(3, 8, 8),
                                      .dtype = RUNG_U8,
                                      .classes = CLASSES,
                                      .seed = 5};
    assert_ok(rung_source_synthetic(NULL, &options, &source));
    static double means[CLASSES][ELEMENTS];
    uint8_t image[ELEMENTS];
    int64_t label;
    int right = 0;
    memset(means, 0, sizeof means);
    for (int i = 0; i < FIT; i++) {
        read_u8(source, i, image, &label);
        assert_int_equal(label, i % CLASSES);
        for (int e = 0; e < ELEMENTS; e++)
            means[label][e] += image[e] / (double)(FIT / CLASSES);
    }
    for (int i = FIT; i < FIT + TEST; i++) {
        read_u8(source, i, image, &label);
        int best = 0;
        double least = INFINITY;
        for (int c = 0; c < CLASSES; c++) {
            double distance = 0;
            for (int e = 0; e < ELEMENTS; e++)
                distance += (image[e] - means[c][e]) * (image[e] - means[c][e]);
            if (distance < least) {
                least = distance;
                best = c;
            }
        }
        right += best == label;
    }
    assert_int_equal(right, TEST);
    rung_source_destroy(&source);
}

static void synthetic_is_a_function_of_seed_and_sample(void **state)
{
    (void)state;
    rung_source *a, *b, *c, *floats;
    rung_synthetic_options options = {
        .count = 20, .shape = RUNG_SHAPE(1, 5, 7), .dtype = RUNG_U8, .classes = 3, .seed = 1};
    uint8_t x[35], y[35], z[35], other[35];
    float real[35];
    int64_t label;
    assert_ok(rung_source_synthetic(NULL, &options, &a));
    assert_ok(rung_source_synthetic(NULL, &options, &b));
    options.seed = 2;
    assert_ok(rung_source_synthetic(NULL, &options, &c));
    options.seed = 1;
    options.dtype = RUNG_F32;
    assert_ok(rung_source_synthetic(NULL, &options, &floats));
    read_u8(a, 4, x, &label);
    assert_int_equal(label, 1);
    read_u8(b, 7, other, &label);
    read_u8(b, 4, y, &label);
    read_u8(c, 4, z, &label);
    assert_memory_equal(x, y, sizeof x);
    assert_memory_not_equal(x, z, sizeof x);
    assert_memory_not_equal(x, other, sizeof x); // same class, its own noise
    read_u8(floats, 4, (uint8_t *)real, &label);
    for (int i = 0; i < 35; i++)
        assert_true(real[i] == (float)x[i] / 255.0f);
    rung_source_destroy(&a);
    rung_source_destroy(&b);
    rung_source_destroy(&c);
    rung_source_destroy(&floats);
}

static void synthetic_delay_takes_the_contexts_time(void **state)
{
    (void)state;
    test_clock clock;
    test_log log;
    test_clock_init(&clock);
    rung_context *context = test_context(&log, &clock.clock);
    rung_source *source;
    rung_synthetic_options options = {
        .count = 2, .shape = RUNG_SHAPE(4), .dtype = RUNG_U8, .classes = 2, .delay = 0.025};
    assert_ok(rung_source_synthetic(context, &options, &source));
    uint8_t image[4];
    int64_t label, before = test_clock_now(&clock);
    read_u8(source, 1, image, &label);
    assert_int_equal(test_clock_now(&clock) - before, 25000000);
    atomic_bool cancelled = true;
    rung_view views[2] = {{.data = image}, {.data = &label}};
    rung_sample sample = {.index = 1, .cancelled = &cancelled};
    assert_int_equal(source->read(source->self, NULL, &sample, views), RUNG_CANCELLED);
    rung_source_destroy(&source);
    rung_context_destroy(&context);
}

static void synthetic_refused(void **state)
{
    (void)state;
    rung_source *source = NULL;
    rung_synthetic_options good = {
        .count = 2, .shape = RUNG_SHAPE(4), .dtype = RUNG_U8, .classes = 2};
    rung_synthetic_options o = good;
    o.count = 0;
    assert_fails(RUNG_DATA, "0 samples", rung_source_synthetic(NULL, &o, &source));
    o = good;
    o.classes = 0;
    assert_fails(RUNG_INVALID, "0 classes", rung_source_synthetic(NULL, &o, &source));
    o = good;
    o.dtype = RUNG_I32;
    assert_fails(RUNG_UNSUPPORTED, "not i32", rung_source_synthetic(NULL, &o, &source));
    o = good;
    o.delay = -1;
    assert_fails(RUNG_INVALID, "delay", rung_source_synthetic(NULL, &o, &source));
    o = good;
    o.shape = RUNG_SHAPE(4, 0);
    assert_fails(RUNG_MISMATCH, "no elements", rung_source_synthetic(NULL, &o, &source));
    assert_null(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_borrowed_and_copied),
        cmocka_unit_test(arrays_refused),
        cmocka_unit_test(synthetic_can_be_learned),
        cmocka_unit_test(synthetic_is_a_function_of_seed_and_sample),
        cmocka_unit_test(synthetic_delay_takes_the_contexts_time),
        cmocka_unit_test(synthetic_refused),
    };
    return RUN_TESTS(tests);
}
