// SPDX-License-Identifier: Apache-2.0
// Any bytes as an archive of arrays: each is of the size that its shape says, or a refusal.
#include "formats/npy_read.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    int fd = fuzz_file(data, size, path);
    rungi_names names = {0};
    rung_status status = rungi_npz_list(path, &names);
    if (status != RUNG_OK)
        fuzz_check_refusal(status);
    uint8_t sum = 0;
    for (size_t i = 0; i < names.count && i < 16; i++) {
        rung_view view;
        status = rung_npz_read(path, names.data[i], &view);
        if (status != RUNG_OK) {
            fuzz_check_refusal(status);
            continue;
        }
        int64_t count;
        FUZZ_CHECK(rung_shape_count(&view.shape, &count) == RUNG_OK);
        for (size_t k = 0; k < (size_t)count * rung_dtype_size(view.dtype); k++)
            sum = (uint8_t)(sum + ((const uint8_t *)view.data)[k]);
        free(view.data);
    }
    static volatile uint8_t used;
    used = sum;
    (void)used;
    rungi_names_fini(&names);
    close(fd);
    return 0;
}
