// SPDX-License-Identifier: Apache-2.0
// Files and folders. Paths are bytes: names that are not UTF-8 work, and are escaped in messages.
// Errors name the path and the reason: RUNG_NOT_FOUND when it is not there, RUNG_NO_MEMORY,
// RUNG_IO for the rest ("is a folder, not a file").
#ifndef RUNGI_BASE_FS_H
#define RUNGI_BASE_FS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rung/status.h"

// "folder/name" on the heap; NULL when out of memory. An absolute `name` stays as it is, an empty
// folder adds nothing. Freed with free().
char *rungi_path_join(const char *folder, const char *name);
// What stands before the last slash, on the heap: "." for a bare name, "/" for the root. NULL when
// out of memory. Freed with free().
char *rungi_path_folder(const char *path);
// What stands after the last slash. Borrowed from `path`.
const char *rungi_path_name(const char *path);

bool rungi_fs_exists(const char *path);    // follows links
bool rungi_fs_is_folder(const char *path); // follows links

// Fails with the record of errno value `error`, which `path` met while `doing` ("cannot open"), in
// words for people. Returns the status.
rung_status rungi_fs_fail(const char *path, const char *doing, int error);

// The same for a full disk (ENOSPC or EDQUOT), with the bytes that were to be written (0: unknown)
// and what is free there.
rung_status rungi_fs_fail_full(const char *path, int error, uint64_t needed);

// Reads a whole file, at most `limit` bytes; a NUL is put behind the data. Pipes work too. The
// caller frees *data_out with free(). Errors: RUNG_FORMAT when the file is larger than the limit.
rung_status rungi_fs_read(const char *path, size_t limit, char **data_out, size_t *size_out);

// Makes a folder and those above it. One that exists is fine.
rung_status rungi_fs_make_folders(const char *path);

typedef struct rungi_names {
    char **data;
    size_t count;
    size_t capacity;
} rungi_names;

// The names in a folder without . and .., in the order of their bytes. rungi_names_fini frees them.
rung_status rungi_fs_list(const char *path, rungi_names *names_out);
void rungi_names_fini(rungi_names *names);

// Removes a file, or a folder with all that is in it. Links are removed, not followed. A path that
// does not exist is fine.
rung_status rungi_fs_remove_tree(const char *path);

// A file mapped read-only. `data` is never NULL; an empty file gives size 0. The file must not be
// shortened by others while it is mapped.
typedef struct rungi_mapping {
    const uint8_t *data;
    size_t size;
    void *base; // what to unmap; NULL for an empty file
} rungi_mapping;

rung_status rungi_mapping_init(rungi_mapping *mapping, const char *path);
void rungi_mapping_fini(rungi_mapping *mapping);

#endif
