// SPDX-License-Identifier: Apache-2.0
// The header of a tensor file, checked token by token. Nothing in it is believed before it is
// compared with the size of the file, and memory stays under 64 MiB whatever it says (case C82).
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "formats/json_scan.h"
#include "formats/safetensors_file.h"

enum {
    HEADER_DEPTH = 8, // the format needs 3
    RANK_MAX = 64,
    TENSORS_MAX = 262144,
    METADATA_MAX = 65536,
    INDEX_MAX = 24 * 1024 * 1024,
    TEXT_MAX = 8 * 1024 * 1024,
    BLOCK_SIZE = 64 * 1024,
    LENGTH_BYTES = 8,
};

typedef struct parser {
    rung_safetensors *file;
    rungi_json_scan scan;
    uint64_t at;  // where the header is read next
    uint64_t end; // of the header
} parser;

static rung_status read_header(void *user, char *buffer, size_t size, size_t *got_out)
{
    parser *p = user;
    size_t got = p->end - p->at < size ? (size_t)(p->end - p->at) : size;
    RUNG_TRY(rungi_io_read_at(p->file->fd, p->file->path, p->at, buffer, got));
    p->at += got;
    *got_out = got;
    return RUNG_OK;
}

static rung_status allocate(rung_safetensors *file, size_t size, void **out)
{
    size = (size + 7) & ~(size_t)7;
    RUNG_CHECK(size <= INDEX_MAX - file->index_bytes, RUNG_UNSUPPORTED,
               "%s: names, shapes and metadata take more than %d MiB", file->path,
               INDEX_MAX / 1024 / 1024);
    rungi_safetensors_block *block = file->blocks;
    if (!block || block->size - block->used < size) {
        size_t room = size > BLOCK_SIZE ? size : BLOCK_SIZE;
        block = malloc(sizeof *block + room);
        RUNG_CHECK(block, RUNG_NO_MEMORY, "%s: no memory for its header", file->path);
        *block = (rungi_safetensors_block){.next = file->blocks, .size = room};
        file->blocks = block;
    }
    *out = (char *)block->data + block->used;
    block->used += size;
    file->index_bytes += size;
    return RUNG_OK;
}

// Copies the scanner's text. A NUL inside would cut the name for everybody in C.
static rung_status keep_text(parser *p, const char *role, const char **out)
{
    void *copy;
    RUNG_CHECK(memchr(p->scan.text, 0, p->scan.text_size) == NULL, RUNG_FORMAT,
               "%s: %s %.200s... holds a NUL", p->file->path, role, p->scan.text);
    RUNG_TRY(allocate(p->file, p->scan.text_size + 1, &copy));
    memcpy(copy, p->scan.text, p->scan.text_size + 1);
    *out = copy;
    return RUNG_OK;
}

static rung_status expect(parser *p, rungi_json_token wanted, const char *tensor, const char *what)
{
    rungi_json_token token;
    RUNG_TRY(rungi_json_next(&p->scan, &token));
    RUNG_CHECK(token == wanted, RUNG_FORMAT, "%s: tensor %.200s: %s", p->file->path, tensor, what);
    return RUNG_OK;
}

// The scanner's number as an integer from 0 to 2^63 - 1.
static rung_status take_integer(parser *p, const char *tensor, const char *what, uint64_t *out)
{
    const char *text = p->scan.text;
    RUNG_CHECK(text[0] != '-', RUNG_FORMAT, "%s: tensor %.200s: negative number %.40s in %s",
               p->file->path, tensor, text, what);
    uint64_t value = 0;
    for (const char *c = text; *c; c++) {
        RUNG_CHECK(*c >= '0' && *c <= '9', RUNG_FORMAT,
                   "%s: tensor %.200s: %.40s in %s is not an integer", p->file->path, tensor, text,
                   what);
        RUNG_CHECK(!__builtin_mul_overflow(value, 10u, &value) &&
                       !__builtin_add_overflow(value, (uint64_t)(*c - '0'), &value) &&
                       value <= INT64_MAX,
                   RUNG_FORMAT, "%s: tensor %.200s: %.40s in %s is too large", p->file->path,
                   tensor, text, what);
    }
    *out = value;
    return RUNG_OK;
}

// An array of at most `max` integers; the member's name is taken already.
static rung_status take_integers(parser *p, const char *tensor, const char *what, uint64_t *out,
                                 int max, int *count_out)
{
    int count = 0;
    RUNG_TRY(expect(p, RUNGI_JSON_ARRAY_BEGIN, tensor, "shape or data_offsets is not an array"));
    for (;;) {
        rungi_json_token token;
        RUNG_TRY(rungi_json_next(&p->scan, &token));
        if (token == RUNGI_JSON_ARRAY_END)
            break;
        RUNG_CHECK(token == RUNGI_JSON_NUMBER, RUNG_FORMAT,
                   "%s: tensor %.200s: %s holds something else than numbers", p->file->path, tensor,
                   what);
        RUNG_CHECK(count < max, RUNG_FORMAT, "%s: tensor %.200s: %s has more than %d numbers",
                   p->file->path, tensor, what, max);
        RUNG_TRY(take_integer(p, tensor, what, &out[count]));
        count++;
    }
    *count_out = count;
    return RUNG_OK;
}

// Elements x type must equal the span, without overflow anywhere.
static rung_status check_span(const parser *p, const rung_safetensors_tensor *t,
                              const rungi_safetensors_type *type)
{
    int64_t count = 1, bits = 0;
    bool zero = false;
    for (int i = 0; i < t->rank; i++) {
        zero = zero || t->dim[i] == 0;
        RUNG_CHECK(t->dim[i] == 0 || rungi_i64_mul(count, t->dim[i], &count), RUNG_FORMAT,
                   "%s: tensor %.200s: its shape's product is too large", p->file->path, t->name);
    }
    RUNG_CHECK(rungi_i64_mul(zero ? 0 : count, type->bits, &bits), RUNG_FORMAT,
               "%s: tensor %.200s: its shape's product is too large", p->file->path, t->name);
    RUNG_CHECK(bits % 8 == 0, RUNG_FORMAT, "%s: tensor %.200s: %s elements end inside a byte",
               p->file->path, t->name, type->name);
    RUNG_CHECK((uint64_t)bits / 8 == t->bytes, RUNG_FORMAT,
               "%s: tensor %.200s: shape and type take %" PRIu64
               " bytes, data_offsets span %" PRIu64,
               p->file->path, t->name, (uint64_t)bits / 8, t->bytes);
    return RUNG_OK;
}

static rung_status take_type(parser *p, const char *tensor, const rungi_safetensors_type **type_out)
{
    RUNG_TRY(expect(p, RUNGI_JSON_STRING, tensor, "dtype is not a string"));
    const rungi_safetensors_type *type = rungi_safetensors_type_find(p->scan.text);
    RUNG_CHECK(type && strlen(type->name) == p->scan.text_size, RUNG_FORMAT,
               "%s: tensor %.200s: unknown type %.40s", p->file->path, tensor, p->scan.text);
    *type_out = type;
    return RUNG_OK;
}

// A tensor's object; its name is taken already.
static rung_status take_tensor(parser *p, const char *name)
{
    rung_safetensors *file = p->file;
    const rungi_safetensors_type *type = NULL;
    uint64_t dims[RANK_MAX], offsets[2] = {0, 0};
    int rank = -1, offset_count = -1;
    RUNG_TRY(expect(p, RUNGI_JSON_OBJECT_BEGIN, name, "is not an object"));
    for (;;) {
        rungi_json_token token;
        RUNG_TRY(rungi_json_next(&p->scan, &token));
        if (token == RUNGI_JSON_OBJECT_END)
            break;
        const char *key = p->scan.text;
        bool is_type = strcmp(key, "dtype") == 0, is_shape = strcmp(key, "shape") == 0;
        bool is_offsets = strcmp(key, "data_offsets") == 0;
        RUNG_CHECK((is_type || is_shape || is_offsets) && strlen(key) == p->scan.text_size,
                   RUNG_FORMAT, "%s: tensor %.200s: unknown member %.40s", file->path, name, key);
        RUNG_CHECK(!(is_type && type) && !(is_shape && rank >= 0) &&
                       !(is_offsets && offset_count >= 0),
                   RUNG_FORMAT, "%s: tensor %.200s: %s is given twice", file->path, name, key);
        if (is_type)
            RUNG_TRY(take_type(p, name, &type));
        else if (is_shape)
            RUNG_TRY(take_integers(p, name, "shape", dims, RANK_MAX, &rank));
        else
            RUNG_TRY(take_integers(p, name, "data_offsets", offsets, 2, &offset_count));
    }
    RUNG_CHECK(type && rank >= 0 && offset_count == 2, RUNG_FORMAT,
               "%s: tensor %.200s: dtype, shape or two data_offsets are missing", file->path, name);
    RUNG_CHECK(offsets[0] <= offsets[1], RUNG_FORMAT,
               "%s: tensor %.200s: ends at %" PRIu64 ", before it begins at %" PRIu64, file->path,
               name, offsets[1], offsets[0]);
    RUNG_CHECK(file->tensors.count < TENSORS_MAX, RUNG_UNSUPPORTED, "%s: more than %d tensors",
               file->path, TENSORS_MAX);
    void *dim = NULL;
    RUNG_TRY(allocate(file, (size_t)rank * sizeof(int64_t), &dim));
    for (int i = 0; i < rank; i++)
        ((int64_t *)dim)[i] = (int64_t)dims[i];
    rung_safetensors_tensor t = {
        .name = name,
        .type = type->name,
        .dtype = type->dtype,
        .rank = rank,
        .dim = dim,
        .offset = offsets[0], // in the buffer; moved when all is known to lie in the file
        .bytes = offsets[1] - offsets[0],
    };
    RUNG_TRY(check_span(p, &t, type));
    RUNG_CHECK(rungi_array_push(&file->tensors, t), RUNG_NO_MEMORY, "%s: no memory for its header",
               file->path);
    return RUNG_OK;
}

static rung_status take_metadata(parser *p)
{
    rung_safetensors *file = p->file;
    rungi_json_token token;
    RUNG_TRY(rungi_json_next(&p->scan, &token));
    RUNG_CHECK(token == RUNGI_JSON_OBJECT_BEGIN, RUNG_FORMAT, "%s: __metadata__ is not an object",
               file->path);
    for (;;) {
        RUNG_TRY(rungi_json_next(&p->scan, &token));
        if (token == RUNGI_JSON_OBJECT_END)
            return RUNG_OK;
        rung_safetensors_pair pair;
        RUNG_TRY(keep_text(p, "metadata key", &pair.key));
        RUNG_TRY(rungi_json_next(&p->scan, &token));
        RUNG_CHECK(token == RUNGI_JSON_STRING, RUNG_FORMAT,
                   "%s: __metadata__: %.200s is not a string", file->path, pair.key);
        RUNG_TRY(keep_text(p, "metadata value", &pair.value));
        RUNG_CHECK(file->metadata.count < METADATA_MAX, RUNG_UNSUPPORTED,
                   "%s: __metadata__ has more than %d pairs", file->path, METADATA_MAX);
        RUNG_CHECK(rungi_array_push(&file->metadata, pair), RUNG_NO_MEMORY,
                   "%s: no memory for its header", file->path);
    }
}

static rung_status take_header(parser *p)
{
    rungi_json_token token;
    bool metadata = false;
    RUNG_TRY(rungi_json_next(&p->scan, &token)); // the opening brace: looked at before
    for (;;) {
        RUNG_TRY(rungi_json_next(&p->scan, &token));
        if (token == RUNGI_JSON_OBJECT_END)
            break;
        if (strcmp(p->scan.text, "__metadata__") == 0 && p->scan.text_size == 12) {
            RUNG_CHECK(!metadata, RUNG_FORMAT, "%s: __metadata__ is given twice", p->file->path);
            metadata = true;
            RUNG_TRY(take_metadata(p));
        } else {
            const char *name = NULL;
            RUNG_TRY(keep_text(p, "tensor name", &name));
            RUNG_TRY(take_tensor(p, name));
        }
    }
    return rungi_json_next(&p->scan, &token); // nothing but white space to the end
}

static rung_status check_length(rung_safetensors *file)
{
    unsigned char raw[LENGTH_BYTES + 1];
    RUNG_CHECK(file->size > 0, RUNG_CORRUPT, "%s: cut: expected a tensor file, found 0 bytes",
               file->path);
    RUNG_CHECK(file->size > LENGTH_BYTES + 1, RUNG_FORMAT,
               "%s: not a safetensors file: only %" PRIu64 " bytes", file->path, file->size);
    RUNG_TRY(rungi_io_read_at(file->fd, file->path, 0, raw, sizeof raw));
    uint64_t length;
    memcpy(&length, raw, sizeof length);
    RUNG_CHECK(length <= RUNGI_SAFETENSORS_HEADER_MAX, RUNG_FORMAT,
               "%s: not a safetensors file: header length %" PRIu64 " is above %d", file->path,
               length, RUNGI_SAFETENSORS_HEADER_MAX);
    RUNG_CHECK(length >= 2, RUNG_FORMAT,
               "%s: not a safetensors file: header length %" PRIu64 " is below 2", file->path,
               length);
    RUNG_CHECK(raw[LENGTH_BYTES] == '{', RUNG_FORMAT,
               "%s: not a safetensors file: the header does not start with {", file->path);
    RUNG_CHECK(LENGTH_BYTES + length <= file->size, RUNG_CORRUPT,
               "%s: cut: the header alone takes %" PRIu64 " bytes, found %" PRIu64, file->path,
               LENGTH_BYTES + length, file->size);
    file->data_begin = LENGTH_BYTES + length;
    return RUNG_OK;
}

rung_status rungi_safetensors_index(rung_safetensors *file)
{
    RUNG_TRY(check_length(file));
    parser *p = calloc(1, sizeof *p);
    RUNG_CHECK(p, RUNG_NO_MEMORY, "%s: no memory for its header", file->path);
    p->file = file;
    p->at = LENGTH_BYTES;
    p->end = file->data_begin;
    p->scan = (rungi_json_scan){.read = read_header,
                                .user = p,
                                .what = file->path,
                                .max_depth = HEADER_DEPTH,
                                .max_text = TEXT_MAX};
    rung_status status = take_header(p);
    rungi_json_scan_fini(&p->scan);
    free(p);
    RUNG_TRY(status);
    return rungi_safetensors_check(file);
}
