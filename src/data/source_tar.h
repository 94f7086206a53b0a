// SPDX-License-Identifier: Apache-2.0
// What opening by format and split, and converting, ask of the tar source beyond rung/data.h.
#ifndef RUNGI_DATA_SOURCE_TAR_H
#define RUNGI_DATA_SOURCE_TAR_H

#include "rung/data.h"

// Largest size of all compressed archives of a source, unpacked in memory.
enum { RUNGI_TAR_MEMORY_MAX = 1 << 30 };

typedef struct rungi_tar_options {
    const char *split; // "all" (or NULL); "train" takes what begins with train/ where anything
                       // does, else all; "test" what begins with val/, or else test/. "some": as
                       // train where there is a test split, else all
    const char *spool; // folder in which compressed archives are unpacked to unnamed files, without
                       // a limit; NULL: in memory
    bool stream;       // read all archives as streams
} rungi_tar_options;

// rung_source_tar with options. Archives that are too large to be unpacked in memory are read as
// streams. *split_out (may be NULL) tells what "some" came to. Errors: RUNG_NOT_FOUND for a test
// split that is not there.
rung_status rungi_source_tar(rung_context *context, const char *path,
                             const rungi_tar_options *options, const char **split_out,
                             rung_source **source_out);

// The same by path and split, as rung_source_open does. source_open.c
rung_status rungi_source_open_tar(rung_context *context, const char *path,
                                  const rungi_tar_options *options, const char **split_out,
                                  rung_source **source_out);

#endif
