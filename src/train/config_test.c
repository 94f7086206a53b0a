// SPDX-License-Identifier: Apache-2.0
#include "test_folder.h"

#include "train/train_config.h"

static int set_up(void **state)
{
    rung_config *config = NULL;
    assert_ok(rung_config_create(NULL, &config));
    *state = config;
    return 0;
}

static int tear_down(void **state)
{
    rung_config *config = *state;
    rung_config_destroy(&config);
    rung_config_destroy(&config);
    rung_config_destroy(NULL);
    return 0;
}

static void set(rung_config *config, const char *const *arguments)
{
    for (; *arguments; arguments++)
        assert_ok(rung_config_override(config, *arguments));
}

#define SET(config, ...) set(config, (const char *const[]){__VA_ARGS__, NULL})

// A configuration that passes the check.
static void make_whole(rung_config *config)
{
    SET(config, "model.name=mlp", "data.path=/data");
}

// Keys that scripts outside the project rely on, as far as the features exist.
static void fixed_names(void **state)
{
    static const char *const names[] = {
        "seed",
        "exact",
        "device.isa",
        "device.threads",
        "device.list",
        "data.source",
        "data.format",
        "data.path",
        "data.num_workers",
        "data.prefetch_factor",
        "data.batch_size",
        "model.name",
        "optim.name",
        "optim.lr",
        "schedule.name",
        "train.steps",
        "train.epochs",
        "train.shards",
        "train.strategy",
        "train.log_every",
        "model.freeze",
        "plan.autotune",
        "train.max_grad_norm",
        "checkpoint.every",
        "checkpoint.keep",
        "memory.huge_pages",
        "plan.fuse",
        "plan.layout",
        "plan.kernels",
        "plan.winograd",
        "plan.winograd_bf16",
        "ladder.rungs",
        "ladder.budget",
    };
    for (size_t i = 0; i < RUNGI_COUNT(names); i++) {
        char *text = NULL;
        assert_ok(rung_config_text(*state, names[i], &text));
        free(text);
    }
}

static void keys_are_described(void **state)
{
    (void)state;
    rung_config_key key, other;
    size_t count = 0;
    for (; rung_config_describe(count, &key); count++) {
        size_t length = strlen(key.help);
        assert_true(length > 5 && key.help[length - 1] == '.');
        assert_non_null(key.type);
        for (size_t i = 0; i < count; i++) {
            assert_true(rung_config_describe(i, &other));
            assert_string_not_equal(other.key, key.key);
        }
        // A default that is a word is one of the key's words.
        bool word = !key.choices && key.initial[0] >= 'a' && key.initial[0] <= 'z' &&
                    strcmp(key.type, "text") != 0 && !key.boolean;
        bool found = false;
        for (size_t i = 0; rung_config_word(count, i); i++)
            found |= strcmp(rung_config_word(count, i), key.initial) == 0;
        assert_true(found || !word);
    }
    assert_true(count > 80);
    assert_null(rung_config_word(count, 0));
}

static void defaults_are_pytorch_s(void **state)
{
    const rungi_train_config *v = rungi_config_values(*state);
    assert_int_equal(v->data.num_workers, 0);
    assert_int_equal(v->data.prefetch_factor, 2);
    assert_false(v->data.drop_last);
    for (int kind = 0; kind < RUNG_OPTIMIZER_COUNT; kind++) {
        rung_optimizer_options expected = rung_optimizer_defaults(kind);
        assert_ok(rung_config_set(*state, "optim.name", rung_optimizer_name(kind)));
        rung_optimizer_options got = rungi_config_optimizer(v);
        assert_int_equal(got.kind, kind);
        assert_true(got.lr == expected.lr && got.weight_decay == expected.weight_decay);
        assert_true(got.momentum == expected.momentum && got.dampening == expected.dampening);
        assert_true(got.betas[0] == expected.betas[0] && got.betas[1] == expected.betas[1]);
        assert_true(got.eps == expected.eps && got.nesterov == expected.nesterov);
    }
    SET(*state, "schedule.step_size=30", "schedule.milestones=[30, 60]");
    for (int kind = 0; kind < RUNG_SCHEDULE_COUNT; kind++) {
        char got_text[RUNG_SCHEDULE_TEXT], expected_text[RUNG_SCHEDULE_TEXT];
        rung_schedule expected = rung_schedule_defaults(kind);
        expected.step_size = 30;
        expected.milestone_count = 2;
        expected.milestones[0] = 30;
        expected.milestones[1] = 60;
        assert_ok(rung_config_set(*state, "schedule.name", rung_schedule_name(kind)));
        if (kind == RUNG_SCHEDULE_EXPONENTIAL) {
            SET(*state, "schedule.gamma=0.9");
            expected.gamma = 0.9;
        }
        rung_schedule got = rungi_config_schedule(v);
        SET(*state, "schedule.gamma=auto");
        assert_ok(rung_schedule_resolve(&got, 1000, 10, &got));
        assert_ok(rung_schedule_resolve(&expected, 1000, 10, &expected));
        assert_string_equal(rung_schedule_text(&got, got_text, sizeof got_text),
                            rung_schedule_text(&expected, expected_text, sizeof expected_text));
    }
}

static void every_setting_reaches_the_optimizer(void **state)
{
    SET(*state, "optim.lr=0.5", "optim.momentum=0.9", "optim.nesterov=true", "optim.eps=1e-4",
        "optim.weight_decay=5e-4", "optim.betas=[0.5, 0.6]", "schedule.name=cosine",
        "schedule.unit=step", "schedule.warmup=3", "schedule.start_factor=0", "schedule.T_max=77",
        "schedule.eta_min=1e-5");
    rung_optimizer_options o = rungi_config_optimizer(rungi_config_values(*state));
    assert_true(o.lr == 0.5 && o.momentum == 0.9 && o.nesterov && o.weight_decay == 5e-4);
    SET(*state, "optim.name=adamw");
    o = rungi_config_optimizer(rungi_config_values(*state));
    assert_true(o.momentum == 0 && o.weight_decay == 5e-4 && !o.nesterov);
    assert_true(o.betas[0] == 0.5 && o.betas[1] == 0.6 && o.eps == 1e-4);
    rung_schedule s = rungi_config_schedule(rungi_config_values(*state));
    assert_true(s.lr == 0.5 && s.unit == RUNG_UNIT_STEP && s.warmup == 3 && s.start_factor == 0);
    assert_true(s.T_max == 77 && s.eta_min == 1e-5);
}

static void mistakes_over_several_keys(void **state)
{
    static const struct {
        const char *arguments[4];
        const char *message;
    } cases[] = {
        {{"model.name="}, "command line: model.name: is not set: choose a network"},
        {{"data.path="}, "data.path: is not set: give the data set's folder"},
        {{"data.val.path=x", "data.val.split=0.1"}, "data.val.split: cannot be combined"},
        {{"data.normalize.mean=[0.5]"}, "data.normalize.std: has 0 numbers"},
        {{"data.pad=[32]"}, "data.pad: needs height and width"},
        {{"optim.nesterov=true"}, "optim.nesterov: needs optim.momentum above 0"},
        {{"optim.nesterov=true", "optim.momentum=0.9", "optim.dampening=0.1"},
         "optim.nesterov: needs"},
        {{"optim.nesterov=true", "optim.name=adam"}, "adam has no Nesterov momentum"},
        {{"schedule.name=step"}, "schedule.step_size: is not set"},
        {{"schedule.name=exponential"}, "schedule.gamma: is not set"},
        {{"schedule.name=multistep"}, "schedule.milestones: is not set"},
        {{"schedule.milestones=[3, 2]"}, "schedule.milestones: must not descend, but 2 follows 3"},
        {{"schedule.base_momentum=0.99"}, "schedule.base_momentum: is above"},
        {{"schedule.name=plateau", "train.eval_every=never"}, "schedule.name: plateau follows"},
        {{"train.shards=6"}, "train.shards: must be a power of two, not 6"},
        {{"ladder.launcher=mpirun -n 2"}, "ladder.launcher: is 'mpirun -n 2': it needs {ranks}"},
        {{"exact=true", "plan.autotune=true"}, "plan.autotune: cannot be combined with exact"},
        {{"plan.winograd=true", "plan.kernels=own"}, "plan.winograd: needs plan.kernels own and"},
        {{"plan.winograd=true", "plan.layout=channels_last"}, "plan.winograd: needs plan.kernels"},
        {{"device.list=[cpu:0, cpu:1]"}, "device.list: names 2 devices"},
        {{"train.early_stopping.patience=3", "train.eval_every=never"}, "needs validation"},
    };
    for (size_t i = 0; i < RUNGI_COUNT(cases); i++) {
        rung_config *config = NULL;
        assert_ok(rung_config_copy(*state, &config));
        make_whole(config);
        assert_ok(rung_config_check(config));
        set(config, cases[i].arguments);
        assert_fails(RUNG_CONFIG, cases[i].message, rung_config_check(config));
        rung_config_destroy(&config);
    }
}

static void mistakes_in_single_keys(void **state)
{
    static const char *const cases[][2] = {
        {"optim.lr=-0.1", "command line: optim.lr: -0.1 is out of range (must be >= 0)"},
        {"data.batch_size=0", "data.batch_size: 0 is out of range (must be in [1, 16777216])"},
        {"optim.betas=[0.9, 1.0]", "optim.betas: 1.0 is out of range (must be in [0, 1))"},
        {"optim.name=adamm", "(did you mean 'adam'?)"},
        {"model.name=resnet50", "(did you mean 'resnet18'?)"},
        {"train.stepss=1", "unknown key 'train.stepss' (did you mean 'train.steps'?)"},
        {"train.precisions=bf16", "unknown key 'train.precisions'"},
        {"train.log_every=0", "train.log_every: 0 is out of range"},
        {"train.eval_every=epochs", "(did you mean 'epoch'?)"},
        {"seed=-1", "seed: -1 is out of range"},
        {"ladder.repeats=4", "ladder.repeats: 4 is out of range (must be in [5, 1000])"},
        {"data.num_workers=-1", "data.num_workers: -1 is out of range"},
    };
    for (size_t i = 0; i < RUNGI_COUNT(cases); i++)
        assert_fails(RUNG_CONFIG, cases[i][1], rung_config_override(*state, cases[i][0]));
}

static void count_line(void *user, rung_log_level level, const char *line)
{
    assert_int_equal(level, RUNG_LOG_NOTICE);
    assert_non_null(strstr(line, "ignored"));
    ++*(int *)user;
}

static void settings_without_effect_are_told(void **state)
{
    (void)state;
    int lines = 0;
    rung_context *context = NULL;
    rung_config *config = NULL;
    assert_ok(rung_context_create(&(rung_context_options){.log = count_line, .log_user = &lines},
                                  &context));
    assert_ok(rung_config_create(context, &config));
    make_whole(config);
    assert_ok(rung_config_check(config));
    assert_int_equal(lines, 0);
    SET(config, "data.timeout=5s", "optim.momentum=0.9", "optim.name=adam");
    assert_ok(rung_config_check(config));
    assert_int_equal(lines, 2);
    assert_ok(rung_config_check(config)); // once
    assert_int_equal(lines, 2);
    SET(config, "data.num_workers=2", "optim.name=sgd");
    assert_ok(rung_config_check(config));
    assert_int_equal(lines, 2);
    SET(config, "plan.winograd_bf16=f4"); // plan.winograd is off
    assert_ok(rung_config_check(config));
    assert_int_equal(lines, 3);
    SET(config, "plan.winograd=true", "plan.kernels=own", "plan.layout=channels_last",
        "train.precision=bf16", "train.compute=storage");
    assert_ok(rung_config_check(config));
    assert_int_equal(lines, 4);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
}

static void check_text(rung_config *config, const char *key, const char *text, const char *source)
{
    char *got = NULL, *got_source = NULL;
    assert_ok(rung_config_text(config, key, &got));
    assert_ok(rung_config_source(config, key, &got_source));
    assert_string_equal(got, text);
    assert_string_equal(got_source, source);
    free(got);
    free(got_source);
}

static void reading_and_saving(void **state)
{
    rung_config *config = *state, *back = NULL;
    static const char yaml[] = "model: {name: mlp, hidden: [300, 100]}\ntrain:\n  steps: 1e3\n";
    test_folder folder;
    test_folder_init(&folder);
    assert_ok(rung_config_load_text(config, "a.yaml", yaml, sizeof yaml - 1));
    SET(config, "data.path=/caf\xe9", "--overfit-one-batch", "--budget=90s", "data.timeout=none");
    check_text(config, "model.hidden", "[300, 100]", "a.yaml:1");
    check_text(config, "train.steps", "1000", "a.yaml:3");
    check_text(config, "train.overfit_one_batch", "true", "command line");
    check_text(config, "ladder.budget", "90s", "command line");
    check_text(config, "optim.lr", "0.001", "default");
    double number = 0;
    assert_ok(rung_config_number(config, "ladder.budget", &number));
    assert_true(number == 90);
    assert_int_equal(rung_config_isa(config), RUNG_ISA_AUTO);
    SET(config, "device.isa=avx2");
    assert_int_equal(rung_config_isa(config), RUNG_ISA_AVX2);
    assert_fails(RUNG_CONFIG, "unknown key 'optim.lrr'",
                 rung_config_number(config, "optim.lrr", &number));

    const char *path = test_path(&folder, "config.yaml");
    for (unsigned flags = 0; flags < 4; flags++) {
        char *one = NULL, *two = NULL;
        assert_ok(rung_config_save(config, flags, path));
        assert_ok(rung_config_create(NULL, &back));
        assert_ok(rung_config_load(back, path));
        assert_ok(rung_config_dump(config, 0, &one));
        assert_ok(rung_config_dump(back, 0, &two));
        assert_string_equal(one, two);
        assert_string_equal(rungi_config_values(back)->data.path, "/caf\xe9");
        free(one);
        free(two);
        rung_config_destroy(&back);
    }
    assert_fails(RUNG_NOT_FOUND, "there is no folder",
                 rung_config_save(config, 0, test_path(&folder, "none/config.yaml")));
    test_folder_fini(&folder);
}

#define WITH_CONFIG(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CONFIG(fixed_names),
        WITH_CONFIG(keys_are_described),
        WITH_CONFIG(defaults_are_pytorch_s),
        WITH_CONFIG(every_setting_reaches_the_optimizer),
        WITH_CONFIG(mistakes_over_several_keys),
        WITH_CONFIG(mistakes_in_single_keys),
        WITH_CONFIG(settings_without_effect_are_told),
        WITH_CONFIG(reading_and_saving),
    };
    return RUN_TESTS(tests);
}
