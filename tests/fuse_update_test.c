// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// ddp.fuse_update: the bits of ranks that exchange, update and gather one after the other.
#include "watched_run.h"

#include "train/crew.h"
#include "train/trainer.h"

// 29 pictures in batches of 8: the last one has 5. Steps 1, 4 and 8 log the gradient's norm.
#define DATA                             \
    PICTURES(LIBRARY, 29)                \
    "  batch_size: 8\n"                  \
    "model: {name: fashion_cnn}\n"       \
    "optim: {lr: 0.01, momentum: 0.9}\n" \
    "train: {steps: 8, log_every: 4, eval_every: never}\n"

enum { LOGGED = 3 };
#define FUSED "ddp.shard_optimizer=true", "ddp.fuse_update=true"

// Trains; of ranks, buckets of gradients are exchanged in so many steps.
static void run(rung_context *context, const char *const *overrides, const char *folder,
                int exchanged)
{
    seen s = {0};
    rung_config *config = training_config(context, DATA, overrides);
    assert_ok(rung_trainer_create(context, config, folder, &s.trainer));
    assert_ok(rung_trainer_fit(s.trainer, NULL));
    const rungi_exchange *x = rungi_engine_exchange(s.trainer->s->engine);
    assert_int_equal(x ? rungi_exchange_count(x) : 0,
                     x ? exchanged * rungi_exchange_buckets(x) : 0);
    rung_trainer_destroy(&s.trainer);
    rung_config_destroy(&config);
}

static void exact_runs_are_the_same(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    static const char *const optimizers[] = {"optim.name=sgd", "optim.name=adamw"};
    for (int i = 0; i < 2; i++) {
        char one[16], two[16];
        const char *momentum = i ? "optim.momentum=0" : "optim.momentum=0.9";
        snprintf(one, sizeof one, "one-%d", i);
        snprintf(two, sizeof two, "two-%d", i);
        run(context, (const char *[]){"exact=true", optimizers[i], momentum, NULL},
            test_path(folder, one), 0);
        run(context,
            (const char *[]){"exact=true", optimizers[i], momentum, "train.ranks=2", FUSED, NULL},
            test_path(folder, two), LOGGED);
        assert_same_bits(test_path(folder, one), test_path(folder, two));
    }
    assert_string_equal(log.text, "");
    rung_context_destroy(&context);
}

// Ranks that cut unevenly, frozen layers, accumulation, several threads, overlap, which is for the
// steps that log.
static void fast_runs_are_the_same(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    static const char *const also[][2] = {{"train.ranks=3", "model.freeze=[conv1*]"},
                                          {"train.ranks=2", "train.accumulate=2"},
                                          {"train.ranks=2", "device.threads=2"}};
    for (size_t i = 0; i < sizeof also / sizeof *also; i++) {
        char plain[16], fused[16];
        snprintf(plain, sizeof plain, "plain-%zu", i);
        snprintf(fused, sizeof fused, "fused-%zu", i);
        run(context, (const char *[]){also[i][0], also[i][1], "ddp.overlap=true", NULL},
            test_path(folder, plain), 8);
        log.text[0] = '\0';
        run(context, (const char *[]){also[i][0], also[i][1], "ddp.overlap=true", FUSED, NULL},
            test_path(folder, fused), LOGGED);
        assert_same_bits(test_path(folder, plain), test_path(folder, fused));
        assert_non_null(strstr(log.text, "ddp.overlap: without effect but in steps that log"));
    }
    rung_context_destroy(&context);
}

static void another_number_of_ranks_goes_on(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *begun = test_path(folder, "begun");
    run(context, (const char *[]){"exact=true", NULL}, test_path(folder, "whole"), 0);
    run(context,
        (const char *[]){"exact=true", "train.steps=6", "checkpoint.every=2", "train.ranks=4",
                         FUSED, NULL},
        begun, 2);
    const char *two[] = {"train.ranks=2", "train.steps=8", NULL};
    assert_ok(training_resume(context, begun, two, NULL));
    assert_same_bits(test_path(folder, "whole"), begun);
    rung_context_destroy(&context);
}

// What looks at all gradients before a weight is updated: steps as without the switch, and a word.
static void it_is_off_where_sums_are_needed(void **state)
{
    (void)state;
    static const struct {
        const char *set, *why;
    } cases[] = {{"train.max_grad_norm=1", "train.max_grad_norm needs all gradients before"},
                 {"train.precision=fp16", "fp16 looks at all gradients before it updates"},
                 {"train.on_nan=continue", "train.on_nan continue looks at all gradients"},
                 {"train.log_every=1", "train.log_every is 1: each step takes the norm"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        training_log log;
        rung_context *context = training_context(&log);
        char *text;
        const char *overrides[] = {"train.ranks=2", FUSED, cases[i].set, "train.steps=2", NULL};
        run(context, overrides, NULL, 2);
        assert_non_null(strstr(log.text, "ddp.fuse_update: ignored, because "));
        assert_non_null(strstr(log.text, cases[i].why));
        rung_config *config = training_config(context, DATA, overrides);
        rung_trainer *trainer;
        assert_ok(rung_trainer_create(context, config, NULL, &trainer));
        assert_ok(rung_trainer_explain(trainer, &text));
        assert_non_null(strstr(text, "fuse_update: off, because "));
        assert_non_null(strstr(text, cases[i].why));
        free(text);
        rung_trainer_destroy(&trainer);
        rung_config_destroy(&config);
        rung_context_destroy(&context);
    }
}

static void what_it_cannot_be_combined_with(void **state)
{
    (void)state;
    static const struct {
        const char *why, *set;
    } cases[] = {{"needs ddp.shard_optimizer", "ddp.shard_optimizer=false"},
                 {"cannot be combined with ddp.compress", "ddp.compress=bf16"},
                 {"cannot be combined with ddp.link_rate", "ddp.link_rate=1"},
                 {"cannot be combined with ddp.link_delay", "ddp.link_delay=1ms"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        training_log log;
        rung_context *context = training_context(&log);
        seen s = {0};
        assert_fails(RUNG_CONFIG, cases[i].why,
                     train(context, DATA,
                           (const char *[]){"train.ranks=2", FUSED, cases[i].set, NULL}, NULL, &s));
        rung_context_destroy(&context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(exact_runs_are_the_same),
        IN_FOLDER(fast_runs_are_the_same),
        IN_FOLDER(another_number_of_ranks_goes_on),
        cmocka_unit_test(it_is_off_where_sums_are_needed),
        cmocka_unit_test(what_it_cannot_be_combined_with),
    };
    return RUN_TESTS(tests);
}
