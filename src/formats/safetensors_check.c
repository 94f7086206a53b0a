// SPDX-License-Identifier: Apache-2.0
// What can be checked of a header only when all of it was read.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "formats/safetensors_file.h"

static int by_name(const void *a, const void *b)
{
    const rung_safetensors_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int by_offset(const void *a, const void *b)
{
    const rung_safetensors_tensor *const *x = a, *const *y = b;
    if ((*x)->offset != (*y)->offset)
        return (*x)->offset < (*y)->offset ? -1 : 1;
    if ((*x)->bytes != (*y)->bytes)
        return (*x)->bytes < (*y)->bytes ? -1 : 1;
    return strcmp((*x)->name, (*y)->name);
}

static int by_key(const void *a, const void *b)
{
    const rung_safetensors_pair *const *x = a, *const *y = b;
    return strcmp((*x)->key, (*y)->key);
}

static rung_status check_metadata(rung_safetensors *file)
{
    size_t count = file->metadata.count;
    const rung_safetensors_pair **sorted = malloc((count + 1) * sizeof *sorted);
    RUNG_CHECK(sorted, RUNG_NO_MEMORY, "%s: no memory for its header", file->path);
    for (size_t i = 0; i < count; i++)
        sorted[i] = &file->metadata.data[i];
    qsort(sorted, count, sizeof *sorted, by_key);
    rung_status status = RUNG_OK;
    for (size_t i = 1; i < count && status == RUNG_OK; i++)
        if (strcmp(sorted[i - 1]->key, sorted[i]->key) == 0)
            status = RUNG_FAIL(RUNG_FORMAT, "%s: __metadata__: %.200s is given twice", file->path,
                               sorted[i]->key);
    free(sorted);
    return status;
}

// Names are unique, and the tensors tile the buffer from its first byte to its last.
static rung_status check_tiling(rung_safetensors *file)
{
    size_t count = file->tensors.count;
    uint64_t room = file->size - file->data_begin, at = 0;
    file->by_name = malloc((count + 1) * sizeof *file->by_name);
    file->by_offset = malloc((count + 1) * sizeof *file->by_offset);
    RUNG_CHECK(file->by_name && file->by_offset, RUNG_NO_MEMORY, "%s: no memory for its header",
               file->path);
    for (size_t i = 0; i < count; i++)
        file->by_name[i] = file->by_offset[i] = &file->tensors.data[i];
    qsort(file->by_name, count, sizeof *file->by_name, by_name);
    qsort(file->by_offset, count, sizeof *file->by_offset, by_offset);
    for (size_t i = 1; i < count; i++)
        RUNG_CHECK(strcmp(file->by_name[i - 1]->name, file->by_name[i]->name) != 0, RUNG_FORMAT,
                   "%s: two tensors are named %.200s", file->path, file->by_name[i]->name);
    for (size_t i = 0; i < count; i++) {
        const rung_safetensors_tensor *t = file->by_offset[i];
        RUNG_CHECK(t->offset <= at, RUNG_FORMAT,
                   "%s: %" PRIu64 " bytes before tensor %.200s belong to no tensor", file->path,
                   t->offset - at, t->name);
        RUNG_CHECK(t->offset == at, RUNG_FORMAT, "%s: tensor %.200s overlaps the one before it",
                   file->path, t->name);
        at += t->bytes; // both below 2^63
    }
    RUNG_CHECK(at <= room, RUNG_CORRUPT, "%s: cut: expected %" PRIu64 " bytes, found %" PRIu64,
               file->path, file->data_begin + at, file->size);
    RUNG_CHECK(at == room, RUNG_FORMAT, "%s: %" PRIu64 " bytes after the last tensor", file->path,
               room - at);
    for (size_t i = 0; i < count; i++)
        file->tensors.data[i].offset += file->data_begin;
    return RUNG_OK;
}

rung_status rungi_safetensors_check(rung_safetensors *file)
{
    RUNG_TRY(check_metadata(file));
    return check_tiling(file);
}
