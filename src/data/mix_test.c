// SPDX-License-Identifier: Apache-2.0
// MixUp and CutMix against torchvision's values, Beta numbers against their distributions, and both
// in a loader.
#include "data/data_testing.h"

#include <math.h>

#include "data/mix.h"
#include "data/sample.h"

enum { COUNT = 4, SIZE = 3 * 6 * 8, CLASSES = 3 };

static const int64_t image_shape[3] = {3, 6, 8}, labels[COUNT] = {2, 0, 1, 2};

static void values_of_torchvision(void **state)
{
    (void)state;
    FILE *file = fopen(RUNG_SOURCE_DIR "/tests/fixtures/mix.txt", "r");
    assert_non_null(file);
    char kind[16];
    int lines = 0;
    assert_int_equal(fscanf(file, "#%*[^\n]"), 0);
    for (rungi_mix_draw draw; fscanf(file, "%15s", kind) == 1; lines++) {
        float images[COUNT * SIZE], targets[COUNT * CLASSES], spare[SIZE], want;
        double drawn;
        draw = (rungi_mix_draw){.mixup = strcmp(kind, "mixup") == 0};
        draw.cutmix = !draw.mixup;
        assert_int_equal(fscanf(file, "%lf %d %d %d %d %lf", &drawn, &draw.x0, &draw.y0, &draw.x1,
                                &draw.y1, &draw.lambda),
                         6);
        for (int i = 0; i < COUNT * SIZE; i++)
            images[i] = (float)(i * 37 % 101) / 64;
        assert_ok(
            rungi_mix_apply(&draw, images, COUNT, image_shape, labels, CLASSES, targets, spare));
        for (int i = 0; i < COUNT * SIZE; i++) {
            assert_int_equal(fscanf(file, "%f", &want), 1);
            assert_float_equal(images[i], want, 0);
        }
        for (int i = 0; i < COUNT * CLASSES; i++) {
            assert_int_equal(fscanf(file, "%f", &want), 1);
            assert_float_equal(targets[i], want, 1e-7);
        }
    }
    fclose(file);
    assert_int_equal(lines, 9);
}

// ---- the distribution of lambda

enum { DRAWS = 20000 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void draw_many(double alpha, double *out)
{
    for (int i = 0; i < DRAWS; i++) {
        rung_random random = rungi_batch_random(7, i / 100, i % 100);
        uint64_t index = 0;
        out[i] = rungi_beta(&random, alpha, &index);
        assert_true(out[i] >= 0 && out[i] <= 1);
    }
}

static double cdf_half(double x) // Beta(1/2, 1/2): the arcsine law
{
    return 2 / 3.14159265358979323846 * asin(sqrt(x));
}

static double cdf_one(double x)
{
    return x;
}

static double cdf_two(double x)
{
    return 3 * x * x - 2 * x * x * x;
}

// Kolmogorov and Smirnov's largest distance, below the value that a right sampler passes in one of
// a million seeds (2.7 / sqrt(n)); the seed is fixed.
static void beta_numbers_have_their_distribution(void **state)
{
    static double draws[DRAWS];
    const struct {
        double alpha;
        double (*cdf)(double);
    } laws[] = {{0.5, cdf_half}, {1, cdf_one}, {2, cdf_two}};
    (void)state;
    for (int k = 0; k < 3; k++) {
        double worst = 0;
        draw_many(laws[k].alpha, draws);
        qsort(draws, DRAWS, sizeof *draws, by_value);
        for (int i = 0; i < DRAWS; i++) {
            double f = laws[k].cdf(draws[i]);
            worst = fmax(worst, fmax(f - (double)i / DRAWS, (double)(i + 1) / DRAWS - f));
        }
        assert_true(worst < 2.7 / sqrt(DRAWS));
    }
    // Where there is no closed form: mean 1/2, variance 1 / (4 (2 alpha + 1)); five standard
    // errors, which a right sampler passes in one of a million seeds.
    const double alphas[] = {0.01, 0.2, 8};
    for (int k = 0; k < 3; k++) {
        double sum = 0, squares = 0, variance = 1 / (4 * (2 * alphas[k] + 1));
        draw_many(alphas[k], draws);
        for (int i = 0; i < DRAWS; i++) {
            sum += draws[i] - 0.5;
            squares += (draws[i] - 0.5) * (draws[i] - 0.5);
        }
        assert_true(fabs(sum / DRAWS) < 5 * sqrt(variance / DRAWS));
        // A square about 1/2 is at most 1/4, so its own deviation is at most variance^(1/2) / 2.
        assert_true(fabs(squares / DRAWS - variance) < 5 * sqrt(variance) / 2 / sqrt(DRAWS));
    }
}

// The box has the size that lambda asks for, cut at the edges, and lambda follows the box.
static void boxes_fit_lambda(void **state)
{
    int mixups = 0;
    (void)state;
    for (int i = 0; i < 2000; i++) {
        rung_random random = rungi_batch_random(3, 0, i);
        rungi_mix_draw d =
            rungi_mix_choose(&(rung_mix){.mixup_alpha = 0.2, .cutmix_alpha = 1}, &random, 20, 30);
        mixups += d.mixup;
        assert_true(d.mixup != d.cutmix);
        if (d.mixup)
            continue;
        assert_true(d.x0 >= 0 && d.x0 <= d.x1 && d.x1 <= 30 && d.y0 >= 0 && d.y1 <= 20);
        double share = (double)((d.x1 - d.x0) * (d.y1 - d.y0)) / 600;
        assert_float_equal(d.lambda, 1 - share, 1e-12);
    }
    // Half of 2000; five standard errors are 112.
    assert_true(mixups > 888 && mixups < 1112);
}

// ---- in a loader

static rung_status read_image(void *self, void *state, const rung_sample *sample, rung_view *fields)
{
    (void)self;
    (void)state;
    for (int i = 0; i < SIZE; i++)
        ((unsigned char *)fields[0].data)[i] = (unsigned char)(sample->index * 7 + i);
    *(int64_t *)fields[1].data = sample->index % CLASSES;
    return RUNG_OK;
}

static void take_epochs(rung_context *context, int workers, const rung_mix *mix, float *images,
                        float *targets)
{
    rung_source source = {.name = "mix",
                          .count = 10,
                          .field_count = 2,
                          .fields = {{"image", RUNG_U8, RUNG_SHAPE(3, 6, 8), RUNG_PIXELS_CHW},
                                     {"label", RUNG_I64, RUNG_SCALAR, RUNG_PIXELS_NONE}},
                          .read = read_image};
    const rung_transform step = {.kind = RUNG_TRANSFORM_TO_FLOAT};
    rung_loader *loader;
    rung_loader_info info;
    assert_ok(rung_loader_create(context, &source,
                                 &(rung_loader_options){.batch_size = 4,
                                                        .num_workers = workers,
                                                        .mix = mix,
                                                        .transforms = &step,
                                                        .transform_count = 1},
                                 &loader));
    rung_loader_describe(loader, &info);
    assert_int_equal(info.field_count, 3);
    assert_string_equal(info.fields[2].name, "target");
    for (int b = 0; b < 6; b++) { // of 4, 4 and 2
        rung_batch batch;
        assert_ok(rung_loader_next(loader, &batch));
        assert_int_equal(batch.fields[2].shape.dim[0], batch.count);
        assert_int_equal(batch.fields[2].shape.dim[1], CLASSES);
        memcpy(images, batch.fields[0].data, (size_t)batch.count * SIZE * sizeof(float));
        memcpy(targets, batch.fields[2].data, (size_t)batch.count * CLASSES * sizeof(float));
        images += batch.count * SIZE;
        targets += batch.count * CLASSES;
        rung_loader_release(loader, &batch);
    }
    rung_loader_destroy(&loader);
}

static void the_same_for_any_workers(void **state)
{
    static float images[2][20 * SIZE], targets[2][20 * CLASSES];
    test_log log;
    rung_context *context = test_context(&log, NULL);
    const rung_mix mix = {.mixup_alpha = 0.4, .cutmix_alpha = 1, .classes = CLASSES};
    (void)state;
    take_epochs(context, 0, &mix, images[0], targets[0]);
    for (int workers = 1; workers <= 4; workers *= 2) {
        take_epochs(context, workers, &mix, images[1], targets[1]);
        assert_memory_equal(images[0], images[1], sizeof images[0]);
        assert_memory_equal(targets[0], targets[1], sizeof targets[0]);
    }
    // Another epoch mixes otherwise; targets add up to 1.
    assert_true(memcmp(images[0], images[0] + 10 * SIZE, sizeof images[0] / 2) != 0);
    for (int i = 0; i < 20; i++)
        assert_float_equal(targets[0][3 * i] + targets[0][3 * i + 1] + targets[0][3 * i + 2], 1,
                           1e-6);
    // Without an alpha targets are the labels.
    take_epochs(context, 1, &(rung_mix){.classes = CLASSES}, images[1], targets[1]);
    for (int i = 0; i < 20; i++)
        for (int k = 0; k < CLASSES; k++)
            assert_float_equal(targets[1][CLASSES * i + k], (float)(i % 10 % CLASSES == k), 0);
    rung_context_destroy(&context);
}

static void what_cannot_be_mixed_is_refused(void **state)
{
    test_log log;
    test_source s;
    rung_loader *loader;
    rung_context *context = test_context(&log, NULL);
    (void)state;
    test_source_init(&s, 8);
    assert_int_equal(rung_loader_create(
                         context, &s.source,
                         &(rung_loader_options){.batch_size = 4, .mix = &(rung_mix){.classes = 3}},
                         &loader),
                     RUNG_MISMATCH);
    test_source_fini(&s);
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_torchvision),
        cmocka_unit_test(beta_numbers_have_their_distribution),
        cmocka_unit_test(boxes_fit_lambda),
        cmocka_unit_test(the_same_for_any_workers),
        cmocka_unit_test(what_cannot_be_mixed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
