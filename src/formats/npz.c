// SPDX-License-Identifier: Apache-2.0
// .npz archives, by libarchive's zip reader. Only archives with a directory at their end are read:
// without one a cut archive would pass for a smaller whole one.
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/text.h"
#include "formats/npy_read.h"

enum { BLOCK = 64 << 10, HEAD = 12, MEMBERS_MAX = 1 << 16 };

static rung_status fail(const char *path, struct archive *a)
{
    const char *reason = archive_error_string(a);
    if (archive_errno(a) == ENOMEM)
        return RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory to read it", path);
    return RUNG_FAIL(RUNG_CORRUPT, "%s: cut or damaged: %s", path,
                     reason ? reason : "no reason given");
}

static rung_status open_zip(const char *path, struct archive **a_out)
{
    FILE *file = fopen(path, "rbe");
    unsigned char magic[4] = {0};
    if (!file)
        return rungi_fs_fail(path, "cannot open", errno);
    size_t got = fread(magic, 1, sizeof magic, file);
    fclose(file);
    RUNG_CHECK(got == 4 && memcmp(magic, "PK", 2) == 0, RUNG_FORMAT, "%s: not an .npz archive",
               path);
    struct archive *a = archive_read_new();
    RUNG_CHECK(a, RUNG_NO_MEMORY, "%s: no memory to read it", path);
    archive_read_support_format_zip_seekable(a);
    if (archive_read_open_filename(a, path, BLOCK) != ARCHIVE_OK) {
        rung_status status = fail(path, a);
        archive_read_free(a);
        return status;
    }
    *a_out = a;
    return RUNG_OK;
}

// Goes to the next member that is an array; *name_out (borrowed) is NULL at the end.
static rung_status next_array(const char *path, struct archive *a, int *members,
                              struct archive_entry **entry_out, const char **name_out)
{
    for (;;) {
        int code = archive_read_next_header(a, entry_out);
        *name_out = NULL;
        if (code == ARCHIVE_EOF)
            return RUNG_OK;
        if (code != ARCHIVE_OK && code != ARCHIVE_WARN)
            return fail(path, a);
        RUNG_CHECK(++*members <= MEMBERS_MAX, RUNG_UNSUPPORTED, "%s: has more than %d members",
                   path, MEMBERS_MAX);
        const char *name = archive_entry_pathname(*entry_out);
        size_t length = name ? strlen(name) : 0;
        if (length > 4 && strcmp(name + length - 4, ".npy") == 0) {
            *name_out = name;
            return RUNG_OK;
        }
    }
}

rung_status rungi_npz_list(const char *path, rungi_names *names_out)
{
    struct archive *a;
    struct archive_entry *entry;
    const char *name;
    rungi_names names = {0};
    int members = 0;
    RUNG_TRY(open_zip(path, &a));
    rung_status status;
    while ((status = next_array(path, a, &members, &entry, &name)) == RUNG_OK && name) {
        char *copy = strndup(name, strlen(name) - 4);
        if (copy && rungi_array_push(&names, copy))
            continue;
        free(copy);
        status = RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for its names", path);
        break;
    }
    archive_read_free(a);
    if (status == RUNG_OK)
        *names_out = names;
    else
        rungi_names_fini(&names);
    return status;
}

// ---- a member

typedef struct member {
    struct archive *a;
    const char *path;
    unsigned char head[HEAD]; // what was read of it
    size_t head_size;
    uint64_t at;
} member;

static rung_status take(member *m, void *out, size_t size)
{
    for (size_t done = 0; done < size;) {
        la_ssize_t got = archive_read_data(m->a, (char *)out + done, size - done);
        if (got < 0)
            return fail(m->path, m->a);
        RUNG_CHECK(got > 0, RUNG_CORRUPT, "%s: cut: it ends after %" PRIu64 " bytes", m->path,
                   m->at + done);
        done += (size_t)got;
    }
    m->at += size;
    return RUNG_OK;
}

static rung_status read_member(void *user, uint64_t offset, void *out, size_t size)
{
    member *m = user;
    char *to = out;
    if (offset == 0) {
        RUNG_TRY(take(m, m->head, size));
        m->head_size = size;
        memcpy(to, m->head, size);
        return RUNG_OK;
    }
    size_t again = offset < m->head_size ? m->head_size - (size_t)offset : 0; // of the head
    again = again < size ? again : size;
    memcpy(to, m->head + offset, again);
    return take(m, to + again, size - again);
}

// Checksums are compared when the end was read.
static rung_status expect_end(member *m)
{
    char byte;
    la_ssize_t got = archive_read_data(m->a, &byte, 1);
    if (got < 0)
        return fail(m->path, m->a);
    RUNG_CHECK(got == 0, RUNG_CORRUPT, "%s: damaged: longer than its directory says", m->path);
    return RUNG_OK;
}

static rung_status read_entry(struct archive *a, struct archive_entry *entry, const char *what,
                              rung_view *view)
{
    member m = {.a = a, .path = what};
    RUNG_CHECK(archive_entry_size_is_set(entry) && archive_entry_size(entry) >= 0, RUNG_FORMAT,
               "%s: its size is not told", what);
    RUNG_TRY(rungi_npy_read_from(&(rungi_npy_input){&m, read_member}, what,
                                 (uint64_t)archive_entry_size(entry), view));
    return expect_end(&m);
}

static rung_status fail_missing(const char *path, const char *wanted)
{
    rungi_names names = {0};
    rungi_string list = {0};
    rung_status status = rungi_npz_list(path, &names);
    for (size_t i = 0; i < names.count && list.size < 400; i++)
        rungi_string_add(&list, "%s%s", i ? ", " : "", names.data[i]);
    if (status == RUNG_OK)
        status = RUNG_FAIL(RUNG_NOT_FOUND, "%s: has no array %s (there are: %s)", path, wanted,
                           rungi_string_text(&list));
    rungi_names_fini(&names);
    rungi_string_fini(&list);
    return status;
}

rung_status rung_npz_read(const char *path, const char *wanted, rung_view *view_out)
{
    struct archive *a;
    struct archive_entry *entry;
    const char *name;
    char what[512];
    int members = 0;
    bool found = false;
    rung_view view = {0};
    rung_status status;
    RUNG_CHECK(path && wanted && view_out, RUNG_INVALID,
               "rung_npz_read: no path, name or output given");
    snprintf(what, sizeof what, "%s, %s.npy", path, wanted);
    RUNG_TRY(open_zip(path, &a));
    while (!found && (status = next_array(path, a, &members, &entry, &name)) == RUNG_OK && name)
        found = strlen(name) == strlen(wanted) + 4 && strncmp(name, wanted, strlen(wanted)) == 0;
    if (found)
        status = read_entry(a, entry, what, &view);
    archive_read_free(a);
    if (status == RUNG_OK && !found)
        status = fail_missing(path, wanted);
    if (status != RUNG_OK) {
        free(view.data);
        return status;
    }
    *view_out = view;
    return RUNG_OK;
}
