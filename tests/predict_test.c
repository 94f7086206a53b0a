// SPDX-License-Identifier: Apache-2.0
// A predictor gives what validation computes, with the data set gone.
#include "training.h"

#include <math.h>

#include "base/philox.h"
#include "rung/data.h"
#include "rung/predict.h"

enum { COUNT = 90, WIDTH = 6, HEIGHT = 5, PIXELS = WIDTH * HEIGHT, CLASSES = 10 };

static unsigned char pixels[COUNT][PIXELS], labels[COUNT];

// Writes random pictures with labels that can be learned: that of the brightest of ten pixels.
static void write_set(const char *folder)
{
    rungi_random random = rungi_random_make(3, RUNGI_PURPOSE_TEST, 0, 0, 0);
    static unsigned char images[16 + sizeof pixels] = {0, 0, 8, 3,      0, 0, 0, COUNT,
                                                       0, 0, 0, HEIGHT, 0, 0, 0, WIDTH};
    static unsigned char names[8 + COUNT] = {0, 0, 8, 1, 0, 0, 0, COUNT};
    static const char *const splits[] = {"train", "t10k"};
    for (int i = 0; i < COUNT; i++) {
        labels[i] = (unsigned char)(i % CLASSES);
        for (int k = 0; k < PIXELS; k++)
            pixels[i][k] =
                (unsigned char)(rungi_random_u64(&random, (uint64_t)(i * PIXELS + k)) % 120);
        pixels[i][3 * labels[i]] = 255;
    }
    memcpy(images + 16, pixels, sizeof pixels);
    memcpy(names + 8, labels, sizeof labels);
    assert_ok(rungi_fs_make_folders(folder));
    for (int s = 0; s < 2; s++) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s-images-idx3-ubyte", folder, splits[s]);
        test_write(path, images, sizeof images);
        snprintf(path, sizeof path, "%s/%s-labels-idx1-ubyte", folder, splits[s]);
        test_write(path, names, sizeof names);
    }
}

static void predicts_what_validation_sees(void **state)
{
    training_log lines;
    rung_context *context = training_context(&lines);
    const char *data = test_path(*state, "data"), *run = test_path(*state, "run");
    char yaml[1024];
    write_set(data);
    snprintf(yaml, sizeof yaml,
             "data: {path: %s, batch_size: 20, pad: [8, 9], repeat_channels: 3, random_flip: 0.1,\n"
             "       random_crop: {padding: 1},\n"
             "       normalize: {mean: [0.2, 0.3, 0.4], std: [0.5, 0.25, 0.125]}}\n"
             "device: {threads: 1}\n"
             "model: {name: fashion_cnn, classes: 12}\n"
             "optim: {lr: 0.05, momentum: 0.9}\n"
             "train: {epochs: 8, eval_every: never}\n",
             data);
    assert_ok(training_run(context, yaml, NULL, run, NULL));
    rung_trainer *trainer;
    rung_eval_result r;
    assert_ok(rung_trainer_open(context, run, "latest", NULL, 0, &trainer));
    assert_ok(rung_trainer_evaluate(trainer, &r));
    assert_true(r.correct > COUNT / 4 &&
                r.correct < COUNT); // so that the sums below tell something
    assert_ok(rungi_fs_remove_tree(data));

    rung_predictor *predictor;
    static float p[COUNT][12];
    rung_image images[COUNT];
    assert_ok(rung_predictor_open(context, run, "latest", &predictor));
    rung_predictor_info info = rung_predictor_describe(predictor);
    assert_int_equal(info.channels, 1);
    assert_int_equal(info.height, HEIGHT);
    assert_int_equal(info.width, WIDTH);
    assert_int_equal(info.classes, 12);
    // Last first: what is drawn at random for augmentation would not be what validation draws.
    for (int i = 0; i < COUNT; i++)
        images[i] = (rung_image){WIDTH, HEIGHT, 1, pixels[COUNT - 1 - i]};
    assert_ok(rung_predictor_run(predictor, images, COUNT, &p[0][0]));
    double loss = 0;
    int64_t correct = 0;
    for (int i = 0; i < COUNT; i++) {
        double sum = 0;
        int best = 0;
        for (int k = 0; k < 12; k++) {
            sum += p[i][k];
            best = p[i][k] > p[i][best] ? k : best;
        }
        assert_near(sum, 1, 1e-6);
        loss -= log(p[i][labels[COUNT - 1 - i]]) / COUNT;
        correct += best == labels[COUNT - 1 - i];
    }
    assert_int_equal(correct, r.correct);
    assert_near(loss, r.loss, 1e-6 * r.loss);

    images[1].width = 7;
    assert_fails(RUNG_MISMATCH, "7 x 5 with 1 channels, the network was trained on 6 x 5 with 1",
                 rung_predictor_run(predictor, images, 2, &p[0][0]));
    rung_predictor_destroy(&predictor);
    rung_trainer_destroy(&trainer);
    rung_context_destroy(&context);
}

static void reads_rows_of_idx_files(void **state)
{
    const char *data = test_path(*state, "data");
    char path[400];
    rung_image image;
    write_set(data);
    snprintf(path, sizeof path, "%s/t10k-images-idx3-ubyte", data);
    assert_ok(rung_idx_image(path, 17, &image));
    assert_int_equal(image.width, WIDTH);
    assert_int_equal(image.height, HEIGHT);
    assert_int_equal(image.channels, 1);
    assert_memory_equal(image.pixels, pixels[17], PIXELS);
    rung_image_fini(&image);
    assert_fails(RUNG_INVALID, "no row 90: it holds 90 images", rung_idx_image(path, 90, &image));
    assert_fails(RUNG_INVALID, "no row -1", rung_idx_image(path, -1, &image));
    snprintf(path, sizeof path, "%s/t10k-labels-idx1-ubyte", data);
    assert_fails(RUNG_FORMAT, "this is a label file", rung_idx_image(path, 0, &image));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(predicts_what_validation_sees),
        IN_FOLDER(reads_rows_of_idx_files),
    };
    return RUN_TESTS(tests);
}
