// SPDX-License-Identifier: Apache-2.0
// What all sources that lie in memory are made of: fields at a fixed stride, and the files that
// they came from.
#ifndef RUNGI_DATA_MEMORY_SOURCE_H
#define RUNGI_DATA_MEMORY_SOURCE_H

#include "base/array.h"
#include "base/thread.h"
#include "rung/data.h"

typedef struct rungi_memory_field {
    const uint8_t *data; // of sample 0
    size_t stride;       // bytes from one sample to the next
    size_t bytes;        // of one sample
} rungi_memory_field;

typedef struct rungi_memory_file {
    char *path;
    int64_t first; // its first sample
} rungi_memory_file;

typedef struct rungi_memory_source {
    rung_source source; // first: a rung_source * is a rungi_memory_source *
    rungi_memory_field fields[RUNG_MAX_FIELDS];
    RUNGI_ARRAY(void *) owned;
    void *mapped; // of a file, or NULL
    size_t mapped_bytes;
    rungi_thread later;
    void *later_arg;
    RUNGI_ARRAY(rungi_memory_file) files; // in order; empty: samples have no file
} rungi_memory_source;

// Makes an empty one, with read, describe and destroy set. Freed by rung_source_destroy.
rung_status rungi_memory_source_create(const char *name, rungi_memory_source **memory_out);

// Destroys a half-made one.
void rungi_memory_source_drop(rungi_memory_source **memory);

// Adds a field and sets its bytes from its shape. `data` is borrowed (see _own).
rung_status rungi_memory_source_field(rungi_memory_source *memory, const char *name,
                                      rung_dtype dtype, rung_shape shape, rung_pixels pixels,
                                      const void *data, size_t stride);

// Memory for samples, to be freed with free(); NULL without memory. Large blocks ask for huge
// pages: tens of thousands of page faults would cost more than reading the file.
void *rungi_memory_source_block(size_t size);

// Hands `block` (from malloc) to the source; on failure frees it.
rung_status rungi_memory_source_own(rungi_memory_source *memory, void *block);

// Hands a mapping to the source, which has one at most; on failure unmaps it.
rung_status rungi_memory_source_own_map(rungi_memory_source *memory, void *data, size_t bytes);

// Runs fn(arg) beside what follows; the source's end waits for it, and frees `arg` with free(), at
// once where no thread can be had, after running it. What fn returns is not looked at. Once.
void rungi_memory_source_later(rungi_memory_source *memory, rungi_thread_fn fn, void *arg);

// Says that samples from `first` on come from the file `path`.
rung_status rungi_memory_source_file(rungi_memory_source *memory, const char *path, int64_t first);

// Copies class names.
rung_status rungi_memory_source_classes(rungi_memory_source *memory, const char *const *names,
                                        int count);

#endif
