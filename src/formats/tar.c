// SPDX-License-Identifier: Apache-2.0
#include "formats/tar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file_io.h"

enum { BLOCK = 512, EXTRA_MAX = 1 << 20 };

// A header of 512 bytes.
enum {
    AT_NAME = 0,
    AT_SIZE = 124,
    AT_SUM = 148,
    AT_TYPE = 156,
    AT_MAGIC = 257,
    AT_PREFIX = 345,
    NAME_SIZE = 100,
    PREFIX_SIZE = 155,
};

typedef struct walk {
    rungi_tar_read_fn read;
    void *from;
    const char *path;
    uint64_t size, at;
    unsigned char header[BLOCK];
    char *long_name; // of the next entry, from an entry before it
    bool has_long_size;
    uint64_t long_size;
} walk;

static bool all_zero(const unsigned char *block)
{
    for (int i = 0; i < BLOCK; i++)
        if (block[i])
            return false;
    return true;
}

// Octal digits, or (first bit set) a big-endian number. False when it is neither.
static bool take_number(const unsigned char *field, int length, uint64_t *out)
{
    uint64_t value = 0;
    int i = 0;
    if (field[0] & 0x80) {
        value = field[0] & 0x7f;
        for (i = 1; i < length; i++) {
            if (value >> 55)
                return false;
            value = value << 8 | field[i];
        }
        *out = value;
        return !(field[0] & 0x40); // negative
    }
    while (i < length && field[i] == ' ')
        i++;
    for (; i < length && field[i] >= '0' && field[i] <= '7'; i++)
        value = value << 3 | (uint64_t)(field[i] - '0');
    *out = value;
    return i == length || field[i] == ' ' || field[i] == '\0';
}

static bool sum_is_right(const unsigned char *header)
{
    uint64_t wanted;
    uint64_t sum = 0;
    int64_t signed_sum = 0; // as some old programs counted
    for (int i = 0; i < BLOCK; i++) {
        int byte = i >= AT_SUM && i < AT_SUM + 8 ? ' ' : header[i];
        sum += (uint64_t)byte;
        signed_sum += byte < 128 ? byte : byte - 256;
    }
    return take_number(header + AT_SUM, 8, &wanted) &&
           (wanted == sum || (int64_t)wanted == signed_sum);
}

static rung_status refuse_first(const walk *w)
{
    const unsigned char *h = w->header;
    const char *program = NULL;
    if (h[0] == 0x1f && h[1] == 0x8b)
        program = "gunzip";
    else if (memcmp(h, "\x28\xb5\x2f\xfd", 4) == 0)
        program = "unzstd";
    else if (memcmp(h,
                    "\xfd"
                    "7zXZ",
                    5) == 0)
        program = "unxz";
    else if (memcmp(h, "BZh", 3) == 0)
        program = "bunzip2";
    if (program)
        return RUNG_FAIL(RUNG_FORMAT, "%s: is compressed: decompress it first (%s)", w->path,
                         program);
    return RUNG_FAIL(RUNG_FORMAT, "%s: not a tar archive", w->path);
}

// Reads the data of an entry that describes the next one.
static rung_status read_extra(const walk *w, uint64_t size, char **out)
{
    RUNG_CHECK(size > 0 && size <= EXTRA_MAX, RUNG_CORRUPT,
               "%s: damaged at byte %llu: a name or attributes of %llu bytes", w->path,
               (unsigned long long)w->at, (unsigned long long)size);
    char *data = malloc((size_t)size + 1);
    RUNG_CHECK(data, RUNG_NO_MEMORY, "%s: no memory to read it", w->path);
    rung_status status = w->read(w->from, w->at + BLOCK, data, (size_t)size);
    if (status != RUNG_OK) {
        free(data);
        return status;
    }
    data[size] = '\0';
    *out = data;
    return RUNG_OK;
}

// Records of "LENGTH KEY=VALUE\n". False when they are malformed.
static bool take_pax(walk *w, char *data, size_t size)
{
    for (size_t at = 0; at < size;) {
        char *text, *end = data + size;
        unsigned long length = strtoul(data + at, &text, 10);
        if (length == 0 || length > size - at || text >= end || *text != ' ' ||
            data[at + length - 1] != '\n')
            return false;
        data[at + length - 1] = '\0';
        char *key = text + 1, *value = strchr(key, '=');
        if (!value || value >= data + at + length)
            return false;
        *value++ = '\0';
        if (strcmp(key, "path") == 0) {
            free(w->long_name);
            w->long_name = strdup(value);
            if (!w->long_name)
                return false;
        } else if (strcmp(key, "size") == 0) {
            w->long_size = strtoull(value, NULL, 10);
            w->has_long_size = true;
        }
        at += length;
    }
    return true;
}

static rung_status take_extra(walk *w, int type, uint64_t size)
{
    char *data = NULL;
    RUNG_TRY(read_extra(w, size, &data));
    if (type == 'L') {
        free(w->long_name);
        w->long_name = data;
        return RUNG_OK;
    }
    bool good = take_pax(w, data, (size_t)size);
    free(data);
    RUNG_CHECK(good, RUNG_CORRUPT, "%s: damaged at byte %llu: malformed attributes", w->path,
               (unsigned long long)w->at);
    return RUNG_OK;
}

static rung_status give_entry(walk *w, int type, uint64_t size, rungi_tar_fn fn, void *user)
{
    char name[PREFIX_SIZE + NAME_SIZE + 2];
    const unsigned char *h = w->header;
    if (memcmp(h + AT_MAGIC, "ustar", 6) == 0 && h[AT_PREFIX])
        snprintf(name, sizeof name, "%.*s/%.*s", PREFIX_SIZE, h + AT_PREFIX, NAME_SIZE, h);
    else
        snprintf(name, sizeof name, "%.*s", NAME_SIZE, h);
    rungi_tar_entry entry = {.name = w->long_name ? w->long_name : name,
                             .regular = type == '0' || type == '\0' || type == '7',
                             .offset = (int64_t)(w->at + BLOCK),
                             .size = (int64_t)size};
    size_t length = strlen(entry.name);
    if (length > 0 && entry.name[length - 1] == '/')
        entry.regular = false; // folders of old programs
    rung_status status = fn(user, &entry);
    free(w->long_name);
    w->long_name = NULL;
    w->has_long_size = false;
    return status;
}

// One entry, whose header has been read.
static rung_status step(walk *w, rungi_tar_fn fn, void *user)
{
    uint64_t size;
    int type = w->header[AT_TYPE];
    if (w->at == 0 && !sum_is_right(w->header))
        return refuse_first(w);
    RUNG_CHECK(sum_is_right(w->header) && take_number(w->header + AT_SIZE, 12, &size), RUNG_CORRUPT,
               "%s: damaged at byte %llu: not an entry's header", w->path,
               (unsigned long long)w->at);
    RUNG_CHECK(type != 'S', RUNG_UNSUPPORTED,
               "%s: holds a sparse file: write the archive without --sparse", w->path);
    bool extra = type == 'L' || type == 'x';
    if (w->has_long_size && !extra)
        size = w->long_size;
    if (type >= '1' && type <= '6')
        size = 0; // links and folders have no data
    uint64_t rest = w->size - w->at - BLOCK;
    RUNG_CHECK(size <= rest, RUNG_CORRUPT,
               "%s: cut: the entry at byte %llu has %llu bytes, %llu are there", w->path,
               (unsigned long long)w->at, (unsigned long long)size, (unsigned long long)rest);
    if (extra)
        RUNG_TRY(take_extra(w, type, size));
    else if (type != 'K' && type != 'g')
        RUNG_TRY(give_entry(w, type, size, fn, user));
    w->at += BLOCK + (size + BLOCK - 1) / BLOCK * BLOCK;
    return RUNG_OK;
}

rung_status rungi_tar_walk_by(rungi_tar_read_fn read, void *from, const char *path, uint64_t size,
                              rungi_tar_fn fn, void *user)
{
    walk w = {.read = read, .from = from, .path = path, .size = size};
    rung_status status = RUNG_OK;
    while (status == RUNG_OK) {
        if (w.at > size || size - w.at < BLOCK) {
            status = w.at == 0 ? RUNG_FAIL(RUNG_FORMAT, "%s: not a tar archive: %llu bytes", path,
                                           (unsigned long long)size)
                               : RUNG_FAIL(RUNG_CORRUPT,
                                           "%s: cut: it ends after %llu bytes without its end mark",
                                           path, (unsigned long long)size);
            break;
        }
        status = read(from, w.at, w.header, BLOCK);
        if (status != RUNG_OK || all_zero(w.header))
            break;
        status = step(&w, fn, user);
    }
    free(w.long_name);
    return status;
}

typedef struct random_file {
    int fd;
    const char *path;
} random_file;

static rung_status read_random(void *from, uint64_t at, void *data, size_t size)
{
    const random_file *file = from;
    return rungi_io_read_at(file->fd, file->path, at, data, size);
}

rung_status rungi_tar_walk(int fd, const char *path, uint64_t size, rungi_tar_fn fn, void *user)
{
    random_file file = {fd, path};
    return rungi_tar_walk_by(read_random, &file, path, size, fn, user);
}
