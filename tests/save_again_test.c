// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// Case C62: a run's checkpoint that is loaded and saved again is the same in every byte, and what
// is loaded takes the memory that it took, in all precisions, also where the optimizer is cut over
// ranks, or the network into stages.
#include "training.h"

#include "train/trainer.h"

#ifdef RUNG_OPENMP
#    define KERNELS "library"
#else
#    define KERNELS "reference" // the build for ThreadSanitizer
#endif

#define NET                                                                                \
    TRAINING_DATA "model: {name: fashion_cnn}\n" /* which normalizes: there are buffers */ \
                  "plan: {kernels: " KERNELS "}\n"                                         \
                  "train: {steps: 3, eval_every: never}\n"

enum { PARTS = 2 };
static const char *const parts[PARTS] = {RUNGI_CHECKPOINT_MODEL, RUNGI_CHECKPOINT_OPTIMIZER};

// What a checkpoint is made of.
typedef struct saved {
    char *data[PARTS];
    size_t size[PARTS];
    json_t *state;
} saved;

static saved read_saved(const char *folder)
{
    saved s;
    rungi_checkpoint *c;
    assert_ok(rungi_checkpoint_open(folder, true, &c));
    s.state = json_deep_copy(rungi_checkpoint_state(c));
    for (int i = 0; i < PARTS; i++) {
        rung_safetensors *file = rungi_checkpoint_tensors(c, parts[i]);
        for (size_t k = 0; k < rung_safetensors_count(file); k++) // none is kept in 16 bits
            assert_int_not_equal(rung_dtype_size(rung_safetensors_get(file, k)->dtype), 2);
        char *path = rungi_path_join(folder, parts[i]);
        assert_ok(rungi_fs_read(path, (size_t)1 << 30, &s.data[i], &s.size[i]));
        free(path);
    }
    rungi_checkpoint_close(&c);
    return s;
}

static void drop_saved(saved *s)
{
    for (int i = 0; i < PARTS; i++)
        free(s->data[i]);
    json_decref(s->state);
}

// Each rank believes that this step has no checkpoint yet.
static void forget_saved(rung_trainer *t, int ranks)
{
    t->saved_step = -1;
    for (int i = 0; t->crew && i < ranks; i++)
        ((rung_trainer *)rungi_crew_member(t->crew, i)->user)->saved_step = -1;
}

static uint64_t live(const rung_trainer *t)
{
    return rung_device_memory(t->s->device).live;
}

// A session as it begins, for what it takes.
static uint64_t live_of_new(rung_context *context, const char *run)
{
    rung_config *config;
    rung_trainer *t;
    assert_ok(rung_run_config(context, run, NULL, 0, &config));
    assert_ok(rung_trainer_create(context, config, NULL, &t));
    uint64_t bytes = live(t);
    rung_trainer_destroy(&t);
    rung_config_destroy(&config);
    return bytes;
}

static void check(test_folder *folder, int number, int ranks, const char *const *overrides)
{
    training_log log;
    rung_context *context = training_context(&log);
    char run[300], checkpoint[340];
    bool finished;
    rung_trainer *t;
    snprintf(run, sizeof run, "%s/run-%d", folder->path, number);
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoints/step-00000003", run);
    assert_ok(training_run(context, NET, overrides, run, NULL));
    saved first = read_saved(checkpoint);
    uint64_t before = live_of_new(context, run);
    assert_ok(rung_trainer_resume(context, run, NULL, 0, &finished, &t));
    assert_true(finished);
    assert_int_equal(live(t), before);
    assert_ok(rungi_fs_remove_tree(checkpoint));
    forget_saved(t, ranks);
    assert_ok(rung_trainer_fit(t, NULL)); // no step is left: it saves
    rung_trainer_destroy(&t);
    saved again = read_saved(checkpoint);
    for (int i = 0; i < PARTS; i++) {
        assert_int_equal(again.size[i], first.size[i]);
        assert_memory_equal(again.data[i], first.data[i], first.size[i]);
    }
    assert_true(json_equal(again.state, first.state));
    drop_saved(&first);
    drop_saved(&again);
    rung_context_destroy(&context);
}

static void one_device(void **state)
{
    static const char *const runs[][3] = {
        {"train.precision=fp32", "optim.momentum=0.9", NULL},
        {"train.precision=bf16", "optim.name=adamw", NULL},
        {"train.precision=fp16", "optim.name=adam", NULL},
    };
    for (int i = 0; i < 3; i++)
        check(*state, i, 1, runs[i]);
}

static void a_sharded_optimizer(void **state)
{
    static const char *const runs[][5] = {
        {"train.precision=fp32", "optim.name=adamw", "train.ranks=2", "ddp.shard_optimizer=true"},
        {"train.precision=bf16", "optim.momentum=0.9", "train.ranks=2", "ddp.shard_optimizer=true"},
        {"train.precision=fp16", "optim.name=adamw", "train.ranks=2", "ddp.shard_optimizer=true"},
    };
    for (int i = 0; i < 3; i++)
        check(*state, i, 2, runs[i]);
}

static void stages(void **state)
{
    static const char *const run[] = {"train.strategy=pipeline", "train.ranks=2",
                                      "optim.name=adamw", NULL};
    check(*state, 0, 2, run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(one_device),
        IN_FOLDER(a_sharded_optimizer),
        IN_FOLDER(stages),
    };
    return RUN_TESTS(tests);
}
