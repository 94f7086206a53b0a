// SPDX-License-Identifier: Apache-2.0
#include "data/regrow.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fs.h"
#include "formats/crc32c.h"

enum { PIECE = 1 << 20 };

rung_status rungi_open_partial(rungi_file *file, const char *path)
{
    *file = (rungi_file){.fd = -1};
    RUNG_TRY(rungi_path_format(file->path, "%s", path));
    file->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file->fd < 0) {
        int error = errno;
        char *folder = rungi_path_folder(path);
        rung_status status =
            error == ENOENT && folder && !rungi_fs_exists(folder)
                ? RUNG_FAIL(RUNG_NOT_FOUND, "%s: cannot create: there is no folder %s", path,
                            folder)
                : rungi_io_fail(path, "create", error, 0);
        free(folder);
        return status;
    }
    // A file system without locks goes without.
    RUNG_CHECK(flock(file->fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK, RUNG_IO,
               "%s: another process is writing it", path);
    return RUNG_OK;
}

rung_status rungi_regrow_open(rungi_regrow *g, const char *path, bool restart)
{
    struct stat info;
    *g = (rungi_regrow){.file.fd = -1, .comparing = !restart};
    rung_status status = rungi_open_partial(&g->file, path);
    if (status == RUNG_OK &&
        (fstat(g->file.fd, &info) != 0 || (restart && ftruncate(g->file.fd, 0) != 0)))
        status = rungi_io_fail(path, "open", errno, 0);
    if (status != RUNG_OK) {
        rungi_regrow_close(g);
        return status;
    }
    g->standing = restart ? 0 : (uint64_t)info.st_size;
    return RUNG_OK;
}

// Does the file hold these bytes at `at`?
static bool holds(const rungi_regrow *g, uint64_t at, const char *data, size_t size)
{
    char there[16384];
    for (size_t done = 0; done < size;) {
        size_t want = size - done < sizeof there ? size - done : sizeof there;
        ssize_t got = pread(g->file.fd, there, want, (off_t)(at + done));
        if (got <= 0 || memcmp(there, data + done, (size_t)got) != 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static rung_status settle(rungi_regrow *g)
{
    uint64_t from = g->at - g->ahead.size;
    const char *data = rungi_string_text(&g->ahead);
    size_t size = g->ahead.size;
    if (g->comparing && size && g->standing - from >= size && holds(g, from, data, size)) {
        g->kept += size;
        g->ahead.size = 0;
        return RUNG_OK;
    }
    if (g->comparing) {
        g->comparing = false;
        if (ftruncate(g->file.fd, (off_t)from) != 0 || lseek(g->file.fd, (off_t)from, SEEK_SET) < 0)
            return rungi_io_fail(g->file.path, "cut", errno, 0);
    }
    RUNG_TRY(rungi_file_write(&g->file, data, size));
    g->ahead.size = 0;
    return RUNG_OK;
}

rung_status rungi_regrow_write(rungi_regrow *g, const void *data, size_t size)
{
    rungi_string_append(&g->ahead, data, size);
    RUNG_CHECK(!g->ahead.failed, RUNG_NO_MEMORY, "%s: no memory to write %zu bytes", g->file.path,
               size);
    g->crc = rungi_crc32c(g->crc, data, size);
    g->at += size;
    return g->ahead.size >= PIECE ? settle(g) : RUNG_OK;
}

// Reads the file again.
static rung_status check(const rungi_regrow *g)
{
    uint64_t size;
    int fd;
    uint32_t crc = 0;
    RUNG_TRY(rungi_io_open_read(g->file.path, &fd, &size));
    char *piece = malloc(PIECE);
    rung_status status =
        piece ? RUNG_OK : RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory to check it", g->file.path);
    for (uint64_t at = 0; at < size && status == RUNG_OK; at += PIECE) {
        size_t want = size - at < PIECE ? (size_t)(size - at) : PIECE;
        status = rungi_io_read_at(fd, g->file.path, at, piece, want);
        if (status == RUNG_OK)
            crc = rungi_crc32c(crc, piece, want);
    }
    free(piece);
    close(fd);
    RUNG_TRY(status);
    RUNG_CHECK(size == g->at && crc == g->crc, RUNG_CORRUPT,
               "%s: what was read back is not what was written (%" PRIu64 " of %" PRIu64 " bytes)",
               g->file.path, size, g->at);
    return RUNG_OK;
}

rung_status rungi_regrow_finish(rungi_regrow *g)
{
    // What stands behind the end goes, too.
    rung_status status = settle(g);
    if (status == RUNG_OK && ftruncate(g->file.fd, (off_t)g->at) != 0)
        status = rungi_io_fail(g->file.path, "cut", errno, 0);
    if (status == RUNG_OK)
        status = rungi_file_finish(&g->file);
    if (status == RUNG_OK)
        status = check(g);
    rungi_regrow_close(g);
    return status;
}

void rungi_regrow_close(rungi_regrow *g)
{
    if (g->file.fd >= 0)
        close(g->file.fd);
    g->file.fd = -1;
    rungi_string_fini(&g->ahead);
}
