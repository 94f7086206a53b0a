// SPDX-License-Identifier: Apache-2.0
// Inside of tensor files: types, checksums and writing from where the data are.
#ifndef RUNGI_FORMATS_SAFETENSORS_H
#define RUNGI_FORMATS_SAFETENSORS_H

#include <stdbool.h>

#include "base/file_io.h"
#include "rung/safetensors.h"

// Types of the format, in the order in which its library sorts tensors (the last comes first in a
// file). bits per element; rung's type or COUNT.
#define RUNGI_SAFETENSORS_TYPE_MAP(X) \
    X("BOOL", 8, BOOL)                \
    X("F4", 4, DTYPE_COUNT)           \
    X("F6_E2M3", 6, DTYPE_COUNT)      \
    X("F6_E3M2", 6, DTYPE_COUNT)      \
    X("U8", 8, U8)                    \
    X("I8", 8, DTYPE_COUNT)           \
    X("F8_E5M2", 8, DTYPE_COUNT)      \
    X("F8_E4M3", 8, DTYPE_COUNT)      \
    X("F8_E8M0", 8, DTYPE_COUNT)      \
    X("F8_E4M3FNUZ", 8, DTYPE_COUNT)  \
    X("F8_E5M2FNUZ", 8, DTYPE_COUNT)  \
    X("I16", 16, DTYPE_COUNT)         \
    X("U16", 16, DTYPE_COUNT)         \
    X("F16", 16, F16)                 \
    X("BF16", 16, BF16)               \
    X("I32", 32, I32)                 \
    X("U32", 32, DTYPE_COUNT)         \
    X("F32", 32, F32)                 \
    X("C64", 64, DTYPE_COUNT)         \
    X("F64", 64, F64)                 \
    X("I64", 64, I64)                 \
    X("U64", 64, DTYPE_COUNT)

typedef struct rungi_safetensors_type {
    const char *name;
    int bits;
    rung_dtype dtype;
} rungi_safetensors_type;

// The type of that name, NULL when the format has none.
const rungi_safetensors_type *rungi_safetensors_type_find(const char *name);
// The type that stores `dtype`.
const rungi_safetensors_type *rungi_safetensors_type_of(rung_dtype dtype);

enum { RUNGI_SAFETENSORS_HEADER_MAX = 100000000 };

// XXH3-128 of some bytes.
typedef struct rungi_sum {
    uint64_t high, low;
} rungi_sum;
enum { RUNGI_SUM_TEXT = 33 };
// 32 hexadecimal digits, the form of xxh128sum.
char *rungi_sum_text(rungi_sum sum, char out[RUNGI_SUM_TEXT]);
rungi_sum rungi_sum_of(const void *data, size_t size);
// Of a part of an open file.
rung_status rungi_sum_of_range(int fd, const char *path, uint64_t offset, uint64_t bytes,
                               rungi_sum *sum_out);

// Checksums of what lies in an open file: the header with its length, and one tensor's bytes.
rung_status rungi_safetensors_sum_header(rung_safetensors *file, rungi_sum *sum_out);
rung_status rungi_safetensors_sum_tensor(rung_safetensors *file,
                                         const rung_safetensors_tensor *tensor, rungi_sum *sum_out);
// Size of the open file in bytes. All of it is header and tensors.
uint64_t rungi_safetensors_bytes(const rung_safetensors *file);

// A tensor to be written, from memory or piece by piece.
typedef struct rungi_safetensors_source {
    const char *name;
    rung_dtype dtype;
    rung_shape shape;
    const void *data; // or NULL: `read` gives the bytes
    // Copies `size` bytes from byte `offset` of the tensor to `out` (from a device).
    rung_status (*read)(void *user, uint64_t offset, void *out, size_t size);
    void *user;
} rungi_safetensors_source;

// A file about to be written: header made, order fixed. Made by plan, freed by fini. The sources
// are borrowed in between.
typedef struct rungi_safetensors_plan {
    const rungi_safetensors_source *sources;
    size_t count;
    size_t *order;   // sources in the order of the file
    uint64_t *bytes; // of each source
    char *header;    // length, JSON and padding
    size_t header_size;
    uint64_t file_size;
} rungi_safetensors_plan;

rung_status rungi_safetensors_plan_init(rungi_safetensors_plan *plan,
                                        const rungi_safetensors_source *sources, size_t count,
                                        const rung_safetensors_pair *metadata,
                                        size_t metadata_count);
void rungi_safetensors_plan_fini(rungi_safetensors_plan *plan);

// Writes the file's bytes. Checksums on the way: of the header, and of each source (`sums_out` has
// room for `count`, in the order of the sources); both may be NULL.
rung_status rungi_safetensors_emit(const rungi_safetensors_plan *plan, rungi_file *file,
                                   rungi_sum *header_sum_out, rungi_sum *sums_out);

#endif
