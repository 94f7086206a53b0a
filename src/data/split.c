// SPDX-License-Identifier: Apache-2.0
// Splits by a sample's name: what is added later leaves the others where they are.
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#include "base/error.h"
#include "data/source.h"

// What follows `root` and slashes, or the whole.
static const char *below(const char *name, const char *root)
{
    size_t length = root ? strlen(root) : 0;
    while (length > 0 && root[length - 1] == '/')
        length--;
    if (length == 0 || strncmp(name, root, length) != 0 || name[length] != '/')
        return name;
    return name + length + strspn(name + length, "/");
}

// Pictures have the same name wherever they lie: in folders, in archives, or in a pack of these.
static const char *name_of(const rung_source *source, const char *root, int64_t index, char *room,
                           size_t size)
{
    const char *name = rungi_source_name(source, index);
    if (*name)
        return name;
    *room = '\0';
    source->describe(source->self, index, room, size);
    return below(room, root);
}

uint64_t rungi_source_fingerprint(const rung_source *source, const char *root)
{
    enum { LOOKED_AT = 100000 };
    int64_t stride = source->count > LOOKED_AT ? source->count / LOOKED_AT : 1;
    uint64_t hash = (uint64_t)source->count;
    for (int64_t i = 0; source->describe && i < source->count; i += stride) {
        char room[4096];
        const char *rest = name_of(source, root, i, room, sizeof room);
        hash = XXH3_64bits_withSeed(rest, strlen(rest), hash);
    }
    return hash;
}

rung_status rung_split_by_name(const rung_source *source, const char *root, double share,
                               bool *held_out)
{
    RUNG_CHECK(share >= 0 && share <= 1, RUNG_INVALID, "a share of %g is not in [0, 1]", share);
    RUNG_CHECK(source->describe, RUNG_UNSUPPORTED, "%s: its samples have no names to split them by",
               source->name);
    for (int64_t i = 0; i < source->count; i++) {
        char room[4096];
        const char *rest = name_of(source, root, i, room, sizeof room);
        double unit = (double)(XXH3_64bits(rest, strlen(rest)) >> 11) * 0x1p-53;
        held_out[i] = unit < share;
    }
    return RUNG_OK;
}
