// SPDX-License-Identifier: Apache-2.0
// Looking at a data set before training on it: is every sample whole, what do augmented batches
// look like, and how fast can they be supplied? What `rung data check | show | bench` do.
#ifndef RUNG_DATA_TOOLS_H
#define RUNG_DATA_TOOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "rung/config.h"
#include "rung/context.h"

#ifdef __cplusplus
extern "C" {
#endif

// What a tool found. The caller ends it with rung_data_report_fini.
typedef struct rung_data_report {
    bool sound;       // check: nothing is wrong
    int64_t problems; // check: how many things are
    char *text;       // for people: lines
    char *json;       // one object, on one line
    char *svg;        // bench: samples/s by workers; else NULL
} rung_data_report;

RUNG_API void rung_data_report_fini(rung_data_report *report);

// Tells what is being done, `done` of `total`; from the calling thread.
typedef void (*rung_data_progress)(void *user, int64_t done, int64_t total, const char *what);

typedef struct rung_data_check_options {
    int threads;              // 0: the cores that this process may run on
    bool optional_validation; // no validation set is not a mistake (a path without configuration)
    rung_data_progress progress;
    void *progress_user;
} rung_data_check_options;

// Reads and decodes every sample of the training and the validation set of a configuration (only
// its keys data.* count). Told are damaged samples by name and reason; kinds and sizes of pictures;
// samples of each class; equal samples (by a hash of the decoded pixels) within and between the
// sets; labels out of range, and classes without training samples. All of these but kinds, sizes
// and counts are problems. The result does not depend on the number of threads.
// Errors: those of opening the data; a set that is damaged as a whole (RUNG_CORRUPT, RUNG_FORMAT,
// RUNG_DATA) is a problem of the report, not an error.
RUNG_API rung_status rung_data_check(rung_context *context, const rung_config *config,
                                     const rung_data_check_options *options,
                                     rung_data_report *report_out);

// Draws the first `count` (0: 24; at most 400) samples of an epoch's first batches as a PNG: each
// as it is (fitted into its cell) and as it is augmented for training, with its class below.
// report->text and ->json tell which samples they are. Errors: those of the data; RUNG_UNSUPPORTED
// when samples are no pictures with 1 or 3 channels; those of rung_image_write_png.
RUNG_API rung_status rung_data_show(rung_context *context, const rung_config *config, int count,
                                    const char *path, rung_data_report *report_out);

typedef struct rung_data_bench_options {
    double seconds;  // of each measurement; 0: 2
    int max_workers; // 0: twice the cores, at least 4
    rung_data_progress progress;
    void *progress_user;
} rung_data_bench_options;

// Measures the supply of training batches of a configuration: one sample's read, decode and
// transform alone; samples/s, share of the cores and resident memory for 0, 1, 2, 4, ... workers,
// with a consumer that reads each batch once and does nothing else; the machine's decode ceiling
// (every picture decoded whole, from memory, on all cores); batches served from memory. Ends with
// advice. Errors: those of the data; RUNG_INVALID.
RUNG_API rung_status rung_data_bench(rung_context *context, const rung_config *config,
                                     const rung_data_bench_options *options,
                                     rung_data_report *report_out);

#ifdef __cplusplus
}
#endif

#endif
