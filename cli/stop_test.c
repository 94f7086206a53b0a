// SPDX-License-Identifier: Apache-2.0
// Signals: the first asks the trainer to stop, the second ends the process.
#include "training.h"

#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

enum { PIECE = 1024, PIECES = 256 };

// A child that tells through `out` that a signal has come, and never ends by itself.
static void wait_for_signals(int out)
{
    training_log log;
    rung_context *context = training_context(&log);
    rung_config *config = training_config(context, TRAINING_MLP, NULL);
    rung_trainer *trainer;
    assert_ok(rung_trainer_create(context, config, NULL, &trainer));
    cli_stop_watch(trainer);
    (void)!write(out, "r", 1);
    while (!cli_stop_signal())
        usleep(1000);
    // The trainer has been asked: fit ends before its first step.
    char told = rung_trainer_fit(trainer, NULL) == RUNG_CANCELLED ? 's' : 'f';
    (void)!write(out, &told, 1);
    for (;;)
        pause();
}

static void check_signal(int first, int second)
{
    int pipes[2], result;
    char told = 0;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        wait_for_signals(pipes[1]);
    assert_int_equal(read(pipes[0], &told, 1), 1);
    assert_int_equal(kill(child, first), 0);
    assert_int_equal(read(pipes[0], &told, 1), 1);
    assert_int_equal(told, 's');
    assert_int_equal(waitpid(child, &result, WNOHANG), 0);
    assert_int_equal(kill(child, second), 0);
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFSIGNALED(result));
    assert_int_equal(WTERMSIG(result), second);
    close(pipes[0]);
    close(pipes[1]);
}

static void second_signal_ends(void **state)
{
    (void)state;
    check_signal(SIGINT, SIGINT);
    check_signal(SIGTERM, SIGTERM);
    check_signal(SIGTERM, SIGINT);
}

// A signal that comes while a write is under way does not make it fail.
static void writes_go_on(void **state)
{
    (void)state;
    int pipes[2], result;
    char byte;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        training_log log;
        rung_context *context = training_context(&log);
        rung_config *config = training_config(context, TRAINING_MLP, NULL);
        rung_trainer *trainer;
        assert_ok(rung_trainer_create(context, config, NULL, &trainer));
        cli_stop_watch(trainer);
        // More than a pipe holds, in small pieces: the one that blocks has written nothing.
        char piece[PIECE] = {0};
        for (int i = 0; i < PIECES; i++)
            if (write(pipes[1], piece, sizeof piece) != sizeof piece)
                _exit(errno == EINTR ? 2 : 1);
        _exit(cli_stop_signal() == SIGINT ? 0 : 3);
    }
    close(pipes[1]);
    // Once nothing more fits the child blocks.
    for (int held = 0, before = -1; held == 0 || held != before;) {
        before = held;
        usleep(20000);
        assert_int_equal(ioctl(pipes[0], FIONREAD, &held), 0);
    }
    assert_int_equal(kill(child, SIGINT), 0);
    usleep(20000); // it meets the signal while there is no room
    for (int left = PIECE * PIECES; left > 0; left--)
        assert_int_equal(read(pipes[0], &byte, 1), 1);
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 0);
    close(pipes[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_signal_ends),
        cmocka_unit_test(writes_go_on),
    };
    return RUN_TESTS(tests);
}
