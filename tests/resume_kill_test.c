// SPDX-License-Identifier: Apache-2.0
// Training that is killed with SIGKILL at random moments and goes on each time ends with the bits
// of a run that was left alone. Training happens in children: this process uses no parallel kernel,
// so that it may fork.
#include "training.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/philox.h"
#include "formats/checkpoint_folder.h"

enum { STEPS = 130, KILLS = 12 };

static const char *const optimizers[][4] = {
    {"optim.name=sgd", "optim.momentum=0.9", "optim.lr=0.05", "data.num_workers=0"},
    {"optim.name=adam", "optim.lr=0.01", "schedule.name=cosine", "data.num_workers=2"},
    {"optim.name=adamw", "optim.lr=0.01", "schedule.name=plateau", "exact=true"},
};
enum { OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

static bool begun(const char *run)
{
    char path[300];
    snprintf(path, sizeof path, "%s/config.yaml", run);
    return access(path, F_OK) == 0;
}

// Begins the run or goes on with it, in a child of its own.
static pid_t train(const char *run, int optimizer)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child)
        return child;
    training_log log;
    rung_context *context = training_context(&log);
    const char *const *o = optimizers[optimizer];
    const char *const overrides[] = {o[0],
                                     o[1],
                                     o[2],
                                     o[3],
                                     "train.steps=130",
                                     "train.eval_every=20",
                                     "train.log_every=3",
                                     "checkpoint.every=7",
                                     "checkpoint.keep=2",
                                     NULL};
    rung_status status = begun(run) ? training_resume(context, run, NULL, NULL)
                                    : training_run(context, TRAINING_MLP, overrides, run, NULL);
    if (status != RUNG_OK)
        fprintf(stderr, "%s: %s\n%s", run, rung_error_last()->message, log.text);
    _exit(status == RUNG_OK ? 0 : 1);
}

static void finish(pid_t child)
{
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 0);
}

static int64_t newest_step(const char *run)
{
    char root[300];
    rungi_checkpoint *checkpoint;
    snprintf(root, sizeof root, "%s/checkpoints", run);
    if (rungi_checkpoint_open_newest(root, NULL, NULL, &checkpoint) != RUNG_OK)
        return -1;
    int64_t step = json_integer_value(json_object_get(rungi_checkpoint_state(checkpoint), "step"));
    rungi_checkpoint_close(&checkpoint);
    return step;
}

static void check_no_temporary(const char *folder)
{
    rungi_names names;
    assert_ok(rungi_fs_list(folder, &names));
    for (size_t i = 0; i < names.count; i++)
        if (strstr(names.data[i], "tmp"))
            fail_msg("%s/%s is left over", folder, names.data[i]);
    rungi_names_fini(&names);
}

// Kills and goes on until the run is through. Returns how often it was killed.
static int kill_until_done(const char *run, int optimizer, const rungi_random *random,
                           uint64_t *draw)
{
    double limit = 60e6; // nanoseconds; grows while a run does not come any further
    int kills = 0;
    int64_t best = -1;
    for (;;) {
        pid_t child = train(run, optimizer);
        struct timespec moment = {
            0, (long)(rungi_unit_f64(rungi_random_u64(random, (*draw)++)) * limit)};
        nanosleep(&moment, NULL);
        kill(child, SIGKILL);
        int result;
        assert_int_equal(waitpid(child, &result, 0), child);
        if (WIFEXITED(result)) {
            assert_int_equal(WEXITSTATUS(result), 0);
            return kills;
        }
        kills++;
        int64_t step = newest_step(run);
        assert_true(step >= best || step == -1);
        if (step <= best && limit < 5e8)
            limit *= 1.3;
        best = step > best ? step : best;
    }
}

static void killed_at_random(void **state)
{
    test_folder *folder = *state;
    rungi_random random = rungi_random_make(54, RUNGI_PURPOSE_TEST, 0, 0, 0);
    uint64_t draw = 0;
    int kills = 0;
    char whole[OPTIMIZERS][300], run[300], checkpoints[320];
    for (int i = 0; i < OPTIMIZERS; i++) {
        snprintf(whole[i], sizeof whole[i], "%s/whole-%d", folder->path, i);
        finish(train(whole[i], i));
    }
    for (int i = 0; i < OPTIMIZERS || kills < KILLS; i++) {
        snprintf(run, sizeof run, "%s/killed-%d", folder->path, i);
        kills += kill_until_done(run, i % OPTIMIZERS, &random, &draw);
        assert_int_equal(newest_step(run), STEPS);
        assert_same_bits(whole[i % OPTIMIZERS], run);
        snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", run);
        check_no_temporary(run);
        check_no_temporary(checkpoints);
    }
    print_message("killed %d times\n", kills);
}

int main(void)
{
    const struct CMUnitTest tests[] = {IN_FOLDER(killed_at_random)};
    return RUN_TESTS(tests);
}
