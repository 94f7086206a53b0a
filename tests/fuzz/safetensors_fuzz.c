// SPDX-License-Identifier: Apache-2.0
// Any bytes: a file whose tensors can all be read, or a refusal.
#include "fuzz.h"
#include "rung/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = fuzz_file(data, size, path);
    rung_safetensors *file = NULL;
    rung_status status = rung_safetensors_open(path, &file);
    if (status != RUNG_OK)
        fuzz_check_refusal(status);
    uint64_t total = 0;
    for (size_t i = 0; file && i < rung_safetensors_count(file); i++) {
        const rung_safetensors_tensor *t = rung_safetensors_get(file, i);
        FUZZ_CHECK(t->offset <= size && t->bytes <= size - t->offset);
        FUZZ_CHECK(rung_safetensors_find(file, t->name) == t);
        total += t->bytes;
        if (t->dtype == RUNG_DTYPE_COUNT)
            continue;
        size_t count = (size_t)t->bytes / rung_dtype_size(t->dtype);
        double *out = malloc(count * sizeof *out + 1);
        FUZZ_CHECK(out && rung_safetensors_read(file, t, RUNG_F64, out, NULL) == RUNG_OK);
        free(out);
    }
    FUZZ_CHECK(total <= size);
    rung_safetensors_close(&file);
    close(fd);
    return 0;
}
