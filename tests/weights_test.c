// SPDX-License-Identifier: Apache-2.0
// model.weights: a run that begins with the weights of another (the second half of case C54).
#include "training.h"

#include "rung/safetensors.h"
#include "train/trainer.h"

#define WEIGHTS(folder, path, out) snprintf(out, sizeof(out), "model.weights=%s/" path, folder)

// A trainer of the configuration, not yet run.
static rung_trainer *trainer_with(rung_context *context, const char *yaml,
                                  const char *const *overrides, const char *run)
{
    rung_config *config = training_config(context, yaml, overrides);
    rung_trainer *t = NULL;
    assert_ok(rung_trainer_create(context, config, run, &t));
    rung_config_destroy(&config);
    return t;
}

static rung_status create_fails(rung_context *context, const char *const *overrides)
{
    rung_config *config = training_config(context, TRAINING_MLP, overrides);
    rung_trainer *t = NULL;
    rung_status status = rung_trainer_create(context, config, NULL, &t);
    rung_trainer_destroy(&t);
    rung_config_destroy(&config);
    return status;
}

// Compares the parameters that a trainer begins with and those in a file; `kept` counts
// differences.
static int differing(const rung_trainer *t, const char *path)
{
    rung_safetensors *file;
    int differ = 0;
    assert_ok(rung_safetensors_open(path, &file));
    for (int i = 0; i < rung_state_count(t->s->state); i++) {
        rung_state_entry e = rung_state_at(t->s->state, i);
        const rung_safetensors_tensor *tensor = rung_safetensors_find(file, e.name);
        assert_non_null(tensor);
        int64_t count;
        assert_ok(rung_shape_count(&e.shape, &count));
        size_t bytes = (size_t)count * rung_dtype_size(e.dtype);
        void *data = malloc(bytes);
        assert_ok(rung_safetensors_read(file, tensor, e.dtype, data, NULL));
        differ += memcmp(data, e.data, bytes) != 0;
        free(data);
    }
    rung_safetensors_close(&file);
    return differ;
}

// From a run, from one of its checkpoints, from the file itself: all the same.
static void each_kind_of_path(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *first = test_path(folder, "first");
    char file[400], setting[500];
    assert_ok(training_run(context, TRAINING_MLP, (const char *const[]){"train.steps=12", NULL},
                           first, NULL));
    snprintf(file, sizeof file, "%s/checkpoints/step-00000012/model.safetensors", first);
    static const char *const paths[] = {"first", "first/checkpoints/latest",
                                        "first/checkpoints/step-00000012",
                                        "first/checkpoints/step-00000012/model.safetensors"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        snprintf(setting, sizeof setting, "model.weights=%s/%s", folder->path, paths[i]);
        rung_trainer *t = trainer_with(context, TRAINING_MLP,
                                       (const char *const[]){"seed=5", setting, NULL}, NULL);
        assert_int_equal(differing(t, file), 0);
        assert_int_equal(rung_trainer_place(t).step, 0);
        rung_trainer_destroy(&t);
    }
    assert_non_null(strstr(log.text, "4 tensors start from "));
    rung_context_destroy(&context);
}

// The weights are the run's begin, not its state: a resumed run goes on from its own checkpoint,
// when the file is gone too, and prediction and evaluation never look for it.
static void begin_only(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *first = test_path(folder, "first"), *second = test_path(folder, "second"),
               *whole = test_path(folder, "whole");
    char setting[400];
    assert_ok(training_run(context, TRAINING_MLP, (const char *const[]){"train.steps=12", NULL},
                           first, NULL));
    WEIGHTS(folder->path, "first", setting);
    const char *const parts[] = {setting, "train.steps=9", NULL};
    const char *const all[] = {setting, "train.steps=20", NULL};
    assert_ok(training_run(context, TRAINING_MLP, parts, second, NULL));
    assert_ok(training_run(context, TRAINING_MLP, all, whole, NULL));
    assert_ok(rungi_fs_remove_tree(first));
    assert_ok(
        training_resume(context, second, (const char *const[]){"train.steps=20", NULL}, NULL));
    assert_same_bits(second, whole);
    rung_trainer *t = NULL;
    rung_eval_result result;
    assert_ok(rung_trainer_open(context, second, "latest", NULL, 0, &t));
    assert_ok(rung_trainer_evaluate(t, &result));
    rung_trainer_destroy(&t);
    rung_context_destroy(&context);
}

// Another last layer: refused by name, or left out by a pattern.
static void another_last_layer(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *first = test_path(folder, "first");
    char setting[400];
    assert_ok(training_run(context, TRAINING_MLP, (const char *const[]){"train.steps=12", NULL},
                           first, NULL));
    WEIGHTS(folder->path, "first", setting);
    const char *const wider[] = {setting, "model.classes=7", NULL};
    assert_fails(RUNG_MISMATCH, "model.weights_except=[fc2.", create_fails(context, wider));
    assert_non_null(strstr(rung_error_last()->message, "[4"));
    const char *const deeper[] = {setting, "model.hidden=[16, 16]", NULL};
    assert_fails(RUNG_MISMATCH, "fc2.", create_fails(context, deeper));
    const char *const wrong[] = {setting, "model.weights_except=[fc9.*]", NULL};
    assert_fails(RUNG_CONFIG, "no tensor of mlp matches 'fc9.*'", create_fails(context, wrong));

    const char *const except[] = {setting, "model.classes=7", "model.weights_except=[fc2.*]", NULL};
    rung_trainer *t = trainer_with(context, TRAINING_MLP, except, NULL);
    rung_trainer *fresh =
        trainer_with(context, TRAINING_MLP, (const char *const[]){"model.classes=7", NULL}, NULL);
    rung_state_entry a, b;
    assert_true(rung_state_find(t->s->state, "fc2.weight", &a));
    assert_true(rung_state_find(fresh->s->state, "fc2.weight", &b));
    assert_memory_equal(a.data, b.data, 7 * 16 * sizeof(float));
    assert_true(rung_state_find(t->s->state, "fc1.weight", &a));
    assert_true(rung_state_find(fresh->s->state, "fc1.weight", &b));
    assert_memory_not_equal(a.data, b.data, 16 * 64 * sizeof(float));
    rung_trainer_destroy(&t);
    rung_trainer_destroy(&fresh);
    assert_non_null(strstr(log.text, "2 tensors start from "));
    assert_non_null(strstr(log.text, "2 keep their initial values, 2 of the file are not used"));
    rung_context_destroy(&context);
}

static void bad_paths(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    char setting[400];
    WEIGHTS(folder->path, "nowhere", setting);
    assert_fails(RUNG_NOT_FOUND, "nowhere",
                 create_fails(context, (const char *const[]){setting, NULL}));
    WEIGHTS(folder->path, "", setting);
    assert_fails(RUNG_FORMAT, "not a checkpoint",
                 create_fails(context, (const char *const[]){setting, NULL}));
    test_write(test_path(folder, "text"), "weights", 7);
    WEIGHTS(folder->path, "text", setting);
    assert_fails(RUNG_FORMAT, "not a safetensors file",
                 create_fails(context, (const char *const[]){setting, NULL}));
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(each_kind_of_path),
        IN_FOLDER(begin_only),
        IN_FOLDER(another_last_layer),
        IN_FOLDER(bad_paths),
    };
    return RUN_TESTS(tests);
}
