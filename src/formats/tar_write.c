// SPDX-License-Identifier: Apache-2.0
#include "formats/tar_write.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

enum { BLOCK = 512, NAME_SIZE = 100, NAME_MAX_BYTES = 4096 };
static const uint64_t OCTAL_MAX = ((uint64_t)1 << 33) - 1; // 11 digits

static const char zeros[2 * BLOCK];

// POSIX.1-2017 ustar.
typedef struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[6],
        version[2], user[32], group[32], major[8], minor[8], prefix[155], unused[12];
} header;

_Static_assert(sizeof(header) == BLOCK, "layout of tar");

static void set_octal(char *out, size_t size, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%0*llo", (int)size - 1, (unsigned long long)value);
    memcpy(out, text, size);
}

static rung_status put_header(rungi_tar_put_fn put, void *user, const char *name, char type,
                              uint64_t size)
{
    header h = {.type = type, .magic = "ustar", .version = {'0', '0'}};
    memcpy(h.name, name, strnlen(name, NAME_SIZE));
    set_octal(h.mode, sizeof h.mode, 0644);
    set_octal(h.uid, sizeof h.uid, 0);
    set_octal(h.gid, sizeof h.gid, 0);
    set_octal(h.mtime, sizeof h.mtime, 0);
    RUNG_CHECK(size <= OCTAL_MAX, RUNG_UNSUPPORTED, "%s: an entry of more than 8 GiB", name);
    set_octal(h.size, sizeof h.size, size);
    memset(h.sum, ' ', sizeof h.sum);
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof h; i++)
        sum += ((const unsigned char *)&h)[i];
    snprintf(h.sum, sizeof h.sum, "%06o", sum); // then a NUL, then the blank that is there
    return put(user, &h, sizeof h);
}

static rung_status put_data(rungi_tar_put_fn put, void *user, const void *data, uint64_t size)
{
    if (size)
        RUNG_TRY(put(user, data, size));
    return size % BLOCK ? put(user, zeros, BLOCK - size % BLOCK) : RUNG_OK;
}

rung_status rungi_tar_put(rungi_tar_put_fn put, void *user, const char *name, const void *data,
                          uint64_t size)
{
    size_t length = strlen(name);
    RUNG_CHECK(length > 0 && length <= NAME_MAX_BYTES && *name != '/', RUNG_INVALID,
               "%.200s: no name for an entry of an archive", name);
    if (length > NAME_SIZE) {
        RUNG_TRY(put_header(put, user, "././@LongLink", 'L', length + 1));
        RUNG_TRY(put_data(put, user, name, length + 1));
    }
    RUNG_TRY(put_header(put, user, name, '0', size));
    return put_data(put, user, data, size);
}

rung_status rungi_tar_end(rungi_tar_put_fn put, void *user)
{
    return put(user, zeros, sizeof zeros);
}
