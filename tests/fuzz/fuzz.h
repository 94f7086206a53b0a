// SPDX-License-Identifier: Apache-2.0
// What fuzz targets share: libFuzzer's entry and a file of the given bytes.
#ifndef RUNGI_TESTS_FUZZ_H
#define RUNGI_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rung/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Ends the process when something that must hold does not: libFuzzer then keeps the input.
#define FUZZ_CHECK(condition)                                                             \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            abort();                                                                      \
        }                                                                                 \
    } while (0)

// A file in memory with these bytes; its path is written to `path_out`. The caller closes it.
static inline int fuzz_file(const uint8_t *data, size_t size, char path_out[64])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && (size == 0 || write(fd, data, size) == (ssize_t)size));
    snprintf(path_out, 64, "/proc/self/fd/%d", fd);
    return fd;
}

// A refusal has one line that says something.
static inline void fuzz_check_refusal(rung_status status)
{
    const rung_error *error = rung_error_last();
    FUZZ_CHECK(error->status == status && error->message[0] && !strchr(error->message, '\n'));
}

#endif
