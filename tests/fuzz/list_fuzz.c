// SPDX-License-Identifier: Apache-2.0
// Any bytes as a list of pictures: a source whose labels are its classes', or a refusal.
#include "fuzz.h"
#include "rung/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = fuzz_file(data, size, path);
    rung_source *source = NULL;
    rung_status status = rung_source_list(NULL, path, &source);
    if (status != RUNG_OK) {
        fuzz_check_refusal(status);
    } else {
        FUZZ_CHECK(source->count > 0 && source->class_count > 0);
        for (int64_t i = 0; i < source->count; i++) {
            char place[512];
            source->describe(source->self, i, place, sizeof place);
            FUZZ_CHECK(place[0]);
        }
        rung_source_destroy(&source);
    }
    close(fd);
    return 0;
}
