// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// Runs with train.strategy data_parallel: the same bits as others, resume, refusals, what is told;
// cases C19, C25, C66.
#include "watched_run.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "train/trainer.h"

#ifdef RUNG_OPENMP
#    define NETWORK "fashion_cnn"
#else // the build for ThreadSanitizer, which is slow
#    define NETWORK "mlp, hidden: [32, 32]"
#endif

// 61 pictures in batches of 8: the last batch has 5, and validation 7.
#define DATA                             \
    PICTURES(LIBRARY, 61)                \
    "  batch_size: 8\n"                  \
    "  random_flip: 0.5\n"               \
    "  random_crop: {padding: 1}\n"      \
    "model: {name: " NETWORK "}\n"       \
    "optim: {lr: 0.05, momentum: 0.9}\n" \
    "schedule: {name: cosine}\n"         \
    "train: {epochs: 2, max_grad_norm: 1, log_every: 1}\n"

#define TWO "device.list=[cpu:0, cpu:1]", "train.strategy=data_parallel"
#define THREE "device.list=[cpu:0, cpu:1, cpu:2]", "train.strategy=data_parallel"
#define FOUR "device.list=[cpu:0, cpu:1, cpu:2, cpu:3]", "train.strategy=data_parallel"

// Under exact: the bits of one device, and so of ranks (ranks_test.c), wherever the loss is
// computed, with copies between devices, other cuts and more threads.
static void exact_runs_are_the_same(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    seen first = {0};
    const char *one[] = {"exact=true", NULL};
    assert_ok(train(context, DATA, one, test_path(folder, "one"), &first));
    const char *runs[][7] = {
        {"exact=true", TWO, "data_parallel.output_device=1", "data.num_workers=1", NULL},
        {"exact=true", THREE, "data_parallel.parallel_criterion=true",
         "data_parallel.device_weights=[2, 1, 1]", NULL},
        {"exact=true", FOUR, "device.copy=emulate", "device.threads=8", NULL},
    };
    for (int i = 0; i < 3; i++) {
        char name[16];
        seen s = {0};
        snprintf(name, sizeof name, "many-%d", i);
        assert_ok(train(context, DATA, runs[i], test_path(folder, name), &s));
        assert_same_bits(test_path(folder, "one"), test_path(folder, name));
        assert_int_equal(s.steps, 16);
        assert_memory_equal(s.losses, first.losses, sizeof s.losses);
        assert_int_equal(s.evaluated, 7);
        assert_int_equal(s.correct, first.correct);
        assert_memory_equal(&s.val_loss, &first.val_loss, sizeof s.val_loss);
        assert_int_equal(s.seen_once, 61);
    }
    rung_context_destroy(&context);
}

// Accumulated on devices: the bits of one batch on one device, stopped and gone on with there.
static void exact_rounds_are_one_batch(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *rounds[] = {"exact=true",     TWO, "data.batch_size=4", "train.accumulate=2",
                            "train.shards=2", NULL};
    const char *whole[] = {"exact=true", NULL};
    const char *run = test_path(folder, "rounds");
    seen s = {.stop_at = 5};
    char *banner;
    rung_config *config = training_config(context, DATA, rounds);
    assert_ok(rung_trainer_create(context, config, run, &s.trainer));
    assert_ok(rung_trainer_banner(s.trainer, &banner));
    assert_non_null(strstr(banner, "batch      8 samples = 2 devices x 2 x 2 accumulated; the "));
    free(banner);
    assert_fails(RUNG_CANCELLED, "stopped after step",
                 rung_trainer_fit(s.trainer, &(rung_observer){&s, watch}));
    rung_trainer_destroy(&s.trainer);
    rung_config_destroy(&config);
    const char *on[] = {"device.list=[cpu:0]", "train.strategy=single", "data.batch_size=8",
                        "train.accumulate=1",  "train.shards=4",        NULL};
    assert_ok(training_resume(context, run, on, NULL));
    s = (seen){0};
    assert_ok(train(context, DATA, whole, test_path(folder, "whole"), &s));
    assert_same_bits(test_path(folder, "whole"), run);
    assert_string_equal(log.text, "");
    rung_context_destroy(&context);
}

// Without exact: the same bits for the same devices; losses near those of one.
static void fast_runs_agree(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    seen one = {0};
    assert_ok(train(context, DATA, NULL, NULL, &one));
    const char *runs[][5] = {{TWO, NULL},
                             {THREE, "data_parallel.parallel_criterion=true", NULL},
                             {FOUR, "data_parallel.device_weights=[1, 2, 3, 4]", NULL},
                             {TWO, "data.batch_size=4", "train.accumulate=2", NULL}};
    for (int i = 0; i < 4; i++) {
        char name[2][16];
        seen s = {0}, again = {0};
        snprintf(name[0], sizeof name[0], "fast-%d", i);
        snprintf(name[1], sizeof name[1], "again-%d", i);
        assert_ok(train(context, DATA, runs[i], test_path(folder, name[0]), &s));
        assert_ok(train(context, DATA, runs[i], test_path(folder, name[1]), &again));
        assert_same_bits(test_path(folder, name[0]), test_path(folder, name[1]));
        for (int k = 1; k <= 16; k++)
            assert_near(s.losses[k], one.losses[k], 1e-4);
        assert_int_equal(s.evaluated, 7);
        assert_int_equal(s.seen_once, 61);
    }
    rung_context_destroy(&context);
}

// Begun on two devices, gone on with on four, ended on one: the bits of a run that was not stopped.
static void another_list_of_devices_goes_on(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(folder, "parts");
    const char *two[] = {"exact=true", TWO, NULL};
    seen s = {.stop_at = 5};
    assert_fails(RUNG_CANCELLED, "stopped after step", train(context, DATA, two, run, &s));
    const char *four[] = {FOUR};
    bool finished;
    s = (seen){.stop_at = 10};
    assert_ok(rung_trainer_resume(context, run, four, 2, &finished, &s.trainer));
    assert_fails(RUNG_CANCELLED, "stopped after step",
                 rung_trainer_fit(s.trainer, &(rung_observer){&s, watch}));
    rung_trainer_destroy(&s.trainer);
    const char *last[] = {"device.list=[cpu:0]", "train.strategy=single"};
    assert_ok(rung_trainer_resume(context, run, last, 2, &finished, &s.trainer));
    assert_ok(rung_trainer_fit(s.trainer, NULL));
    rung_trainer_destroy(&s.trainer);
    const char *whole[] = {"exact=true", NULL};
    s = (seen){0};
    assert_ok(train(context, DATA, whole, test_path(folder, "whole"), &s));
    assert_same_bits(test_path(folder, "whole"), run);
    assert_string_equal(log.text, "");
    rung_context_destroy(&context);
}

// ---- what is told -----------------------------------------------------------------------------

static void each_device_is_told_of(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *overrides[] = {TWO, "data_parallel.output_device=1", "train.steps=3", NULL};
    rung_config *config = training_config(context, DATA, overrides);
    const char *run = test_path(folder, "told");
    seen s = {0};
    char *banner, *plan;
    assert_ok(rung_trainer_create(context, config, run, &s.trainer));
    assert_ok(rung_trainer_banner(s.trainer, &banner));
    assert_non_null(strstr(banner, "batch      8 samples = 2 devices x 4; the learning rate is not "
                                   "scaled by it"));
    assert_non_null(strstr(banner, "replicas   cpu:0 4, cpu:1 4 samples; weights and optimizer on "
                                   "cpu:0; outputs and loss on cpu:1"));
    assert_null(strstr(banner, "running statistics")); // there are none
    assert_ok(rung_trainer_explain(s.trainer, &plan));
    assert_non_null(strstr(plan, "cpu:1: samples 4 to 7"));
    assert_non_null(strstr(plan, "cross_entropy"));
    free(banner);
    free(plan);
    assert_ok(rung_trainer_fit(s.trainer, &(rung_observer){&s, watch}));
    rung_trainer_destroy(&s.trainer);
    rung_config_destroy(&config);
    assert_non_null(strstr(s.devices, "cpu:0: peak "));
    assert_non_null(strstr(s.devices, "; cpu:1: peak "));
    json_t *memory, *devices;
    assert_ok(rungi_json_load(test_path(folder, "told/memory.json"), 1 << 20, &memory));
    devices = json_object_get(memory, "devices");
    assert_int_equal(json_array_size(devices), 2);
    int64_t flat = 0;
    for (size_t d = 0; d < 2; d++) {
        json_t *o = json_array_get(devices, d);
        const char *holds = json_string_value(json_object_get(o, "holds"));
        double busy = json_real_value(json_object_get(o, "busy_share"));
        assert_int_equal(json_integer_value(json_object_get(o, "samples")), 12);
        assert_true(busy > 0 && busy <= 1);
        assert_true((strstr(holds, "optimizer state") != NULL) == (d == 0));
        assert_true((strstr(holds, "gathered outputs") != NULL) == (d == 1));
        assert_non_null(strstr(holds, "parameters"));
        flat += json_integer_value(json_object_get(o, "live"));
    }
    assert_true(flat > 0);
    json_decref(memory);
    rung_context_destroy(&context);
}

#ifdef RUNG_OPENMP // the network is large for ThreadSanitizer
// Case C28: the policy is printed.
static void the_policy_of_statistics_is_told(void **state)
{
    (void)state;
    static const char *const settings[] = {"data_parallel.batch_norm=average",
                                           "data_parallel.batch_norm=first"};
    static const char *const told[] = {"running statistics: average of all devices\n",
                                       "running statistics: those of the first device\n"};
    for (int i = 0; i < 2; i++) {
        training_log log;
        rung_context *context = training_context(&log);
        const char *overrides[] = {TWO, settings[i], "model.name=resnet18", NULL};
        rung_config *config = training_config(context, DATA, overrides);
        rung_trainer *trainer;
        char *banner;
        assert_ok(rung_trainer_create(context, config, NULL, &trainer));
        assert_ok(rung_trainer_banner(trainer, &banner));
        assert_non_null(strstr(banner, told[i]));
        free(banner);
        rung_trainer_destroy(&trainer);
        rung_config_destroy(&config);
        rung_context_destroy(&context);
    }
}

#endif

// A sample that is not a number is found on the device that has it.
static void a_bad_weight_is_found_on_its_device(void **state)
{
    (void)state;
    training_log log;
    rung_context *context = training_context(&log);
    seen s = {0};
    const char *overrides[] = {TWO, "optim.lr=1e30", "schedule.name=constant",
                               "train.max_grad_norm=none", NULL};
    assert_fails(RUNG_DIVERGED, "step ", train(context, DATA, overrides, NULL, &s));
    rung_context_destroy(&context);
}

// ---- what cannot be ---------------------------------------------------------------------------

static void refuse(rung_status status, const char *expected, const char *const *overrides)
{
    training_log log;
    rung_context *context = training_context(&log);
    seen s = {0};
    assert_fails(status, expected, train(context, DATA, overrides, NULL, &s));
    rung_context_destroy(&context);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *expected, *overrides[5];
    } cases[] = {
        {"data_parallel.output_device: is 2, but there are 2 devices: allowed are 0..1",
         {TWO, "data_parallel.output_device=2"}},
        {"data_parallel.device_weights: has 3 numbers for 2 devices: give one for each",
         {TWO, "data_parallel.device_weights=[1, 2, 3]"}},
        {"data_parallel.device_weights: 0 is", {TWO, "data_parallel.device_weights=[1, 0]"}},
        {"names cpu:1 twice", {"device.list=[cpu:1, cpu:1]", "train.strategy=data_parallel"}},
        {"set it to ddp for several ranks", {TWO, "train.ranks=2"}},
        {"ddp.overlap: is for ranks", {TWO, "ddp.overlap=true"}},
        {"exact needs average", {TWO, "exact=true", "data_parallel.batch_norm=first"}},
        {"at most train.shards, which is 2",
         {FOUR, "exact=true", "train.shards=2", "device.threads=1"}},
        {"cannot be combined with several devices", {TWO, "plan.fuse_optimizer=true"}},
        {"or set train.strategy to data_parallel", {"device.list=[cpu:0, cpu:1]"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        training_log log;
        rung_context *context = training_context(&log);
        rung_config *config = training_config(context, DATA, NULL);
        rung_status status = RUNG_OK;
        for (int k = 0; status == RUNG_OK && k < 5 && cases[i].overrides[k]; k++)
            status = rung_config_override(config, cases[i].overrides[k]);
        if (status == RUNG_OK)
            status = rung_config_check(config);
        assert_fails(RUNG_CONFIG, cases[i].expected, status);
        rung_config_destroy(&config);
        rung_context_destroy(&context);
    }
    refuse(RUNG_NO_MEMORY, " KiB of cpu:0, so that nothing is left",
           (const char *[]){TWO, "memory.budget=20KiB", NULL});
#ifdef RUNG_OPENMP // a network of that size
    refuse(RUNG_NO_MEMORY, "cpu:0: ", (const char *[]){TWO, "memory.budget=260KiB", NULL});
#endif
}

// The global batch may be said by device.
static void a_batch_of_each_device(void **state)
{
    (void)state;
    training_log log;
    rung_context *context = training_context(&log);
    static const char yaml[] = "device: {threads: 1, list: [cpu:0, cpu:1, cpu:2]}\n"
                               "plan: {kernels: " LIBRARY "}\n"
                               "data: {source: synthetic, batch_per_device: 4,"
                               " synthetic: {shape: [1, 8, 8], count: 60, classes: 4}}\n"
                               "model: {name: mlp, hidden: [8]}\n"
                               "train: {steps: 2, strategy: data_parallel, eval_every: never}\n";
    rung_config *config = training_config(context, yaml, NULL);
    rung_trainer *trainer;
    char *banner;
    assert_ok(rung_trainer_create(context, config, NULL, &trainer));
    assert_ok(rung_trainer_banner(trainer, &banner));
    assert_non_null(strstr(banner, "batch      12 samples = 3 devices x 4;"));
    assert_non_null(strstr(banner, "5 steps an epoch"));
    free(banner);
    assert_ok(rung_trainer_fit(trainer, NULL));
    rung_trainer_destroy(&trainer);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(exact_runs_are_the_same),
        IN_FOLDER(exact_rounds_are_one_batch),
        IN_FOLDER(fast_runs_agree),
        IN_FOLDER(another_list_of_devices_goes_on),
        IN_FOLDER(each_device_is_told_of),
#ifdef RUNG_OPENMP
        cmocka_unit_test(the_policy_of_statistics_is_told),
#endif
        cmocka_unit_test(a_bad_weight_is_found_on_its_device),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(a_batch_of_each_device),
    };
    return RUN_TESTS(tests);
}
