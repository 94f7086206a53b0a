// SPDX-License-Identifier: Apache-2.0
// The reader: what it hands out after opening. The header is checked in safetensors_header.c.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/error.h"
#include "formats/safetensors_file.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tensor files hold little-endian numbers");

enum { PIECE = 256 * 1024 };

rung_status rung_safetensors_open(const char *path, rung_safetensors **file_out)
{
    RUNG_CHECK(path && file_out, RUNG_INVALID, "rung_safetensors_open: no path or no output");
    rung_safetensors *file = calloc(1, sizeof *file);
    RUNG_CHECK(file, RUNG_NO_MEMORY, "%s: no memory to open it", path);
    file->fd = -1;
    rung_status status;
    RUNG_TRY_GOTO(close_file, rungi_path_format(file->path, "%s", path));
    RUNG_TRY_GOTO(close_file, rungi_io_open_read(path, &file->fd, &file->size));
    RUNG_TRY_GOTO(close_file, rungi_safetensors_index(file));
    *file_out = file;
    return RUNG_OK;
close_file:
    rung_safetensors_close(&file);
    return status;
}

void rung_safetensors_close(rung_safetensors **file)
{
    if (!file || !*file)
        return;
    rung_safetensors *f = *file;
    if (f->fd >= 0)
        close(f->fd);
    while (f->blocks) {
        rungi_safetensors_block *next = f->blocks->next;
        free(f->blocks);
        f->blocks = next;
    }
    rungi_array_fini(&f->tensors);
    rungi_array_fini(&f->metadata);
    free(f->by_offset);
    free(f->by_name);
    free(f);
    *file = NULL;
}

size_t rung_safetensors_count(const rung_safetensors *file)
{
    return file->tensors.count;
}

const rung_safetensors_tensor *rung_safetensors_get(const rung_safetensors *file, size_t index)
{
    return index < file->tensors.count ? file->by_offset[index] : NULL;
}

static int compare_name(const void *key, const void *element)
{
    const rung_safetensors_tensor *const *tensor = element;
    return strcmp(key, (*tensor)->name);
}

const rung_safetensors_tensor *rung_safetensors_find(const rung_safetensors *file, const char *name)
{
    if (!file->tensors.count)
        return NULL;
    const rung_safetensors_tensor **found =
        bsearch(name, file->by_name, file->tensors.count, sizeof *file->by_name, compare_name);
    return found ? *found : NULL;
}

const rung_safetensors_pair *rung_safetensors_metadata(const rung_safetensors *file,
                                                       size_t *count_out)
{
    *count_out = file->metadata.count;
    return file->metadata.data;
}

uint64_t rungi_safetensors_bytes(const rung_safetensors *file)
{
    return file->size;
}

rung_status rung_safetensors_read(rung_safetensors *file, const rung_safetensors_tensor *tensor,
                                  rung_dtype dtype, void *dst, int64_t *lost_out)
{
    RUNG_CHECK(tensor->dtype != RUNG_DTYPE_COUNT, RUNG_UNSUPPORTED,
               "%s: tensor %.200s has type %s, which rung cannot read; convert it to BF16 or F32",
               file->path, tensor->name, tensor->type);
    if (tensor->dtype == dtype) {
        RUNG_TRY(rungi_io_read_at(file->fd, file->path, tensor->offset, dst, tensor->bytes));
        if (lost_out)
            *lost_out = 0;
        return RUNG_OK;
    }
    size_t from_size = rung_dtype_size(tensor->dtype), to_size = rung_dtype_size(dtype);
    RUNG_CHECK(to_size, RUNG_INVALID, "%s: tensor %.200s is asked for in an unknown type",
               file->path, tensor->name);
    void *piece = malloc(PIECE);
    RUNG_CHECK(piece, RUNG_NO_MEMORY, "%s: no memory to convert %.200s", file->path, tensor->name);
    rung_status status = RUNG_OK;
    int64_t lost = 0;
    char *to = dst;
    for (uint64_t done = 0; done < tensor->bytes && status == RUNG_OK;) {
        uint64_t left = tensor->bytes - done;
        size_t size = left < PIECE ? (size_t)left : PIECE;
        status = rungi_io_read_at(file->fd, file->path, tensor->offset + done, piece, size);
        if (status == RUNG_OK) {
            int64_t count = (int64_t)(size / from_size), piece_lost = 0;
            rung_convert(dtype, to, tensor->dtype, piece, count, &piece_lost);
            to += (size_t)count * to_size;
            lost += piece_lost;
        }
        done += size;
    }
    free(piece);
    if (status == RUNG_OK && lost_out)
        *lost_out = lost;
    return status;
}

rung_status rung_safetensors_load(rung_safetensors *file, const char *name, const rung_view *view,
                                  int64_t *lost_out)
{
    const rung_safetensors_tensor *tensor = rung_safetensors_find(file, name);
    RUNG_CHECK(tensor, RUNG_NOT_FOUND, "%s: has no tensor %s", file->path, name);
    rung_shape have = {.rank = tensor->rank};
    if (tensor->rank <= RUNG_MAX_RANK && tensor->rank > 0)
        memcpy(have.dim, tensor->dim, (size_t)tensor->rank * sizeof *tensor->dim);
    char has[RUNG_SHAPE_TEXT], wants[RUNG_SHAPE_TEXT];
    RUNG_CHECK(tensor->rank <= RUNG_MAX_RANK, RUNG_UNSUPPORTED,
               "%s: tensor %s has %d dimensions, rung takes at most %d", file->path, name,
               tensor->rank, RUNG_MAX_RANK);
    RUNG_CHECK(rung_shape_equal(&have, &view->shape), RUNG_MISMATCH,
               "%s: tensor %s has shape %s where %s is expected", file->path, name,
               rung_shape_text(&have, has, sizeof has),
               rung_shape_text(&view->shape, wants, sizeof wants));
    return rung_safetensors_read(file, tensor, view->dtype, view->data, lost_out);
}

rung_status rungi_sum_of_range(int fd, const char *path, uint64_t offset, uint64_t bytes,
                               rungi_sum *sum_out)
{
    rung_status status = RUNG_OK;
    size_t piece_size = bytes < PIECE ? (size_t)bytes + 1 : PIECE;
    void *piece = malloc(piece_size);
    XXH3_state_t *state = XXH3_createState();
    if (!piece || !state)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory to check it", path);
    else
        XXH3_128bits_reset(state);
    for (uint64_t done = 0; done < bytes && status == RUNG_OK;) {
        size_t size = bytes - done < piece_size ? (size_t)(bytes - done) : piece_size;
        status = rungi_io_read_at(fd, path, offset + done, piece, size);
        if (status == RUNG_OK)
            XXH3_128bits_update(state, piece, size);
        done += size;
    }
    if (status == RUNG_OK) {
        XXH128_hash_t hash = XXH3_128bits_digest(state);
        *sum_out = (rungi_sum){hash.high64, hash.low64};
    }
    XXH3_freeState(state);
    free(piece);
    return status;
}

rung_status rungi_safetensors_sum_header(rung_safetensors *file, rungi_sum *sum_out)
{
    return rungi_sum_of_range(file->fd, file->path, 0, file->data_begin, sum_out);
}

rung_status rungi_safetensors_sum_tensor(rung_safetensors *file,
                                         const rung_safetensors_tensor *tensor, rungi_sum *sum_out)
{
    return rungi_sum_of_range(file->fd, file->path, tensor->offset, tensor->bytes, sum_out);
}
