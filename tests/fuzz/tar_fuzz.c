// SPDX-License-Identifier: Apache-2.0
// Any bytes as an archive: entries whose data lie within it, or a refusal.
#include "formats/tar.h"
#include "fuzz.h"

static rung_status take(void *size_, const rungi_tar_entry *entry)
{
    size_t size = *(const size_t *)size_;
    FUZZ_CHECK(entry->offset >= 512 && (size_t)entry->offset <= size && entry->size >= 0 &&
               (size_t)entry->size <= size - (size_t)entry->offset);
    FUZZ_CHECK(strlen(entry->name) < 1 << 20);
    return RUNG_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = fuzz_file(data, size, path);
    rung_status status = rungi_tar_walk(fd, path, size, take, &size);
    if (status != RUNG_OK)
        fuzz_check_refusal(status);
    close(fd);
    return 0;
}
