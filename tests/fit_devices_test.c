// SPDX-License-Identifier: Apache-2.0
// What rung_fit_run predicts of each device of several is what its account says after training:
// replicas, the output device, stages and what they have in flight, workers and servers.
#include "training.h"

#include <math.h>

#include "rung/fit.h"
#include "train/trainer.h"

// 21 pictures in batches of 8: the last one has 5. Validation takes the same.
#define DATA(shape)                                                                               \
    "device: {threads: 1}\n"                                                                      \
    "data: {source: synthetic, batch_size: 8, synthetic: {shape: " shape ", count: 21, classes: " \
    "4}}\n"                                                                                       \
    "plan: {layout: channels_last, kernels: own, fuse: true}\n"                                   \
    "train: {epochs: 1}\n"                                                                        \
    "optim: {momentum: 0.9}\n"
#define CNN DATA("[1, 12, 12]") "model: {name: fashion_cnn}\n"
// 7 pictures, in one batch.
#define NORMS                                                                             \
    "device: {threads: 1}\n"                                                              \
    "data: {source: synthetic, batch_size: 8, synthetic: {shape: [3, 16, 16], count: 7, " \
    "classes: 4}}\n"                                                                      \
    "plan: {layout: channels_last, kernels: own, fuse: true}\n"                           \
    "train: {eval_every: never}\n"                                                        \
    "model: {name: resnet18, stem: cifar}\n"

enum { MOST = 4, SETTINGS = 8 };

typedef struct account {
    char name[32];
    uint64_t peak;
} account;

// Trains, and reads the account of each device.
static int train_and_read(const char *yaml, const char *const *overrides, account *out)
{
    training_log log;
    rung_context *context = training_context(&log);
    rung_config *config = training_config(context, yaml, overrides);
    rung_trainer *trainer;
    int count = 0;
    assert_ok(rung_trainer_create(context, config, NULL, &trainer));
    assert_ok(rung_trainer_fit(trainer, NULL));
    for (int r = 0; r < trainer->s->ranks; r++) {
        const rung_trainer *t = r ? rungi_crew_member(trainer->crew, r)->user : trainer;
        for (int d = 0; d < rungi_engine_devices(t->s->engine); d++, count++) {
            assert_true(count < MOST);
            snprintf(out[count].name, sizeof out->name, "%s", rung_device_name(t->s->devices[d]));
            out[count].peak = rung_device_memory(t->s->devices[d]).peak_live;
        }
    }
    rung_trainer_destroy(&trainer);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
    return count;
}

// The row of that way, in the precision that is set.
static int row_of(const char *const *overrides, rung_fit_way way)
{
    bool half = false;
    for (int i = 0; overrides[i]; i++)
        half |= strcmp(overrides[i], "train.precision=bf16") == 0;
    return half * RUNG_FIT_WAYS + (int)way;
}

static void check(const char *yaml, const char *const *overrides, rung_fit_way way)
{
    training_log log;
    account measured[MOST];
    rung_fit fit;
    const int64_t batch = 8;
    int devices = train_and_read(yaml, overrides, measured), row = row_of(overrides, way);
    rung_context *context = training_context(&log);
    rung_config *config = training_config(context, yaml, overrides);
    assert_ok(rung_fit_run(
        context, config,
        &(rung_fit_options){.batches = &batch, .n_batches = 1, .no_times = true, .memory = 1 << 30},
        &fit));
    assert_int_equal(fit.device_count, devices);
    uint64_t fullest = 0;
    for (int d = 0; d < devices; d++) {
        const rung_fit_bytes *b = &fit.bytes[row * devices + d];
        print_message("%s %s, %s (%s): predicted %lu, measured %lu\n", overrides[0],
                      overrides[1] ? overrides[1] : "", fit.devices[d].name, fit.devices[d].what,
                      (unsigned long)b->total, (unsigned long)measured[d].peak);
        assert_string_equal(fit.devices[d].name, measured[d].name);
        assert_true(fabs((double)b->total / (double)measured[d].peak - 1) <= 0.01);
        assert_int_equal(b->total, b->weights + b->buffers + b->gradients + b->optimizer +
                                       b->activations + b->workspace + b->statistics +
                                       b->communication);
        fullest = b->total > fullest ? b->total : fullest;
    }
    assert_int_equal(fit.rows[row].peak, fullest);
    rung_fit_fini(&fit);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
}

#define REPLICAS "train.strategy=data_parallel", "device.list=[cpu:0,cpu:1,cpu:2]"

static void replicas(void **state)
{
    (void)state;
    static const char *const settings[][SETTINGS] = {
        {REPLICAS},
        {REPLICAS, "data_parallel.output_device=1"},
        {REPLICAS, "data_parallel.parallel_criterion=true"},
        {REPLICAS, "device.copy=emulate", "data_parallel.output_device=1"},
        {REPLICAS, "device.copy=emulate", "data_parallel.parallel_criterion=true"},
        {REPLICAS, "data_parallel.device_weights=[3,2,1]"},
        {REPLICAS, "exact=true"},
        {REPLICAS, "exact=true", "device.copy=emulate", "data_parallel.output_device=2"},
        {REPLICAS, "train.accumulate=2", "data.batch_size=4", "device.copy=emulate"},
        {REPLICAS, "train.accumulate=2", "data.batch_size=4", "exact=true"},
        {REPLICAS, "train.precision=bf16"},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        check(CNN, settings[i], RUNG_FIT_KEEP);
}

static void stages(void **state)
{
    (void)state;
    static const char *const settings[][SETTINGS] = {
        {"train.strategy=pipeline", "train.ranks=2"},
        {"train.strategy=pipeline", "train.ranks=2", "pipeline.schedule=gpipe",
         "pipeline.micro_batches=4"},
        {"train.strategy=pipeline", "train.ranks=3", "pipeline.schedule=1f1b",
         "pipeline.micro_batches=3"},
        {"train.strategy=pipeline", "train.ranks=2", "train.accumulate=2", "data.batch_size=4"},
        {"train.strategy=pipeline", "train.ranks=2", "pipeline.schedule=1f1b",
         "train.precision=bf16", "train.accumulate=2", "data.batch_size=4"},
    };
    static const char *const cheap[SETTINGS] = {"train.strategy=pipeline", "train.ranks=2",
                                                "pipeline.schedule=1f1b", "memory.recompute=auto"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        check(CNN, settings[i], RUNG_FIT_KEEP);
    check(CNN, cheap, RUNG_FIT_CHEAP);
}

static void ranks(void **state)
{
    (void)state;
    static const char *const settings[][SETTINGS] = {
        {"train.ranks=2", "optim.name=adamw"},
        {"train.ranks=3", "ddp.compress=bf16"},
        {"train.ranks=2", "ddp.shard_optimizer=true", "train.max_grad_norm=1"},
        {"train.ranks=3", "ddp.shard_optimizer=true", "ddp.fuse_update=true"},
        {"train.ranks=2", "exact=true", "optim.name=adamw"},
        {"train.ranks=2", "train.accumulate=2", "data.batch_size=4"},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        check(CNN, settings[i], RUNG_FIT_KEEP);
}

static void servers(void **state)
{
    (void)state;
    static const char *const settings[][SETTINGS] = {
        {"train.ranks=2", "train.strategy=parameter_server"},
        {"train.ranks=3", "train.strategy=parameter_server", "ps.servers=2"},
        {"train.ranks=2", "train.strategy=parameter_server", "ps.mode=async", "optim.name=adamw"},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        check(CNN, settings[i], RUNG_FIT_KEEP);
}

// Batch normalization keeps statistics of shards, those of another rank, which has one sample less,
// among them.
static void statistics(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip(); // takes long
#endif
    check(NORMS, (const char *const[SETTINGS]){"train.ranks=2", "optim.name=adamw"}, RUNG_FIT_KEEP);
}

// With times, a step of stages takes as long as the schedule does, one of replicas as long as the
// slowest; the fullest device bounds the largest batch.
static void the_table(void **state)
{
    (void)state;
    training_log log;
    rung_fit fit;
    const int64_t batches[] = {8, 64};
    static const char *const settings[][SETTINGS] = {
        {"train.strategy=data_parallel", "device.list=[cpu:0,cpu:1]"},
        {"train.strategy=pipeline", "train.ranks=2"},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        rung_context *context = training_context(&log);
        rung_config *config = training_config(context, CNN, settings[i]);
        assert_ok(rung_fit_run(context, config,
                               &(rung_fit_options){.batches = batches, .n_batches = 2}, &fit));
        assert_int_equal(fit.device_count, 2);
        assert_true(fit.rows[0].seconds > 0 && fit.memory > 0);
        for (int64_t k = 0; k < fit.count; k++)
            assert_int_equal(fit.rows[k].peak <= fit.memory, fit.rows[k].fits);
        assert_int_equal(fit.largest[0][RUNG_FIT_KEEP], 64);
        rung_fit_fini(&fit);
        rung_config_destroy(&config);
        rung_context_destroy(&context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replicas), cmocka_unit_test(stages),     cmocka_unit_test(ranks),
        cmocka_unit_test(servers),  cmocka_unit_test(statistics), cmocka_unit_test(the_table),
    };
    return RUN_TESTS(tests);
}
