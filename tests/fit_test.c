// SPDX-License-Identifier: Apache-2.0
// ctest-labels: long
// What rung_fit_run predicts is what the device holds at most when the network is trained: within
// one in a hundred, for all built-in networks.
#include "training.h"

#include <math.h>

#include "rung/fit.h"
#include "train/trainer.h"

// 14 pictures in batches of 8: the last one has 6. Validation takes batches of 8 too.
#define DATA(shape)                                                                               \
    "device: {threads: 1}\n"                                                                      \
    "data: {source: synthetic, batch_size: 8, synthetic: {shape: " shape ", count: 14, classes: " \
    "4}}\n"                                                                                       \
    "plan: {layout: channels_last, kernels: own, fuse: true}\n"                                   \
    "train: {epochs: 1}\n"

enum { ROWS = RUNG_FIT_PRECISIONS * RUNG_FIT_WAYS }; // of a batch

typedef struct network {
    const char *name, *yaml;
} network;

static const network networks[] = {
    {"mlp", DATA("[1, 28, 28]") "model: {name: mlp, hidden: [64]}\n"},
    {"lenet5", DATA("[1, 28, 28]") "model: {name: lenet5}\n"},
    {"fashion_cnn", DATA("[1, 28, 28]") "model: {name: fashion_cnn}\n"},
    {"dlf_cnn", DATA("[3, 32, 32]") "model: {name: dlf_cnn}\n"},
    {"resnet18", DATA("[3, 16, 16]") "model: {name: resnet18, stem: cifar}\n"},
};

static uint64_t measured_peak(const char *yaml, const char *const *overrides)
{
    training_log log;
    rung_context *context = training_context(&log);
    rung_config *config = training_config(context, yaml, overrides);
    rung_trainer *trainer;
    assert_ok(rung_trainer_create(context, config, NULL, &trainer));
    assert_ok(rung_trainer_fit(trainer, NULL));
    uint64_t peak = rung_device_memory(trainer->s->device).peak_live;
    rung_trainer_destroy(&trainer);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
    return peak;
}

static void check(const network *n, const char *const *overrides, bool half, rung_fit_way way)
{
    training_log log;
    rung_fit fit;
    const int64_t batch = 8;
    uint64_t peak = measured_peak(n->yaml, overrides); // of steps on 8 samples
    rung_context *context = training_context(&log);
    rung_config *config = training_config(context, n->yaml, overrides);
    assert_ok(rung_fit_run(
        context, config,
        &(rung_fit_options){.batches = &batch, .n_batches = 1, .no_times = true, .memory = peak},
        &fit));
    assert_int_equal(fit.count, ROWS);
    const rung_fit_row *row = &fit.rows[half * RUNG_FIT_WAYS + way];
    print_message("%s, %s: predicted %lu, measured %lu\n", n->name, overrides[0],
                  (unsigned long)row->peak, (unsigned long)peak);
    assert_true(fabs((double)row->peak / (double)peak - 1) <= 0.01);
    const rung_fit_bytes *b = &row->most;
    assert_int_equal(row->peak, b->total);
    assert_int_equal(b->total, b->weights + b->buffers + b->gradients + b->optimizer +
                                   b->activations + b->workspace + b->statistics +
                                   b->communication);
    assert_true(isnan(row->seconds));
    rung_fit_fini(&fit);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
}

// Ways to train, and where the table has them. Networks that take long go through those marked.
static const struct {
    const char *overrides[4];
    bool half;
    rung_fit_way way;
    bool always;
} ways[] = {
    {{"optim.name=adamw"}, false, RUNG_FIT_KEEP, false},
    {{"memory.recompute=auto"}, false, RUNG_FIT_CHEAP, true},
    // Four shards of 2 and of 2, 2, 1, 1 samples; three of them at once.
    {{"exact=true", "device.threads=3", "optim.momentum=0.9"}, false, RUNG_FIT_KEEP, true},
    {{"train.precision=bf16"}, true, RUNG_FIT_KEEP, false},
    // Four rounds of 2; the last step's of 2, 2, 1, 1.
    {{"train.accumulate=4", "data.batch_size=2"}, false, RUNG_FIT_KEEP, false},
};

static void every_network(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        bool resnet = strcmp(networks[i].name, "resnet18") == 0;
        bool deep = resnet || (SANITIZED && strcmp(networks[i].name, "dlf_cnn") == 0);
        for (size_t k = 0; k < sizeof ways / sizeof *ways; k++)
            if ((!deep || ways[k].always) && !(resnet && SANITIZED))
                check(&networks[i], ways[k].overrides, ways[k].half, ways[k].way);
    }
}

static void no_network_is_left_out(void **state)
{
    (void)state;
    for (int i = 0; rung_model_name(i); i++)
        assert_string_equal(networks[i].name, rung_model_name(i));
}

// The largest batch is the last one that is within the limit, to one in a hundred.
static void the_largest_batch(void **state)
{
    (void)state;
    if (SANITIZED)
        skip(); // takes long: many plans, of which every_network() has all ways
    training_log log;
    rung_fit fit, around;
    rung_context *context = training_context(&log);
    rung_config *config = training_config(
        context, networks[3].yaml,
        (const char *const[]){"data.synthetic.count=100000", "train.eval_every=never", NULL});
    rung_fit_options o = {.memory = 64 << 20, .no_times = true};
    assert_ok(rung_fit_run(context, config, &o, &fit));
    int64_t keep = fit.largest[0][RUNG_FIT_KEEP], least = fit.largest[0][RUNG_FIT_LEAST];
    print_message("%d, %d\n", (int)keep, (int)least);
    assert_true(keep > 8 && least > keep && least >= fit.largest[0][RUNG_FIT_CHEAP]);
    const int64_t batches[] = {keep, keep + 2 + keep / 50};
    o.batches = batches;
    o.n_batches = 2;
    assert_ok(rung_fit_run(context, config, &o, &around));
    assert_true(around.rows[RUNG_FIT_KEEP].fits);
    assert_false(around.rows[ROWS + RUNG_FIT_KEEP].fits);
    rung_fit_fini(&around);
    rung_fit_fini(&fit);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
}

// Times are of this machine: only that they are there, and that computing again adds to them.
static void times(void **state)
{
    (void)state;
    training_log log;
    rung_fit fit;
    const int64_t batches[] = {2, 64};
    rung_context *context = training_context(&log);
    rung_config *config = training_config(context, networks[2].yaml, NULL);
    assert_ok(rung_fit_run(context, config, &(rung_fit_options){.batches = batches, .n_batches = 2},
                           &fit));
    assert_true(fit.measured_seconds > 0 && fit.memory > 0);
    assert_true(fit.rows[0].seconds > 0);
    assert_true(fit.rows[ROWS].seconds > 0 && fit.rows[RUNG_FIT_WAYS].seconds > 0);
    assert_true(fit.rows[ROWS + RUNG_FIT_LEAST].seconds >= fit.rows[ROWS].seconds);
    rung_fit_fini(&fit);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
}

// A batch of one sample, and one that is left at the end of an epoch, are less than batch
// normalization takes: the others are predicted, as if they were left out.
static void refused_batches(void **state)
{
    const int64_t batches[] = {1, 8};
    training_log log;
    rung_fit fit;
    (void)state;
    rung_context *context = training_context(&log);
    rung_config *config =
        training_config(context, DATA("[3, 8, 8]") "model: {name: resnet18, stem: cifar}",
                        (const char *const[]){"data.synthetic.count=17", NULL});
    assert_ok(
        rung_fit_run(context, config,
                     &(rung_fit_options){
                         .batches = batches, .n_batches = 2, .no_times = true, .memory = 1 << 30},
                     &fit));
    assert_int_equal(fit.count, 2 * ROWS);
    for (int i = 0; i < ROWS; i++) {
        const rung_fit_row *one = &fit.rows[i], *eight = &fit.rows[ROWS + i];
        assert_true(one->refused && !one->fits && !one->accumulate && !one->peak);
        assert_true(!eight->refused && eight->fits && eight->left_out == 1 && eight->peak > 0);
    }
    assert_int_equal(fit.largest[0][RUNG_FIT_KEEP], 8);
    assert_non_null(strstr(fit.refusal, "Expected more than 1 value per channel when training"));
    rung_fit_fini(&fit);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_network),     cmocka_unit_test(no_network_is_left_out),
        cmocka_unit_test(the_largest_batch), cmocka_unit_test(times),
        cmocka_unit_test(refused_batches),
    };
    return RUN_TESTS(tests);
}
