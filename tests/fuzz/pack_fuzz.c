// SPDX-License-Identifier: Apache-2.0
// Any bytes as a pack, and, since checksums stop nearly all of them, the same with checksums put
// right: a source whose samples lie within the file, or a refusal.
#include "data/pack_file.h"
#include "formats/crc32c.h"
#include "fuzz.h"

static void read_all(rung_source *source)
{
    static int64_t scratch[1 << 16];
    uint8_t sum = 0;
    for (int64_t i = 0; i < source->count; i++) {
        rung_view views[RUNG_MAX_FIELDS];
        char place[256];
        for (int f = 0; f < source->field_count; f++)
            views[f] = (rung_view){source->fields[f].dtype, source->fields[f].shape, scratch};
        source->describe(source->self, i, place, sizeof place);
        rung_status status = source->read(
            source->self, NULL, &(rung_sample){.index = i, .may_borrow = UINT32_MAX}, views);
        if (status != RUNG_OK) {
            fuzz_check_refusal(status);
            continue;
        }
        for (int f = 0; f < source->field_count; f++) {
            int64_t count;
            FUZZ_CHECK(rung_shape_count(&views[f].shape, &count) == RUNG_OK);
            size_t bytes = (size_t)count * rung_dtype_size(views[f].dtype);
            for (size_t k = 0; k < bytes; k++)
                sum = (uint8_t)(sum + ((const uint8_t *)views[f].data)[k]);
        }
    }
    scratch[0] = sum;
}

static void run(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = fuzz_file(data, size, path);
    rung_source *source = NULL;
    rung_status status = rung_source_pack(NULL, path, NULL, &source);
    if (status != RUNG_OK)
        fuzz_check_refusal(status);
    else
        read_all(source);
    rung_source_destroy(&source);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    run(data, size);
    rungi_pack_header header;
    if (size < sizeof header)
        return 0;
    uint8_t *copy = malloc(size);
    FUZZ_CHECK(copy);
    memcpy(copy, data, size);
    memcpy(&header, data, sizeof header);
    header.file_size = size;
    if (header.tail < size)
        header.tail_crc = rungi_crc32c(0, copy + header.tail, size - header.tail);
    header.header_crc = rungi_crc32c(0, &header, offsetof(rungi_pack_header, header_crc));
    memcpy(copy, &header, sizeof header);
    run(copy, size);
    free(copy);
    return 0;
}
