// SPDX-License-Identifier: Apache-2.0
// Training on pictures as files, of different sizes, in class folders: any number of workers gives
// the same weights; a predictor gives what validation computes, with the data set gone.
#include "training.h"

#include <math.h>

#include "base/philox.h"
#include "rung/data.h"
#include "rung/predict.h"

enum { CLASSES = 3, EACH = 20, COUNT = CLASSES * EACH };

static const char *const class_names[CLASSES] = {"bl\xc3\xa4ulich", "gr\xc3\xbcn 2", "rot\xff"};

// A picture of its class's colour with noise, of a size of its own, as PPM (or PGM).
static size_t make_picture(int seed, int class, unsigned char *out)
{
    rungi_random random = rungi_random_make(8, RUNGI_PURPOSE_TEST, (uint64_t)seed, 0, 0);
    uint64_t at = 0;
    int width = 9 + (int)rungi_random_below(&random, 12, &at);
    int height = 9 + (int)rungi_random_below(&random, 12, &at);
    size_t size = (size_t)sprintf((char *)out, "P6 %d %d 255\n", width, height);
    for (int i = 0; i < width * height; i++)
        for (int c = 0; c < 3; c++)
            out[size++] =
                (unsigned char)(rungi_random_below(&random, 150, &at) + (2 - class == c ? 90 : 0));
    return size;
}

static void write_set(const char *folder)
{
    static unsigned char bytes[4096];
    for (int split = 0; split < 2; split++)
        for (int class = 0; class < CLASSES; class ++) {
            char path[400];
            snprintf(path, sizeof path, "%s/%s/%s", folder, split ? "val" : "train",
                     class_names[class]);
            assert_ok(rungi_fs_make_folders(path));
            size_t length = strlen(path);
            for (int i = 0; i < EACH; i++) {
                size_t size = make_picture(split * 1000 + class * EACH + i, class, bytes);
                snprintf(path + length, sizeof path - length, "/%02d.ppm", i);
                test_write(path, bytes, size);
            }
        }
}

static void configure(const char *data, char *yaml, size_t size)
{
    snprintf(yaml, size,
             "data: {format: image_folder, path: %s, batch_size: 16,\n"
             "       random_resized_crop: {size: [14], scale: [0.4, 1]}, random_flip: 0.5,\n"
             "       normalize: {mean: [0.4, 0.4, 0.4], std: [0.25, 0.25, 0.25]}}\n"
             "device: {threads: 1}\n"
             "model: {name: mlp, hidden: [16]}\n"
             "optim: {lr: 0.05, momentum: 0.9}\n"
             "train: {epochs: 6, eval_every: never}\n",
             data);
}

static void trains_and_predicts(void **state)
{
    training_log lines;
    rung_context *context = training_context(&lines);
    const char *data = test_path(*state, "data"), *run = test_path(*state, "run");
    char yaml[1024];
    write_set(data);
    configure(data, yaml, sizeof yaml);
    assert_ok(training_run(context, yaml, NULL, run, NULL));
    const char *workers[] = {"data.num_workers=2", NULL}, *other = test_path(*state, "other");
    assert_ok(training_run(context, yaml, workers, other, NULL));
    assert_same_bits(run, other);
    rung_trainer *trainer;
    rung_eval_result r;
    assert_ok(rung_trainer_open(context, run, "latest", NULL, 0, &trainer));
    assert_ok(rung_trainer_evaluate(trainer, &r));
    assert_int_equal(r.samples, COUNT);
    assert_true(r.correct > COUNT / 2);
    assert_ok(rungi_fs_remove_tree(data));

    rung_predictor *predictor;
    static float p[COUNT][CLASSES];
    static unsigned char bytes[4096];
    rung_image images[COUNT];
    assert_ok(rung_predictor_open(context, run, "latest", &predictor));
    rung_predictor_info info = rung_predictor_describe(predictor);
    assert_int_equal(info.channels, 3);
    assert_int_equal(info.height, 0); // any size
    assert_int_equal(info.named, CLASSES);
    assert_string_equal(info.class_names[0], "bl\xc3\xa4ulich");
    assert_string_equal(info.class_names[2], "rot\\xff");
    for (int i = 0; i < COUNT; i++) {
        size_t size = make_picture(1000 + i, i / EACH, bytes);
        assert_ok(rung_image_decode(bytes, size, "x", 3, &images[i]));
    }
    assert_ok(rung_predictor_run(predictor, images, COUNT, &p[0][0]));
    double loss = 0;
    int64_t correct = 0;
    for (int i = 0; i < COUNT; i++) {
        int best = 0;
        for (int k = 0; k < CLASSES; k++)
            best = p[i][k] > p[i][best] ? k : best;
        loss -= log(p[i][i / EACH]) / COUNT;
        correct += best == i / EACH;
        rung_image_fini(&images[i]);
    }
    assert_int_equal(correct, r.correct);
    assert_near(loss, r.loss, 1e-5 * r.loss);
    rung_predictor_destroy(&predictor);
    rung_trainer_destroy(&trainer);
    rung_context_destroy(&context);
}

static void banner_tells_kinds(void **state)
{
    training_log lines;
    rung_context *context = training_context(&lines);
    const char *data = test_path(*state, "data");
    char yaml[1024], *text;
    write_set(data);
    configure(data, yaml, sizeof yaml);
    const char *overrides[] = {"data.exif_rotation=false", NULL};
    rung_config *config = training_config(context, yaml, overrides);
    rung_trainer *trainer;
    assert_ok(rung_trainer_create(context, config, NULL, &trainer));
    assert_ok(rung_trainer_banner(trainer, &text));
    assert_non_null(strstr(text, "\npictures   60 of 60 looked at: 60 RGB; to 3 channels, exif "
                                 "rotation off\n"));
    free(text);
    rung_trainer_destroy(&trainer);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
}

static rung_status try_run(rung_context *context, void *folder, const char *yaml,
                           const char *override)
{
    const char *overrides[] = {override, NULL};
    static int number;
    char name[32];
    snprintf(name, sizeof name, "try%d", number++);
    return training_run(context, yaml, override ? overrides : NULL, test_path(folder, name), NULL);
}

static void refusals(void **state)
{
    training_log lines;
    rung_context *context = training_context(&lines);
    const char *data = test_path(*state, "data");
    char yaml[1024], path[400];
    write_set(data);
    configure(data, yaml, sizeof yaml);
    assert_fails(RUNG_CONFIG, "data.channels: is 2",
                 try_run(context, *state, yaml, "data.channels=2"));
    assert_fails(RUNG_CONFIG, "data.resize: has 3 numbers",
                 try_run(context, *state, yaml, "data.resize=[1,2,3]"));
    assert_fails(RUNG_CONFIG, "data.random_resized_crop.scale: must be two numbers that do not",
                 try_run(context, *state, yaml, "data.random_resized_crop.scale=[0.5,0.2]"));
    assert_fails(RUNG_CONFIG, "cannot be combined with data.random_crop",
                 try_run(context, *state, yaml, "data.random_crop.size=[8]"));
    assert_fails(RUNG_CONFIG, "data.resize: the pictures differ in size",
                 try_run(context, *state, yaml, "data.random_resized_crop.size=[]"));
    rung_config *config;
    assert_ok(rung_config_create(context, &config));
    assert_fails(RUNG_CONFIG, "image_folder",
                 rung_config_override(config, "data.format=image_foldr"));
    rung_config_destroy(&config);
    // A class that training does not have.
    snprintf(path, sizeof path, "%s/val/%s", data, class_names[1]);
    char renamed[400];
    snprintf(renamed, sizeof renamed, "%s/val/new", data);
    assert_int_equal(rename(path, renamed), 0);
    assert_fails(RUNG_DATA, "class 1 is gr\xc3\xbcn 2 in training and new in validation",
                 try_run(context, *state, yaml, NULL));
    snprintf(path, sizeof path, "%s/val", data);
    assert_ok(rungi_fs_remove_tree(path));
    assert_fails(RUNG_NOT_FOUND, "has no val or test for validation",
                 try_run(context, *state, yaml, NULL));
    rung_context_destroy(&context);
}

// C67: skipped in training and validation, listed, and not counted.
static void skips_bad_samples(void **state)
{
    training_log lines;
    rung_context *context = training_context(&lines);
    const char *data = test_path(*state, "data"), *run = test_path(*state, "run");
    char yaml[1024], path[400];
    write_set(data);
    configure(data, yaml, sizeof yaml);
    for (int split = 0; split < 2; split++) {
        snprintf(path, sizeof path, "%s/%s/%s/07.ppm", data, split ? "val" : "train",
                 class_names[1]);
        test_write(path, "P6 9 9 255\nabc", 14);
    }
    assert_fails(RUNG_CORRUPT,
                 "07.ppm), epoch 0, without workers: image: cut: expected 254 bytes, found 14",
                 try_run(context, *state, yaml, NULL));
    const char *skip[] = {"data.on_bad_sample=skip", "data.bad_sample_limit=0.05",
                          "train.eval_every=epoch", NULL};
    assert_ok(training_run(context, yaml, skip, run, NULL));
    rung_trainer *trainer;
    rung_eval_result r;
    assert_ok(rung_trainer_open(context, run, "latest", NULL, 0, &trainer));
    assert_ok(rung_trainer_evaluate(trainer, &r));
    assert_int_equal(r.samples, COUNT - 1);
    rung_trainer_destroy(&trainer);
    char *list = NULL;
    size_t size;
    snprintf(path, sizeof path, "%s/bad_samples.csv", run);
    assert_ok(rungi_fs_read(path, 1 << 16, &list, &size));
    int rows = 0;
    for (size_t i = 0; i < size; i++)
        rows += list[i] == '\n';
    assert_int_equal(rows, 3);
    assert_int_equal(strncmp(list, "set,sample,message\ntrain,27,", 28), 0);
    assert_non_null(strstr(list, "\nvalidation,27,"));
    free(list);
    assert_fails(RUNG_DATA, "1 of 60 samples are bad, more than data.bad_sample_limit (0.01)",
                 try_run(context, *state, yaml, "data.on_bad_sample=skip"));
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(trains_and_predicts),
        IN_FOLDER(banner_tells_kinds),
        IN_FOLDER(refusals),
        IN_FOLDER(skips_bad_samples),
    };
    return RUN_TESTS(tests);
}
