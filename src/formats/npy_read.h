// SPDX-License-Identifier: Apache-2.0
// Reading .npy data from elsewhere than a file, its head, and what an .npz archive holds.
#ifndef RUNGI_FORMATS_NPY_READ_H
#define RUNGI_FORMATS_NPY_READ_H

#include "base/fs.h"
#include "base/text.h"
#include "rung/npy.h"

// Gives `size` bytes from `offset` on. Offsets rise, but for the first 12 bytes of the data.
typedef struct rungi_npy_input {
    void *user;
    rung_status (*read)(void *user, uint64_t offset, void *out, size_t size);
} rungi_npy_input;

// rung_npy_read of `size` bytes of data; `path` begins messages. After a failure view->data may be
// set, and is to be freed.
rung_status rungi_npy_read_from(const rungi_npy_input *input, const char *path, uint64_t size,
                                rung_view *view);

// Adds the head of an .npy file, up to the data, for an array of this dtype and shape. bf16 is told
// as f32.
rung_status rungi_npy_head(const rung_view *view, rungi_string *out);

// The names of the arrays in an .npz archive, in its order. rungi_names_fini frees them.
rung_status rungi_npz_list(const char *path, rungi_names *names_out);

#endif
