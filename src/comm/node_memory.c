// SPDX-License-Identifier: Apache-2.0
#include "comm/node_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

static void *map_shared(int file, uint64_t bytes)
{
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (data == MAP_FAILED)
        return NULL;
    madvise(data, bytes, MADV_HUGEPAGE); // a wish
    return data;
}

rung_status rungi_node_memory_create(uint64_t bytes, int *file_out, void **data_out)
{
    int file = memfd_create("rung", MFD_CLOEXEC);
    RUNG_CHECK(file >= 0, RUNG_NO_MEMORY, "no memory to share: %s", strerror(errno));
    void *data = ftruncate(file, (off_t)bytes) == 0 ? map_shared(file, bytes) : NULL;
    if (!data) {
        int error = errno;
        close(file);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory of %llu bytes to share: %s",
                         (unsigned long long)bytes, strerror(error));
    }
    *file_out = file;
    *data_out = data;
    return RUNG_OK;
}

rung_status rungi_node_memory_open(int64_t pid, int file, uint64_t bytes, void **data_out)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)pid, file);
    int own = open(path, O_RDWR | O_CLOEXEC);
    RUNG_CHECK(own >= 0, RUNG_LIBRARY, "cannot share memory with process %lld: %s: %s",
               (long long)pid, path, strerror(errno));
    void *data = map_shared(own, bytes);
    int error = errno;
    close(own);
    RUNG_CHECK(data, RUNG_LIBRARY, "cannot share %llu bytes with process %lld: %s",
               (unsigned long long)bytes, (long long)pid, strerror(error));
    *data_out = data;
    return RUNG_OK;
}

void rungi_node_memory_close(void *data, uint64_t bytes)
{
    if (data)
        munmap(data, bytes);
}
