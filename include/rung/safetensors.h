// SPDX-License-Identifier: Apache-2.0
// Tensor files in the safetensors format (huggingface/safetensors): a strict reader and a writer
// whose bytes equal those of the format's own library.
//
// The reader checks the whole header when it opens a file: whatever it hands out afterwards lies
// inside the file, and hostile files are refused with one line that names the reason. Data are read
// on demand at their position; nothing is mapped, so that a file cut while it is read gives an
// error and no signal.
#ifndef RUNG_SAFETENSORS_H
#define RUNG_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "rung/status.h"
#include "rung/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rung_safetensors rung_safetensors;

// One tensor of an open file. Pointers are borrowed from the file.
typedef struct rung_safetensors_tensor {
    const char *name;
    const char *type;   // as the file names it: "BF16", "F8_E4M3"
    rung_dtype dtype;   // RUNG_DTYPE_COUNT when rung has no such type
    int rank;           // 0 to 64: more than RUNG_MAX_RANK is listed but cannot be read
    const int64_t *dim; // `rank` dimensions
    uint64_t offset;    // of the first byte in the file
    uint64_t bytes;
} rung_safetensors_tensor;

// A name and a text of the header's __metadata__.
typedef struct rung_safetensors_pair {
    const char *key;
    const char *value;
} rung_safetensors_pair;

// Opens a file and checks its header. The caller owns the result and passes it to
// rung_safetensors_close; one file may be read from several threads at once.
// Limits: 262,144 tensors, 24 MiB of names, shapes and metadata, 8 MiB for one of them.
// Errors: RUNG_NOT_FOUND, RUNG_IO; RUNG_FORMAT when it is not a safetensors file or breaks its
// rules; RUNG_CORRUPT when it is cut; RUNG_UNSUPPORTED beyond the limits.
RUNG_API rung_status rung_safetensors_open(const char *path, rung_safetensors **file_out);

// Closes *file and sets it to NULL. NULL and pointers to NULL are accepted.
RUNG_API void rung_safetensors_close(rung_safetensors **file);

// Number of tensors.
RUNG_API size_t rung_safetensors_count(const rung_safetensors *file);
// Tensor `index` in the order of the data. Borrowed.
RUNG_API const rung_safetensors_tensor *rung_safetensors_get(const rung_safetensors *file,
                                                             size_t index);
// The tensor of that name, NULL when there is none. Borrowed.
RUNG_API const rung_safetensors_tensor *rung_safetensors_find(const rung_safetensors *file,
                                                              const char *name);
// Pairs of __metadata__ in the order of the file; *count_out receives their number. Borrowed.
RUNG_API const rung_safetensors_pair *rung_safetensors_metadata(const rung_safetensors *file,
                                                                size_t *count_out);

// Reads all elements of `tensor` (of this file) into `dst` as `dtype`, converted by the rules of
// rung_convert; `lost_out` (may be NULL) receives how many finite values became infinite or were
// saturated. `dst` has room for the tensor's elements.
// Errors: RUNG_UNSUPPORTED for a type that rung lacks; RUNG_IO, RUNG_CORRUPT.
RUNG_API rung_status rung_safetensors_read(rung_safetensors *file,
                                           const rung_safetensors_tensor *tensor, rung_dtype dtype,
                                           void *dst, int64_t *lost_out);

// Reads the tensor `name` into `view`, converted to its type.
// Errors: RUNG_NOT_FOUND; RUNG_MISMATCH when the shapes differ (both are printed); those of
// rung_safetensors_read.
RUNG_API rung_status rung_safetensors_load(rung_safetensors *file, const char *name,
                                           const rung_view *view, int64_t *lost_out);

// A tensor to be written. Everything is borrowed for the call.
typedef struct rung_safetensors_item {
    const char *name; // UTF-8, any but "__metadata__"
    rung_view view;
} rung_safetensors_item;

// Writes a file in the canonical order (types of larger alignment first, then by name), so that
// equal contents give equal bytes. Metadata are sorted by key. The file appears whole or not at
// all. Errors: RUNG_INVALID for a name given twice or not UTF-8 or a bad shape; RUNG_IO.
RUNG_API rung_status rung_safetensors_write(const char *path, const rung_safetensors_item *items,
                                            size_t count, const rung_safetensors_pair *metadata,
                                            size_t metadata_count);

#ifdef __cplusplus
}
#endif

#endif
