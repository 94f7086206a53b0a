// SPDX-License-Identifier: Apache-2.0
// Takes superseded steps out of the event files of earlier sessions.
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"
#include "base/text.h"
#include "formats/crc32c.h"
#include "formats/tfevents.h"

static const size_t FILE_MAX = (size_t)4 << 30;
enum { HEAD = 12, TAIL = 4 }; // bytes of a record before and after its data

// Takes a varint; false at the end of the data.
static bool take_varint(const unsigned char **at, const unsigned char *end, uint64_t *out)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        unsigned char byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return false;
}

// Event.step (field 2), 0 when it is left out; -1 when the event is malformed.
static int64_t step_of(const unsigned char *at, size_t size)
{
    const unsigned char *end = at + size;
    int64_t step = 0;
    while (at < end) {
        uint64_t key, value, skip = 0;
        if (!take_varint(&at, end, &key))
            return -1;
        switch (key & 7) {
        case 0:
            if (!take_varint(&at, end, &value))
                return -1;
            if (key >> 3 == 2)
                step = (int64_t)value;
            break;
        case 1:
            skip = 8;
            break;
        case 2:
            if (!take_varint(&at, end, &skip))
                return -1;
            break;
        case 5:
            skip = 4;
            break;
        default:
            return -1;
        }
        if (skip > (uint64_t)(end - at))
            return -1;
        at += skip;
    }
    return step;
}

// Size of the record at `at`, 0 when it is damaged or cut.
static size_t record_size(const char *at, size_t left)
{
    uint64_t length;
    uint32_t stored;
    if (left < HEAD + TAIL)
        return 0;
    memcpy(&length, at, sizeof length);
    memcpy(&stored, at + sizeof length, sizeof stored);
    if (stored != rungi_crc32c_masked(at, sizeof length) || length > left - HEAD - TAIL)
        return 0;
    memcpy(&stored, at + HEAD + length, sizeof stored);
    if (stored != rungi_crc32c_masked(at + HEAD, (size_t)length))
        return 0;
    return HEAD + (size_t)length + TAIL;
}

static rung_status cut_file(const char *path, int64_t first_step)
{
    char *data = NULL;
    size_t size = 0, kept = 0;
    bool dropped = false;
    RUNG_TRY(rungi_fs_read(path, FILE_MAX, &data, &size));
    // Records that stay move to the front of the buffer.
    for (size_t at = 0, record; (record = record_size(data + at, size - at)) > 0; at += record) {
        const unsigned char *event = (const unsigned char *)data + at + HEAD;
        if (step_of(event, record - HEAD - TAIL) >= first_step) {
            dropped = true;
            continue;
        }
        memmove(data + kept, data + at, record);
        kept += record;
    }
    rung_status status = RUNG_OK;
    if (dropped && kept)
        status = rungi_file_replace(path, data, kept, NULL);
    else if (dropped && !rungi_io_remove(path, NULL))
        status = rungi_io_fail(path, "remove", errno, 0);
    free(data);
    return status;
}

rung_status rungi_tfevents_cut(const char *folder, int64_t first_step)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return rungi_io_fail(folder, "list", errno, 0);
    rung_status status = RUNG_OK;
    for (struct dirent *entry; status == RUNG_OK && (entry = readdir(dir));) {
        char path[RUNGI_PATH_MAX];
        if (!rungi_text_match("events.out.tfevents.*", entry->d_name))
            continue;
        status = rungi_path_format(path, "%s/%s", folder, entry->d_name);
        // What a killed cut left would be read as an event file.
        if (status == RUNG_OK && rungi_name_is_temporary(entry->d_name, "tmp"))
            (void)rungi_io_remove(path, NULL);
        else if (status == RUNG_OK)
            status = cut_file(path, first_step);
    }
    closedir(dir);
    return status;
}
