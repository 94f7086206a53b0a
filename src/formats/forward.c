// SPDX-License-Identifier: Apache-2.0
#include "formats/forward.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_io.h"
#include "base/text.h"

enum { BLOCK = 256 << 10 };

struct rungi_forward {
    char *path;
    struct archive *archive;
    int fd;
    const uint8_t *block; // the rest of the last one
    size_t left;
    uint64_t at; // of the block's rest
};

static rung_status fail(const rungi_forward *f)
{
    const char *reason = archive_error_string(f->archive);
    if (archive_errno(f->archive) == ENOMEM)
        return RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory to unpack it", f->path);
    return RUNG_FAIL(RUNG_CORRUPT, "%s: cut or damaged: cannot unpack it: %s", f->path,
                     reason ? reason : "no reason given");
}

static rung_status start(rungi_forward *f)
{
    struct archive *a = f->archive;
    struct archive_entry *entry;
    archive_read_support_filter_gzip(a);
    archive_read_support_filter_bzip2(a);
    archive_read_support_filter_zstd(a);
    archive_read_support_format_raw(a);
    if (archive_read_open_fd(a, f->fd, BLOCK) != ARCHIVE_OK ||
        archive_read_next_header(a, &entry) != ARCHIVE_OK)
        return fail(f);
    return RUNG_OK;
}

rung_status rungi_forward_open(const char *path, rungi_forward **forward_out)
{
    uint64_t size;
    rungi_forward *f = calloc(1, sizeof *f);
    RUNG_CHECK(f, RUNG_NO_MEMORY, "%s: no memory to read it", path);
    f->fd = -1;
    f->path = rungi_text_copy(path);
    f->archive = archive_read_new();
    rung_status status = f->path && f->archive
                             ? rungi_io_open_read(path, &f->fd, &size)
                             : RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory to read it", path);
    if (status == RUNG_OK)
        status = start(f);
    if (status == RUNG_OK)
        *forward_out = f;
    else
        rungi_forward_close(&f);
    return status;
}

void rungi_forward_close(rungi_forward **forward)
{
    rungi_forward *f = *forward;
    *forward = NULL;
    if (!f)
        return;
    archive_read_free(f->archive);
    if (f->fd >= 0)
        close(f->fd);
    free(f->path);
    free(f);
}

static rung_status next_block(rungi_forward *f)
{
    const void *data;
    la_int64_t at; // a raw stream has no holes
    int code;
    do {
        f->left = 0;
        code = archive_read_data_block(f->archive, &data, &f->left, &at);
    } while (code == ARCHIVE_OK && f->left == 0);
    f->block = data;
    if (code == ARCHIVE_EOF)
        f->left = 0;
    else if (code != ARCHIVE_OK)
        return fail(f);
    return RUNG_OK;
}

rung_status rungi_forward_block(rungi_forward *f, const void **data_out, size_t *size_out)
{
    f->at += f->left;
    RUNG_TRY(next_block(f));
    *data_out = f->block;
    *size_out = f->left;
    return RUNG_OK;
}

rung_status rungi_forward_read(void *from, uint64_t at, void *data, size_t size)
{
    rungi_forward *f = from;
    uint8_t *to = data;
    RUNG_CHECK(at >= f->at, RUNG_INTERNAL, "%s: byte %llu was passed over", f->path,
               (unsigned long long)at);
    while (size > 0) {
        uint64_t skip = at - f->at;
        if (skip >= f->left) {
            f->at += f->left;
            RUNG_TRY(next_block(f));
            RUNG_CHECK(f->left > 0, RUNG_CORRUPT,
                       "%s: cut: it ends after %llu bytes, unpacked, %llu were to follow", f->path,
                       (unsigned long long)f->at, (unsigned long long)(at - f->at + size));
            continue;
        }
        f->block += skip;
        f->left -= skip;
        f->at = at;
        size_t take = size < f->left ? size : f->left;
        memcpy(to, f->block, take);
        to += take;
        size -= take;
        f->block += take;
        f->left -= take;
        f->at = at += take;
    }
    return RUNG_OK;
}
