// SPDX-License-Identifier: Apache-2.0
#include "base/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/context.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/text.h"

static ssize_t system_write(void *user, int fd, const void *data, size_t size)
{
    (void)user;
    return write(fd, data, size);
}

static int system_fsync(void *user, int fd)
{
    (void)user;
    return fsync(fd);
}

static int system_rename(void *user, const char *from, const char *to)
{
    (void)user;
    return rename(from, to);
}

static const rungi_file_calls system_calls = {NULL, system_write, system_fsync, system_rename};

// Creates a file beside `path` under a name that nobody has.
static rung_status create_temporary(rungi_atomic_file *file)
{
    char *folder = rungi_path_folder(file->path);
    RUNG_CHECK(folder, RUNG_NO_MEMORY, "%s: cannot write: out of memory", file->path);
    const rung_clock *clock = rungi_clock_monotonic();
    rung_status status = RUNG_OK;
    do {
        free(file->temporary);
        char name[64];
        snprintf(name, sizeof name, RUNGI_TEMPORARY_PREFIX "%d-%" PRIx64, (int)getpid(),
                 (uint64_t)clock->now(clock->user));
        file->temporary = rungi_path_join(folder, name);
        if (!file->temporary) {
            status = rungi_fs_fail(file->path, "cannot write", ENOMEM);
            break;
        }
        file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (file->fd < 0 && errno == EEXIST);
    if (status == RUNG_OK && file->fd < 0) {
        int error = errno;
        if (error == ENOENT && !rungi_fs_exists(folder))
            status = RUNG_FAIL(RUNG_NOT_FOUND, "%s: cannot write: there is no folder %s",
                               file->path, folder);
        else
            status = rungi_fs_fail(file->path, "cannot write", error);
    }
    free(folder);
    return status;
}

rung_status rungi_atomic_begin(rungi_atomic_file *file, const char *path,
                               const rungi_file_calls *calls)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        if (S_ISDIR(st.st_mode))
            return rungi_fs_fail(path, "cannot write", EISDIR);
        return RUNG_FAIL(RUNG_IO, "%s: cannot write: it is not a regular file", path);
    }
    *file = (rungi_atomic_file){.fd = -1, .calls = calls ? calls : &system_calls};
    file->path = rungi_text_copy(path);
    RUNG_CHECK(file->path, RUNG_NO_MEMORY, "%s: cannot write: out of memory", path);
    rung_status status = create_temporary(file);
    if (status != RUNG_OK)
        rungi_atomic_abort(file);
    return status;
}

rung_status rungi_atomic_write(rungi_atomic_file *file, const void *data, size_t size)
{
    const char *at = data;
    while (size > 0) {
        ssize_t done = file->calls->write(file->calls->user, file->fd, at, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return rungi_fs_fail(file->path, "cannot write", done < 0 ? errno : ENOSPC);
        at += done;
        size -= (size_t)done;
    }
    return RUNG_OK;
}

rung_status rungi_atomic_commit(rungi_atomic_file *file)
{
    rung_status status = RUNG_OK;
    char *folder = rungi_path_folder(file->path);
    if (!folder)
        RUNG_TRY_GOTO(abort_file, rungi_fs_fail(file->path, "cannot write", ENOMEM));
    if (file->calls->fsync(file->calls->user, file->fd) != 0)
        RUNG_TRY_GOTO(abort_file, rungi_fs_fail(file->path, "cannot sync", errno));
    int closed = close(file->fd); // network file systems report late errors here
    file->fd = -1;
    if (closed != 0)
        RUNG_TRY_GOTO(abort_file, rungi_fs_fail(file->path, "cannot close", errno));
    if (file->calls->rename(file->calls->user, file->temporary, file->path) != 0)
        RUNG_TRY_GOTO(abort_file, rungi_fs_fail(file->path, "cannot rename to this", errno));
    free(file->temporary);
    file->temporary = NULL;
    status = rungi_fs_sync_folder(folder);
abort_file:
    free(folder);
    rungi_atomic_abort(file);
    return status;
}

void rungi_atomic_abort(rungi_atomic_file *file)
{
    if (!file->path)
        return;
    if (file->fd >= 0)
        close(file->fd);
    if (file->temporary)
        unlink(file->temporary);
    free(file->temporary);
    free(file->path);
    *file = (rungi_atomic_file){0};
}

rung_status rungi_fs_write(const char *path, const void *data, size_t size)
{
    rungi_atomic_file file;
    RUNG_TRY(rungi_atomic_begin(&file, path, NULL));
    rung_status status = rungi_atomic_write(&file, data, size);
    if (status == RUNG_OK)
        return rungi_atomic_commit(&file);
    rungi_atomic_abort(&file);
    return status;
}
