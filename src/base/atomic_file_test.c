// SPDX-License-Identifier: Apache-2.0
#include "test_folder.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"

static void check_content(const char *path, const char *expected)
{
    char *data;
    size_t size;
    assert_ok(rungi_fs_read(path, 1 << 20, &data, &size));
    assert_string_equal(data, expected);
    free(data);
}

static void check_names(test_folder *folder, size_t count)
{
    rungi_names names = {0};
    assert_ok(rungi_fs_list(folder->path, &names));
    assert_int_equal(names.count, count);
    rungi_names_fini(&names);
}

static void write_and_replace(void **state)
{
    test_folder *folder = *state;
    const char *path = test_path(folder, "file");
    assert_ok(rungi_fs_write(path, "old", 3));
    check_content(path, "old");
    struct stat st;
    mode_t mask = umask(022);
    umask(mask);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666 & ~mask);
    rungi_atomic_file file;
    assert_ok(rungi_atomic_begin(&file, path, NULL));
    assert_ok(rungi_atomic_write(&file, "ne", 2));
    check_content(path, "old");
    assert_ok(rungi_atomic_write(&file, "w", 1));
    assert_ok(rungi_atomic_commit(&file));
    rungi_atomic_abort(&file);
    check_content(path, "new");
    check_names(folder, 1);
    assert_ok(rungi_fs_write(path, NULL, 0));
    check_content(path, "");
    assert_ok(rungi_fs_write(test_path(folder, "caf\xe9"), "x", 1));
    check_names(folder, 2);
}

// Fails call number `fail_at`, counted over all three functions; writes at most 3 bytes a call.
typedef struct failing {
    int calls;
    int fail_at;
    int error;
} failing;

static bool fails_now(failing *f)
{
    errno = f->error;
    return ++f->calls == f->fail_at;
}

static ssize_t failing_write(void *user, int fd, const void *data, size_t size)
{
    return fails_now(user) ? -1 : write(fd, data, size > 3 ? 3 : size);
}

static int failing_fsync(void *user, int fd)
{
    return fails_now(user) ? -1 : fsync(fd);
}

static int failing_rename(void *user, const char *from, const char *to)
{
    return fails_now(user) ? -1 : rename(from, to);
}

static rung_status write_with(const char *path, const rungi_file_calls *calls)
{
    rungi_atomic_file file;
    rung_status status = rungi_atomic_begin(&file, path, calls);
    if (status == RUNG_OK)
        status = rungi_atomic_write(&file, "0123456789", 10);
    if (status == RUNG_OK)
        return rungi_atomic_commit(&file);
    rungi_atomic_abort(&file);
    return status;
}

static void any_failing_call_leaves_the_old_file(void **state)
{
    test_folder *folder = *state;
    const char *path = test_path(folder, "file");
    assert_ok(rungi_fs_write(path, "old", 3));
    // Four writes, one fsync, one rename.
    for (int fail_at = 1; fail_at <= 6; fail_at++) {
        failing f = {.fail_at = fail_at, .error = ENOSPC};
        rungi_file_calls calls = {&f, failing_write, failing_fsync, failing_rename};
        assert_fails(RUNG_IO, "no space left", write_with(path, &calls));
        assert_non_null(strstr(rung_error_last()->message, path));
        check_content(path, "old");
        check_names(folder, 1);
    }
    failing interrupted = {.fail_at = 2, .error = EINTR};
    rungi_file_calls calls = {&interrupted, failing_write, failing_fsync, failing_rename};
    assert_ok(write_with(path, &calls));
    check_content(path, "0123456789");
}

static void a_real_limit_leaves_the_old_file(void **state)
{
    test_folder *folder = *state;
    const char *path = test_path(folder, "file");
    assert_ok(rungi_fs_write(path, "old", 3));
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 4;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    rung_status status = rungi_fs_write(path, "0123456789", 10);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(status, RUNG_IO);
    check_content(path, "old");
    check_names(folder, 1);
}

static void places_that_cannot_be_written(void **state)
{
    test_folder *folder = *state;
    assert_fails(RUNG_IO, "it is a folder, not a file", rungi_fs_write(folder->path, "x", 1));
    assert_fails(RUNG_NOT_FOUND, "there is no folder",
                 rungi_fs_write(test_path(folder, "none/file"), "x", 1));
    assert_fails(RUNG_IO, "/dev/null: cannot write: it is not a regular file",
                 rungi_fs_write("/dev/null", "x", 1));
    test_write(test_path(folder, "file"), "x", 1);
    assert_fails(RUNG_IO, "file is a file, not a folder",
                 rungi_fs_write(test_path(folder, "file/inner"), "x", 1));
    if (geteuid() != 0) {
        assert_int_equal(chmod(folder->path, 0500), 0);
        assert_fails(RUNG_IO, "permission denied",
                     rungi_fs_write(test_path(folder, "new"), "x", 1));
        assert_int_equal(chmod(folder->path, 0700), 0);
    }
    check_names(folder, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(write_and_replace),
        IN_FOLDER(any_failing_call_leaves_the_old_file),
        IN_FOLDER(a_real_limit_leaves_the_old_file),
        IN_FOLDER(places_that_cannot_be_written),
    };
    return RUN_TESTS(tests);
}
