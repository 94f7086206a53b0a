// SPDX-License-Identifier: Apache-2.0
// Reading a data file from front to end, plain or gzip-compressed.
#ifndef RUNGI_DATA_DATAFILE_H
#define RUNGI_DATA_DATAFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#include "rung/status.h"

typedef struct rungi_datafile {
    const char *path; // borrowed
    int fd;
    int64_t size; // on disk
    bool gzip;    // compressed: read() gives what is inside
    bool cut;     // the compressed stream ended before its end
    bool inflating;
    z_stream stream;
    unsigned char *buffer;
} rungi_datafile;

// Opens `path` (borrowed until closed) in place and sees whether it is compressed. After a failure
// there is nothing to close.
// Errors: RUNG_NOT_FOUND, RUNG_IO (a folder, no permission), RUNG_FORMAT (0 bytes), RUNG_NO_MEMORY.
rung_status rungi_datafile_open(const char *path, rungi_datafile *file);

// Reads up to `want` bytes; fewer only at the end (or where a compressed stream is cut: `cut`).
// Errors: RUNG_IO; RUNG_CORRUPT for damaged compression.
rung_status rungi_datafile_read(rungi_datafile *file, void *out, size_t want, size_t *got_out);

// How many bytes read() can give at most: nothing larger need be allocated or believed.
int64_t rungi_datafile_most(const rungi_datafile *file);

// What is left, by reading on, up to `limit` bytes. Nothing can be read afterwards.
rung_status rungi_datafile_rest(rungi_datafile *file, int64_t limit, int64_t *rest_out);

// Decompresses the whole of a gzip file into exactly `size` bytes, in one piece and twice as fast
// as read() does, wherever that stands. False where it cannot: several members, damage, another
// length, no memory; read() then tells what is the matter.
bool rungi_datafile_inflate(const rungi_datafile *file, void *out, size_t size);

void rungi_datafile_close(rungi_datafile *file);

// True when `bytes` begin with gzip's magic number.
bool rungi_is_gzip(const unsigned char *bytes);

#endif
