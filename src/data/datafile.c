// SPDX-License-Identifier: Apache-2.0
#include "data/datafile.h"

#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "data/memory_source.h"

enum { BUFFER = 256 << 10 };

bool rungi_is_gzip(const unsigned char *bytes)
{
    return bytes[0] == 0x1f && bytes[1] == 0x8b;
}

static rung_status start_inflating(rungi_datafile *file)
{
    file->buffer = malloc(BUFFER);
    RUNG_CHECK(file->buffer, RUNG_NO_MEMORY, "%s: no memory to read it", file->path);
    // 15 bits of window, plus 16: gzip only
    RUNG_CHECK(inflateInit2(&file->stream, 15 + 16) == Z_OK, RUNG_NO_MEMORY,
               "%s: no memory to decompress it", file->path);
    file->inflating = true;
    return RUNG_OK;
}

static rung_status check_kind(rungi_datafile *file)
{
    struct stat info;
    unsigned char magic[2] = {0};
    RUNG_CHECK(fstat(file->fd, &info) == 0, RUNG_IO, "%s: cannot read its size: %s", file->path,
               strerror(errno));
    RUNG_CHECK(!S_ISDIR(info.st_mode), RUNG_IO, "%s: is a folder, expected a file", file->path);
    RUNG_CHECK(S_ISREG(info.st_mode), RUNG_IO, "%s: is no regular file", file->path);
    RUNG_CHECK(info.st_size > 0, RUNG_FORMAT, "%s: is empty (0 bytes)", file->path);
    RUNG_CHECK(pread(file->fd, magic, 2, 0) >= 0, RUNG_IO, "%s: cannot read: %s", file->path,
               strerror(errno));
    file->size = info.st_size;
    file->gzip = rungi_is_gzip(magic);
    return RUNG_OK;
}

rung_status rungi_datafile_open(const char *path, rungi_datafile *file)
{
    rung_status status;
    *file = (rungi_datafile){.path = path};
    file->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (file->fd < 0)
        return RUNG_FAIL(errno == ENOENT || errno == ENOTDIR ? RUNG_NOT_FOUND : RUNG_IO,
                         "%s: cannot open: %s", path, strerror(errno));
    RUNG_TRY_GOTO(close_file, check_kind(file));
    if (file->gzip)
        RUNG_TRY_GOTO(close_file, start_inflating(file));
    return RUNG_OK;
close_file:
    rungi_datafile_close(file);
    return status;
}

static rung_status read_some(rungi_datafile *file, void *out, size_t want, size_t *got_out)
{
    size_t got = 0;
    while (got < want) {
        ssize_t n = read(file->fd, (char *)out + got, want - got);
        if (n < 0 && errno == EINTR)
            continue;
        RUNG_CHECK(n >= 0, RUNG_IO, "%s: cannot read: %s", file->path, strerror(errno));
        if (n == 0)
            break;
        got += (size_t)n;
    }
    *got_out = got;
    return RUNG_OK;
}

static rung_status refill(rungi_datafile *file, size_t *got_out)
{
    RUNG_TRY(read_some(file, file->buffer, BUFFER, got_out));
    file->stream.next_in = file->buffer;
    file->stream.avail_in = (uInt)*got_out;
    return RUNG_OK;
}

// After the end of a member: another may follow; anything else is not part of a gzip file.
static rung_status next_member(rungi_datafile *file, bool *more_out)
{
    z_stream *stream = &file->stream;
    if (stream->avail_in < 2) { // keep a lone byte, then read on
        unsigned char kept = stream->avail_in ? *stream->next_in : 0;
        size_t have = stream->avail_in, got = 0;
        RUNG_TRY(read_some(file, file->buffer + have, BUFFER - have, &got));
        file->buffer[0] = have ? kept : file->buffer[0];
        stream->next_in = file->buffer;
        stream->avail_in = (uInt)(have + got);
    }
    if (stream->avail_in == 0) {
        *more_out = false;
        return RUNG_OK;
    }
    RUNG_CHECK(stream->avail_in >= 2 && rungi_is_gzip(stream->next_in), RUNG_CORRUPT,
               "%s: damaged: other bytes follow the compressed data", file->path);
    inflateReset(stream);
    *more_out = true;
    return RUNG_OK;
}

static rung_status inflate_some(rungi_datafile *file, void *out, size_t want, size_t *got_out)
{
    z_stream *stream = &file->stream;
    size_t got = 0;
    while (got < want && file->inflating) {
        size_t room = want - got < (1u << 30) ? want - got : (1u << 30);
        if (stream->avail_in == 0) {
            size_t more = 0;
            RUNG_TRY(refill(file, &more));
            if (more == 0) {
                file->cut = true;
                break;
            }
        }
        stream->next_out = (unsigned char *)out + got;
        stream->avail_out = (uInt)room;
        int code = inflate(stream, Z_NO_FLUSH);
        got += room - stream->avail_out;
        if (code == Z_STREAM_END) {
            bool more = false;
            RUNG_TRY(next_member(file, &more));
            if (!more) {
                inflateEnd(stream);
                file->inflating = false;
            }
        } else if (code == Z_MEM_ERROR) {
            return RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory to decompress it", file->path);
        } else if (code != Z_OK && code != Z_BUF_ERROR) {
            return RUNG_FAIL(RUNG_CORRUPT, "%s: damaged: its gzip compression is broken (%s)",
                             file->path, stream->msg ? stream->msg : "no reason given");
        }
    }
    *got_out = got;
    return RUNG_OK;
}

rung_status rungi_datafile_read(rungi_datafile *file, void *out, size_t want, size_t *got_out)
{
    return file->gzip ? inflate_some(file, out, want, got_out)
                      : read_some(file, out, want, got_out);
}

int64_t rungi_datafile_most(const rungi_datafile *file)
{
    // deflate makes at most 1032 bytes of one
    return file->gzip ? file->size * 1032 : file->size;
}

rung_status rungi_datafile_rest(rungi_datafile *file, int64_t limit, int64_t *rest_out)
{
    char bytes[16384];
    int64_t rest = 0;
    while (rest < limit) {
        size_t got = 0;
        RUNG_TRY(rungi_datafile_read(file, bytes, sizeof bytes, &got));
        rest += (int64_t)got;
        if (got == 0)
            break;
    }
    *rest_out = rest;
    return RUNG_OK;
}

bool rungi_datafile_inflate(const rungi_datafile *file, void *out, size_t size)
{
    size_t length = (size_t)file->size, read = 0, used = 0, made = 0;
    bool whole = false;
    struct libdeflate_decompressor *inflater = libdeflate_alloc_decompressor();
    unsigned char *packed = rungi_memory_source_block(length);
    while (packed && read < length) {
        ssize_t n = pread(file->fd, packed + read, length - read, (off_t)read);
        if (n <= 0)
            break;
        read += (size_t)n;
    }
    if (inflater && packed && read == length)
        whole = libdeflate_gzip_decompress_ex(inflater, packed, length, out, size, &used, &made) ==
                    LIBDEFLATE_SUCCESS &&
                used == length && made == size;
    free(packed);
    libdeflate_free_decompressor(inflater);
    return whole;
}

void rungi_datafile_close(rungi_datafile *file)
{
    if (file->inflating)
        inflateEnd(&file->stream);
    file->inflating = false;
    free(file->buffer);
    file->buffer = NULL;
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}
