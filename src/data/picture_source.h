// SPDX-License-Identifier: Apache-2.0
// What all sources of pictures as files are made of: where each picture lies (a file, or a part of
// an archive) and its label. Fields: "image" (RUNG_PIXELS_FILE); "label" i64 [], or f32 [classes]
// of 0 and 1 where a picture may have several.
#ifndef RUNGI_DATA_PICTURE_SOURCE_H
#define RUNGI_DATA_PICTURE_SOURCE_H

#include "base/array.h"
#include "base/text.h"
#include "rung/data.h"

typedef struct rungi_picture_place {
    size_t name;   // where its name begins in `names`
    int64_t begin; // in the archive
    int64_t size;  // -1: a file of its own
    int64_t label;
    int archive; // -1: none
} rungi_picture_place;

typedef struct rungi_archive {
    char *path;
    int fd; // -1: opened for each read
} rungi_archive;

struct rungi_tar_streams;

typedef struct rungi_picture_source {
    rung_source source; // first: a rung_source * is a rungi_picture_source *
    char *root;         // folder that names begin at; "" for none
    rungi_string names; // each ends with a NUL
    RUNGI_ARRAY(rungi_picture_place) places;
    RUNGI_ARRAY(rungi_archive) archives;
    RUNGI_ARRAY(char *) classes;
    float *targets;                    // [count, classes] instead of labels
    struct rungi_tar_streams *streams; // of archives that are read from front to back, or NULL
} rungi_picture_source;

// Pictures larger than this are refused: a file is read whole.
enum { RUNGI_PICTURE_BYTES_MAX = 1 << 28 };

// Makes an empty one. Freed by rung_source_destroy.
rung_status rungi_picture_source_create(const char *name, const char *root,
                                        rungi_picture_source **source_out);

// Adds a picture; `place->name` is set to a copy of `name`.
rung_status rungi_picture_source_add(rungi_picture_source *ps, const char *name,
                                     rungi_picture_place place);
// Adds a class; its name is escaped where it is not valid UTF-8.
rung_status rungi_picture_source_class(rungi_picture_source *ps, const char *name);
// Adds an archive that is read at random.
rung_status rungi_picture_source_archive(rungi_picture_source *ps, const char *path);
// Adds an archive that is open already as `fd`, which the source closes; `path` is for messages.
rung_status rungi_picture_source_adopt(rungi_picture_source *ps, const char *path, int fd);

// Turns labels that were read as text into numbers. `labels` has one for each place, as its
// beginning in `texts`. All whole numbers from 0: the class is that number; else each different
// text is a class, in the order of their bytes. `where` names the picture of a bad label.
// Errors: RUNG_DATA, RUNG_NO_MEMORY.
rung_status rungi_picture_source_label(rungi_picture_source *ps, const char *texts,
                                       const size_t *labels);

// Sets the fields. Errors: RUNG_DATA when there are no pictures, named by `where`.
rung_status rungi_picture_source_finish(rungi_picture_source *ps, const char *where);

// The source as one of pictures as files, or NULL.
const rungi_picture_source *rungi_picture_source_of(const rung_source *source);

// The name of a sample within its data set, if the source is one of pictures as files; else NULL.
const char *rungi_picture_source_sample(const rung_source *source, int64_t index);

// The class of a sample, likewise; NULL too where it has several.
const int64_t *rungi_picture_source_label_of(const rung_source *source, int64_t index);

// Does the name end as torchvision's ImageFolder wants pictures to?
bool rungi_picture_name(const char *name);

#endif
