// SPDX-License-Identifier: Apache-2.0
// A file that is made again over what an earlier process left of it: bytes that stand there already
// are compared and kept, from the first that differ on it is written. What is made must be the same
// each time; then a killed process costs no more writing than what it had not written.
#ifndef RUNGI_DATA_REGROW_H
#define RUNGI_DATA_REGROW_H

#include "base/file_io.h"
#include "base/text.h"

typedef struct rungi_regrow {
    rungi_file file; // fd -1: not open
    rungi_string ahead;
    uint64_t at;       // bytes made so far, those ahead included
    uint64_t standing; // bytes of the file that may still be right
    uint64_t kept;     // bytes that stood
    uint32_t crc;      // of all made so far
    bool comparing;
} rungi_regrow;

// Opens a file to go on with, made if it is not there, locked against other processes. file->fd is
// -1 after a failure to open it.
rung_status rungi_open_partial(rungi_file *file, const char *path);

// Opens `path`, which is made if it is not there, and locks it against other processes. `restart`:
// what stands there is thrown away. Errors: RUNG_IO, RUNG_NOT_FOUND without its folder.
rung_status rungi_regrow_open(rungi_regrow *grow, const char *path, bool restart);
rung_status rungi_regrow_write(rungi_regrow *grow, const void *data, size_t size);
// Flushes to the disk, closes, reads the file again and compares its length and checksum.
// Errors: RUNG_IO; RUNG_CORRUPT when what was read is not what was written.
rung_status rungi_regrow_finish(rungi_regrow *grow);
// Closes. The file stays.
void rungi_regrow_close(rungi_regrow *grow);

#endif
