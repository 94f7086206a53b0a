// SPDX-License-Identifier: Apache-2.0
// Any bytes as a table of examples: ids that are the vocabulary's, or a refusal.
#include "fuzz.h"
#include "rung/text.h"

static rung_context *context; // for notices, which go nowhere

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = fuzz_file(data, size, path);
    if (!context)
        FUZZ_CHECK(rung_context_create(NULL, &context) == RUNG_OK);
    rung_source *source;
    rung_status status =
        rung_source_text(context, &(rung_text_options){.path = path, .length = 5}, &source);
    if (status != RUNG_OK) {
        fuzz_check_refusal(status);
        close(fd);
        return 0;
    }
    for (int64_t i = 0; i < source->count; i++) {
        int64_t ids[5], label, length;
        rung_view views[] = {{RUNG_I64, RUNG_SHAPE(5), ids},
                             {RUNG_I64, RUNG_SCALAR, &label},
                             {RUNG_I64, RUNG_SCALAR, &length}};
        FUZZ_CHECK(source->read(source->self, NULL, &(rung_sample){.index = i}, views) == RUNG_OK);
        FUZZ_CHECK(label >= 0 && label < source->class_count && length >= 1 && length <= 5);
        for (int k = 0; k < 5; k++)
            FUZZ_CHECK(k < length ? ids[k] >= 1 && ids[k] < rung_source_text_ids(source)
                                  : ids[k] == 0);
    }
    rung_source_destroy(&source);
    close(fd);
    return 0;
}
