// SPDX-License-Identifier: Apache-2.0
// Compressed files and zip archives, by libarchive. A compressed archive can only be read from
// front to end; what wants to read it at random unpacks it once into an unnamed file: in memory
// (memfd) or in a folder. That file goes when it is closed, however the process ends.
//
// libarchive stands for all of it instead of one library for each compression: zip too, so that
// one well-kept dependency has one place here. Its tar reader is not used: formats/tar.h reads
// positions, and refuses what is hostile. xz is left out: its streams ask for gigabytes.
#ifndef RUNGI_FORMATS_UNPACK_H
#define RUNGI_FORMATS_UNPACK_H

#include <stdbool.h>
#include <stdint.h>

#include "rung/status.h"

// Memory that is filled before a file has shown that it stays below its limit.
enum { RUNGI_UNPACK_FIRST = 192 << 20 };

// Is the file open as `fd` compressed by gzip, bzip2 or zstd (by its first bytes)?
bool rungi_is_compressed(int fd);

// Unpacks the file `path`. With `folder` (NULL: in memory) the unnamed file lies there. A file that
// unpacks to more than `limit` bytes is refused before more than RUNGI_UNPACK_FIRST were kept. The
// caller closes *fd_out. Errors: RUNG_IO, RUNG_CORRUPT when it is cut or damaged; RUNG_UNSUPPORTED
// above the limit.
rung_status rungi_unpack(const char *path, const char *folder, uint64_t limit, int *fd_out,
                         uint64_t *size_out);

#endif
