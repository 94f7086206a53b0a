// SPDX-License-Identifier: Apache-2.0
// memory.json and memory.svg of a run: the history adds up, its peak is what the device held, and
// names the operator.
#include "training.h"

#include "base/json.h"
#include "train/trainer.h"

#define CNN                                                                                \
    "device: {threads: 1}\n"                                                               \
    "data: {source: synthetic, batch_size: 8, synthetic: {shape: [3, 32, 32], count: 16, " \
    "classes: "                                                                            \
    "4}}\n"                                                                                \
    "model: {name: dlf_cnn}\n"                                                             \
    "optim: {name: adamw}\n"                                                               \
    "plan: {kernels: own, layout: channels_last, fuse: true}\n"                            \
    "train: {epochs: 1}\n"

static int64_t number(const json_t *object, const char *member)
{
    const json_t *value = json_object_get(object, member);
    if (!json_is_integer(value))
        fail_msg("memory.json: no number %s", member);
    return json_integer_value(value);
}

static json_t *history_of(test_folder *folder, const char *setting, const char *name)
{
    training_log log;
    json_t *root;
    char path[400];
    rung_context *context = training_context(&log);
    const char *run = test_path(folder, name);
    assert_ok(training_run(context, CNN, (const char *const[]){setting, NULL}, run, NULL));
    snprintf(path, sizeof path, "%s/memory.json", run);
    assert_ok(rungi_json_load(path, 1 << 24, &root));
    rung_context_destroy(&context);
    return root;
}

static void check(const json_t *root)
{
    static const char *const kinds[] = {"activations", "activation gradients", "workspace"};
    const json_t *held = json_object_get(root, "held"), *peak = json_object_get(root, "peak");
    const json_t *steps = json_object_get(root, "steps"), *largest;
    int64_t fixed =
        number(held, "weights and buffers") + number(held, "gradients") + number(held, "optimizer");
    int64_t most = 0, set = 0, workers = number(root, "shards_at_once");
    assert_true(json_array_size(steps) > 10);
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *step = json_array_get(steps, i);
        int64_t live = 0;
        for (int k = 0; k < 3; k++)
            live += number(step, kinds[k]);
        assert_int_equal(number(step, "step"), i);
        assert_int_equal(number(step, "total"), fixed + live);
        most = most > fixed + live ? most : fixed + live;
        set = set > live ? set : live;
    }
    assert_int_equal(number(peak, "total"), most);
    assert_int_equal(set, workers * number(root, "largest_live_set"));
    // What the device held: the arena may be larger than the set, and there are statistics.
    int64_t device = number(json_object_get(root, "device"), "peak_live");
    assert_true(device >= most && (double)device <= 1.02 * (double)most);
    largest = json_object_get(peak, "largest");
    assert_true(json_array_size(largest) >= 3);
    for (size_t i = 1; i < json_array_size(largest); i++)
        assert_true(number(json_array_get(largest, i - 1), "bytes") >=
                    number(json_array_get(largest, i), "bytes"));
    assert_non_null(strchr(json_string_value(json_object_get(peak, "operator")), '.'));
}

static void the_history_adds_up(void **state)
{
    json_t *plain = history_of(*state, "seed=1", "plain");
    check(plain);
    json_t *again = history_of(*state, "memory.recompute=auto", "again");
    check(again);
    assert_true(number(again, "largest_live_set") < number(plain, "largest_live_set"));
    bool named = false;
    const json_t *steps = json_object_get(again, "steps");
    for (size_t i = 0; i < json_array_size(steps); i++)
        named |= strstr(json_string_value(json_object_get(json_array_get(steps, i), "operator")),
                        " again") != NULL;
    assert_true(named);
    json_decref(again);
    json_decref(plain);
}

static void shards_at_once_are_counted(void **state)
{
    training_log log;
    json_t *root;
    char path[400];
    rung_context *context = training_context(&log);
    const char *run = test_path(*state, "exact");
    assert_ok(training_run(
        context, CNN, (const char *const[]){"exact=true", "device.threads=2", NULL}, run, NULL));
    snprintf(path, sizeof path, "%s/memory.json", run);
    assert_ok(rungi_json_load(path, 1 << 24, &root));
    assert_int_equal(number(root, "shards_at_once"), 2);
    assert_int_equal(number(root, "batch"), 2); // of a shard
    check(root);
    json_decref(root);
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_history_adds_up, test_folder_set_up,
                                        test_folder_tear_down),
        cmocka_unit_test_setup_teardown(shards_at_once_are_counted, test_folder_set_up,
                                        test_folder_tear_down),
    };
    return RUN_TESTS(tests);
}
