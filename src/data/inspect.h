// SPDX-License-Identifier: Apache-2.0
// Reads and decodes every sample of a source, in several threads, and tells what is there: damaged
// samples, kinds and sizes of pictures, classes, labels out of range, and samples that are equal.
#ifndef RUNGI_DATA_INSPECT_H
#define RUNGI_DATA_INSPECT_H

#include "base/array.h"
#include "data/survey.h"
#include "rung/data.h"

// A sample that something is wrong with.
typedef struct rungi_finding {
    int64_t sample;
    char *message; // begins with the sample's name
} rungi_finding;

// What duplicates are told by: a hash (XXH3, 128 bits) of the pixels and their size; of samples
// that are no pictures, of the first field's bytes.
typedef struct rungi_mark {
    uint64_t hash[2];
    int64_t label; // -1: none
    bool good;     // was read and decoded
} rungi_mark;

enum { RUNGI_PICTURE_KINDS = 4 }; // of rungi_image_kind

typedef struct rungi_inspection {
    rung_source *source;                // borrowed
    RUNGI_ARRAY(rungi_finding) damaged; // in the order of samples
    RUNGI_ARRAY(rungi_finding) bad_labels;
    rungi_survey pictures;
    int64_t kinds[RUNGI_PICTURE_KINDS]; // of pictures as files
    int64_t bytes;                      // read
    int width[2], height[2];            // least and most; 0: no pictures
    double pixels;                      // of all pictures
    int64_t class_count;
    int64_t *classes;  // samples of each
    rungi_mark *marks; // one a sample
} rungi_inspection;

typedef struct rungi_inspect_options {
    int threads; // 0: the cores that this process may run on
    bool rotate; // follow EXIF's note
    void (*progress)(void *user, int64_t done, int64_t total,
                     const char *what); // may be NULL;
                                        // from the calling thread, some ten times a second
    void *user;
    const char *what; // for progress
} rungi_inspect_options;

// Inspects a source. The result does not depend on the number of threads. Ended by fini. Errors:
// those of the source's `open`; RUNG_NO_MEMORY. A bad sample is no error.
rung_status rungi_inspect(rung_context *context, rung_source *source,
                          const rungi_inspect_options *options, rungi_inspection *inspection_out);
void rungi_inspection_fini(rungi_inspection *inspection);

// Two equal samples: of each group of equal ones, the first with each other one.
typedef struct rungi_duplicate {
    int set[2]; // 0 or 1: which inspection
    int64_t sample[2];
    bool labels_differ;
} rungi_duplicate;

typedef RUNGI_ARRAY(rungi_duplicate) rungi_duplicates;

// Finds equal samples within and between `count` (1 or 2) inspections, in the order of their first
// samples. The caller frees the array with rungi_array_fini. Errors: RUNG_NO_MEMORY.
rung_status rungi_inspect_duplicates(const rungi_inspection *inspections, int count,
                                     rungi_duplicates *duplicates_out);

#endif
