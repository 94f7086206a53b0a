// SPDX-License-Identifier: Apache-2.0
// plan.fuse_optimizer: weights updated where their gradient is computed. The bits are those of
// training without it.
#include "training.h"

#include <math.h>

#include "optim/optimizer.h"
#include "train/trainer.h"

// Batches of 4, which kernels that update can take; the last one of an epoch is smaller.
#define SMALL_BATCHES                                                                             \
    "device: {threads: 2}\n"                                                                      \
    "data: {source: synthetic, batch_size: 4, synthetic: {shape: [1, 8, 8], count: 62, classes: " \
    "4}}\n"                                                                                       \
    "model: {name: mlp, hidden: [300, 16]}\n"                                                     \
    "plan: {kernels: own}\n"                                                                      \
    "train: {epochs: 3, log_every: 7}\n"

static void same_bits(void **state)
{
    // Plain SGD leaves out rows of zeros, and takes single samples without storing a row.
    static const char *const optimizers[][6] = {
        {"optim.name=sgd", "optim.lr=0.05"},
        {"optim.name=sgd", "optim.momentum=0.9", "optim.nesterov=true", "optim.weight_decay=0.01"},
        {"optim.name=sgd", "optim.momentum=0.9", "train.max_grad_value=0.01"},
        {"optim.name=adamw", "optim.lr=0.001", "schedule.name=cosine"},
        {"optim.name=adam", "plan.fuse=true", "model.freeze=[fc2.*]"},
    };
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    for (size_t i = 0; i < 2 * sizeof optimizers / sizeof *optimizers; i++) {
        const char *overrides[8] = {i % 2 ? "data.batch_size=1" : "data.batch_size=4"};
        char off[300], on[300];
        int n = 1;
        while (optimizers[i / 2][n - 1])
            overrides[n] = optimizers[i / 2][n - 1], n++;
        snprintf(off, sizeof off, "%s/off-%zu", folder->path, i);
        snprintf(on, sizeof on, "%s/on-%zu", folder->path, i);
        assert_ok(training_run(context, SMALL_BATCHES, overrides, off, NULL));
        overrides[n] = "plan.fuse_optimizer=true";
        assert_ok(training_run(context, SMALL_BATCHES, overrides, on, NULL));
        assert_same_bits(off, on);
    }
    rung_context_destroy(&context);
}

// A session whose gradients hold a number that no step would give.
static rungi_session *marked_session(rung_context *context, const char *const *overrides)
{
    rung_config *config = training_config(context, SMALL_BATCHES, overrides);
    rungi_session *s = NULL;
    assert_ok(rungi_session_create(context, config,
                                   &(rungi_session_options){.parts = RUNGI_SESSION_TRAIN}, &s));
    for (int64_t i = 0; i < s->state->flat_size; i++)
        s->state->grads[i] = 12345;
    rung_config_destroy(&config);
    return s;
}

static bool stored(const rungi_session *s, const char *name)
{
    for (int64_t i = 0; i < s->n_segments; i++)
        if (strcmp(s->segments[i].name, name) == 0)
            return s->state->grads[s->segments[i].begin] != 12345;
    fail_msg("no parameter %s", name);
    return false;
}

static double take_step(rungi_session *s, const rung_optimizer_update *update)
{
    rung_batch batch;
    double loss;
    assert_ok(rung_loader_next(s->train_loader, &batch));
    assert_ok(rungi_session_gradients(s, &batch, 0, update, &loss));
    rung_loader_release(s->train_loader, &batch);
    return loss;
}

static void gradients_are_stored_where_they_are_needed(void **state)
{
    (void)state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *const on[] = {"plan.fuse_optimizer=true", NULL};
    const rung_optimizer_update plain = {.rates.lr = 0.1, .max_grad_value = 1, .threads = 2};
    const rung_optimizer_update norm = {.rates.lr = 0.1, .want_norm = true};
    const rung_optimizer_update clip = {.rates.lr = 0.1, .max_grad_norm = 1};
    const rung_optimizer_update skip = {.rates.lr = 0.1, .skip_nonfinite = true};
    const rung_optimizer_update *const all[] = {&plain, &norm, &clip, &skip, NULL};
    for (int i = 0; i < 5; i++) {
        rungi_session *s = marked_session(context, on);
        take_step(s, all[i]);
        assert_true(stored(s, "fc1.bias"));
        assert_int_equal(stored(s, "fc1.weight"), i > 0);
        assert_int_equal(stored(s, "fc3.weight"), i > 0);
        rungi_session_destroy(&s);
    }
    rungi_session *s = marked_session(context, NULL);
    take_step(s, &plain);
    assert_true(stored(s, "fc1.weight"));
    rungi_session_destroy(&s);
    rung_context_destroy(&context);
}

// A loss that is not finite changes nothing; a gradient that is not finite is found.
static void what_is_not_finite(void **state)
{
    (void)state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *const on[] = {"plan.fuse_optimizer=true", NULL};
    const rung_optimizer_update plain = {.rates.lr = 0.1, .threads = 2};
    rungi_session *s = marked_session(context, on);
    rung_state_entry e, w;
    assert_true(rung_state_find(s->state, "fc3.bias", &e));
    assert_true(rung_state_find(s->state, "fc1.weight", &w));
    float before = *(float *)w.data;
    *(float *)e.data = NAN;
    assert_true(isnan(take_step(s, &plain)));
    assert_true(*(float *)w.data == before);
    rungi_session_destroy(&s);

    // Of a product it is enough to look at the largest: 1e20 times 1e20 is infinite.
    for (int scaled = 0; scaled < 2; scaled++) {
        s = marked_session(context, on);
        assert_true(isfinite(take_step(s, &plain)));
        rungi_optim_part *part = NULL;
        for (int64_t i = 0; i < s->n_segments; i++)
            if (s->optimizer->segments[i].taken)
                part = &s->optimizer->segments[i].part;
        assert_non_null(part);
        float bad[2] = {1, scaled ? 1e20F : INFINITY};
        if (scaled)
            rungi_optimizer_apply_scaled(part, 0, 1e20F, bad, bad[1], 2);
        else
            rungi_optimizer_apply_part(part, 0, bad, 2);
        rung_optimizer_report report;
        assert_fails(
            RUNG_DIVERGED, "is NaN or infinite",
            rung_optimizer_step(s->optimizer, s->state->params, s->state->grads, &plain, &report));
        rungi_session_destroy(&s);
    }
    rung_context_destroy(&context);
}

static void said_and_refused(void **state)
{
    (void)state;
    training_log log;
    rung_context *context = training_context(&log);
    rung_trainer *t = NULL;
    char *text = NULL;
    const char *const on[] = {"plan.fuse_optimizer=true", NULL};
    rung_config *config = training_config(context, SMALL_BATCHES, on);
    assert_ok(rung_trainer_create(context, config, NULL, &t));
    assert_ok(rung_trainer_explain(t, &text));
    assert_non_null(strstr(text, "updates fc1.weight itself, unless its gradient is wanted"));
    // The data gradient of fc2 reads its weight: the update comes after it.
    const char *data = strstr(text, "fc2  linear.backward_data");
    const char *update = strstr(text, "updates fc2.weight itself");
    assert_true(data && update && data < update);
    free(text);
    rung_trainer_destroy(&t);
    assert_ok(rung_config_override(config, "exact=true"));
    assert_fails(RUNG_CONFIG, "plan.fuse_optimizer",
                 rung_trainer_create(context, config, NULL, &t));
    assert_ok(rung_config_override(config, "exact=false"));
    assert_ok(rung_config_override(config, "train.max_grad_norm=1"));
    assert_ok(rung_trainer_create(context, config, NULL, &t));
    assert_non_null(strstr(log.text, "ignored, because train.max_grad_norm"));
    rung_trainer_destroy(&t);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(same_bits),
        cmocka_unit_test(gradients_are_stored_where_they_are_needed),
        cmocka_unit_test(what_is_not_finite),
        cmocka_unit_test(said_and_refused),
    };
    return RUN_TESTS(tests);
}
