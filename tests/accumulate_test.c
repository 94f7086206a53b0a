// SPDX-License-Identifier: Apache-2.0
// Runs with train.accumulate, and what is logged of gradients: cases C33, C89, C29.
#include "watched_run.h"

#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "train/trainer.h"

// 61 pictures, 16 a step: four steps an epoch, the last one of 13.
#define DATA                                 \
    PICTURES(LIBRARY, 61)                    \
    "  random_flip: 0.5\n"                   \
    "  random_crop: {padding: 1}\n"          \
    "model: {name: fashion_cnn}\n"           \
    "optim: {lr: 0.05, momentum: 0.9}\n"     \
    "schedule: {name: cosine, unit: step}\n" \
    "train: {epochs: 2, log_every: 1}\n"

// A batch of 16 as it is, by two ranks, in rounds, and by two ranks in rounds: the same losses,
// rates and steps.
static void the_batch_may_be_said_in_any_way(void **state)
{
    static const char *const ways[][4] = {
        {"data.batch_size=16"},
        {"data.batch_size=16", "train.ranks=2"},
        {"data.batch_size=4", "train.accumulate=4"},
        {"data.batch_size=8", "train.accumulate=2", "train.ranks=2", "ddp.overlap=true"},
        {"data.batch_per_device=4", "train.accumulate=2", "train.ranks=2"},
    };
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    seen first = {0};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        const char *overrides[5] = {ways[w][0], ways[w][1], ways[w][2], ways[w][3], NULL};
        char name[16];
        seen s = {0};
        snprintf(name, sizeof name, "way-%d", (int)w);
        assert_ok(train(context, DATA, overrides, test_path(folder, name), &s));
        if (w == 0)
            first = s;
        assert_int_equal(s.steps, 8);
        assert_int_equal(s.samples, 122);
        assert_int_equal(s.seen_once, 61);
        assert_int_equal(s.evaluated, 7);
        for (int k = 1; k <= 8; k++)
            assert_near(s.losses[k], first.losses[k], 1e-5);
        assert_memory_equal(s.rates, first.rates, sizeof s.rates);
    }
    assert_string_equal(log.text, "");
    rung_context_destroy(&context);
}

// Exact: rounds of few shards are one batch of many, to the last bit; also stopped in the middle of
// an epoch and gone on with as one batch, and with ranks and a sharded optimizer.
static void exact_rounds_are_one_batch(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    seen s = {0};
    const char *whole[] = {"exact=true",       "data.batch_size=16",    "optim.name=adamw",
                           "optim.momentum=0", "train.max_grad_norm=1", NULL};
    assert_ok(train(context, DATA, whole, test_path(folder, "whole"), &s));
    const char *rounds[] = {
        "exact=true",       "data.batch_size=4", "train.accumulate=4",    "train.shards=1",
        "optim.name=adamw", "optim.momentum=0",  "train.max_grad_norm=1", NULL};
    s = (seen){0};
    assert_ok(train(context, DATA, rounds, test_path(folder, "rounds"), &s));
    assert_same_bits(test_path(folder, "whole"), test_path(folder, "rounds"));
    const char *ranks[] = {"exact=true",
                           "data.batch_size=8",
                           "train.accumulate=2",
                           "train.shards=2",
                           "train.ranks=2",
                           "ddp.shard_optimizer=true",
                           "optim.name=adamw",
                           "optim.momentum=0",
                           "train.max_grad_norm=1",
                           NULL};
    s = (seen){.stop_at = 6};
    assert_fails(RUNG_CANCELLED, "stopped after step",
                 train(context, DATA, ranks, test_path(folder, "ranks"), &s));
    const char *on[] = {"train.ranks=1", "data.batch_size=16", "train.accumulate=1",
                        "train.shards=4", NULL};
    assert_ok(training_resume(context, test_path(folder, "ranks"), on, NULL));
    assert_same_bits(test_path(folder, "whole"), test_path(folder, "ranks"));
    assert_string_equal(log.text, "");
    rung_context_destroy(&context);
}

// Fast: a run that was stopped in the middle of an epoch goes on with the same bits; another batch
// is told.
static void a_stopped_run_goes_on(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *overrides[] = {"data.batch_size=4", "train.accumulate=4", NULL};
    seen s = {0};
    assert_ok(train(context, DATA, overrides, test_path(folder, "whole"), &s));
    s = (seen){.stop_at = 2};
    assert_fails(RUNG_CANCELLED, "stopped after step 2",
                 train(context, DATA, overrides, test_path(folder, "parts"), &s));
    assert_ok(training_resume(context, test_path(folder, "parts"), NULL, NULL));
    assert_same_bits(test_path(folder, "whole"), test_path(folder, "parts"));
    assert_string_equal(log.text, "");
    const char *other[] = {"train.accumulate=2", "train.epochs=3", NULL};
    assert_ok(training_resume(context, test_path(folder, "parts"), other, NULL));
    assert_non_null(strstr(log.text, "the batch of a step (data.batch_size times train.accumulate) "
                                     "is 8 now, the run was begun with 16"));
    rung_context_destroy(&context);
}

static void people_are_told(void **state)
{
    (void)state;
    training_log log;
    char *text;
    rung_trainer *trainer;
    rung_context *context = training_context(&log);
    const char *overrides[] = {"data.batch_size=8",      "train.accumulate=4",
                               "train.ranks=2",          "plan.fuse_optimizer=false",
                               "train.eval_every=never", NULL};
    rung_config *config = training_config(context, DATA, overrides);
    assert_ok(rung_trainer_create(context, config, NULL, &trainer));
    assert_ok(rung_trainer_banner(trainer, &text));
    assert_non_null(strstr(text,
                           "batch      32 samples = 2 ranks x 4 x 4 accumulated; the learning "
                           "rate is not scaled by it"));
    assert_non_null(strstr(text, "2 steps an epoch, last batch 29"));
    free(text);
    rung_trainer_destroy(&trainer);
    rung_config_destroy(&config);
    overrides[2] = "train.ranks=1";
    overrides[3] = "plan.fuse_optimizer=true";
    config = training_config(context, DATA, overrides);
    assert_ok(rung_trainer_create(context, config, NULL, &trainer));
    assert_non_null(strstr(log.text, "plan.fuse_optimizer: ignored, because train.accumulate"));
    assert_ok(rung_trainer_explain(trainer, &text));
    assert_non_null(strstr(text, "a step is 4 rounds, whose gradients are added"));
    assert_non_null(strstr(text, "fuse_optimizer: off, because train.accumulate"));
    assert_non_null(strstr(text, ", adds to the gradients"));
    assert_null(strstr(text, "updates "));
    free(text);
    rung_trainer_destroy(&trainer);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
}

static void refuse(const char *expected, const char *const *overrides)
{
    training_log log;
    rung_context *context = training_context(&log);
    seen s = {0};
    assert_fails(RUNG_CONFIG, expected, train(context, DATA, overrides, NULL, &s));
    rung_context_destroy(&context);
}

static void wrong_rounds_are_refused(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    seen s = {0};
    refuse("must be a power of two under exact, not 3",
           (const char *[]){"exact=true", "data.batch_size=6", "train.accumulate=3", NULL});
    const char *rounds[] = {"exact=true", "data.batch_size=8", "train.accumulate=2",
                            "train.epochs=1", NULL};
    assert_ok(train(context, DATA, rounds, test_path(folder, "run"), &s));
    const char *other[] = {"train.accumulate=4", "train.epochs=2", NULL};
    assert_fails(RUNG_CONFIG,
                 "train.shards times train.accumulate is 16, but the run was begun "
                 "with 8",
                 training_resume(context, test_path(folder, "run"), other, NULL));
    rung_context_destroy(&context);
}

// ---- gradients in the log ---------------------------------------------------------------------

static double number(const json_t *line, const char *object, const char *name)
{
    return json_number_value(json_object_get(json_object_get(line, object), name));
}

// The line of metrics.jsonl of a step; the caller decref's it.
static json_t *line_of(const char *run, int64_t step)
{
    char path[400], line[1 << 14];
    json_t *found = NULL;
    snprintf(path, sizeof path, "%s/metrics.jsonl", run);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (!found && fgets(line, sizeof line, file)) {
        json_t *o = json_loads(line, 0, NULL);
        assert_non_null(o);
        if (strcmp(json_string_value(json_object_get(o, "event")), "step") == 0 &&
            json_integer_value(json_object_get(o, "step")) == step)
            found = json_incref(o);
        json_decref(o);
    }
    assert_int_equal(fclose(file), 0);
    assert_non_null(found);
    return found;
}

// Each parameter's norms at the steps that are logged: those of all add up to the gradient's, and
// plain descent moves by the rate times the gradient. The same of an optimizer that is cut over
// ranks, and of rounds.
static void layers_are_logged(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *one[] = {"data.batch_size=16",      "exact=true",
                         "train.log_layers=true",   "train.log_every=2",
                         "optim.momentum=0",        "schedule.name=constant",
                         "model.freeze=[fc2.bias]", NULL};
    const char *cut[] = {"data.batch_size=8",        "exact=true",
                         "train.log_layers=true",    "train.log_every=2",
                         "optim.momentum=0.9",       "schedule.name=constant",
                         "model.freeze=[fc2.bias]",  "train.ranks=2",
                         "train.accumulate=2",       "train.shards=2",
                         "ddp.shard_optimizer=true", NULL};
    const char *whole[] = {"data.batch_size=16",      "exact=true",
                           "train.log_layers=true",   "train.log_every=2",
                           "optim.momentum=0.9",      "schedule.name=constant",
                           "model.freeze=[fc2.bias]", NULL};
    seen s = {0};
    const char *key;
    json_t *value;
    assert_ok(train(context, DATA, one, test_path(folder, "one"), &s));
    assert_ok(train(context, DATA, cut, test_path(folder, "cut"), &s));
    assert_ok(train(context, DATA, whole, test_path(folder, "whole"), &s));
    json_t *a = line_of(test_path(folder, "one"), 4);
    double sum = 0, norm = json_number_value(json_object_get(a, "grad_norm"));
    int count = 0;
    json_object_foreach(json_object_get(a, "layer_grad_norm"), key, value)
    {
        double own = json_number_value(value);
        sum += own * own;
        count++;
        double ratio = number(a, "layer_update_ratio", key);
        assert_true(ratio > 0 && ratio < 1);
    }
    assert_true(count >= 4);
    assert_near(sqrt(sum), norm, 1e-9 * norm);
    assert_null(json_object_get(json_object_get(a, "layer_grad_norm"), "fc2.bias"));
    json_decref(a);
    json_t *b = line_of(test_path(folder, "cut"), 6), *c = line_of(test_path(folder, "whole"), 6);
    json_object_foreach(json_object_get(c, "layer_update_ratio"), key, value)
    {
        assert_near(number(b, "layer_update_ratio", key), json_number_value(value),
                    1e-9 * json_number_value(value));
        assert_true(number(b, "layer_grad_norm", key) == number(c, "layer_grad_norm", key));
    }
    json_decref(b);
    json_decref(c);
    assert_true(rungi_fs_exists(test_path(folder, "one/layers.svg")));
    rung_context_destroy(&context);
}

// Hidden units that are always below zero: nothing is learned before them, and it is told once.
static void gradients_of_zero_are_told(void **state)
{
    (void)state;
    training_log log;
    rung_trainer *trainer;
    rung_state_entry entry;
    rung_context *context = training_context(&log);
    rung_config *config = training_config(
        context, TRAINING_MLP,
        (const char *[]){"train.log_every=1", "train.epochs=1", "train.eval_every=never", NULL});
    assert_ok(rung_trainer_create(context, config, NULL, &trainer));
    rung_state *s = trainer->s->state;
    assert_true(rung_state_find(s, "fc1.weight", &entry));
    memset(entry.data, 0, 16 * 64 * sizeof(float));
    assert_true(rung_state_find(s, "fc1.bias", &entry));
    for (int i = 0; i < 16; i++)
        ((float *)entry.data)[i] = -1;
    assert_ok(rung_trainer_fit(trainer, NULL));
    const char *told = strstr(log.text, "is zero in every element");
    assert_non_null(told);
    assert_non_null(strstr(log.text, "step 2: the gradient of "));
    assert_non_null(strstr(log.text, "fc1.weight"));
    assert_null(strstr(told + 1, "is zero in every element"));
    rung_trainer_destroy(&trainer);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(the_batch_may_be_said_in_any_way),
        IN_FOLDER(exact_rounds_are_one_batch),
        IN_FOLDER(a_stopped_run_goes_on),
        cmocka_unit_test(people_are_told),
        IN_FOLDER(wrong_rounds_are_refused),
        IN_FOLDER(layers_are_logged),
        cmocka_unit_test(gradients_of_zero_are_told),
    };
    return RUN_TESTS(tests);
}
