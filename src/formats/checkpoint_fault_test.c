// SPDX-License-Identifier: Apache-2.0
// Case C57: saves that fail, that are killed, and a disk that is full.
#include "checkpoint_testing.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/philox.h"
#include "small_disk.h"

static char folder[RUNGI_PATH_MAX], root[RUNGI_PATH_MAX];

static int set_up(void **state)
{
    (void)state;
    scratch_make(folder);
    return rungi_path_format(root, "%s/checkpoints", folder);
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(folder);
    return 0;
}

// Fails (or ends the process) at call number `at`; counts all of them.
typedef struct fault {
    int count;
    int at;
    int error;        // 0: _exit
    bool no_exchange; // the file system cannot exchange two names
} fault;

static int before(void *user, const char *call, const char *path)
{
    (void)path;
    fault *f = user;
    if (f->count++ == f->at) {
        if (!f->error)
            _exit(77);
        return f->error;
    }
    return f->no_exchange && strcmp(call, "exchange") == 0 ? EINVAL : 0;
}

static int count_temporary(void)
{
    int count = 0;
    DIR *dir = opendir(root);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        count +=
            rungi_name_is_temporary(e->d_name, "tmp") || rungi_name_is_temporary(e->d_name, "old");
    closedir(dir);
    return count;
}

// Each call of a save fails once: an error, the older checkpoint as before, nothing left behind,
// and the next save works. `same` replaces the checkpoint of the same name.
static void fail_everywhere(int error, bool same, bool no_exchange)
{
    fault f = {.at = -1, .error = error, .no_exchange = no_exchange};
    rungi_io_hook hook = {&f, before};
    rungi_checkpoints_options options = {.hook = &hook, .no_verify = true};
    rungi_checkpoints *store;
    assert_ok(rungi_checkpoints_open(root, &options, &store));
    int step = 1, failures = 0;
    assert_ok(demo_save(store, "a", step));
    for (int at = 0;; at++) {
        f.count = 0;
        f.at = at;
        rung_status status = demo_save(store, same ? "a" : at % 2 ? "b" : "c", step + 1);
        int calls = f.count;
        f.at = -1;
        int newest = demo_newest(root);
        if (status == RUNG_OK) {
            assert_int_equal(newest, step + 1);
            step++;
            if (at >= calls)
                break;
            continue; // the removal of the replaced checkpoint failed: left for the next start
        }
        failures++;
        assert_int_equal(status, RUNG_IO);
        assert_true(newest == step || newest == step + 1);
        step = newest;
    }
    assert_true(failures > 15);
    rungi_checkpoints_close(&store);
    assert_ok(rungi_checkpoints_open(root, &options, &store));
    assert_int_equal(count_temporary(), 0);
    assert_int_equal(demo_newest(root), step);
    rungi_checkpoints_close(&store);
}

static void every_call_fails(void **state)
{
    (void)state;
    fail_everywhere(EIO, false, false);
}

static void every_call_of_a_replacement_fails(void **state)
{
    (void)state;
    fail_everywhere(EIO, true, false);
}

static void every_call_of_a_slow_replacement_fails(void **state)
{
    (void)state;
    fail_everywhere(ENOSPC, true, true);
}

// The process ends at each call of a save in turn; the next start finds a good checkpoint.
static void exit_everywhere(bool same, bool no_exchange)
{
    int step = 0; // the last save that returned
    bool done = false;
    for (int at = 0; !done; at++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            fault f = {.at = -1, .no_exchange = no_exchange};
            rungi_io_hook hook = {&f, before};
            rungi_checkpoints_options options = {.hook = &hook, .no_verify = true};
            rungi_checkpoints *store;
            if (rungi_checkpoints_open(root, &options, &store) != RUNG_OK)
                _exit(1);
            f.count = 0;
            f.at = at;
            if (demo_save(store, same ? "a" : at % 2 ? "b" : "c", step + 1) != RUNG_OK)
                _exit(1);
            _exit(0);
        }
        int result;
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_true(WIFEXITED(result));
        done = WEXITSTATUS(result) == 0;
        assert_true(done || WEXITSTATUS(result) == 77);
        int newest = demo_newest(root);
        if (done)
            assert_int_equal(newest, step + 1);
        else if (step == 0 && newest == -1)
            continue;
        else
            assert_true(newest == step || newest == step + 1);
        step = newest;
    }
    assert_true(step >= 1);
    rungi_checkpoints *store;
    assert_ok(rungi_checkpoints_open(root, NULL, &store));
    assert_int_equal(count_temporary(), 0);
    rungi_checkpoints_close(&store);
    assert_int_equal(demo_newest(root), step);
}

static void exits_at_every_call(void **state)
{
    (void)state;
    exit_everywhere(false, false);
}

static void exits_at_every_call_of_a_replacement(void **state)
{
    (void)state;
    exit_everywhere(true, false);
}

static void exits_at_every_call_of_a_slow_replacement(void **state)
{
    (void)state;
    exit_everywhere(true, true);
}

// A child saves in a loop and prunes; SIGKILL at 100 random moments. There is always a checkpoint
// that verifies, and it is at most one save old.
static void killed_at_random(void **state)
{
    (void)state;
    _Atomic int *saved =
        mmap(NULL, sizeof *saved, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(saved != MAP_FAILED);
    rungi_random random = rungi_random_make(57, RUNGI_PURPOSE_TEST, 0, 0, 0);
    uint64_t draw = 0;
    int first = 1;
    for (int kill_number = 0; kill_number < 100; kill_number++) {
        *saved = 0;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            rungi_checkpoints *store;
            if (rungi_checkpoints_open(root, NULL, &store) != RUNG_OK)
                _exit(1);
            for (int step = first;; step++) {
                if (demo_save_step(store, step) != RUNG_OK)
                    _exit(2);
                *saved = step;
                if (rungi_checkpoints_prune(store, 2, NULL, 0) != RUNG_OK)
                    _exit(3);
            }
        }
        // Some are killed before their first save is through, most during a later one.
        struct timespec moment = {0, (long)rungi_random_below(&random, 20000000, &draw)};
        if (kill_number % 4)
            while (!*saved && waitpid(child, NULL, WNOHANG) == 0)
                sched_yield();
        nanosleep(&moment, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        int result;
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_true(WIFSIGNALED(result));
        int newest = demo_newest(root), last = *saved ? *saved : first - 1;
        if (newest == -1)
            assert_int_equal(last, 0);
        else
            assert_true(newest == last || newest == last + 1);
        first = newest < 1 ? 1 : newest + 1;
    }
    assert_true(first > 75);
    rungi_checkpoints *store;
    assert_ok(rungi_checkpoints_open(root, NULL, &store));
    assert_int_equal(count_temporary(), 0);
    rungi_checkpoints_close(&store);
    munmap((void *)saved, sizeof *saved);
}

// In a child with a file system of its own: 64 KiB, where two checkpoints do not fit.
static int on_a_full_disk(void)
{
    rungi_checkpoints *store;
    if (rungi_checkpoints_open(root, NULL, &store) != RUNG_OK ||
        demo_save_step(store, 1) != RUNG_OK)
        return 2;
    if (demo_save_step(store, 2) != RUNG_IO)
        return 3;
    const char *message = rung_error_last()->message;
    if (!strstr(message, "disk full") || !strstr(message, root) || !strstr(message, "needed"))
        return 4;
    if (count_temporary() != 0 || demo_newest(root) != 1)
        return 5;
    rungi_checkpoints_close(&store);
    return 0;
}

static void full_disk(void **state)
{
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!small_disk_mount(folder, "64k"))
            _exit(99);
        _exit(on_a_full_disk());
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    if (WEXITSTATUS(result) == 99)
        skip_because("no right to mount a file system");
    assert_int_equal(WEXITSTATUS(result), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_call_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_call_of_a_replacement_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_call_of_a_slow_replacement_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(exits_at_every_call, set_up, tear_down),
        cmocka_unit_test_setup_teardown(exits_at_every_call_of_a_replacement, set_up, tear_down),
        cmocka_unit_test_setup_teardown(exits_at_every_call_of_a_slow_replacement, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(killed_at_random, set_up, tear_down),
        cmocka_unit_test_setup_teardown(full_disk, set_up, tear_down),
    };
    return RUN_TESTS(tests);
}
