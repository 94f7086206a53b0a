// SPDX-License-Identifier: Apache-2.0
#include "comm/node_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

#if !defined(MADV_COLLAPSE)
#    define MADV_COLLAPSE 25 // Linux 6.1
#endif

static const uint64_t HUGE_PAGE = 2 << 20; // bytes of a huge page

uint64_t rungi_node_memory_round(uint64_t bytes)
{
    uint64_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : 4096;
    return (bytes + (bytes == 0) + unit - 1) / unit * unit;
}

static bool is_huge(uint64_t bytes)
{
    return bytes > 0 && bytes % HUGE_PAGE == 0;
}

// Huge pages map only where the address is a multiple of their size, too.
static void *map_shared(int file, uint64_t bytes)
{
    uint64_t more = is_huge(bytes) ? HUGE_PAGE : 0;
    uint8_t *room = mmap(NULL, bytes + more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    uint64_t before = more ? (HUGE_PAGE - (uintptr_t)room % HUGE_PAGE) % HUGE_PAGE : 0;
    void *data =
        mmap(room + before, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
    int error = errno;
    if (data == MAP_FAILED)
        munmap(room, bytes + more);
    errno = error;
    if (data == MAP_FAILED)
        return NULL;
    if (before)
        munmap(room, before);
    if (more > before)
        munmap(room + before + bytes, more - before);
    return data;
}

// Shared memory gets huge pages by itself only where the system is set up for it, which it seldom
// is; but it can be asked to collapse pages that are there.
static void make_huge(uint8_t *data, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += HUGE_PAGE)
        *(volatile uint8_t *)(data + at) = 0;
    madvise(data, bytes, MADV_COLLAPSE); // a wish
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
    if (is_huge(bytes))
        make_huge(data, bytes);
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
