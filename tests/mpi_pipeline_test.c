// SPDX-License-Identifier: Apache-2.0
// ctest-labels: mpirun
// Stages of a pipeline that are processes of mpirun, or threads in them.
#include "training.h"

#include <unistd.h>

#include "mpirun.h"

static const char yaml[] = "device: {threads: 1}\n"
                           "data:\n"
                           "  source: synthetic\n"
                           "  batch_size: 8\n"
                           "  random_flip: 0.5\n"
                           "  num_workers: 1\n"
                           "  synthetic: {shape: [1, 8, 8], count: 29, classes: 4}\n"
                           "model: {name: fashion_cnn}\n"
                           "optim: {lr: 0.05, momentum: 0.9}\n"
                           "train: {epochs: 2, log_every: 1, strategy: pipeline}\n"
                           "pipeline: {schedule: 1f1b, micro_batches: 4}\n"
                           "checkpoint: {every: 3}\n";

static int child(const char *run, const char *ranks)
{
    training_log log;
    rung_context *context = training_context(&log);
    rung_config *config = training_config(context, yaml, NULL);
    rung_trainer *trainer = NULL;
    char count[32];
    snprintf(count, sizeof count, "train.ranks=%s", ranks);
    assert_ok(rung_config_override(config, count));
    rung_status status = rung_trainer_create(context, config, run, &trainer);
    if (status == RUNG_OK)
        status = rung_trainer_fit(trainer, NULL);
    if (status != RUNG_OK)
        printf("rank %d: %s\n", trainer ? rung_trainer_rank(trainer) : -1,
               rung_error_last()->message);
    fflush(stdout);
    rung_trainer_destroy(&trainer);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
    rung_ranks_end(status != RUNG_OK);
    return status == RUNG_OK ? 0 : 1;
}

// Threads, processes, and threads in processes give the same bits.
static void processes_give_the_same_bits(void **state)
{
    test_folder *folder = *state;
    static const struct {
        int processes;
        const char *ranks;
    } layouts[] = {{2, "1"}, {2, "2"}};
    training_log log;
    rung_context *context = training_context(&log);
    const char *threads[] = {"train.ranks=2", NULL};
    char out[8192], name[32], arguments[512];
    assert_ok(training_run(context, yaml, threads, test_path(folder, "threads"), NULL));
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        snprintf(name, sizeof name, "run-%zu", i);
        const char *run = test_path(folder, name);
        snprintf(arguments, sizeof arguments, "child '%s' %s", run, layouts[i].ranks);
        int status = mpirun(layouts[i].processes, arguments, out, sizeof out);
        if (status)
            fail_msg("status %d: %s", status, out);
        assert_same_bits(test_path(folder, "threads"), run);
    }
    rung_context_destroy(&context);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "child") == 0)
        return child(argv[2], argv[3]);
    if (!mpirun_found()) {
        printf("skipped: there is no mpirun\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {IN_FOLDER(processes_give_the_same_bits)};
    return RUN_TESTS(tests);
}
