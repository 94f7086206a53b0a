// SPDX-License-Identifier: Apache-2.0
// llm.c's files of tokens: 256 int32 of header, then tokens of 2 or 4 bytes.
#ifndef RUNGI_FORMATS_TOKEN_FILE_H
#define RUNGI_FORMATS_TOKEN_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "rung/status.h"

enum {
    RUNGI_TOKEN_HEADER = 1024, // bytes
    RUNGI_TOKEN_MAGIC_16 = 20240520,
    RUNGI_TOKEN_MAGIC_32 = 20240801,
};

typedef struct rungi_token_file {
    int64_t count; // tokens
    int width;     // bytes of one: 2 or 4
} rungi_token_file;

// Reads the header of the file open as `fd`, of `size` bytes.
// Errors: RUNG_FORMAT for another kind of file; RUNG_CORRUPT when it is cut or too long.
rung_status rungi_token_file_check(int fd, const char *path, uint64_t size,
                                   rungi_token_file *file_out);

// Fills the header of a file. `width` is 2 or 4.
void rungi_token_file_header(int32_t header[RUNGI_TOKEN_HEADER / 4], int64_t count, int width);

#endif
