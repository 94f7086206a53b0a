// SPDX-License-Identifier: Apache-2.0
// Reading and removing; the writing side is file_io.c.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"
#include "base/text.h"

static bool remove_at(const char *path, int depth, const rungi_io_hook *hook)
{
    enum { DEPTH_MAX = 32 };
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENOENT;
    if (!S_ISDIR(st.st_mode))
        return (!hook || hook->before(hook->user, "unlink", path) == 0) && unlink(path) == 0;
    if (depth >= DEPTH_MAX)
        return false;
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    // Paths of deep trees would take much stack as arrays: here they come from the heap.
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *child = rungi_text_format("%s/%s", path, entry->d_name);
        if (child)
            (void)remove_at(child, depth + 1, hook);
        free(child);
    }
    closedir(dir);
    return (!hook || hook->before(hook->user, "rmdir", path) == 0) && rmdir(path) == 0;
}

bool rungi_io_remove(const char *path, const rungi_io_hook *hook)
{
    return remove_at(path, 0, hook);
}

rung_status rungi_io_open_read(const char *path, int *fd_out, uint64_t *size_out)
{
    // Non-blocking, or a pipe of that name would wait for a writer.
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return rungi_fs_fail(path, "cannot open", errno);
    struct stat st;
    rung_status status = RUNG_OK;
    if (fstat(fd, &st) != 0)
        status = rungi_io_fail(path, "examine", errno, 0);
    else if (S_ISDIR(st.st_mode))
        status = RUNG_FAIL(RUNG_IO, "%s: is a folder where a file is needed", path);
    else if (!S_ISREG(st.st_mode))
        status = RUNG_FAIL(RUNG_IO, "%s: is not a regular file", path);
    if (status != RUNG_OK) {
        close(fd);
        return status;
    }
    *fd_out = fd;
    *size_out = (uint64_t)st.st_size;
    return RUNG_OK;
}

rung_status rungi_io_read_at(int fd, const char *path, uint64_t offset, void *out, size_t size)
{
    char *to = out;
    uint64_t end = offset + size;
    while (size > 0) {
        size_t piece = size < (size_t)1 << 30 ? size : (size_t)1 << 30;
        ssize_t done = pread(fd, to, piece, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return rungi_io_fail(path, "read", errno, 0);
        RUNG_CHECK(done > 0, RUNG_CORRUPT, "%s: cut: expected %llu bytes, found %llu", path,
                   (unsigned long long)end, (unsigned long long)offset);
        to += done;
        offset += (uint64_t)done;
        size -= (size_t)done;
    }
    return RUNG_OK;
}
