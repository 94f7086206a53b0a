// SPDX-License-Identifier: Apache-2.0
#include "test_folder.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_io.h"

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
    rungi_file file;
    assert_ok(rungi_file_create_beside(&file, path, 0, NULL));
    assert_ok(rungi_file_write(&file, "ne", 2));
    check_content(path, "old");
    assert_ok(rungi_file_write(&file, "w", 1));
    assert_ok(rungi_file_publish(&file, path));
    check_content(path, "new");
    check_names(folder, 1);
    assert_ok(rungi_fs_write(path, NULL, 0));
    check_content(path, "");
    assert_ok(rungi_fs_write(test_path(folder, "caf\xe9"), "x", 1));
    check_names(folder, 2);
}

// Fails call number `fail_at`.
typedef struct failing {
    int calls;
    int fail_at;
} failing;

static int fail_one(void *user, const char *call, const char *path)
{
    failing *f = user;
    (void)call, (void)path;
    return ++f->calls == f->fail_at ? ENOSPC : 0;
}

static void any_failing_call_leaves_the_old_file(void **state)
{
    test_folder *folder = *state;
    const char *path = test_path(folder, "file");
    static char data[10000]; // three writes under a hook
    assert_ok(rungi_fs_write(path, "old", 3));
    failing none = {0};
    assert_ok(rungi_file_replace(test_path(folder, "other"), data, sizeof data,
                                 &(rungi_io_hook){&none, fail_one}));
    // open, three writes, fsync, close, rename, fsync of the folder
    assert_int_equal(none.calls, 8);
    for (int fail_at = 1; fail_at < 8; fail_at++) {
        failing f = {.fail_at = fail_at};
        assert_fails(RUNG_IO, "disk full",
                     rungi_file_replace(path, data, sizeof data, &(rungi_io_hook){&f, fail_one}));
        assert_non_null(strstr(rung_error_last()->message, folder->path));
        check_content(path, "old");
        check_names(folder, 2);
    }
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
