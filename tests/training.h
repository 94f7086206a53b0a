// SPDX-License-Identifier: Apache-2.0
// Small training runs for tests: a configuration in text, a folder, what the trainer told.
#ifndef RUNGI_TESTS_TRAINING_H
#define RUNGI_TESTS_TRAINING_H

#include <stdio.h>

#include "rung/checkpoint.h"
#include "rung/compare.h"
#include "rung/train.h"
#include "test_folder.h"

// 64 pictures of 8 x 8 in batches of 8, the augmentation on: 8 steps an epoch. One thread: where
// tests share few cores, threads that wait for each other are slow.
#define TRAINING_DATA               \
    "device: {threads: 1}\n"        \
    "data:\n"                       \
    "  source: synthetic\n"         \
    "  batch_size: 8\n"             \
    "  random_flip: 0.5\n"          \
    "  random_crop: {padding: 1}\n" \
    "  synthetic: {shape: [1, 8, 8], count: 64, classes: 4}\n"
#define TRAINING_MLP TRAINING_DATA "model: {name: mlp, hidden: [16]}\n"

typedef struct training_log {
    char text[8192]; // lines, each ended by '\n'
} training_log;

static inline void training_log_line(void *user, rung_log_level level, const char *line)
{
    training_log *log = user;
    size_t used = strlen(log->text);
    (void)level;
    snprintf(log->text + used, sizeof log->text - used, "%s\n", line);
}

// A context that keeps what is logged (notices and above).
static inline rung_context *training_context(training_log *log)
{
    rung_context *context;
    rung_context_options options = {
        .log = training_log_line, .log_user = log, .log_level = RUNG_LOG_NOTICE};
    *log = (training_log){0};
    assert_ok(rung_context_create(&options, &context));
    return context;
}

// A configuration of YAML text and overrides (NULL at the end; the array may be NULL).
static inline rung_config *training_config(rung_context *context, const char *yaml,
                                           const char *const *overrides)
{
    rung_config *config;
    assert_ok(rung_config_create(context, &config));
    assert_ok(rung_config_load_text(config, "test", yaml, strlen(yaml)));
    for (; overrides && *overrides; overrides++)
        assert_ok(rung_config_override(config, *overrides));
    return config;
}

// Trains from the start, in the folder `run` (NULL: none). Returns what fit returned.
static inline rung_status training_run(rung_context *context, const char *yaml,
                                       const char *const *overrides, const char *run,
                                       const rung_observer *observer)
{
    rung_config *config = training_config(context, yaml, overrides);
    rung_trainer *trainer = NULL;
    rung_status status = rung_trainer_create(context, config, run, &trainer);
    if (status == RUNG_OK)
        status = rung_trainer_fit(trainer, observer);
    rung_trainer_destroy(&trainer);
    rung_config_destroy(&config);
    return status;
}

// Goes on with a run. Returns what resume or fit returned.
static inline rung_status training_resume(rung_context *context, const char *run,
                                          const char *const *overrides,
                                          const rung_observer *observer)
{
    rung_trainer *trainer = NULL;
    bool finished;
    int count = 0;
    while (overrides && overrides[count])
        count++;
    rung_status status = rung_trainer_resume(context, run, overrides, count, &finished, &trainer);
    if (status == RUNG_OK)
        status = rung_trainer_fit(trainer, observer);
    rung_trainer_destroy(&trainer);
    return status;
}

static inline void assert_same_bits(const char *a, const char *b)
{
    rung_comparison c;
    assert_ok(rung_compare(a, b, &c));
    if (c.count)
        fail_msg("%s and %s: %d of %d differ, the first is %s: %s by %g", a, b, (int)c.count,
                 (int)c.tensors, c.differences[0].name,
                 c.differences[0].what ? c.differences[0].what : "values",
                 c.differences[0].max_abs);
    assert_true(c.tensors > 0);
    rung_comparison_fini(&c);
}

#endif
