// SPDX-License-Identifier: Apache-2.0
// Training in 16 bits: as good as in float32, the same bits where those are promised, and what
// fp16's loss scale does to a run. Cases C46 and C47.
#include "training.h"

#include <math.h>

#include "base/fs.h"
#include "formats/checkpoint_folder.h"
#include "train/run_metrics.h"
#include "train/trainer.h"

#define CNN                                                                                \
    "device: {threads: 1}\n"                                                               \
    "data: {source: synthetic, batch_size: 8, synthetic: {shape: [1, 28, 28], count: 24, " \
    "classes: 4}}\n"                                                                       \
    "model: {name: lenet5}\n"                                                              \
    "optim: {name: adamw, lr: 0.002}\n"                                                    \
    "train: {epochs: 4, eval_every: never}\n"

// So large that the first steps overflow, whatever the network: 2^40.
#define OVERFLOWS "train.loss_scale=1099511627776"

typedef struct told {
    double loss; // of the last steps
    int64_t skipped;
    double loss_scale, lr;
} told;

static void listen(void *user, const rung_train_event *e)
{
    told *t = user;
    if (e->kind != RUNG_EVENT_STEP)
        return;
    *t = (told){e->loss, e->skipped, e->loss_scale, e->lr};
}

static told train(const char *yaml, const char *const *overrides, const char *run)
{
    training_log log;
    told t = {0};
    rung_context *context = training_context(&log);
    assert_ok(training_run(context, yaml, overrides, run, &(rung_observer){&t, listen}));
    rung_context_destroy(&context);
    return t;
}

static void as_good_as_float32(void **state)
{
    (void)state;
    static const char *const precisions[] = {"train.precision=fp32", "train.precision=bf16",
                                             "train.precision=fp16"};
    double loss[3];
    for (int i = 0; i < 3; i++) {
        told t = train(
            CNN, (const char *const[]){precisions[i], "train.epochs=6", "train.log_every=6", NULL},
            NULL);
        loss[i] = t.loss;
        assert_true(t.loss_scale == (i == 2 ? 65536 : 0));
        assert_int_equal(t.skipped, 0);
    }
    print_message("losses %.5f, bf16 %.5f, fp16 %.5f\n", loss[0], loss[1], loss[2]);
    assert_true(loss[0] < 1.3); // it learns: chance is 1.386
    assert_near(loss[1] / loss[0], 1, 0.05);
    assert_near(loss[2] / loss[0], 1, 0.01);
    assert_true(loss[1] != loss[0] && loss[2] != loss[0]);
}

// Steps that overflowed are left out of the optimizer and of the schedule, and counted.
static void overflowing_steps_are_left_out(void **state)
{
    const char *run = test_path(*state, "skips");
    char path[400];
    told t = train(TRAINING_MLP,
                   (const char *const[]){"train.precision=fp16", OVERFLOWS, "train.steps=60",
                                         "train.log_every=1", "schedule.name=exponential",
                                         "schedule.gamma=0.5", "schedule.unit=step",
                                         "optim.lr=0.01", "train.eval_every=never", NULL},
                   run);
    print_message("%d of 60 steps left out, then a scale of %g\n", (int)t.skipped, t.loss_scale);
    assert_true(t.skipped > 10 && t.skipped < 40);
    assert_true(t.loss_scale == 0x1p40 / (double)((int64_t)1 << t.skipped));
    assert_near(t.lr / (0.01 * pow(0.5, (double)(60 - t.skipped - 1))), 1, 1e-6);
    rungi_checkpoint *c;
    snprintf(path, sizeof path, "%s/checkpoints/step-00000060", run);
    assert_ok(rungi_checkpoint_open(path, true, &c));
    const json_t *o = rungi_checkpoint_state(c), *scale = json_object_get(o, "loss_scale");
    assert_int_equal(json_integer_value(json_object_get(scale, "skipped")), t.skipped);
    assert_true(json_real_value(json_object_get(scale, "scale")) == t.loss_scale);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(o, "optimizer_steps"), "fc1.weight")),
        60 - t.skipped);
    rungi_checkpoint_close(&c);
    snprintf(path, sizeof path, "%s/loss_scale.svg", run);
    assert_true(rungi_fs_exists(path));
}

// Stopped and gone on with: the same bits, the scale's included.
static void resumes_with_its_scale(void **state)
{
    training_log log;
    const char *whole = test_path(*state, "whole"), *parts = test_path(*state, "parts");
    const char *const overrides[] = {"train.precision=fp16",
                                     OVERFLOWS,
                                     "train.steps=48",
                                     "train.loss_scale_growth=7",
                                     "optim.momentum=0.9",
                                     "train.eval_every=never",
                                     NULL};
    const char *const fewer[] = {"train.precision=fp16",
                                 OVERFLOWS,
                                 "train.steps=20",
                                 "train.loss_scale_growth=7",
                                 "optim.momentum=0.9",
                                 "train.eval_every=never",
                                 NULL};
    told a = train(TRAINING_MLP, overrides, whole), b = {0};
    train(TRAINING_MLP, fewer, parts);
    rung_context *context = training_context(&log);
    assert_ok(training_resume(context, parts, (const char *const[]){"train.steps=48", NULL},
                              &(rung_observer){&b, listen}));
    rung_context_destroy(&context);
    assert_same_bits(whole, parts);
    assert_true(a.skipped > 20 && a.skipped == b.skipped && a.loss_scale == b.loss_scale);
}

// C46: the gradient of one hidden unit is beyond float16 whatever the scale is.
static void a_scale_that_sinks(void **state)
{
    (void)state;
    training_log log;
    rung_context *context = training_context(&log);
    rung_config *config = training_config(
        context, TRAINING_MLP,
        (const char *const[]){"train.precision=fp16", "data.batch_size=1", "train.steps=100",
                              "train.overfit_one_batch=true", "train.eval_every=never", NULL});
    int ended = 0;
    for (int row = 0; row < 2; row++) { // one of the two is not the sample's class
        rung_trainer *trainer;
        rung_state_entry weight, bias, first;
        assert_ok(rung_trainer_create(context, config, NULL, &trainer));
        assert_true(rung_state_find(trainer->s->state, "fc1.weight", &first));
        assert_true(rung_state_find(trainer->s->state, "fc1.bias", &bias));
        assert_true(rung_state_find(trainer->s->state, "fc2.weight", &weight));
        for (int i = 0; i < 64; i++)
            ((float *)first.data)[i] = 0;
        ((float *)bias.data)[0] = 1e-3f;
        for (int k = 0; k < 4; k++)
            ((float *)weight.data)[16 * k] = k == row ? 6e4f : -6e4f;
        rung_status status = rung_trainer_fit(trainer, NULL);
        if (status == RUNG_DIVERGED) {
            const char *message = rung_error_last()->message;
            print_message("%s\n", message);
            assert_non_null(strstr(message, "step 26: the gradient of fc1."));
            assert_non_null(strstr(message, "in 10 steps in a row at a loss scale of 1"));
            assert_int_equal(trainer->s->loss_scale.skipped, 26);
            assert_true(trainer->s->loss_scale.scale == 1);
            ended++;
        }
        rung_trainer_destroy(&trainer);
    }
    assert_true(ended >= 1);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
}

// C47 holds in fp16: a loss that is not finite is no matter of its scale.
static void a_loss_that_is_nan(void **state)
{
    (void)state;
    training_log log;
    rung_context *context = training_context(&log);
    rung_config *config =
        training_config(context, TRAINING_MLP, (const char *const[]){"train.precision=fp16", NULL});
    rung_trainer *trainer;
    rung_state_entry e;
    assert_ok(rung_trainer_create(context, config, NULL, &trainer));
    assert_true(rung_state_find(trainer->s->state, "fc2.bias", &e));
    ((float *)e.data)[1] = 1e6f; // finite, but not in float16
    assert_fails(RUNG_DIVERGED, "the output of fc2 (inf in f16)", rung_trainer_fit(trainer, NULL));
    rung_trainer_destroy(&trainer);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
}

// All ranks leave the same steps out; under exact the bits are those of one rank.
static void ranks_skip_together(void **state)
{
    const char *one = test_path(*state, "one"), *two = test_path(*state, "two");
    const char *const single[] = {"train.precision=fp16",   OVERFLOWS,
                                  "train.steps=40",         "exact=true",
                                  "train.eval_every=never", NULL};
    const char *const pair[] = {
        "train.precision=fp16",   OVERFLOWS,       "train.steps=40",           "exact=true",
        "train.eval_every=never", "train.ranks=2", "ddp.shard_optimizer=true", NULL};
    told a = train(TRAINING_MLP, single, one), b = train(TRAINING_MLP, pair, two);
    assert_true(a.skipped > 10 && a.skipped == b.skipped);
    assert_same_bits(one, two);
}

// Recomputing changes no bits in 16 bits either, and layouts and fused steps only round.
static void recomputes_the_same_bits(void **state)
{
    static const char *const settings[] = {"memory.recompute=none", "memory.recompute=auto",
                                           "memory.recompute=[*]"};
    char first[300], run[300];
    for (int i = 0; i < 3; i++) {
        snprintf(run, sizeof run, "%s/again-%d", ((test_folder *)*state)->path, i);
        train(CNN,
              (const char *const[]){settings[i], "train.precision=bf16", "train.steps=6",
                                    "plan.kernels=own", "plan.layout=channels_last",
                                    "plan.fuse=true", NULL},
              run);
        if (i == 0)
            snprintf(first, sizeof first, "%s", run);
        else
            assert_same_bits(first, run);
    }
}

static void refusals_and_banner(void **state)
{
    (void)state;
    training_log log;
    rung_context *context = training_context(&log);
    rung_trainer *trainer;
    char *text;
    rung_config *config = training_config(
        context, TRAINING_MLP,
        (const char *const[]){"train.precision=fp16", "train.compute=native", NULL});
    assert_fails(RUNG_CONFIG,
                 "train.compute: native is not available: no kernel computes in float16",
                 rung_trainer_create(context, config, NULL, &trainer));
    assert_ok(rung_config_override(config, "train.compute=storage"));
    assert_ok(rung_trainer_create(context, config, NULL, &trainer));
    assert_ok(rung_trainer_banner(trainer, &text));
    assert_non_null(strstr(text, "precision  fp16, compute storage: kept in 16 bits, computed with "
                                 "in float32; loss scale 65536"));
    free(text);
    rung_trainer_destroy(&trainer);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(as_good_as_float32),       IN_FOLDER(overflowing_steps_are_left_out),
        IN_FOLDER(resumes_with_its_scale),   IN_FOLDER(a_scale_that_sinks),
        IN_FOLDER(a_loss_that_is_nan),       IN_FOLDER(ranks_skip_together),
        IN_FOLDER(recomputes_the_same_bits), IN_FOLDER(refusals_and_banner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
