// SPDX-License-Identifier: Apache-2.0
// ctest-labels: mpirun
// Strategy parameter_server whose workers are processes of mpirun. Without arguments: runs itself
// there.
#include "training.h"

#include "mpirun.h"

// 61 pictures in batches of 8: the last batch has 5.
static const char yaml[] = "device: {threads: 1}\n"
                           "data:\n"
                           "  source: synthetic\n"
                           "  batch_size: 8\n"
                           "  random_flip: 0.5\n"
                           "  synthetic: {shape: [1, 8, 8], count: 61, classes: 4}\n"
                           "model: {name: mlp, hidden: [16]}\n"
                           "optim: {lr: 0.05, momentum: 0.5}\n"
                           "train: {epochs: 2, log_every: 1}\n"
                           "checkpoint: {every: never}\n";

static int64_t samples;

static void note(void *user, const rung_train_event *e)
{
    (void)user;
    if (e->kind == RUNG_EVENT_END)
        samples = e->samples;
}

// A process: RUN KEY=VALUE...
static int child(int count, char **arguments)
{
    training_log log;
    rung_context *context = training_context(&log);
    rung_config *config = training_config(context, yaml, NULL);
    rung_trainer *trainer = NULL;
    for (int i = 1; i < count; i++)
        assert_ok(rung_config_override(config, arguments[i]));
    rung_status status = rung_trainer_create(context, config, arguments[0], &trainer);
    int rank = trainer ? rung_trainer_rank(trainer) : -1;
    if (status == RUNG_OK)
        status = rung_trainer_fit(trainer, &(rung_observer){NULL, note});
    if (status != RUNG_OK)
        printf("rank %d: %s\n", rank, rung_error_last()->message);
    else if (rank == 0)
        printf("%lld samples\n", (long long)samples);
    fflush(stdout);
    rung_trainer_destroy(&trainer);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
    rung_ranks_end(status != RUNG_OK);
    return status == RUNG_OK ? 0 : 1;
}

static char out[8192];

static int run_processes(int processes, const char *run, const char *overrides)
{
    char arguments[512];
    snprintf(arguments, sizeof arguments, "'%s' %s", run, overrides);
    return mpirun(processes, arguments, out, sizeof out);
}

// In step: two processes of two workers, with three servers, give the bits of one device.
static void processes_give_the_same_bits(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *exact[] = {"exact=true", NULL};
    assert_ok(training_run(context, yaml, exact, test_path(folder, "alone"), NULL));
    rung_context_destroy(&context);
    const char *run = test_path(folder, "servers");
    int status = run_processes(
        2, run, "exact=true train.strategy=parameter_server train.ranks=2 ps.servers=3");
    if (status)
        fail_msg("status %d: %s", status, out);
    assert_same_bits(test_path(folder, "alone"), run);
}

// At their own pace: all samples are trained on, and one device goes on with the result.
static void processes_go_at_their_own_pace(void **state)
{
    test_folder *folder = *state;
    training_log log;
    rung_context *context = training_context(&log);
    const char *run = test_path(folder, "run");
    int status = run_processes(
        3, run, "train.strategy=parameter_server ps.mode=async ps.staleness=1 ps.servers=2");
    if (status || !strstr(out, "122 samples"))
        fail_msg("status %d: %s", status, out);
    const char *alone[] = {"train.strategy=single", "ps.mode=sync",   "ps.staleness=none",
                           "ps.servers=auto",       "train.epochs=3", NULL};
    assert_ok(training_resume(context, run, alone, NULL));
    rung_context_destroy(&context);
}

static void too_many_servers_are_refused(void **state)
{
    test_folder *folder = *state;
    assert_int_not_equal(
        run_processes(2, test_path(folder, "run"), "train.strategy=parameter_server ps.servers=3"),
        0);
    if (!strstr(out, "ps.servers: is 3, but there are 2 ranks"))
        fail_msg("%s", out);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return child(argc - 1, argv + 1);
    if (!mpirun_found()) {
        printf("skipped: there is no mpirun\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        IN_FOLDER(processes_give_the_same_bits),
        IN_FOLDER(processes_go_at_their_own_pace),
        IN_FOLDER(too_many_servers_are_refused),
    };
    return RUN_TESTS(tests);
}
