// SPDX-License-Identifier: Apache-2.0
#include "data/pack_writer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "formats/crc32c.h"

// What is written at a time. A killed writer loses no more than this.
enum { AHEAD_BYTES = 1 << 20 };

rung_status rung_pack_writer_create(rung_context *context, const char *path,
                                    const rung_pack_writer_options *options,
                                    rung_pack_writer **writer_out)
{
    (void)context;
    rung_status status;
    RUNG_CHECK(path && *path && options && options->fields, RUNG_INVALID,
               "rung_pack_writer_create: no path or no fields given");
    rung_pack_writer *w = calloc(1, sizeof *w);
    RUNG_CHECK(w, RUNG_NO_MEMORY, "%s: no memory to write it", path);
    w->data.fd = w->journal.fd = -1;
    w->path = rungi_text_copy(path);
    if (!w->path)
        RUNG_TRY_GOTO(destroy, RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory to write it", path));
    RUNG_TRY_GOTO(destroy, rungi_pack_layout_init(&w->layout, path, options->fields,
                                                  options->field_count, options->class_count,
                                                  options->class_names, options->note));
    RUNG_TRY_GOTO(destroy, rungi_pack_meta_write(&w->layout, &w->meta));
    RUNG_TRY_GOTO(destroy, rungi_pack_resume(w, options->stamp, options->restart));
    *writer_out = w;
    return RUNG_OK;
destroy:
    rung_pack_writer_destroy(&w, false);
    return status;
}

int64_t rung_pack_writer_count(const rung_pack_writer *w)
{
    return (int64_t)w->index.count;
}

static rung_status write_ahead(rung_pack_writer *w)
{
    RUNG_TRY(rungi_file_write(&w->data, rungi_string_text(&w->data_ahead), w->data_ahead.size));
    RUNG_TRY(
        rungi_file_write(&w->journal, rungi_string_text(&w->journal_ahead), w->journal_ahead.size));
    w->data_ahead.size = w->journal_ahead.size = 0;
    return RUNG_OK;
}

static rung_status check_sample(const rung_pack_writer *w, const rung_view *fields)
{
    const rungi_pack_layout *l = &w->layout;
    for (int f = 0; f < l->field_count; f++) {
        const rung_field *field = &l->fields[f];
        bool file = f == l->file;
        RUNG_CHECK(fields[f].data && fields[f].dtype == field->dtype &&
                       (file ? fields[f].shape.rank == 1
                             : rung_shape_equal(&fields[f].shape, &field->shape)),
                   RUNG_MISMATCH, "%s: sample %zu: field %s is not of the pack's dtype and shape",
                   w->path, w->index.count, field->name);
        RUNG_CHECK(!file || (fields[f].shape.dim[0] > 0 && fields[f].shape.dim[0] <= INT64_MAX / 4),
                   RUNG_DATA, "%s: sample %zu: field %s is an empty file", w->path, w->index.count,
                   field->name);
    }
    if (l->label < 0)
        return RUNG_OK;
    int64_t label = *(const int64_t *)fields[l->label].data;
    RUNG_CHECK(label >= 0 && (!l->class_count || label < l->class_count), RUNG_DATA,
               "%s: sample %zu has label %" PRId64 ", there are %d classes", w->path,
               w->index.count, label, l->class_count);
    return RUNG_OK;
}

// Puts `size` bytes (or, without data, zeros) behind the samples.
static void put(rung_pack_writer *w, const void *data, uint64_t size, uint32_t *crc)
{
    static const char zeros[RUNGI_PACK_SLACK + RUNGI_PACK_ALIGN];
    const char *from = data ? data : zeros;
    rungi_string_append(&w->data_ahead, from, size);
    *crc = rungi_crc32c(*crc, from, size);
}

static rung_status put_record(rung_pack_writer *w, const rungi_pack_entry *entry, const char *name,
                              size_t name_size)
{
    rungi_pack_record record = {.entry = *entry, .name_size = (uint32_t)name_size};
    record.crc = rungi_crc32c(0, &record, offsetof(rungi_pack_record, crc));
    record.crc = rungi_crc32c(record.crc, name, name_size);
    rungi_string_append(&w->journal_ahead, (const char *)&record, sizeof record);
    if (name_size) {
        rungi_string_append(&w->journal_ahead, name, name_size);
        rungi_string_append(&w->names, name, name_size);
        rungi_string_append(&w->names, "", 1);
    }
    RUNG_CHECK(!w->journal_ahead.failed && !w->names.failed && !w->data_ahead.failed &&
                   rungi_array_push(&w->index, *entry),
               RUNG_NO_MEMORY, "%s: no memory for sample %zu", w->path, w->index.count);
    return RUNG_OK;
}

static rung_status add(rung_pack_writer *w, const char *name, const rung_view *fields)
{
    const rungi_pack_layout *l = &w->layout;
    size_t name_size = strnlen(name, RUNGI_PACK_NAME_MAX);
    rungi_pack_entry entry = {.offset = w->end, .label = -1};
    RUNG_CHECK(w->names.size + name_size < UINT32_MAX, RUNG_UNSUPPORTED,
               "%s: the names of its samples take more than 4 GiB: shorten them", w->path);
    entry.name = name_size ? (uint32_t)w->names.size : 0;
    if (l->label >= 0)
        entry.label = *(const int64_t *)fields[l->label].data;
    for (int f = 0; f < l->field_count; f++) {
        if (f == l->label || f == l->file)
            continue;
        put(w, NULL, l->offset[f] - entry.size, &entry.crc);
        put(w, fields[f].data, l->bytes[f], &entry.crc);
        entry.size = l->offset[f] + l->bytes[f];
    }
    if (l->file >= 0) {
        uint64_t size = (uint64_t)fields[l->file].shape.dim[0];
        put(w, NULL, l->offset[l->file] - entry.size, &entry.crc);
        put(w, fields[l->file].data, size, &entry.crc);
        entry.size = l->fixed + size;
    }
    RUNG_TRY(put_record(w, &entry, name, name_size));
    uint32_t unused = 0;
    w->end = rungi_pack_round(entry.offset + entry.size);
    put(w, NULL, w->end - entry.offset - entry.size, &unused);
    return w->data_ahead.size >= AHEAD_BYTES ? write_ahead(w) : RUNG_OK;
}

rung_status rung_pack_writer_add(rung_pack_writer *w, const char *name, const rung_view *fields)
{
    RUNG_CHECK(!w->failed, RUNG_INVALID, "%s: an earlier sample could not be written", w->path);
    RUNG_TRY(check_sample(w, fields));
    rung_status status = add(w, name ? name : "", fields);
    w->failed = status != RUNG_OK;
    return status;
}

// Index, names and description, then the header in front.
static rung_status write_tail(rung_pack_writer *w)
{
    static const char zeros[RUNGI_PACK_SLACK];
    rungi_pack_header h = {.version = RUNGI_PACK_VERSION,
                           .count = w->index.count,
                           .tail = w->end + RUNGI_PACK_SLACK,
                           .names_size = w->names.size,
                           .meta_size = w->meta.size};
    size_t index = w->index.count * sizeof *w->index.data;
    memcpy(h.magic, rungi_pack_magic, sizeof h.magic);
    h.file_size = h.tail + index + h.names_size + h.meta_size;
    h.tail_crc = rungi_crc32c(0, w->index.data, index);
    h.tail_crc = rungi_crc32c(h.tail_crc, w->names.data, w->names.size);
    h.tail_crc = rungi_crc32c(h.tail_crc, w->meta.data, w->meta.size);
    h.header_crc = rungi_crc32c(0, &h, offsetof(rungi_pack_header, header_crc));
    RUNG_TRY(write_ahead(w));
    RUNG_TRY(rungi_file_write(&w->data, zeros, sizeof zeros));
    RUNG_TRY(rungi_file_write(&w->data, w->index.data, index));
    RUNG_TRY(rungi_file_write(&w->data, w->names.data, w->names.size));
    RUNG_TRY(rungi_file_write(&w->data, w->meta.data, w->meta.size));
    if (lseek(w->data.fd, 0, SEEK_SET) != 0)
        return rungi_io_fail(w->data.path, "write", errno, 0);
    return rungi_file_write(&w->data, &h, sizeof h);
}

static rung_status publish(rung_pack_writer *w, rung_progress_fn progress, void *user)
{
    char *folder = rungi_path_folder(w->path);
    rung_status status = folder ? RUNG_OK : RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory", w->path);
    if (status == RUNG_OK)
        status = rungi_file_finish(&w->data);
    if (status == RUNG_OK)
        status = rung_pack_check(w->data.path, progress, user);
    if (status == RUNG_OK)
        status = rungi_io_rename(w->data.path, w->path, NULL);
    if (status == RUNG_OK)
        status = rungi_io_sync_folder(folder, NULL);
    free(folder);
    return status;
}

rung_status rung_pack_writer_finish(rung_pack_writer **writer, rung_progress_fn progress,
                                    void *user)
{
    rung_pack_writer *w = *writer;
    rung_status status = RUNG_OK;
    if (w->failed)
        status = RUNG_FAIL(RUNG_INVALID, "%s: a sample could not be written", w->path);
    else if (w->index.count == 0)
        status = RUNG_FAIL(RUNG_DATA, "%s: no samples to write", w->path);
    if (status == RUNG_OK)
        status = write_tail(w);
    if (status == RUNG_OK)
        status = publish(w, progress, user);
    if (status == RUNG_OK)
        rungi_file_abandon(&w->journal);
    rung_pack_writer_destroy(writer, false);
    return status;
}

void rung_pack_writer_destroy(rung_pack_writer **writer, bool remove)
{
    if (!writer || !*writer)
        return;
    rung_pack_writer *w = *writer;
    if (remove && w->data.fd >= 0)
        rungi_file_abandon(&w->data);
    if (remove && w->journal.fd >= 0)
        rungi_file_abandon(&w->journal);
    if (w->data.fd >= 0)
        close(w->data.fd);
    if (w->journal.fd >= 0)
        close(w->journal.fd);
    rungi_pack_layout_fini(&w->layout);
    rungi_string_fini(&w->meta);
    rungi_string_fini(&w->data_ahead);
    rungi_string_fini(&w->journal_ahead);
    rungi_string_fini(&w->names);
    rungi_array_fini(&w->index);
    free(w->path);
    free(w);
    *writer = NULL;
}
