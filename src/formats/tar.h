// SPDX-License-Identifier: Apache-2.0
// Reading plain tar archives (POSIX.1-2017 pax, ustar, and GNU's long names and sizes): where each
// entry's data lie. Nothing is ever written by an entry's name.
#ifndef RUNGI_FORMATS_TAR_H
#define RUNGI_FORMATS_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rung/status.h"

typedef struct rungi_tar_entry {
    const char *name; // valid during the call
    bool regular;     // a file with data; else a folder, a link or the like
    int64_t offset, size;
} rungi_tar_entry;

typedef rung_status (*rungi_tar_fn)(void *user, const rungi_tar_entry *entry);

// Calls `fn` for each entry of the archive open as `fd` (of `size` bytes; `path` begins messages).
// Errors: those of `fn`; RUNG_FORMAT when it is no plain tar archive; RUNG_CORRUPT when a header is
// damaged or the archive is cut (also when its end mark is missing); RUNG_IO.
rung_status rungi_tar_walk(int fd, const char *path, uint64_t size, rungi_tar_fn fn, void *user);

// Copies `size` bytes from byte `at` of an archive on; `at` never falls. formats/forward.h has one.
typedef rung_status (*rungi_tar_read_fn)(void *from, uint64_t at, void *data, size_t size);

// The same for an archive that is read by `read`, and that may be `size` bytes (INT64_MAX: not
// known).
rung_status rungi_tar_walk_by(rungi_tar_read_fn read, void *from, const char *path, uint64_t size,
                              rungi_tar_fn fn, void *user);

#endif
