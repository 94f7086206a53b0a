// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// Training gives the same bits whatever the number of workers, and, under exact, of threads; and
// each time it is run: cases C01, C02, C76.
#include "training.h"

#include <math.h>

#include "train/trainer.h"

// libgomp, in which libraries' kernels run, looks like races to ThreadSanitizer.
#ifdef __SANITIZE_THREAD__
#    define MODEL "model: {name: mlp, hidden: [16]}\nplan: {kernels: reference}\n"
#else
#    define MODEL "model: {name: fashion_cnn}\n"
#endif

// 60 pictures of 12 x 12 in batches of 16, the last of 12, through convolutions.
#define CNN                                                            \
    "data:\n"                                                          \
    "  source: synthetic\n"                                            \
    "  batch_size: 16\n"                                               \
    "  random_flip: 0.5\n"                                             \
    "  random_crop: {padding: 2}\n"                                    \
    "  synthetic: {shape: [1, 12, 12], count: 60, classes: 4}\n" MODEL \
    "optim: {name: sgd, lr: 0.05, momentum: 0.9}\n"                    \
    "train: {epochs: 3}\n"

typedef struct weights {
    float *data;
    int64_t size;
    double loss; // of the last validation
} weights;

static void keep_loss(void *user, const rung_train_event *e)
{
    if (e->kind == RUNG_EVENT_EVAL)
        ((weights *)user)->loss = e->loss;
}

// Trains and keeps all parameters and the last validation's loss.
static weights train(const char *yaml, const char *const *overrides)
{
    training_log log;
    weights w;
    rung_context *context = training_context(&log);
    rung_config *config = training_config(context, yaml, overrides);
    rung_trainer *trainer;
    assert_ok(rung_trainer_create(context, config, NULL, &trainer));
    assert_ok(rung_trainer_fit(trainer, &(rung_observer){&w, keep_loss}));
    const float *params = rung_state_params(trainer->s->state, &w.size);
    w.data = malloc((size_t)w.size * sizeof(float));
    memcpy(w.data, params, (size_t)w.size * sizeof(float));
    rung_trainer_destroy(&trainer);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
    return w;
}

static bool equal(const weights *a, const weights *b)
{
    assert_int_equal(a->size, b->size);
    return memcmp(a->data, b->data, (size_t)a->size * sizeof(float)) == 0 &&
           memcmp(&a->loss, &b->loss, sizeof(double)) == 0;
}

// Trains with each of the settings (ended by NULL): all give the bits of the first.
static void check_same(const char *yaml, const char *const *settings, const char *common)
{
    weights first = {0};
    for (int i = 0; settings[i]; i++) {
        weights w = train(yaml, (const char *const[]){settings[i], common, NULL});
        if (i == 0) {
            first = w;
            continue;
        }
        if (!equal(&first, &w))
            fail_msg("%s and %s give different bits", settings[0], settings[i]);
        free(w.data);
    }
    free(first.data);
}

static void any_number_of_workers(void **state)
{
    (void)state;
    static const char *const workers[] = {"data.num_workers=0", "data.num_workers=1",
                                          "data.num_workers=2", "data.num_workers=4", NULL};
    check_same(CNN, workers, NULL);
}

// 1, 2 and 3 threads share the four shards differently; the last batch has 12 samples.
static void any_number_of_threads_under_exact(void **state)
{
    (void)state;
    static const char *const threads[] = {"device.threads=1", "device.threads=2",
                                          "device.threads=3", NULL};
    check_same(CNN, threads, "exact=true");
}

#ifndef __SANITIZE_THREAD__
// Own kernels do not need exact for that: 8 images, so that linear layers have own kernels too.
static void any_number_of_threads_with_own_kernels(void **state)
{
    (void)state;
    static const char *const threads[] = {"device.threads=1", "device.threads=2",
                                          "device.threads=3", NULL};
    check_same("data: {source: synthetic, batch_size: 8, synthetic: {shape: [3, 32, 32], count: "
               "16, classes: 4}}\n"
               "model: {name: dlf_cnn}\n"
               "optim: {name: sgd, lr: 0.05, momentum: 0.9}\n"
               "plan: {kernels: own, winograd: true, fuse: true, layout: channels_last}\n"
               "train: {epochs: 2}\n",
               threads, SANITIZED ? "train.epochs=1" : NULL);
}
#endif

static void five_runs_with_two_threads(void **state)
{
    (void)state;
    static const char *const again[] = {"device.threads=2", "device.threads=2", "device.threads=2",
                                        "device.threads=2", "device.threads=2", NULL};
    check_same(CNN, again, NULL);
}

static void another_seed_gives_other_weights(void **state)
{
    (void)state;
    weights a = train(CNN, (const char *const[]){"seed=5", NULL});
    weights b = train(CNN, (const char *const[]){"seed=5", NULL});
    weights c = train(CNN, (const char *const[]){"seed=6", NULL});
    assert_true(equal(&a, &b));
    int64_t same = 0, nonzero = 0;
    for (int64_t i = 0; i < a.size; i++) {
        nonzero += a.data[i] != 0;
        same += a.data[i] != 0 && a.data[i] == c.data[i];
    }
    assert_true(nonzero > a.size / 2);
    assert_true(same < nonzero / 100);
    free(a.data);
    free(b.data);
    free(c.data);
}

// Augmentation is on: without it, or without shuffling, the bits are others.
static void the_cases_depend_on_augmentation(void **state)
{
    (void)state;
    weights a = train(CNN, NULL);
    weights b = train(CNN, (const char *const[]){"data.random_flip=0", NULL});
    weights c = train(CNN, (const char *const[]){"data.shuffle=false", NULL});
    assert_false(equal(&a, &b));
    assert_false(equal(&a, &c));
    free(a.data);
    free(b.data);
    free(c.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_workers),
        cmocka_unit_test(any_number_of_threads_under_exact),
#ifndef __SANITIZE_THREAD__
        cmocka_unit_test(any_number_of_threads_with_own_kernels),
#endif
        cmocka_unit_test(five_runs_with_two_threads),
        cmocka_unit_test(another_seed_gives_other_weights),
        cmocka_unit_test(the_cases_depend_on_augmentation),
    };
    return RUN_TESTS(tests);
}
