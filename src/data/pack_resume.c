// SPDX-License-Identifier: Apache-2.0
// Beginning to write a pack, or going on where an earlier writer stopped.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "data/pack_writer.h"
#include "data/regrow.h"
#include "formats/crc32c.h"
#include "formats/image_file.h"

static const char journal_magic[8] = {'r', 'u', 'n', 'g', 'p', 'k', 'j', '1'};

static uint32_t record_crc(const rungi_pack_record *record, const char *name)
{
    uint32_t crc = rungi_crc32c(0, record, offsetof(rungi_pack_record, crc));
    return rungi_crc32c(crc, name, record->name_size);
}

// Does the sample's data have its checksum? Read in pieces: a sample may be large.
static bool stands(const rung_pack_writer *w, const rungi_pack_entry *entry, rungi_block *block)
{
    enum { PIECE = 1 << 20 };
    uint32_t crc = 0;
    if (!rungi_block_reserve(block, PIECE))
        return false;
    for (uint64_t done = 0; done < entry->size;) {
        uint64_t want = entry->size - done < PIECE ? entry->size - done : PIECE;
        ssize_t got = pread(w->data.fd, block->data, want, (off_t)(entry->offset + done));
        if (got <= 0)
            return false;
        crc = rungi_crc32c(crc, block->data, (size_t)got);
        done += (uint64_t)got;
    }
    return crc == entry->crc;
}

// Takes one record of the journal; false at the first that does not stand.
static bool take_record(rung_pack_writer *w, const char *at, size_t left, size_t *size_out,
                        rungi_block *block)
{
    rungi_pack_record record;
    if (left < sizeof record)
        return false;
    memcpy(&record, at, sizeof record);
    const char *name = at + sizeof record;
    const rungi_pack_entry *e = &record.entry;
    if (record.name_size > RUNGI_PACK_NAME_MAX || record.name_size > left - sizeof record ||
        record.crc != record_crc(&record, name) || e->offset != w->end || e->size > INT64_MAX / 4 ||
        e->name != (record.name_size ? w->names.size : 0) || !stands(w, e, block))
        return false;
    if (record.name_size)
        rungi_string_append(&w->names, name, record.name_size);
    if (record.name_size)
        rungi_string_append(&w->names, "", 1);
    *size_out = sizeof record + record.name_size;
    w->end = rungi_pack_round(e->offset + e->size);
    return !w->names.failed && rungi_array_push(&w->index, *e);
}

// Reads the journal. *size_out is what of it stands: 0 when it is of something else.
static rung_status read_journal(rung_pack_writer *w, const rungi_pack_journal_head *head,
                                size_t *size_out)
{
    char *text = NULL;
    size_t size = 0, at = sizeof *head;
    rungi_block block = {0};
    *size_out = 0;
    RUNG_TRY(rungi_fs_read(w->journal.path, SIZE_MAX / 2, &text, &size));
    if (size >= sizeof *head && memcmp(text, head, sizeof *head) == 0) {
        size_t taken;
        while (take_record(w, text + at, size - at, &taken, &block))
            at += taken;
        *size_out = at;
    }
    free(text);
    free(block.data);
    RUNG_CHECK(!w->names.failed, RUNG_NO_MEMORY, "%s: no memory for its index", w->path);
    return RUNG_OK;
}

static rung_status cut(const rungi_file *file, uint64_t size)
{
    if (ftruncate(file->fd, (off_t)size) != 0 || lseek(file->fd, (off_t)size, SEEK_SET) < 0)
        return rungi_io_fail(file->path, "cut", errno, 0);
    return RUNG_OK;
}

rung_status rungi_pack_resume(rung_pack_writer *w, uint64_t stamp, bool restart)
{
    char path[RUNGI_PATH_MAX];
    rungi_pack_journal_head head = {.stamp = stamp,
                                    .meta_crc = rungi_crc32c(0, w->meta.data, w->meta.size)};
    memcpy(head.magic, journal_magic, sizeof head.magic);
    head.crc = rungi_crc32c(0, &head, offsetof(rungi_pack_journal_head, crc));
    RUNG_TRY(rungi_path_format(path, "%s.partial", w->path));
    RUNG_TRY(rungi_open_partial(&w->data, path));
    RUNG_TRY(rungi_path_format(path, "%s.partial-index", w->path));
    RUNG_TRY(rungi_open_partial(&w->journal, path));
    size_t stands_to = 0;
    w->end = sizeof(rungi_pack_header);
    rungi_string_append(&w->names, "", 1); // the name of samples without one
    if (!restart)
        RUNG_TRY(read_journal(w, &head, &stands_to));
    if (stands_to == 0) {
        static const char zeros[sizeof(rungi_pack_header)];
        RUNG_TRY(cut(&w->data, 0));
        RUNG_TRY(cut(&w->journal, 0));
        RUNG_TRY(rungi_file_write(&w->data, zeros, sizeof zeros));
        return rungi_file_write(&w->journal, &head, sizeof head);
    }
    RUNG_TRY(cut(&w->data, w->end));
    return cut(&w->journal, stands_to);
}
