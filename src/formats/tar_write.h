// SPDX-License-Identifier: Apache-2.0
// Writing plain tar archives (ustar; GNU's long names above 100 bytes). Nothing in them depends on
// when or where they were made.
#ifndef RUNGI_FORMATS_TAR_WRITE_H
#define RUNGI_FORMATS_TAR_WRITE_H

#include <stddef.h>
#include <stdint.h>

#include "rung/status.h"

// Takes the archive's bytes, piece by piece.
typedef rung_status (*rungi_tar_put_fn)(void *user, const void *data, size_t size);

// An entry: a file of `size` bytes. Errors: RUNG_INVALID for a name that is empty, absolute or
// longer than 4,096 bytes; those of `put`.
rung_status rungi_tar_put(rungi_tar_put_fn put, void *user, const char *name, const void *data,
                          uint64_t size);
// The end mark.
rung_status rungi_tar_end(rungi_tar_put_fn put, void *user);

#endif
