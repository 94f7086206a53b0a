// SPDX-License-Identifier: Apache-2.0
// Opening packs: nothing of a file is believed before it was checked against the file's size.
#include "data/pack_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/file_io.h"
#include "formats/crc32c.h"

const char rungi_pack_magic[8] = {'r', 'u', 'n', 'g', 'p', 'a', 'c', 'k'};

enum { HEADER_SUMMED = offsetof(rungi_pack_header, header_crc) };

static rung_status check_header(const rungi_pack *pack, uint64_t size)
{
    const rungi_pack_header *h = &pack->header;
    const char *path = pack->path;
    RUNG_CHECK(memcmp(h->magic, rungi_pack_magic, sizeof h->magic) == 0, RUNG_FORMAT,
               "%s: not a pack", path);
    RUNG_CHECK(h->version == RUNGI_PACK_VERSION, RUNG_UNSUPPORTED,
               "%s: a pack of version %u, this rung reads version %d", path, h->version,
               RUNGI_PACK_VERSION);
    RUNG_CHECK(rungi_crc32c(0, h, HEADER_SUMMED) == h->header_crc, RUNG_CORRUPT,
               "%s: damaged: its header does not have its checksum", path);
    RUNG_CHECK(h->file_size <= size, RUNG_CORRUPT,
               "%s: cut: expected %" PRIu64 " bytes, found %" PRIu64, path, h->file_size, size);
    RUNG_CHECK(h->file_size == size, RUNG_CORRUPT,
               "%s: too long: expected %" PRIu64 " bytes, found %" PRIu64, path, h->file_size,
               size);
    RUNG_CHECK(h->flags == 0, RUNG_UNSUPPORTED, "%s: a pack with flags %#x, which this rung lacks",
               path, h->flags);
    return RUNG_OK;
}

// Index, names and description must fill the tail exactly.
static rung_status check_tail(const rungi_pack *pack)
{
    const rungi_pack_header *h = &pack->header;
    size_t index = 0, end = 0;
    bool fits = h->tail >= sizeof *h + RUNGI_PACK_SLACK && h->tail % RUNGI_PACK_ALIGN == 0 &&
                rungi_size_mul(h->count, sizeof(rungi_pack_entry), &index) &&
                rungi_size_add(h->tail, index, &end) && rungi_size_add(end, h->names_size, &end) &&
                rungi_size_add(end, h->meta_size, &end) && end == h->file_size;
    RUNG_CHECK(fits && h->names_size > 0, RUNG_FORMAT,
               "%s: its header is wrong: %" PRIu64 " samples, %" PRIu64 " bytes of names and "
               "%" PRIu64 " of description from byte %" PRIu64 " on do not fill %" PRIu64 " bytes",
               pack->path, h->count, h->names_size, h->meta_size, h->tail, h->file_size);
    RUNG_CHECK(h->count > 0, RUNG_DATA, "%s: holds no samples", pack->path);
    RUNG_CHECK(h->meta_size <= RUNGI_PACK_META_MAX, RUNG_FORMAT,
               "%s: a description of %" PRIu64 " bytes, can be at most %d", pack->path,
               h->meta_size, RUNGI_PACK_META_MAX);
    return RUNG_OK;
}

static rung_status check_entry(const rungi_pack *pack, uint64_t i)
{
    const rungi_pack_entry *e = &pack->index[i];
    const rungi_pack_layout *l = &pack->layout;
    uint64_t end = pack->header.tail - RUNGI_PACK_SLACK;
    RUNG_CHECK(e->offset >= sizeof pack->header && e->offset % RUNGI_PACK_ALIGN == 0 &&
                   e->offset <= end && e->size <= end - e->offset,
               RUNG_FORMAT,
               "%s: sample %" PRIu64 " lies at byte %" PRIu64 " with %" PRIu64
               " bytes: not among the samples, which end at %" PRIu64,
               pack->path, i, e->offset, e->size, end);
    RUNG_CHECK(l->file >= 0 ? e->size > l->fixed : e->size == l->fixed, RUNG_FORMAT,
               "%s: sample %" PRIu64 " has %" PRIu64 " bytes, expected %s%" PRIu64, pack->path, i,
               e->size, l->file >= 0 ? "more than " : "", l->fixed);
    RUNG_CHECK(e->name < pack->header.names_size, RUNG_FORMAT,
               "%s: sample %" PRIu64 ": its name is not among the names", pack->path, i);
    bool labelled = l->label >= 0;
    RUNG_CHECK(labelled ? e->label >= 0 && (!l->class_count || e->label < l->class_count)
                        : e->label == -1,
               RUNG_DATA, "%s: sample %" PRIu64 ": label %" PRId64 " of %d classes", pack->path, i,
               e->label, l->class_count);
    return RUNG_OK;
}

static rung_status read_tail(rungi_pack *pack, bool read)
{
    const rungi_pack_header *h = &pack->header;
    uint64_t size = h->file_size - h->tail;
    const uint8_t *tail;
    if (read) {
        pack->tail = malloc(size);
        RUNG_CHECK(pack->tail, RUNG_NO_MEMORY, "%s: no memory for its index of %" PRIu64 " bytes",
                   pack->path, size);
        RUNG_TRY(rungi_io_read_at(pack->fd, pack->path, h->tail, pack->tail, size));
        tail = pack->tail;
    } else {
        RUNG_TRY(rungi_mapping_init(&pack->mapping, pack->path));
        RUNG_CHECK(pack->mapping.size == h->file_size, RUNG_CORRUPT,
                   "%s: has changed while it was opened", pack->path);
        tail = pack->mapping.data + h->tail;
    }
    RUNG_CHECK(rungi_crc32c(0, tail, size) == h->tail_crc, RUNG_CORRUPT,
               "%s: damaged: its index does not have its checksum", pack->path);
    pack->index = (const rungi_pack_entry *)(const void *)tail;
    pack->names = (const char *)tail + h->count * sizeof *pack->index;
    RUNG_CHECK(pack->names[h->names_size - 1] == '\0', RUNG_FORMAT, "%s: its names have no end",
               pack->path);
    RUNG_TRY(
        rungi_pack_meta_read(pack->path, pack->names + h->names_size, h->meta_size, &pack->layout));
    for (uint64_t i = 0; i < h->count; i++)
        RUNG_TRY(check_entry(pack, i));
    return RUNG_OK;
}

static rung_status open_pack(rungi_pack *pack, bool read)
{
    uint64_t size;
    RUNG_TRY(rungi_io_open_read(pack->path, &pack->fd, &size));
    RUNG_CHECK(size >= sizeof pack->header, RUNG_FORMAT, "%s: not a pack: only %" PRIu64 " bytes",
               pack->path, size);
    RUNG_TRY(rungi_io_read_at(pack->fd, pack->path, 0, &pack->header, sizeof pack->header));
    RUNG_TRY(check_header(pack, size));
    RUNG_TRY(check_tail(pack));
    return read_tail(pack, read);
}

rung_status rungi_pack_open(const char *path, bool read, rungi_pack *pack)
{
    RUNG_CHECK(path && *path, RUNG_INVALID, "no path of a pack given");
    *pack = (rungi_pack){.path = rungi_text_copy(path), .fd = -1};
    RUNG_CHECK(pack->path, RUNG_NO_MEMORY, "%s: no memory to open it", path);
    rung_status status = open_pack(pack, read);
    if (status != RUNG_OK)
        rungi_pack_close(pack);
    return status;
}

void rungi_pack_close(rungi_pack *pack)
{
    rungi_mapping_fini(&pack->mapping);
    if (pack->fd >= 0)
        close(pack->fd);
    free(pack->tail);
    free(pack->path);
    rungi_pack_layout_fini(&pack->layout);
    *pack = (rungi_pack){.fd = -1};
}

rung_status rungi_pack_fail_sum(const rungi_pack *pack, int64_t index)
{
    const rungi_pack_entry *e = &pack->index[index];
    return RUNG_FAIL(RUNG_CORRUPT,
                     "%s: damaged: sample %" PRId64 " (%s, %" PRIu64 " bytes at byte %" PRIu64
                     ") does not have its checksum",
                     pack->path, index, pack->names + e->name, e->size, e->offset);
}

rung_status rung_pack_check(const char *path, rung_progress_fn progress, void *user)
{
    enum { TELL_EVERY = 256 };
    rungi_pack pack;
    RUNG_TRY(rungi_pack_open(path, false, &pack));
    rung_status status = RUNG_OK;
    int64_t count = (int64_t)pack.header.count;
    for (int64_t i = 0; i < count && status == RUNG_OK; i++) {
        const rungi_pack_entry *e = &pack.index[i];
        if (rungi_crc32c(0, pack.mapping.data + e->offset, e->size) != e->crc)
            status = rungi_pack_fail_sum(&pack, i);
        else if (progress && (i % TELL_EVERY == 0 || i + 1 == count) &&
                 !progress(user, i + 1, count))
            status = RUNG_FAIL(RUNG_CANCELLED, "%s: stopped while it was checked", path);
    }
    rungi_pack_close(&pack);
    return status;
}
