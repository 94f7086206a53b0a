// SPDX-License-Identifier: Apache-2.0
// A file, plain or compressed (gzip, bzip2, zstd), that is read from its beginning to its end, by
// libarchive.
#ifndef RUNGI_FORMATS_FORWARD_H
#define RUNGI_FORMATS_FORWARD_H

#include <stddef.h>
#include <stdint.h>

#include "rung/status.h"

typedef struct rungi_forward rungi_forward;

// Opens a file. The caller closes it. Errors: RUNG_NOT_FOUND, RUNG_IO; RUNG_CORRUPT when its
// compression is damaged.
rung_status rungi_forward_open(const char *path, rungi_forward **forward_out);
void rungi_forward_close(rungi_forward **forward);

// What comes next, unpacked, borrowed until the next call. At the end *size_out is 0.
rung_status rungi_forward_block(rungi_forward *forward, const void **data_out, size_t *size_out);

// Copies `size` bytes from the unpacked byte `at` on. What lies before is passed over: `at` must
// not be smaller than where the last call ended. `from` is a rungi_forward: see rungi_tar_read_fn.
// Errors: RUNG_CORRUPT when it ends before or is damaged.
rung_status rungi_forward_read(void *from, uint64_t at, void *data, size_t size);

#endif
