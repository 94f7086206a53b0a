// SPDX-License-Identifier: Apache-2.0
// Case C40: what launchers say of ranks, and who has come.
#include "testing.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/launch.h"

static const char *const names[] = {"OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_RANK",
                                    "OMPI_COMM_WORLD_LOCAL_SIZE",
                                    "PMI_SIZE",
                                    "PMI_RANK",
                                    "MPI_LOCALNRANKS",
                                    "SLURM_NTASKS",
                                    "SLURM_PROCID",
                                    "PMIX_NAMESPACE"};

static int clear(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    return 0;
}

static void launchers_are_recognized(void **state)
{
    (void)state;
    rungi_launch launch;
    assert_ok(rungi_launch_read(&launch));
    assert_false(launch.launched);
    for (int i = 0; i < 9; i += 3) {
        setenv(names[i], "4", 1);
        setenv(names[i + 1], "3", 1);
        assert_ok(rungi_launch_read(&launch));
        assert_true(launch.launched);
        assert_int_equal(launch.rank, 3);
        assert_int_equal(launch.size, 4);
        assert_int_equal(launch.local_size, 4);
        setenv(names[i], "1", 1);
        setenv(names[i + 1], "0", 1);
        assert_ok(rungi_launch_read(&launch));
        assert_false(launch.launched);
        clear(NULL);
    }
    setenv("SLURM_NTASKS", "4", 1); // the shell of an allocation
    assert_ok(rungi_launch_read(&launch));
    assert_false(launch.launched);
}

static void variables_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *size, *rank, *expected;
    } cases[] = {
        {"1", "1", "OMPI_COMM_WORLD_RANK is '1': allowed are 0 to 0"},
        {"4", "-1", "OMPI_COMM_WORLD_RANK is '-1': allowed are 0 to 3"},
        {"4", "", "OMPI_COMM_WORLD_RANK is '': allowed are 0 to 3"},
        {"4", "two", "OMPI_COMM_WORLD_RANK is 'two': allowed are 0 to 3"},
        {"4", "2x", "OMPI_COMM_WORLD_RANK is '2x': allowed are 0 to 3"},
        {"0", "0", "OMPI_COMM_WORLD_SIZE is '0': allowed are 1 to 4096"},
        {"99999999999999999999", "0", "OMPI_COMM_WORLD_SIZE is '9999"},
        {NULL, "0", "OMPI_COMM_WORLD_SIZE is not set"},
        {"4", NULL, "OMPI_COMM_WORLD_RANK is not set"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rungi_launch launch;
        clear(NULL);
        if (cases[i].size)
            setenv("OMPI_COMM_WORLD_SIZE", cases[i].size, 1);
        if (cases[i].rank)
            setenv("OMPI_COMM_WORLD_RANK", cases[i].rank, 1);
        assert_fails(RUNG_CONFIG, cases[i].expected, rungi_launch_read(&launch));
    }
}

// A process that comes, as rank 2 of 4, and waits.
static pid_t come(void)
{
    int ready[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        rungi_board *board;
        rungi_launch launch = {true, 2, 4, 4};
        if (rungi_board_enter(&launch, &board) != RUNG_OK || write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return child;
}

static void those_that_came_are_known(void **state)
{
    (void)state;
    const rungi_launch launch = {true, 0, 4, 4};
    rungi_board *board;
    rungi_string missing = {0};
    const char *why;
    char name[32];
    int status;
    snprintf(name, sizeof name, "test-%d", (int)getpid());
    setenv("PMIX_NAMESPACE", name, 1);
    assert_ok(rungi_board_enter(&launch, &board));
    assert_int_equal(rungi_board_missing(board, &missing), 3);
    assert_string_equal(missing.data, "1-3");
    rungi_string_fini(&missing);
    pid_t child = come();
    assert_int_equal(rungi_board_missing(board, &missing), 2);
    assert_string_equal(missing.data, "1, 3");
    assert_int_equal(rungi_board_fallen(board, &why), -1);
    kill(child, SIGSTOP);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_int_equal(rungi_board_fallen(board, &why), 2);
    assert_string_equal(why, "was stopped");
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(rungi_board_fallen(board, &why), 2);
    assert_string_equal(why, "has died");
    // Another job of the same name is not told of it.
    rungi_board_close(&board, false);
    assert_ok(rungi_board_enter(&launch, &board));
    assert_int_equal(rungi_board_fallen(board, &why), -1);
    rungi_string_fini(&missing);
    assert_int_equal(rungi_board_missing(board, &missing), 3);
    rungi_string_fini(&missing);
    rungi_board_close(&board, true);
    assert_null(board);
}

// ---- a rank that is gone before it came ---------------------------------------------------------

enum { NOBODY = 9, BROKEN = 10 };

// Rank 1 of two has not come yet. Rank 0 comes, and ends with whom it finds kept from coming.
static int be_rank(int rank)
{
    const rungi_launch launch = {true, rank, 2, 2, true};
    rungi_board *board;
    const char *why = "";
    if (write(STDOUT_FILENO, "x", 1) != 1)
        return BROKEN;
    while (rank == 1)
        pause();
    if (rungi_board_enter(&launch, &board) != RUNG_OK)
        return BROKEN;
    int found = rungi_board_fallen(board, &why);
    rungi_board_close(&board, true);
    if (found < 0)
        return NOBODY;
    return strcmp(why, RUNGI_BOARD_ABSENT) == 0 ? found : BROKEN;
}

// This program again, as `role`, once it runs.
static pid_t start(const char *role, const char *rank)
{
    int ready[2];
    char byte;
    if (pipe(ready))
        return -1;
    pid_t child = fork();
    if (child == 0) {
        dup2(ready[1], STDOUT_FILENO);
        if (rank)
            setenv("OMPI_COMM_WORLD_RANK", rank, 1);
        execl("/proc/self/exe", "launch_test", role, (char *)NULL);
        _exit(BROKEN);
    }
    close(ready[1]);
    bool runs = read(ready[0], &byte, 1) == 1;
    close(ready[0]);
    return runs ? child : -1;
}

static int end_of(pid_t child)
{
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return BROKEN;
    return WEXITSTATUS(status);
}

// Starts rank 1, or not, then rank 0; ends as that one.
static int be_launcher(bool both)
{
    if (write(STDOUT_FILENO, "x", 1) != 1)
        return BROKEN;
    pid_t other = both ? start("1", "1") : 0;
    int found = end_of(start("0", "0"));
    if (other > 0)
        kill(other, SIGKILL);
    return other < 0 ? BROKEN : found;
}

static void those_gone_before_they_came_are_known(void **state)
{
    (void)state;
    char name[32];
    snprintf(name, sizeof name, "test-%d", (int)getpid());
    setenv("PMIX_NAMESPACE", name, 1);
    assert_int_equal(end_of(start("both", NULL)), NOBODY);
    assert_int_equal(end_of(start("alone", NULL)), 1);
    // What looks like a launcher is a rank's own script: others have other parents.
    assert_int_equal(end_of(start("alone", "0")), NOBODY);
}

int main(int count, char **words)
{
    if (count > 1 && strlen(words[1]) > 1)
        return be_launcher(strcmp(words[1], "both") == 0);
    if (count > 1)
        return be_rank(*words[1] - '0');
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(launchers_are_recognized, clear),
        cmocka_unit_test_setup(variables_are_checked, clear),
        cmocka_unit_test_setup(those_that_came_are_known, clear),
        cmocka_unit_test_setup(those_gone_before_they_came_are_known, clear),
    };
    return RUN_TESTS(tests);
}
