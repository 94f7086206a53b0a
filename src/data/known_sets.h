// SPDX-License-Identifier: Apache-2.0
// Data sets whose files are known by their checksums.
#ifndef RUNGI_DATA_KNOWN_SETS_H
#define RUNGI_DATA_KNOWN_SETS_H

#include <stdbool.h>
#include <stdint.h>

#include "data/memory_source.h"

enum { RUNGI_KNOWN_CLASSES = 10 };

typedef struct rungi_known_split {
    uint64_t images, labels; // XXH3-64 of the uncompressed IDX files
    int64_t count;
} rungi_known_split;

typedef struct rungi_known_set {
    const char *name; // as users give it
    rungi_known_split train, test;
    const char *class_names[RUNGI_KNOWN_CLASSES];
} rungi_known_set;

// What was read: the two files and their checksums.
typedef struct rungi_known_files {
    const char *images_path, *labels_path;
    uint64_t images, labels;
    int64_t count;
} rungi_known_files;

// Tells which known set the files belong to: by `name` if not NULL, else by the checksum of their
// labels (that of the images is not looked at) or a folder called like the set. *set_out is NULL
// when they belong to none.
// Errors: RUNG_CONFIG when no set is called `name`.
rung_status rungi_known_set_find(const char *name, const rungi_known_files *files,
                                 const rungi_known_set **set_out);
// Could so many images be those of a known set?
bool rungi_known_set_count(int64_t count);
// Computes the checksum of the images and warns in the log of each file that differs from the set;
// without one (NULL), of the labels beside images that are a known set's. While training begins:
// the images are many. `images` (`size` bytes) lie in `memory`, whose end waits for this.
rung_status rungi_known_set_later(rung_context *context, const rungi_known_set *set,
                                  const rungi_known_files *files, const void *images, size_t size,
                                  rungi_memory_source *memory);

#endif
