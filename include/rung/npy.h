// SPDX-License-Identifier: Apache-2.0
// Arrays in NumPy's .npy files (NEP 1): one array in row-major order; and .npz archives of them.
#ifndef RUNG_NPY_H
#define RUNG_NPY_H

#include "rung/status.h"
#include "rung/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

// Reads a file of version 1, 2 or 3. The caller gives view_out->data to free().
// Errors: RUNG_NOT_FOUND, RUNG_IO; RUNG_FORMAT when it is no .npy file or its header is malformed;
// RUNG_CORRUPT when it is cut; RUNG_UNSUPPORTED for Fortran order, big-endian numbers, types that
// rung lacks and more than RUNG_MAX_RANK dimensions; RUNG_NO_MEMORY.
RUNG_API rung_status rung_npy_read(const char *path, rung_view *view_out);

// Reads the array `name` of an .npz archive (numpy.savez, numpy.savez_compressed): the member
// NAME.npy, stored or deflated. The caller gives view_out->data to free(). Errors: those of
// rung_npy_read; RUNG_NOT_FOUND without such an array, telling which there are; RUNG_FORMAT when it
// is no zip archive; RUNG_CORRUPT when it is cut or a checksum is wrong.
RUNG_API rung_status rung_npz_read(const char *path, const char *name, rung_view *view_out);

// Writes version 1. bf16, for which NumPy has no type, is written as f32. The file appears whole or
// not at all. Errors: RUNG_INVALID for a bad shape, RUNG_IO.
RUNG_API rung_status rung_npy_write(const char *path, const rung_view *view);

#ifdef __cplusplus
}
#endif

#endif
