// SPDX-License-Identifier: Apache-2.0
// Files that are written whole or not at all, and positioned reads.
//
// Every system call that changes the disk is announced to a hook first. Tests use it to let the
// n-th call fail or to end the process there, so that each moment of a save is tried once.
#ifndef RUNGI_BASE_FILE_IO_H
#define RUNGI_BASE_FILE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rung/status.h"

// `before` is called with the name of the call ("open", "write", "fsync", "close", "rename",
// "mkdir", "unlink", "rmdir") and its path. It returns 0 to go on, else the errno that the call
// fails with. With a hook, writes are cut into pieces of 4 KiB.
typedef struct rungi_io_hook {
    void *user;
    int (*before)(void *user, const char *call, const char *path);
} rungi_io_hook;

enum { RUNGI_PATH_MAX = 4096 };

// Formats a path. RUNG_INVALID when it does not fit into RUNGI_PATH_MAX.
rung_status rungi_path_format(char out[RUNGI_PATH_MAX], const char *fmt, ...) RUNG_PRINTF(2, 3);

// rungi_fs_fail with "cannot VERB". A full disk is told with `needed` bytes (0: unknown).
rung_status rungi_io_fail(const char *path, const char *verb, int error, uint64_t needed);

// A file being written. Start with rungi_file_create.
typedef struct rungi_file {
    int fd;
    char path[RUNGI_PATH_MAX];
    const rungi_io_hook *hook; // borrowed, may be NULL
    uint64_t written;
    uint64_t needed; // bytes that the whole save takes, for the message when the disk is full
} rungi_file;

// Creates a new file; RUNG_IO when it exists.
rung_status rungi_file_create(rungi_file *file, const char *path, uint64_t needed,
                              const rungi_io_hook *hook);
rung_status rungi_file_write(rungi_file *file, const void *data, size_t size);
// Flushes to the disk and closes. The file is closed on failure too.
rung_status rungi_file_finish(rungi_file *file);
// Closes and removes the file. Leaves the error record alone.
void rungi_file_abandon(rungi_file *file);

// Replaces the file at `path` by `size` bytes: written beside it under a temporary name, flushed,
// renamed, folder flushed. On failure the old file is untouched.
rung_status rungi_file_replace(const char *path, const void *data, size_t size,
                               const rungi_io_hook *hook);

// The same without a hook. What is there already must be a regular file.
rung_status rungi_fs_write(const char *path, const void *data, size_t size);

// The rest of that for a file made by rungi_file_create under a temporary name: flushes, renames to
// `path`, flushes the folder. On failure the temporary file is removed.
rung_status rungi_file_publish(rungi_file *file, const char *path);

// Creates a file beside `path` named PATH.tmp-<unique>, for rungi_file_publish.
rung_status rungi_file_create_beside(rungi_file *file, const char *path, uint64_t needed,
                                     const rungi_io_hook *hook);

// Is `name` one that this module gives to temporary files and folders (X.tmp-<hex>-<hex>)? `mark`
// is "tmp" or "old".
bool rungi_name_is_temporary(const char *name, const char *mark);
// Writes "PATH.MARK-<unique>" to out: process, time and `attempt` in hexadecimal.
rung_status rungi_path_temporary(char out[RUNGI_PATH_MAX], const char *path, const char *mark,
                                 unsigned attempt);

rung_status rungi_io_rename(const char *from, const char *to, const rungi_io_hook *hook);
rung_status rungi_io_sync_folder(const char *path, const rungi_io_hook *hook);
// rungi_fs_make_folders with a hook.
rung_status rungi_io_make_folders(const char *path, const rungi_io_hook *hook);
// Makes one folder. *exists_out tells (instead of failing) that something has that name already.
rung_status rungi_io_make_folder(const char *path, bool *exists_out, const rungi_io_hook *hook);
// Removes a file, or a folder with all it holds; links are not followed. Best effort: returns false
// when something remains, and leaves the error record alone.
bool rungi_io_remove(const char *path, const rungi_io_hook *hook);

// Opens a regular file for reading and tells its size. Folders, pipes and devices are refused.
rung_status rungi_io_open_read(const char *path, int *fd_out, uint64_t *size_out);
// Reads exactly `size` bytes at `offset`. RUNG_CORRUPT ("cut: ...") when the file ends before.
rung_status rungi_io_read_at(int fd, const char *path, uint64_t offset, void *out, size_t size);

#endif
