// SPDX-License-Identifier: Apache-2.0
#include "rung/npy.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/text.h"
#include "formats/npy_read.h"

enum {
    MAGIC_SIZE = 6,
    HEADER_MAX = 65536,
    ALIGNMENT = 64,
    PIECE_COUNT = 16384, // elements converted at a time
};
static const char MAGIC[] = "\x93NUMPY";

// bf16 has no entry: NumPy has no such type.
static const struct {
    rung_dtype dtype;
    const char *descr;
} descrs[] = {
    {RUNG_F32, "<f4"}, {RUNG_F64, "<f8"}, {RUNG_F16, "<f2"},  {RUNG_I32, "<i4"},
    {RUNG_I64, "<i8"}, {RUNG_U8, "|u1"},  {RUNG_BOOL, "|b1"},
};
enum { DESCR_COUNT = sizeof descrs / sizeof *descrs };

static void skip_space(const char **at)
{
    while (isspace((unsigned char)**at))
        (*at)++;
}

static bool take(const char **at, char wanted)
{
    skip_space(at);
    if (**at != wanted)
        return false;
    (*at)++;
    return true;
}

// A quoted Python string without escapes.
static bool take_string(const char **at, char out[64])
{
    skip_space(at);
    char quote = **at;
    if (quote != '\'' && quote != '"')
        return false;
    const char *begin = ++*at;
    while (**at && **at != quote && **at != '\\')
        (*at)++;
    size_t size = (size_t)(*at - begin);
    if (**at != quote || size >= 64)
        return false;
    memcpy(out, begin, size);
    out[size] = 0;
    (*at)++;
    return true;
}

typedef struct header {
    char descr[64];
    int fortran; // -1: not given
    int rank;    // -1: not given
    int64_t dim[RUNG_MAX_RANK];
} header;

static bool take_shape(const char **at, header *h)
{
    if (h->rank >= 0 || !take(at, '('))
        return false;
    h->rank = 0;
    while (!take(at, ')')) {
        int64_t value = 0;
        skip_space(at);
        if (!isdigit((unsigned char)**at))
            return false;
        for (; isdigit((unsigned char)**at); (*at)++)
            if (!rungi_i64_mul(value, 10, &value) || !rungi_i64_add(value, **at - '0', &value))
                return false;
        if (**at == 'L') // written by Python 2
            (*at)++;
        if (h->rank < RUNG_MAX_RANK)
            h->dim[h->rank] = value;
        h->rank++;
        if (!take(at, ',') && (skip_space(at), **at != ')'))
            return false;
    }
    return true;
}

static bool take_bool(const char **at, int *out)
{
    skip_space(at);
    bool yes = strncmp(*at, "True", 4) == 0;
    if (*out >= 0 || (!yes && strncmp(*at, "False", 5) != 0))
        return false;
    *at += yes ? 4 : 5;
    *out = yes;
    return true;
}

// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } in any order.
static rung_status parse_header(const char *path, const char *text, header *h)
{
    const char *at = text;
    *h = (header){.fortran = -1, .rank = -1};
    bool good = take(&at, '{');
    while (good && !take(&at, '}')) {
        char key[64];
        good = take_string(&at, key) && take(&at, ':');
        if (good && strcmp(key, "shape") == 0)
            good = take_shape(&at, h);
        else if (good && strcmp(key, "fortran_order") == 0)
            good = take_bool(&at, &h->fortran);
        else if (good && strcmp(key, "descr") == 0 && (skip_space(&at), *at == '['))
            return RUNG_FAIL(RUNG_UNSUPPORTED, "%s: holds records, not numbers", path);
        else
            good = good && strcmp(key, "descr") == 0 && !h->descr[0] && take_string(&at, h->descr);
        good = good && (take(&at, ',') || (skip_space(&at), *at == '}'));
    }
    skip_space(&at);
    RUNG_CHECK(good && !*at && h->descr[0] && h->fortran >= 0 && h->rank >= 0, RUNG_FORMAT,
               "%s: malformed header of an .npy file: %.100s", path, text);
    return RUNG_OK;
}

static rung_status interpret(const char *path, const header *h, rung_view *view)
{
    int found = -1;
    for (int i = 0; i < DESCR_COUNT; i++)
        if (strcmp(h->descr, descrs[i].descr) == 0)
            found = i;
    RUNG_CHECK(found >= 0, RUNG_UNSUPPORTED,
               "%s: numbers of type %s cannot be read; save them as <f4, <f8, <f2, <i4, <i8, |u1 "
               "or |b1",
               path, h->descr);
    // One dimension and none are in both orders at once.
    RUNG_CHECK(!h->fortran || h->rank < 2, RUNG_UNSUPPORTED,
               "%s: is in Fortran order; save numpy.ascontiguousarray of it", path);
    RUNG_CHECK(h->rank <= RUNG_MAX_RANK, RUNG_UNSUPPORTED,
               "%s: has %d dimensions, rung takes at most %d", path, h->rank, RUNG_MAX_RANK);
    *view = (rung_view){.dtype = descrs[found].dtype, .shape = {.rank = h->rank}};
    memcpy(view->shape.dim, h->dim, sizeof h->dim);
    return RUNG_OK;
}

rung_status rungi_npy_read_from(const rungi_npy_input *in, const char *path, uint64_t size,
                                rung_view *view)
{
    unsigned char start[MAGIC_SIZE + 6] = {0};
    RUNG_CHECK(size >= MAGIC_SIZE + 4, RUNG_FORMAT, "%s: not an .npy file: only %" PRIu64 " bytes",
               path, size);
    RUNG_TRY(in->read(in->user, 0, start, size < sizeof start ? size : sizeof start));
    RUNG_CHECK(memcmp(start, MAGIC, MAGIC_SIZE) == 0, RUNG_FORMAT, "%s: not an .npy file", path);
    unsigned version = start[MAGIC_SIZE];
    RUNG_CHECK(version >= 1 && version <= 3, RUNG_UNSUPPORTED,
               "%s: version %u of .npy files; rung reads 1 to 3", path, version);
    const unsigned char *n = start + MAGIC_SIZE + 2;
    uint64_t length = version == 1 ? (uint64_t)(n[0] | n[1] << 8)
                                   : (n[0] | n[1] << 8 | n[2] << 16 | (uint64_t)n[3] << 24);
    uint64_t begin = MAGIC_SIZE + (version == 1 ? 4 : 6);
    RUNG_CHECK(length <= HEADER_MAX, RUNG_FORMAT,
               "%s: not an .npy file: header of %" PRIu64 " bytes", path, length);
    char *text = calloc(1, (size_t)length + 1);
    RUNG_CHECK(text, RUNG_NO_MEMORY, "%s: no memory for its header", path);
    header h;
    int64_t count, bytes;
    rung_status status;
    RUNG_TRY_GOTO(free_text, in->read(in->user, begin, text, (size_t)length));
    RUNG_TRY_GOTO(free_text, parse_header(path, text, &h));
    RUNG_TRY_GOTO(free_text, interpret(path, &h, view));
    if (rung_shape_count(&view->shape, &count) != RUNG_OK) {
        status = rungi_fail_prefix("%s", path);
        goto free_text;
    }
    begin += length;
    if (!rungi_i64_mul(count, (int64_t)rung_dtype_size(view->dtype), &bytes))
        status = RUNG_FAIL(RUNG_FORMAT, "%s: its shape's product is too large", path);
    else if ((uint64_t)bytes > size - begin)
        status = RUNG_FAIL(RUNG_CORRUPT, "%s: cut: expected %" PRIu64 " bytes, found %" PRIu64,
                           path, begin + (uint64_t)bytes, size);
    else if ((uint64_t)bytes < size - begin)
        status = RUNG_FAIL(RUNG_FORMAT, "%s: %" PRIu64 " bytes after the array", path,
                           size - begin - (uint64_t)bytes);
    else if (!(view->data = malloc((size_t)bytes + 1)))
        status = RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for its %" PRId64 " bytes", path, bytes);
    else
        status = in->read(in->user, begin, view->data, (size_t)bytes);
free_text:
    free(text);
    return status;
}

typedef struct open_file {
    int fd;
    const char *path;
} open_file;

static rung_status read_file(void *user, uint64_t offset, void *out, size_t size)
{
    const open_file *file = user;
    return rungi_io_read_at(file->fd, file->path, offset, out, size);
}

rung_status rung_npy_read(const char *path, rung_view *view_out)
{
    int fd = -1;
    uint64_t size = 0;
    rung_view view = {0};
    RUNG_CHECK(path && view_out, RUNG_INVALID, "rung_npy_read: no path or no output");
    RUNG_TRY(rungi_io_open_read(path, &fd, &size));
    open_file file = {fd, path};
    rung_status status =
        rungi_npy_read_from(&(rungi_npy_input){&file, read_file}, path, size, &view);
    close(fd);
    if (status != RUNG_OK) {
        free(view.data);
        return status;
    }
    *view_out = view;
    return RUNG_OK;
}

rung_status rungi_npy_head(const rung_view *view, rungi_string *out)
{
    const char *descr = "<f4";
    for (int i = 0; i < DESCR_COUNT; i++)
        if (descrs[i].dtype == view->dtype)
            descr = descrs[i].descr;
    rungi_string_append(out, MAGIC, MAGIC_SIZE);
    rungi_string_append(out, "\x01\x00\x00\x00", 4); // version 1.0, length filled in below
    rungi_string_add(out, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int d = 0; d < view->shape.rank; d++)
        rungi_string_add(out, "%s%" PRId64, d ? ", " : "", view->shape.dim[d]);
    rungi_string_add(out, "%s), }", view->shape.rank == 1 ? "," : "");
    while (out->size % ALIGNMENT != ALIGNMENT - 1 && !out->failed)
        rungi_string_append(out, " ", 1);
    rungi_string_append(out, "\n", 1);
    RUNG_CHECK(!out->failed, RUNG_NO_MEMORY, "no memory for the header of an .npy file");
    size_t length = out->size - MAGIC_SIZE - 4;
    out->data[MAGIC_SIZE + 2] = (char)(length & 0xFF);
    out->data[MAGIC_SIZE + 3] = (char)(length >> 8);
    return RUNG_OK;
}

static rung_status write_elements(rungi_file *file, const rung_view *view, int64_t count)
{
    if (view->dtype != RUNG_BF16)
        return rungi_file_write(file, view->data, (size_t)count * rung_dtype_size(view->dtype));
    float *wide = malloc(PIECE_COUNT * sizeof *wide);
    RUNG_CHECK(wide, RUNG_NO_MEMORY, "%s: no memory to convert it", file->path);
    const uint16_t *from = view->data;
    rung_status status = RUNG_OK;
    for (int64_t done = 0; done < count && status == RUNG_OK; done += PIECE_COUNT) {
        int64_t n = count - done < PIECE_COUNT ? count - done : PIECE_COUNT;
        rung_convert(RUNG_F32, wide, RUNG_BF16, from + done, n, NULL);
        status = rungi_file_write(file, wide, (size_t)n * sizeof *wide);
    }
    free(wide);
    return status;
}

rung_status rung_npy_write(const char *path, const rung_view *view)
{
    int64_t count, bytes;
    RUNG_CHECK(path && view && (unsigned)view->dtype < RUNG_DTYPE_COUNT && view->shape.rank >= 0 &&
                   view->shape.rank <= RUNG_MAX_RANK,
               RUNG_INVALID, "rung_npy_write: no path or not a valid array");
    if (rung_shape_count(&view->shape, &count) != RUNG_OK)
        return rungi_fail_prefix("%s", path);
    RUNG_CHECK(rungi_i64_mul(count, 8, &bytes) && (!count || view->data), RUNG_INVALID,
               "%s: the array to write has no data or is too large", path);
    rungi_string text = {0};
    rungi_file file;
    rung_status status;
    RUNG_TRY_GOTO(fini_text, rungi_npy_head(view, &text));
    uint64_t needed = text.size + (uint64_t)count * rung_dtype_size(view->dtype);
    RUNG_TRY_GOTO(fini_text, rungi_file_create_beside(&file, path, needed, NULL));
    status = rungi_file_write(&file, text.data, text.size);
    if (status == RUNG_OK)
        status = write_elements(&file, view, count);
    if (status == RUNG_OK)
        status = rungi_file_publish(&file, path);
    else
        rungi_file_abandon(&file);
fini_text:
    rungi_string_fini(&text);
    return status;
}
