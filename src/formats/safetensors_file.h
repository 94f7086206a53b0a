// SPDX-License-Identifier: Apache-2.0
// The open tensor file, shared by safetensors_read.c, _header.c and _check.c.
#ifndef RUNGI_FORMATS_SAFETENSORS_FILE_H
#define RUNGI_FORMATS_SAFETENSORS_FILE_H

#include "base/array.h"
#include "formats/safetensors.h"

// A block of the memory that names, shapes and metadata lie in.
typedef struct rungi_safetensors_block {
    struct rungi_safetensors_block *next;
    size_t used, size;
    int64_t data[]; // aligned for dimensions
} rungi_safetensors_block;

struct rung_safetensors {
    int fd;
    char path[RUNGI_PATH_MAX];
    uint64_t size;
    uint64_t data_begin;
    RUNGI_ARRAY(rung_safetensors_tensor) tensors; // in the order of the header
    RUNGI_ARRAY(rung_safetensors_pair) metadata;
    const rung_safetensors_tensor **by_offset;
    const rung_safetensors_tensor **by_name;
    rungi_safetensors_block *blocks;
    size_t index_bytes; // taken by names, shapes and metadata
};

// Reads and checks the header; fills everything behind `size`. On failure the caller closes.
rung_status rungi_safetensors_index(rung_safetensors *file);
// The part of it that needs the whole header: unique names, tensors that tile the data. Makes
// by_offset and by_name and moves the offsets from buffer to file.
rung_status rungi_safetensors_check(rung_safetensors *file);

#endif
