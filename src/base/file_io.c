// SPDX-License-Identifier: Apache-2.0
#include "base/file_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fs.h"
#include "base/text.h"

enum { HOOKED_PIECE = 4096 };
static const size_t CALL_MAX = (size_t)1 << 30; // Linux moves at most 0x7ffff000 bytes a call

static int announce(const rungi_io_hook *hook, const char *call, const char *path)
{
    return hook ? hook->before(hook->user, call, path) : 0;
}

rung_status rungi_path_format(char out[RUNGI_PATH_MAX], const char *fmt, ...)
{
    char built[RUNGI_PATH_MAX]; // `out` may be among the arguments
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(built, sizeof built, fmt, args);
    va_end(args);
    RUNG_CHECK(length >= 0 && length < RUNGI_PATH_MAX, RUNG_INVALID,
               "%.200s...: path is longer than %d bytes", built, RUNGI_PATH_MAX - 1);
    memcpy(out, built, (size_t)length + 1);
    return RUNG_OK;
}

rung_status rungi_io_fail(const char *path, const char *verb, int error, uint64_t needed)
{
    char doing[64];
    if (error == ENOSPC || error == EDQUOT)
        return rungi_fs_fail_full(path, error, needed);
    snprintf(doing, sizeof doing, "cannot %s", verb);
    return rungi_fs_fail(path, doing, error);
}

// `target` is what the file will be in the end: mistakes are told by that name.
static rung_status create(rungi_file *file, const char *path, const char *target, uint64_t needed,
                          const rungi_io_hook *hook)
{
    RUNG_TRY(rungi_path_format(file->path, "%s", path));
    file->hook = hook;
    file->written = 0;
    file->needed = needed;
    int error = announce(hook, "open", path);
    file->fd = error ? -1 : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->fd >= 0)
        return RUNG_OK;
    error = error ? error : errno;
    char *folder = rungi_path_folder(target);
    rung_status status =
        error == ENOENT && folder && !rungi_fs_exists(folder)
            ? RUNG_FAIL(RUNG_NOT_FOUND, "%s: cannot create: there is no folder %s", target, folder)
            : rungi_io_fail(target, "create", error, needed);
    free(folder);
    return status;
}

rung_status rungi_file_create(rungi_file *file, const char *path, uint64_t needed,
                              const rungi_io_hook *hook)
{
    return create(file, path, path, needed, hook);
}

rung_status rungi_file_write(rungi_file *file, const void *data, size_t size)
{
    const char *from = data;
    while (size > 0) {
        size_t piece = file->hook ? HOOKED_PIECE : CALL_MAX;
        piece = piece < size ? piece : size;
        int error = announce(file->hook, "write", file->path);
        ssize_t done = error ? -1 : write(file->fd, from, piece);
        if (done < 0 && !error && errno == EINTR)
            continue;
        if (done <= 0)
            return rungi_io_fail(file->path, "write",
                                 error  ? error
                                 : done ? errno
                                        : ENOSPC,
                                 file->needed);
        from += done;
        size -= (size_t)done;
        file->written += (uint64_t)done;
    }
    return RUNG_OK;
}

rung_status rungi_file_finish(rungi_file *file)
{
    int error = announce(file->hook, "fsync", file->path);
    const char *verb = "flush";
    if (!error && fsync(file->fd) != 0)
        error = errno;
    // Written pages leave the cache, so that a check that follows reads what the disk holds.
    if (!error)
        (void)posix_fadvise(file->fd, 0, 0, POSIX_FADV_DONTNEED);
    int close_error = announce(file->hook, "close", file->path);
    if (close(file->fd) != 0 && !close_error && errno != EINTR)
        close_error = errno;
    file->fd = -1;
    if (!error && close_error) {
        error = close_error;
        verb = "close";
    }
    return error ? rungi_io_fail(file->path, verb, error, file->needed) : RUNG_OK;
}

void rungi_file_abandon(rungi_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
    if (announce(file->hook, "unlink", file->path) == 0)
        (void)unlink(file->path);
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool rungi_name_is_temporary(const char *name, const char *mark)
{
    char wanted[16];
    int length = snprintf(wanted, sizeof wanted, ".%s-", mark);
    const char *found = NULL;
    for (const char *at = strstr(name, wanted); at; at = strstr(at + 1, wanted))
        found = at;
    if (!found || found == name)
        return false;
    int parts[3] = {0}, part = 0; // digits of process, time and attempt
    for (const char *c = found + length; *c; c++) {
        if (*c == '-' && part < 2)
            part++;
        else if (is_hex(*c))
            parts[part]++;
        else
            return false;
    }
    return parts[0] && parts[1] && parts[2];
}

rung_status rungi_path_temporary(char out[RUNGI_PATH_MAX], const char *path, const char *mark,
                                 unsigned attempt)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now); // a name, not a time: only has to differ
    uint64_t stamp = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    return rungi_path_format(out, "%s.%s-%x-%llx-%x", path, mark, (unsigned)getpid(),
                             (unsigned long long)stamp, attempt);
}

rung_status rungi_file_create_beside(rungi_file *file, const char *path, uint64_t needed,
                                     const rungi_io_hook *hook)
{
    char temporary[RUNGI_PATH_MAX];
    RUNG_TRY(rungi_path_temporary(temporary, path, "tmp", (unsigned)gettid()));
    return create(file, temporary, path, needed, hook);
}

rung_status rungi_file_publish(rungi_file *file, const char *path)
{
    rung_status status;
    char *folder = rungi_path_folder(path);
    if (!folder)
        RUNG_TRY_GOTO(abandon, RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for a path", path));
    RUNG_TRY_GOTO(abandon, rungi_file_finish(file));
    RUNG_TRY_GOTO(abandon, rungi_io_rename(file->path, path, file->hook));
    status = rungi_io_sync_folder(folder, file->hook);
    free(folder);
    return status;
abandon:
    free(folder);
    rungi_file_abandon(file);
    return status;
}

rung_status rungi_file_replace(const char *path, const void *data, size_t size,
                               const rungi_io_hook *hook)
{
    rungi_file file;
    RUNG_TRY(rungi_file_create_beside(&file, path, size, hook));
    rung_status status = rungi_file_write(&file, data, size);
    if (status == RUNG_OK)
        return rungi_file_publish(&file, path);
    rungi_file_abandon(&file);
    return status;
}

rung_status rungi_fs_write(const char *path, const void *data, size_t size)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        if (S_ISDIR(st.st_mode))
            return rungi_fs_fail(path, "cannot write", EISDIR);
        return RUNG_FAIL(RUNG_IO, "%s: cannot write: it is not a regular file", path);
    }
    return rungi_file_replace(path, data, size, NULL);
}

rung_status rungi_io_rename(const char *from, const char *to, const rungi_io_hook *hook)
{
    int error = announce(hook, "rename", to);
    if (!error && rename(from, to) != 0)
        error = errno;
    return error ? rungi_io_fail(to, "rename to", error, 0) : RUNG_OK;
}

rung_status rungi_io_sync_folder(const char *path, const rungi_io_hook *hook)
{
    int error = announce(hook, "fsync", path);
    int fd = error ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return rungi_io_fail(path, "open", error ? error : errno, 0);
    // Some network file systems cannot flush folders; they order renames themselves.
    if (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP)
        error = errno;
    close(fd);
    return error ? rungi_io_fail(path, "flush", error, 0) : RUNG_OK;
}

rung_status rungi_io_make_folder(const char *path, bool *exists_out, const rungi_io_hook *hook)
{
    int error = announce(hook, "mkdir", path);
    if (!error && mkdir(path, 0777) != 0)
        error = errno;
    if (error && error != EEXIST)
        return rungi_io_fail(path, "make this folder", error, 0);
    *exists_out = error == EEXIST;
    return RUNG_OK;
}

rung_status rungi_io_make_folders(const char *path, const rungi_io_hook *hook)
{
    char *part = rungi_text_copy(path);
    RUNG_CHECK(part, RUNG_NO_MEMORY, "%s: cannot create folder: out of memory", path);
    rung_status status = RUNG_OK;
    if (!*part)
        status = rungi_fs_fail(path, "cannot create folder", ENOENT);
    for (char *end = part; *end && status == RUNG_OK;) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        char kept = *end;
        *end = 0;
        struct stat st;
        int error = stat(part, &st) == 0 ? EEXIST : announce(hook, "mkdir", part);
        if (error || mkdir(part, 0777) != 0) {
            error = error ? error : errno;
            // An existing folder may answer EEXIST, or EROFS or EACCES on the way to it.
            if (!rungi_fs_is_folder(part))
                status =
                    rungi_fs_fail(part, "cannot create folder", error == EEXIST ? ENOTDIR : error);
        }
        *end = kept;
    }
    free(part);
    return status;
}

rung_status rungi_fs_make_folders(const char *path)
{
    return rungi_io_make_folders(path, NULL);
}
