// SPDX-License-Identifier: Apache-2.0
#include "formats/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"
#include "base/text.h"
#include "formats/forward.h"

bool rungi_is_compressed(int fd)
{
    unsigned char b[4] = {0};
    if (pread(fd, b, sizeof b, 0) != sizeof b)
        return false;
    return (b[0] == 0x1f && b[1] == 0x8b) || memcmp(b, "BZh", 3) == 0 ||
           memcmp(b, "\x28\xb5\x2f\xfd", 4) == 0;
}

// Counts what comes out, up to a block above `limit`, and writes the first `keep` of it.
static rung_status copy_stream(const char *path, rungi_forward *from, int fd, uint64_t keep,
                               uint64_t limit, uint64_t *size_out)
{
    rungi_file file = {.fd = fd, .needed = 0};
    const void *data;
    size_t got = 1;
    uint64_t size = 0;
    RUNG_TRY(rungi_path_format(file.path, "%s, unpacked", path));
    while (size <= limit) {
        RUNG_TRY(rungi_forward_block(from, &data, &got));
        if (got == 0)
            break;
        if (size < keep)
            RUNG_TRY(rungi_file_write(&file, data, got < keep - size ? got : keep - size));
        size += got;
    }
    *size_out = size;
    return RUNG_OK;
}

static rung_status unpack_to(const char *path, int fd, uint64_t keep, uint64_t limit,
                             uint64_t *size_out)
{
    rungi_forward *from;
    RUNG_TRY(rungi_forward_open(path, &from));
    rung_status status = copy_stream(path, from, fd, keep, limit, size_out);
    rungi_forward_close(&from);
    return status;
}

// A file in `folder` without a name; where the file system has no such files, with one for a
// moment.
static int open_unnamed(const char *folder)
{
    char path[RUNGI_PATH_MAX];
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return fd;
    if (rungi_path_format(path, "%s/.rung-unpacked-XXXXXX", folder) != RUNG_OK)
        return -1;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static rung_status make_unnamed(const char *path, const char *folder, int *fd_out)
{
    *fd_out = folder ? open_unnamed(folder) : memfd_create("rung-unpacked", MFD_CLOEXEC);
    if (*fd_out >= 0)
        return RUNG_OK;
    return RUNG_FAIL(RUNG_IO, "%s: cannot make a file in %s to unpack it to: %s", path,
                     folder ? folder : "memory", strerror(errno));
}

rung_status rungi_unpack(const char *path, const char *folder, uint64_t limit, int *fd_out,
                         uint64_t *size_out)
{
    char text[32];
    int fd;
    uint64_t size = 0, keep = folder ? limit : RUNGI_UNPACK_FIRST;
    rung_status status;
    RUNG_TRY(make_unnamed(path, folder, &fd));
    RUNG_TRY_GOTO(close_file, unpack_to(path, fd, keep < limit ? keep : limit, limit, &size));
    if (size > limit)
        RUNG_TRY_GOTO(close_file,
                      RUNG_FAIL(RUNG_UNSUPPORTED,
                                "%s: unpacks to more than the %s that are kept in memory: make a "
                                "pack of it first (rung convert)",
                                path, rungi_text_bytes(limit, text, sizeof text)));
    if (size > keep) { // now all of it
        if (lseek(fd, 0, SEEK_SET) != 0)
            RUNG_TRY_GOTO(close_file, rungi_io_fail(path, "unpack", errno, size));
        RUNG_TRY_GOTO(close_file, unpack_to(path, fd, limit, limit, &size));
    }
    *fd_out = fd;
    *size_out = size;
    return RUNG_OK;
close_file:
    close(fd);
    return status;
}
