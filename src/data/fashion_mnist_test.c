// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// The real data set (Debian's dataset-fashion-mnist), where it is installed.
#include "data/data_testing.h"

#include <math.h>

static const char folder[] = "/usr/share/datasets/fashion-mnist";

static void skip_without_it(void)
{
    if (access("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz", R_OK) != 0) {
        print_message("skipped: %s is not there (apt-get install dataset-fashion-mnist)\n", folder);
        skip();
    }
}

static void is_the_known_set(void **state)
{
    (void)state;
    skip_without_it();
    test_log log;
    rung_context *context = test_context(&log, NULL);
    rung_source *train, *test;
    assert_ok(rung_source_open(context, "idx", folder, "train", &train));
    assert_ok(rung_source_open(context, "idx", folder, "test", &test));
    assert_int_equal(train->count, 60000);
    assert_int_equal(test->count, 10000);
    assert_int_equal(train->class_count, 10);
    assert_string_equal(train->class_names[0], "T-shirt/top");
    assert_true(rung_shape_equal(&train->fields[0].shape, &RUNG_SHAPE(1, 28, 28)));
    assert_int_equal(log.warnings, 0);
    rung_source_destroy(&train);
    rung_source_destroy(&test);
    rung_context_destroy(&context);
}

// One shuffled epoch with two workers: each sample once, 6,000 of each class, and the mean and
// standard deviation of the pixels that everybody normalizes with (0.2860, 0.3530).
static void an_epoch(void **state)
{
    (void)state;
    skip_without_it();
    test_log log;
    rung_context *context = test_context(&log, NULL);
    rung_source *train;
    rung_loader *loader;
    const rung_transform steps[] = {{.kind = RUNG_TRANSFORM_TO_FLOAT}};
    static bool seen[60000];
    int classes[10] = {0};
    double sum = 0, squares = 0;
    assert_ok(rung_source_open(context, "idx", folder, "train", &train));
    assert_ok(rung_loader_create(context, train,
                                 &(rung_loader_options){.batch_size = 64,
                                                        .shuffle = true,
                                                        .num_workers = 2,
                                                        .transforms = steps,
                                                        .transform_count = 1,
                                                        .end_epoch = 1},
                                 &loader));
    for (bool last = false; !last;) {
        rung_batch batch;
        assert_ok(rung_loader_next(loader, &batch));
        assert_int_equal(batch.fields[0].dtype, RUNG_F32);
        assert_true(rung_shape_equal(&batch.fields[0].shape, &RUNG_SHAPE(batch.count, 1, 28, 28)));
        const float *pixels = batch.fields[0].data;
        for (int64_t i = 0; i < batch.count * 784; i++) {
            sum += (double)pixels[i];
            squares += (double)pixels[i] * (double)pixels[i];
        }
        for (int64_t i = 0; i < batch.count; i++) {
            assert_false(seen[batch.samples[i]]);
            seen[batch.samples[i]] = true;
            classes[((const int64_t *)batch.fields[1].data)[i]]++;
        }
        last = batch.is_last_of_epoch;
        rung_loader_release(loader, &batch);
    }
    for (int i = 0; i < 60000; i++)
        assert_true(seen[i]);
    for (int c = 0; c < 10; c++)
        assert_int_equal(classes[c], 6000);
    double count = 60000.0 * 784, mean = sum / count, std = sqrt(squares / count - mean * mean);
    assert_true(fabs(mean - 0.2860) < 5e-5);
    assert_true(fabs(std - 0.3530) < 5e-5);
    rung_loader_destroy(&loader);
    rung_source_destroy(&train);
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_known_set),
        cmocka_unit_test(an_epoch),
    };
    return RUN_TESTS(tests);
}
