// SPDX-License-Identifier: Apache-2.0
#include "data/shard_names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fs.h"
#include "base/text.h"

enum { SHARDS_MAX = 1 << 20, NUMBER_DIGITS_MAX = 18 };

// Reads a number of at most 18 digits; returns how many.
static int take_digits(const char *text, unsigned long long *out)
{
    int digits = 0;
    for (*out = 0; isdigit((unsigned char)text[digits]); digits++) {
        if (digits == NUMBER_DIGITS_MAX)
            return 0;
        *out = *out * 10 + (unsigned long long)(text[digits] - '0');
    }
    return digits;
}

// Reads "{FIRST..LAST}" at `brace`. False when it is none.
static bool take_range(const char *brace, unsigned long long *first, unsigned long long *last,
                       int *digits, const char **behind)
{
    *digits = take_digits(brace + 1, first);
    const char *rest = brace + 1 + *digits;
    if (*digits == 0 || strncmp(rest, "..", 2) != 0)
        return false;
    int last_digits = take_digits(rest + 2, last);
    *behind = rest + 2 + last_digits + 1;
    return last_digits > 0 && (*behind)[-1] == '}';
}

static rung_status expand(const char *pattern, rungi_shard_fn fn, void *user, int *shards)
{
    unsigned long long first, last;
    int digits;
    const char *brace = strchr(pattern, '{'), *behind;
    while (brace && !take_range(brace, &first, &last, &digits, &behind))
        brace = strchr(brace + 1, '{');
    if (!brace) {
        ++*shards;
        return fn(user, pattern);
    }
    RUNG_CHECK(first <= last && last - first < SHARDS_MAX, RUNG_CONFIG,
               "%s: the range {%llu..%llu} must rise, by less than %d", pattern, first, last,
               SHARDS_MAX);
    for (unsigned long long i = first; i <= last; i++) {
        char *one =
            rungi_text_format("%.*s%0*llu%s", (int)(brace - pattern), pattern, digits, i, behind);
        rung_status status = one ? expand(one, fn, user, shards)
                                 : RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for it", pattern);
        free(one);
        RUNG_TRY(status);
    }
    return RUNG_OK;
}

static bool is_archive_name(const char *name)
{
    static const char *const ends[] = {".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2"};
    return rungi_text_ends_in(name, ends, sizeof ends / sizeof *ends);
}

// All archives in a folder, by name.
static rung_status list_folder(const char *path, rungi_shard_fn fn, void *user, int *shards)
{
    rungi_names names = {0};
    RUNG_TRY(rungi_fs_list(path, &names));
    rung_status status = RUNG_OK;
    for (size_t i = 0; i < names.count && status == RUNG_OK; i++) {
        if (!is_archive_name(names.data[i]))
            continue;
        char *shard = rungi_path_join(path, names.data[i]);
        status = shard ? fn(user, shard)
                       : RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for its names", path);
        free(shard);
        ++*shards;
    }
    rungi_names_fini(&names);
    return status;
}

rung_status rungi_shard_names(const char *path, rungi_shard_fn fn, void *user, int *count_out)
{
    *count_out = 0;
    return rungi_fs_is_folder(path) ? list_folder(path, fn, user, count_out)
                                    : expand(path, fn, user, count_out);
}
