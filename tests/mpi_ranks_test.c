// SPDX-License-Identifier: Apache-2.0
// ctest-labels: mpirun
// Runs whose ranks are processes of mpirun: cases C16, C30, C38, C40.
#include "training.h"

#include <signal.h>
#include <unistd.h>

#include "comm/recorder.h"
#include "formats/checkpoint_folder.h"
#include "mpirun.h"

// 61 pictures in batches of 8: the last batch has 5.
static const char yaml[] = "exact: true\n"
                           "device: {threads: 1}\n"
                           "data:\n"
                           "  source: synthetic\n"
                           "  batch_size: 8\n"
                           "  random_flip: 0.5\n"
                           "  num_workers: 2\n"
                           "  synthetic: {shape: [1, 8, 8], count: 61, classes: 4}\n"
                           "model: {name: fashion_cnn}\n"
                           "optim: {lr: 0.05, momentum: 0.9}\n"
                           "train: {epochs: 2, log_every: 1}\n"
                           "checkpoint: {every: 3, keep: all}\n";

static char latest[512]; // checkpoint

// Ends this process in the middle of whatever it does, once there is something to go on with.
static void die_later(int number)
{
    if (access(latest, F_OK) == 0) {
        signal(number, SIG_DFL);
        raise(number);
    }
    alarm(1);
}

// A process of mpirun: trains in `run`, or goes on with it (`what` resume). With `what` die the run
// is a long one, and rank 1 is ended by a signal.
static int child(const char *run, const char *ranks, const char *what)
{
    training_log log;
    rung_context *context = training_context(&log);
    rung_config *config = training_config(context, yaml, NULL);
    rung_trainer *trainer = NULL;
    char count[32];
    bool finished;
    snprintf(count, sizeof count, "train.ranks=%s", ranks);
    assert_ok(rung_config_override(config, count));
    if (strcmp(what, "die") == 0)
        assert_ok(rung_config_override(config, "train.epochs=20000"));
    const char *overrides[] = {count, "train.steps=16"};
    rung_status status = strcmp(what, "resume") == 0
                             ? rung_trainer_resume(context, run, overrides, 2, &finished, &trainer)
                             : rung_trainer_create(context, config, run, &trainer);
    int rank = trainer ? rung_trainer_rank(trainer) : -1;
    if (strcmp(what, "die") == 0 && rank == 1) {
        snprintf(latest, sizeof latest, "%s/checkpoints/latest", run);
        signal(SIGALRM, die_later);
        alarm(1);
    }
    if (status == RUNG_OK)
        status = rung_trainer_fit(trainer, NULL);
    if (status != RUNG_OK)
        printf("rank %d: %s\n", rank, rung_error_last()->message);
    fflush(stdout);
    rung_trainer_destroy(&trainer);
    rung_config_destroy(&config);
    rung_context_destroy(&context);
    rung_ranks_end(status != RUNG_OK);
    return status == RUNG_OK ? 0 : 1;
}

static int run_part(int processes, const char *run, const char *ranks, const char *what, char *out,
                    size_t size)
{
    char arguments[512];
    snprintf(arguments, sizeof arguments, "child '%s' %s %s", run, ranks, what);
    return mpirun(processes, arguments, out, size);
}

static void train_here(const char *run)
{
    training_log log;
    rung_context *context = training_context(&log);
    assert_ok(training_run(context, yaml, NULL, run, NULL));
    rung_context_destroy(&context);
}

// Threads, processes, and threads in processes give the same bits.
static void processes_give_the_same_bits(void **state)
{
    test_folder *folder = *state;
    static const struct {
        int processes;
        const char *ranks;
    } layouts[] = {{2, "1"}, {2, "2"}, {4, "1"}};
    char out[8192], name[32];
    train_here(test_path(folder, "alone"));
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        snprintf(name, sizeof name, "run-%zu", i);
        const char *run = test_path(folder, name);
        int status =
            run_part(layouts[i].processes, run, layouts[i].ranks, "train", out, sizeof out);
        if (status)
            fail_msg("status %d: %s", status, out);
        if (strstr(out, "fork"))
            fail_msg("%s", out);
        assert_same_bits(test_path(folder, "alone"), run);
    }
}

// A process that dies ends the run on the other one, which names it, and what was saved is whole.
static void a_dead_process_ends_the_run(void **state)
{
    test_folder *folder = *state;
    char out[8192];
    const char *run = test_path(folder, "run");
    assert_int_not_equal(run_part(2, run, "1", "die", out, sizeof out), 0);
    if (!strstr(out, "rank 0: rank 1 has died (process "))
        fail_msg("%s", out);
    rungi_checkpoint *checkpoint;
    assert_ok(
        rungi_checkpoint_open(test_path(folder, "run/checkpoints/latest"), true, &checkpoint));
    rungi_checkpoint_close(&checkpoint);
    rungi_record record; // and what it did can be read
    assert_ok(rungi_recorder_read(test_path(folder, "run/ranks"), 1, &record));
    assert_true(record.count >= 3); // a call in each step up to the first checkpoint
}

// A run that one process began goes on as two of two threads each, to the same bits.
static void another_layout_goes_on(void **state)
{
    test_folder *folder = *state;
    training_log log;
    char out[8192];
    const char *run = test_path(folder, "run");
    rung_context *context = training_context(&log);
    const char *first[] = {"train.steps=7", NULL};
    assert_ok(training_run(context, yaml, first, run, NULL));
    int status = run_part(2, run, "2", "resume", out, sizeof out);
    if (status)
        fail_msg("status %d: %s", status, out);
    train_here(test_path(folder, "alone"));
    assert_same_bits(test_path(folder, "alone"), run);
    rung_context_destroy(&context);
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "child") == 0)
        return child(argv[2], argv[3], argv[4]);
    if (!mpirun_found()) {
        printf("skipped: there is no mpirun\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        IN_FOLDER(processes_give_the_same_bits),
        IN_FOLDER(a_dead_process_ends_the_run),
        IN_FOLDER(another_layout_goes_on),
    };
    return RUN_TESTS(tests);
}
