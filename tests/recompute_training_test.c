// SPDX-License-Identifier: Apache-2.0
// ctest-labels: long
// Training with recomputation: checkpoints with the same bits, under exact too, and budgets that
// hold on the device's account.
#include "training.h"

#include "train/trainer.h"

// Convolutions, batch normalization and residual sums; 6 pictures of 16 x 16 in batches of 4, so
// that the last batch is short; dropout and more layers in the other.
#define RESNET                                                                                    \
    "device: {threads: 1}\n"                                                                      \
    "data: {source: synthetic, batch_size: 4, random_flip: 0.5, synthetic: {shape: [3, 16, 16], " \
    "count: 6, classes: 4}}\n"                                                                    \
    "model: {name: resnet18, stem: cifar}\n"                                                      \
    "optim: {name: sgd, lr: 0.05, momentum: 0.9}\n"                                               \
    "plan: {kernels: own, layout: channels_last, fuse: true}\n"                                   \
    "train: {epochs: 1, eval_every: never}\n"
#define DROPOUT                                                                            \
    "device: {threads: 1}\n"                                                               \
    "data: {source: synthetic, batch_size: 8, synthetic: {shape: [3, 32, 32], count: 12, " \
    "classes: 4}}\n"                                                                       \
    "model: {name: dlf_cnn}\n"                                                             \
    "optim: {name: adamw, lr: 0.001}\n"                                                    \
    "plan: {kernels: own, layout: channels_last, fuse: true}\n"                            \
    "train: {epochs: 2, eval_every: never}\n"

// Trains with each setting (ended by NULL): all checkpoints have the first one's bits.
static void check_same(test_folder *folder, const char *name, const char *yaml,
                       const char *const *settings, const char *common)
{
    training_log log;
    char first[300], run[300];
    for (int i = 0; settings[i]; i++) {
        rung_context *context = training_context(&log);
        snprintf(run, sizeof run, "%s/%s-%d", folder->path, name, i);
        assert_ok(training_run(context, yaml, (const char *const[]){settings[i], common, NULL}, run,
                               NULL));
        if (i == 0)
            snprintf(first, sizeof first, "%s", run);
        else
            assert_same_bits(first, run);
        rung_context_destroy(&context);
    }
}

static void batch_normalization(void **state)
{
    static const char *const settings[] = {"memory.recompute=none", "memory.recompute=auto",
                                           "memory.recompute=[layer1.*, layer3.*]", NULL};
    if (!SANITIZED) // else exact alone, and one way to recompute against the other
        check_same(*state, "one", RESNET, settings, "seed=3");
    check_same(*state, "exact", RESNET, settings + SANITIZED, "exact=true");
}

static void dropout(void **state)
{
    static const char *const settings[] = {"memory.recompute=none", "memory.recompute=auto",
                                           "memory.recompute=[*]", NULL};
    if (!SANITIZED)
        check_same(*state, "one", DROPOUT, settings, "seed=3");
    check_same(*state, "exact", DROPOUT, settings + SANITIZED, "exact=true");
}

// Trains with a budget; what the device held at most, or 0 when it was refused.
static uint64_t peak_with(const char *budget, const char *common)
{
    training_log log;
    char setting[64];
    uint64_t peak = 0;
    snprintf(setting, sizeof setting, "memory.budget=%s", budget);
    rung_context *context = training_context(&log);
    rung_config *config = training_config(
        context, DROPOUT,
        (const char *const[]){setting, common, "train.epochs=1", "data.batch_size=12", NULL});
    rung_trainer *trainer = NULL;
    rung_status status = rung_trainer_create(context, config, NULL, &trainer);
    if (status == RUNG_OK)
        status = rung_trainer_fit(trainer, NULL);
    if (status == RUNG_OK)
        peak = rung_device_memory(trainer->s->device).peak_live;
    else
        assert_int_equal(status, RUNG_NO_MEMORY);
    if (status != RUNG_OK)
        assert_non_null(strstr(rung_error_last()->message, "budget"));
    rung_trainer_destroy(&trainer);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
    return peak;
}

static void budgets_hold(void **state)
{
    (void)state;
    uint64_t all = peak_with("none", "memory.recompute=none");
    char budget[32];
    assert_true(all > 0);
    snprintf(budget, sizeof budget, "%lu", (unsigned long)all);
    assert_int_equal(peak_with(budget, "memory.recompute=none"), all);
    snprintf(budget, sizeof budget, "%lu", (unsigned long)(all - all / 50));
    assert_int_equal(peak_with(budget, "memory.recompute=none"), 0);
    uint64_t less = peak_with(budget, "memory.recompute=auto");
    assert_true(less > 0 && less <= all - all / 50);
    assert_int_equal(peak_with("1MiB", "memory.recompute=auto"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(batch_normalization, test_folder_set_up,
                                        test_folder_tear_down),
        cmocka_unit_test_setup_teardown(dropout, test_folder_set_up, test_folder_tear_down),
        cmocka_unit_test(budgets_hold),
    };
    return RUN_TESTS(tests);
}
