// SPDX-License-Identifier: Apache-2.0
// What opening by format and split, and converting, ask of the tar source beyond rung/data.h.
#ifndef RUNGI_DATA_SOURCE_TAR_H
#define RUNGI_DATA_SOURCE_TAR_H

#include "rung/data.h"

// Largest size of all compressed archives of a source, unpacked in memory.
enum { RUNGI_TAR_MEMORY_MAX = 1 << 30 };

// rung_source_tar for one split: where names in the archives begin with train/, "train" takes
// these, else all; "test" takes those that begin with val/ or else test/; "all" takes all.
// Compressed archives are unpacked in memory, or, with `spool`, to unnamed files in that folder,
// without a limit. Errors: RUNG_NOT_FOUND for a test split that is not there.
rung_status rungi_source_tar(rung_context *context, const char *path, const char *split,
                             const char *spool, rung_source **source_out);

// The same by path and split, as rung_source_open does. source_open.c
rung_status rungi_source_open_tar(rung_context *context, const char *path, const char *split,
                                  const char *spool, rung_source **source_out);

#endif
