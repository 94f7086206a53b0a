// SPDX-License-Identifier: Apache-2.0
// Runs that go on with another number of ranks: the batch of a step stays, or that is refused; a
// change of what batch normalization sees is told.
#include "training.h"

#ifdef RUNG_OPENMP
#    define KERNELS "own"
#else
#    define KERNELS "reference" // the build for ThreadSanitizer
#endif

#define EACH                                                                                   \
    "device: {threads: 1}\n"                                                                   \
    "plan: {kernels: " KERNELS "}\n"                                                           \
    "data: {source: synthetic, batch_per_device: 4, synthetic: {shape: [1, 8, 8], count: 32, " \
    "classes: 4}}\n"                                                                           \
    "model: {name: mlp, hidden: [8]}\n"                                                        \
    "exact: true\n"                                                                            \
    "train: {steps: 2, ranks: 2, eval_every: never}\n"

// Both are bits of the same batches of 8, under exact.
static void the_batch_stays(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(folder, "run"), *whole = test_path(folder, "whole");
    assert_ok(
        training_run(context, EACH, (const char *const[]){"train.steps=6", NULL}, whole, NULL));
    assert_ok(training_run(context, EACH, NULL, run, NULL));
    assert_fails(RUNG_CONFIG,
                 "data.batch_per_device is 4, which makes a step's batch 16 with 4 ranks or "
                 "devices; the run was begun with 8 on 2: keep that with data.batch_size=8, or say",
                 training_resume(context, run,
                                 (const char *const[]){"train.steps=4", "train.ranks=4", NULL},
                                 NULL));
    assert_ok(training_resume(
        context, run,
        (const char *const[]){"train.steps=4", "train.ranks=4", "data.batch_per_device=2", NULL},
        NULL));
    assert_ok(training_resume(
        context, run,
        (const char *const[]){"train.steps=6", "train.ranks=1", "data.batch_per_device=8", NULL},
        NULL));
    assert_same_bits(run, whole);
    rung_context_destroy(&context);
}

// With the same number of ranks, and where it is said for all of them, a change is meant.
static void a_change_that_is_meant(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(folder, "run");
    assert_ok(training_run(context, EACH, NULL, run, NULL));
    assert_ok(training_resume(
        context, run, (const char *const[]){"train.steps=3", "data.batch_per_device=2", NULL},
        NULL));
    assert_non_null(strstr(log.text, "data.batch_size is 4 now, the run was begun with 8"));
    assert_ok(training_resume(
        context, run,
        (const char *const[]){"train.steps=4", "train.ranks=4", "data.batch_size=16", NULL}, NULL));
    assert_non_null(strstr(log.text, "data.batch_size is 16 now, the run was begun with 4"));
    rung_context_destroy(&context);
}

static void other_statistics_are_told(void **state)
{
    static const char yaml[] =
        "device: {threads: 1}\n"
        "plan: {kernels: " KERNELS "}\n"
        "data: {source: synthetic, batch_size: 4, synthetic: {shape: [3, 8, 8], count: 8, "
        "classes: 4}}\n"
        "model: {name: resnet18}\n"
        "train: {steps: 1, ranks: 2, eval_every: never}\n"
        "checkpoint: {keep: 1}\n";
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(folder, "run");
    assert_ok(training_run(context, yaml, NULL, run, NULL));
    assert_ok(training_resume(
        context, run, (const char *const[]){"train.steps=2", "ddp.sync_batch_norm=true", NULL},
        NULL));
    assert_non_null(strstr(log.text, "ddp.sync_batch_norm is true now, the run was begun with "
                                     "false: batch normalization uses the statistics of the whole "
                                     "batch from here on"));
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(the_batch_stays),
        IN_FOLDER(a_change_that_is_meant),
        IN_FOLDER(other_statistics_are_told),
    };
    return RUN_TESTS(tests);
}
