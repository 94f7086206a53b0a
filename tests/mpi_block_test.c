// SPDX-License-Identifier: Apache-2.0
// ctest-labels: mpirun
// Blocks of the ladder whose ranks are processes (ladder.launcher): rank 0 tells what all did, and
// the bits are those of threads.
#include "training.h"

#include "base/json.h"
#include "ladder/child.h"
#include "mpirun.h"
#include "rung/ladder.h"

static const char yaml[] = "exact: true\n"
                           "device: {threads: 1}\n"
                           "data: {source: synthetic, batch_size: 8, synthetic: {shape: [1, 8, 8], "
                           "count: 61, classes: 4}}\n"
                           "model: {name: fashion_cnn}\n"
                           "optim: {lr: 0.05, momentum: 0.9}\n";

// Stands for rung: `block CONFIG KEY=VALUE ...`.
static int block(int count, char **words)
{
    training_log log;
    rung_context *context = training_context(&log);
    rung_config *config;
    char *json = NULL;
    assert_ok(rung_config_create(context, &config));
    assert_ok(rung_config_load(config, words[0]));
    rung_status status = RUNG_OK;
    for (int i = 1; i < count && status == RUNG_OK; i++)
        status = rung_config_override(config, words[i]);
    if (status == RUNG_OK)
        status = rung_block_run(
            context, config, &(rung_block_options){.steps = 4, .warmup = 1, .gate = true}, &json);
    if (status != RUNG_OK)
        fprintf(stderr, "rung: %s\n", rung_error_last()->message);
    else if (json)
        printf("%s\n", json);
    fflush(stdout);
    free(json);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
    rung_ranks_end(status != RUNG_OK);
    return status == RUNG_OK ? 0 : 1;
}

static char self[4096];

static rungi_child child_of(test_folder *folder, const char *launcher)
{
    const char *path = test_path(folder, "config.yaml");
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    test_write(path, yaml, strlen(yaml));
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); // MPI's
    return (rungi_child){self, path, launcher, 2};
}

static void processes_are_a_group(void **state)
{
    test_folder *folder = *state;
    json_t *threads, *processes;
    const char *a, *b;
    int64_t samples;
    if (!mpirun_found())
        skip_because("no mpirun");
    rungi_child child = child_of(folder, "");
    assert_ok(rungi_child_block(&child, "train.ranks=2", "", 100, &threads));
    child.launcher = "mpirun -n {ranks}";
    assert_ok(rungi_child_block(&child, "train.ranks=2", "", 100, &processes));
    assert_ok(rungi_json_text(threads, "threads", "state", &a));
    assert_ok(rungi_json_text(processes, "processes", "state", &b));
    assert_string_equal(a, b);
    assert_ok(rungi_json_i64(processes, "processes", "samples", 0, 1000, &samples));
    assert_int_equal(samples, 4 * 8);
    json_decref(threads);
    json_decref(processes);
}

// What a rank fails with is the message, not the launcher's account of it.
static void a_failure_is_told(void **state)
{
    if (!mpirun_found())
        skip_because("no mpirun");
    rungi_child child = child_of(*state, "mpirun -n {ranks}");
    json_t *out;
    assert_fails(RUNG_INTERNAL, "model.name",
                 rungi_child_block(&child, "train.ranks=2 model.name=none", "", 100, &out));
    child.launcher = "no-such-launcher {ranks}";
    assert_fails(RUNG_IO, "no-such-launcher",
                 rungi_child_block(&child, "train.ranks=2", "", 100, &out));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(processes_are_a_group),
        IN_FOLDER(a_failure_is_told),
    };
    return argc > 2 && strcmp(argv[1], "block") == 0 ? block(argc - 2, argv + 2) : RUN_TESTS(tests);
}
