// SPDX-License-Identifier: Apache-2.0
// Case C47: a loss, a gradient or a weight that is not finite.
#include "training.h"

#include <math.h>

#include "base/fs.h"
#include "formats/checkpoint_folder.h"
#include "train/run_metrics.h"
#include "train/trainer.h"

// Puts a value into a parameter after a step, as a broken update would.
typedef struct poison {
    rung_trainer *trainer;
    const char *name;
    int64_t after; // step
    float value;
} poison;

static void poison_event(void *user, const rung_train_event *e)
{
    poison *p = user;
    rung_state_entry entry;
    if (e->kind != RUNG_EVENT_STEP || e->step != p->after)
        return;
    assert_true(rung_state_find(p->trainer->s->state, p->name, &entry));
    ((float *)entry.data)[3] = p->value;
}

static rung_status fit(rung_context *context, const char *const *overrides, const char *run,
                       poison *p)
{
    rung_config *config = training_config(context, TRAINING_MLP, overrides);
    assert_ok(rung_trainer_create(context, config, run, &p->trainer));
    rung_status status = rung_trainer_fit(p->trainer, &(rung_observer){p, poison_event});
    rung_trainer_destroy(&p->trainer);
    rung_config_destroy(&config);
    return status;
}

// Every checkpoint of the run verifies, and none holds a value that is not finite.
static void check_checkpoints(const char *run, int64_t newest)
{
    char root[300];
    rungi_checkpoint_list list;
    snprintf(root, sizeof root, "%s/checkpoints", run);
    assert_ok(rungi_checkpoint_list_read(root, &list));
    assert_true(list.count > 0);
    int64_t last = -1;
    for (size_t i = 0; i < list.count; i++) {
        char path[400];
        rungi_checkpoint *c;
        snprintf(path, sizeof path, "%s/%s", root, list.data[i].name);
        assert_ok(rungi_checkpoint_open(path, true, &c));
        int64_t step = json_integer_value(json_object_get(rungi_checkpoint_state(c), "step"));
        last = step > last ? step : last;
        rung_safetensors *file = rungi_checkpoint_tensors(c, RUNGI_CHECKPOINT_MODEL);
        for (size_t k = 0; k < rung_safetensors_count(file); k++) {
            const rung_safetensors_tensor *t = rung_safetensors_get(file, k);
            float *data = malloc(t->bytes);
            assert_ok(rung_safetensors_read(file, t, RUNG_F32, data, NULL));
            for (size_t j = 0; j < t->bytes / sizeof(float); j++)
                assert_true(isfinite(data[j]));
            free(data);
        }
        rungi_checkpoint_close(&c);
    }
    rungi_checkpoint_list_fini(&list);
    assert_int_equal(last, newest);
}

static rung_status find_end(void *user, const char *event, const json_t *line)
{
    char *status = user;
    if (strcmp(event, "end") == 0)
        snprintf(status, 64, "%s", json_string_value(json_object_get(line, "status")));
    return RUNG_OK;
}

// Broken by the update of step 181: step 182 stops. The last checkpoint is of step 175.
static void a_weight_turns_nan(void **state)
{
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(*state, "run");
    const char *const overrides[] = {"train.steps=400",        "train.log_every=1",
                                     "checkpoint.every=25",    "optim.lr=0.01",
                                     "train.eval_every=never", NULL};
    poison p = {.name = "fc2.weight", .after = 181, .value = NAN};
    char status[64] = "";
    assert_int_equal(fit(context, overrides, run, &p), RUNG_DIVERGED);
    const char *message = rung_error_last()->message;
    assert_non_null(strstr(message, "step 182: the loss is nan (last finite loss "));
    assert_non_null(strstr(message, "fc2.weight is nan at element 3"));
    assert_non_null(strstr(message, "the update of step 181"));
    assert_non_null(strstr(message, "; samples "));
    assert_int_equal(rung_status_exit(RUNG_DIVERGED), 4);
    check_checkpoints(run, 175);
    assert_ok(rungi_metrics_each(run, find_end, status));
    assert_string_equal(status, "training diverged");
    // What is left is good to go on with.
    assert_ok(training_resume(context, run, (const char *const[]){"train.steps=200", NULL}, NULL));
    check_checkpoints(run, 200);
    rung_context_destroy(&context);
}

// An activation overflows though all weights are finite: the layer is named, under exact as well.
static void a_layer_overflows(void **state)
{
    (void)state;
    training_log log;
    rung_context *context = training_context(&log);
    static const char *const exacts[] = {"exact=false", "exact=true"};
    for (int i = 0; i < 2; i++) {
        const char *const overrides[] = {"train.steps=20", "train.log_every=1", exacts[i], NULL};
        poison p = {.name = "fc1.bias", .after = 6, .value = 3e38f};
        rung_config *config = training_config(context, TRAINING_MLP, overrides);
        assert_ok(rung_trainer_create(context, config, NULL, &p.trainer));
        // With large weights behind it the sums of fc2 overflow.
        rung_state_entry e;
        assert_true(rung_state_find(p.trainer->s->state, "fc2.weight", &e));
        for (int k = 0; k < 64; k++)
            ((float *)e.data)[k] *= 100;
        assert_int_equal(rung_trainer_fit(p.trainer, &(rung_observer){&p, poison_event}),
                         RUNG_DIVERGED);
        const char *message = rung_error_last()->message;
        assert_non_null(strstr(message, "step 7: the loss is "));
        assert_non_null(strstr(message, "the first tensor at fault is the output of fc2 ("));
        rung_trainer_destroy(&p.trainer);
        rung_config_destroy(&config);
    }
    rung_context_destroy(&context);
}

// The weights that the last step of a run breaks are not saved.
static void the_last_update_breaks(void **state)
{
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(*state, "run");
    const char *const overrides[] = {"train.steps=16", "train.log_every=1",
                                     "train.eval_every=never", "checkpoint.every=5", NULL};
    poison p = {.name = "fc1.weight", .after = 16, .value = -INFINITY};
    assert_fails(RUNG_DIVERGED,
                 "step 16: fc1.weight is -inf at element 3, made so by the update of step 16: no "
                 "checkpoint is written, the last good one is kept",
                 fit(context, overrides, run, &p));
    check_checkpoints(run, 15);
    rung_context_destroy(&context);
}

// train.on_nan: continue goes on, warns, and never saves what is not finite.
static void going_on_is_an_option(void **state)
{
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(*state, "run");
    const char *const overrides[] = {"train.steps=20",        "train.log_every=1",
                                     "checkpoint.every=5",    "train.eval_every=never",
                                     "train.on_nan=continue", NULL};
    poison p = {.name = "fc2.weight", .after = 12, .value = NAN};
    assert_fails(RUNG_DIVERGED, "step 20: fc2.weight is nan at element 3",
                 fit(context, overrides, run, &p));
    assert_non_null(strstr(log.text, "step 15: fc2.weight is nan"));
    assert_non_null(strstr(log.text, "no checkpoint is written, the last good one is kept"));
    check_checkpoints(run, 10);
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_weight_turns_nan),
        cmocka_unit_test(a_layer_overflows),
        IN_FOLDER(the_last_update_breaks),
        IN_FOLDER(going_on_is_an_option),
    };
    return RUN_TESTS(tests);
}
