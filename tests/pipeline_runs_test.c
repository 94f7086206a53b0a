// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// Runs whose ranks are the stages of a pipeline (train.strategy pipeline).
#include "watched_run.h"

#include <math.h>

#include "base/json.h"
#include "train/crew.h"

// Layers: the first one, where the second and third stage begin, and the pattern of the third's.
#ifdef RUNG_OPENMP
#    define NETWORK "fashion_cnn"
#    define FIRST "conv1"
#    define SECOND "conv2"
#    define THIRD "fc1"
#    define LAST "fc*"
#else // the build for ThreadSanitizer, which is slow
#    define NETWORK "mlp, hidden: [16, 16]"
#    define FIRST "fc1"
#    define SECOND "fc2"
#    define THIRD "fc3"
#    define LAST "fc3"
#endif

// 29 pictures in batches of 8: the last batch has 5, and validation 3.
#define DATA                                     \
    PICTURES(OWN, 29)                            \
    "  batch_size: 8\n"                          \
    "  random_flip: 0.5\n"                       \
    "  random_crop: {padding: 1}\n"              \
    "model: {name: " NETWORK ", dropout: 0.2}\n" \
    "optim: {lr: 0.05, momentum: 0.9}\n"         \
    "schedule: {name: cosine}\n"                 \
    "train: {epochs: 2, log_every: 1, max_grad_norm: 0.5}\n"
#define PIPELINE "train.strategy=pipeline"

// A batch as a whole: weights, optimizer state, losses, norms and validation of one device.
static void stages_give_the_bits_of_one_device(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    seen one = {0};
    assert_ok(train(context, DATA, NULL, test_path(folder, "one"), &one));
    for (int ranks = 2; ranks <= 3; ranks++) {
        char count[32];
        seen s = {0};
        snprintf(count, sizeof count, "train.ranks=%d", ranks);
        const char *many[] = {PIPELINE, count, "data.num_workers=1", NULL};
        assert_ok(train(context, DATA, many, test_path(folder, count), &s));
        assert_same_bits(test_path(folder, "one"), test_path(folder, count));
        assert_memory_equal(s.losses, one.losses, sizeof s.losses);
        assert_memory_equal(s.norms, one.norms, sizeof s.norms);
        assert_memory_equal(&s.val_loss, &one.val_loss, sizeof s.val_loss);
        assert_int_equal(s.evaluated, 3);
        assert_int_equal(s.correct, one.correct);
        assert_int_equal(s.seen_once, 29);
        assert_int_equal(s.seen_again, 0);
    }
    rung_context_destroy(&context);
}

static json_t *read_ranks(test_folder *folder, const char *run)
{
    char path[64];
    json_t *o;
    snprintf(path, sizeof path, "%s/ranks.json", run);
    assert_ok(rungi_json_load(test_path(folder, path), 1 << 20, &o));
    return o;
}

// Micro-batches in both schedules: the same bits as each other, the losses of one device but for
// rounding; ranks.json tells what was idle.
static void schedules_agree(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    seen one = {0}, s[2] = {{0}};
    assert_ok(train(context, DATA, NULL, NULL, &one));
    for (int k = 0; k < 2; k++) {
        const char *many[] = {PIPELINE,
                              "train.ranks=2",
                              "pipeline.micro_batches=3",
                              k ? "pipeline.schedule=1f1b" : "pipeline.schedule=gpipe",
                              "pipeline.split_points=[" SECOND "]",
                              NULL};
        const char *run = k ? "1f1b" : "gpipe", *schedule;
        assert_ok(train(context, DATA, many, test_path(folder, run), &s[k]));
        for (int i = 1; i <= 8; i++)
            assert_near(s[k].losses[i], one.losses[i], 2e-5);
        json_t *o = read_ranks(folder, run), *ranks;
        double bubble, busy, equal;
        assert_ok(rungi_json_text(o, "ranks.json", "schedule", &schedule));
        assert_string_equal(schedule, run);
        assert_ok(rungi_json_f64(o, "ranks.json", "bubble", &bubble));
        assert_ok(rungi_json_f64(o, "ranks.json", "bubble_of_equal_stages", &equal));
        assert_near(equal, 0.25, 1e-12);
        assert_ok(rungi_json_array(o, "ranks.json", "ranks", &ranks));
        assert_int_equal(json_array_size(ranks), 2);
        for (size_t r = 0; r < 2; r++) {
            assert_ok(rungi_json_f64(json_array_get(ranks, r), "ranks.json", "busy_share", &busy));
            assert_true(busy > 0 && busy <= 1);
            bubble += busy / 2;
        }
        assert_near(bubble, 1, 1e-9);
        json_decref(o);
    }
    assert_same_bits(test_path(folder, "gpipe"), test_path(folder, "1f1b"));
    assert_memory_equal(s[0].losses, s[1].losses, sizeof s[0].losses);
    rung_context_destroy(&context);
}

// Begun by three stages, stopped, gone on with by two, stopped, ended by one device.
static void another_number_of_stages_goes_on(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(folder, "run");
    seen s = {.stop_at = 3};
    const char *three[] = {PIPELINE, "train.ranks=3", "optim.name=adamw", NULL};
    assert_fails(RUNG_CANCELLED, "stopped after step", train(context, DATA, three, run, &s));
    const char *two[] = {"train.ranks=2", "train.steps=6", NULL};
    assert_ok(training_resume(context, run, two, NULL));
    const char *one[] = {"train.ranks=1", "train.strategy=single", "train.steps=8", NULL};
    assert_ok(training_resume(context, run, one, NULL));
    seen alone = {0};
    const char *adamw[] = {"optim.name=adamw", "train.steps=8", NULL};
    assert_ok(train(context, DATA, adamw, test_path(folder, "alone"), &alone));
    assert_same_bits(test_path(folder, "alone"), run);
    rung_context_destroy(&context);
}

// No gradient goes back to a stage that is frozen.
static void frozen_stages(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    seen s = {0};
    const char *one[] = {"model.freeze=[" FIRST ".*]", NULL};
    const char *two[] = {PIPELINE, "train.ranks=3", "model.freeze=[" FIRST ".*]",
                         "pipeline.split_points=[" SECOND ", " THIRD "]", NULL};
    assert_ok(train(context, DATA, one, test_path(folder, "one"), &s));
    assert_ok(train(context, DATA, two, test_path(folder, "two"), &s));
    assert_same_bits(test_path(folder, "one"), test_path(folder, "two"));
    rung_context_destroy(&context);
}

// What diverges is named with its rank, on all of them.
static void a_stage_that_diverges_is_named(void **state)
{
    (void)state;
    training_log log;
    rung_context *context = training_context(&log);
    seen s = {0};
    const char *fast[] = {PIPELINE,
                          "train.ranks=2",
                          "optim.lr=1e30",
                          "pipeline.schedule=1f1b",
                          "pipeline.micro_batches=4",
                          "train.max_grad_norm=none",
                          NULL};
    assert_fails(RUNG_DIVERGED, "rank ", train(context, DATA, fast, NULL, &s));
    assert_non_null(strstr(rung_error_last()->message, "samples"));
    rung_context_destroy(&context);
}

#ifdef RUNG_OPENMP // layers of one network
// A device that is too small for one, but not for two; and for the micro-batches of one schedule.
static void what_does_not_fit(void **state)
{
    (void)state;
    static const struct {
        const char *overrides[5];
        const char *message;
    } cases[] = {
        {{PIPELINE}, "there is one rank"},
        {{PIPELINE, "train.ranks=2", "exact=true"}, "exact: cannot be combined"},
        {{PIPELINE, "train.ranks=2", "ddp.overlap=true"}, "ddp.overlap: is for replicas"},
        {{PIPELINE, "train.ranks=2", "ddp.shard_optimizer=true"}, "is for replicas"},
        {{PIPELINE, "train.ranks=2", "ddp.compress=bf16"}, "is for replicas"},
        {{PIPELINE, "train.ranks=2", "ddp.sync_batch_norm=true"}, "is for replicas"},
        {{PIPELINE, "train.ranks=2", "pipeline.split_points=[conv1, fc1]"}, "names 2 layers"},
        {{PIPELINE, "train.ranks=2", "pipeline.split_points=[fc9]"}, "no layer matches 'fc9'"},
        {{PIPELINE, "train.ranks=2", "pipeline.placement=['fc*']"}, "has 'fc*': write a pattern"},
        {{PIPELINE, "train.ranks=2", "pipeline.placement=['fc*: 2']"}, "on stage 2; of 2 ranks"},
        {{PIPELINE, "train.ranks=2", "pipeline.placement=['fc*: 1', 'x*: 1']"}, "placed by 'x*'"},
        {{PIPELINE, "train.ranks=2", "pipeline.placement=['conv2: 1', 'fc1: 0']"},
         "fc1 would go back to stage 0 ('fc1')"},
        {{PIPELINE, "train.ranks=3", "pipeline.placement=['fc*: 2']"}, "stage 1 has no layer"},
        {{PIPELINE, "train.ranks=2", "pipeline.placement=['fc*: 1']",
          "pipeline.split_points=[fc1]"},
         "pipeline.placement: cannot be combined"},
        {{PIPELINE, "train.ranks=2", "pipeline.split_points=[conv1]"}, "none the network's first"},
        {{PIPELINE, "train.ranks=3", "pipeline.split_points=[fc1, conv2]"}, "in their order"},
        {{PIPELINE, "train.ranks=2", "pipeline.split_points=[auto, fc1]"}, "stands alone"},
        {{PIPELINE, "train.ranks=60"}, "cannot be cut into 60 stages"},
        {{PIPELINE, "train.ranks=2", "memory.budget=60KiB"}, "memory.budget"},
    };
    training_log log;
    rung_context *context = training_context(&log);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        seen s = {0};
        rung_status status = train(context, DATA, cases[i].overrides, NULL, &s);
        if (status == RUNG_OK || !strstr(rung_error_last()->message, cases[i].message))
            fail_msg("case %zu: %s", i, status ? rung_error_last()->message : "no failure");
    }
    const char *ignored[][5] = {
        {"pipeline.schedule=gpipe", "train.steps=1"},
        {PIPELINE, "train.ranks=2", "pipeline.micro_batches=4", "train.steps=1"}};
    for (int i = 0; i < 2; i++) {
        log.text[0] = '\0';
        assert_ok(training_run(context, DATA, ignored[i], NULL, NULL));
        assert_non_null(strstr(log.text, i ? "pipeline.micro_batches" : "pipeline.schedule"));
    }
    rung_context_destroy(&context);
}

#endif

// Layers are where their patterns say, by number or by device, which is where split points would
// put them: the same stages and bits.
static void placed_layers(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *const ways[] = {"pipeline.split_points=[" SECOND ", " THIRD "]",
                                "pipeline.placement=['" SECOND ": 1', '" LAST ": 2']",
                                "pipeline.placement=['" FIRST ": cpu:0', '" SECOND
                                ": cpu:1', '" LAST ": cpu:2']"};
    for (int i = 0; i < 3; i++) {
        char run[16];
        snprintf(run, sizeof run, "way%d", i);
        assert_ok(training_run(
            context, DATA,
            (const char *const[]){PIPELINE, "train.ranks=3", "train.epochs=1", ways[i], NULL},
            test_path(folder, run), NULL));
        if (i)
            assert_same_bits(test_path(folder, "way0"), test_path(folder, run));
    }
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(stages_give_the_bits_of_one_device),
        IN_FOLDER(schedules_agree),
        IN_FOLDER(another_number_of_stages_goes_on),
        IN_FOLDER(frozen_stages),
        IN_FOLDER(placed_layers),
        cmocka_unit_test(a_stage_that_diverges_is_named),
#ifdef RUNG_OPENMP
        cmocka_unit_test(what_does_not_fit),
#endif
    };
    return RUN_TESTS(tests);
}
