// SPDX-License-Identifier: Apache-2.0
// Any bytes: an array of the size that its shape says, or a refusal.
#include "fuzz.h"
#include "rung/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = fuzz_file(data, size, path);
    rung_view view;
    rung_status status = rung_npy_read(path, &view);
    if (status != RUNG_OK) {
        fuzz_check_refusal(status);
    } else {
        int64_t count;
        FUZZ_CHECK(rung_shape_count(&view.shape, &count) == RUNG_OK);
        size_t bytes = (size_t)count * rung_dtype_size(view.dtype);
        FUZZ_CHECK(bytes < size && memcmp(view.data, data + size - bytes, bytes) == 0);
        free(view.data);
    }
    close(fd);
    return 0;
}
