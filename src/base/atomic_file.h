// SPDX-License-Identifier: Apache-2.0
// Files that appear whole or not at all: written to a temporary name in the same folder, synced,
// renamed over the target, and the folder synced. On any failure the old file is as it was and the
// temporary one is gone (a process that is killed may leave a file named .rung-tmp-...).
#ifndef RUNGI_BASE_ATOMIC_FILE_H
#define RUNGI_BASE_ATOMIC_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include "rung/status.h"

// The system calls that can fail half way, so that tests can make them fail. Each behaves like the
// call of that name.
typedef struct rungi_file_calls {
    void *user;
    ssize_t (*write)(void *user, int fd, const void *data, size_t size);
    int (*fsync)(void *user, int fd);
    int (*rename)(void *user, const char *from, const char *to);
} rungi_file_calls;

typedef struct rungi_atomic_file {
    int fd;
    char *path;
    char *temporary;
    const rungi_file_calls *calls;
} rungi_atomic_file;

// Names of files left by a killed process begin with this.
#define RUNGI_TEMPORARY_PREFIX ".rung-tmp-"

// Begins to write `path`, which must not be there or be a regular file. `calls` is NULL but in
// tests. After success the caller ends with commit or abort.
rung_status rungi_atomic_begin(rungi_atomic_file *file, const char *path,
                               const rungi_file_calls *calls);
// Adds to the file. After a failure only abort is allowed.
rung_status rungi_atomic_write(rungi_atomic_file *file, const void *data, size_t size);
// Puts the file in its place. On failure it aborts.
rung_status rungi_atomic_commit(rungi_atomic_file *file);
// Removes what was written. Nothing happens after a commit. Keeps the error record.
void rungi_atomic_abort(rungi_atomic_file *file);

// All of it for data in memory.
rung_status rungi_fs_write(const char *path, const void *data, size_t size);

#endif
