// SPDX-License-Identifier: Apache-2.0
// The inside of converting: a conversion reads samples and gives them to a sink, which writes them
// in some format.
#ifndef RUNGI_DATA_CONVERT_H
#define RUNGI_DATA_CONVERT_H

#include "base/text.h"
#include "rung/convert.h"

typedef struct rungi_sink rungi_sink;

typedef struct rungi_conversion {
    rung_context *context;
    const rung_convert_options *options;
    const char *format, *split;
    rung_source *source;
    int field_count;
    rung_field fields[RUNG_MAX_FIELDS]; // as they are written
    int image, label;                   // which of them; -1: none
    bool raw;                           // images are decoded and resized
    uint64_t stamp;                     // of the source and of what is done with it
    char *note;
    rung_convert_report report;
    rungi_sink *sink;
    int lock; // of the folder that is being made; -1: none
} rungi_conversion;

// A sample to be written.
typedef struct rungi_convert_sample {
    int64_t number;          // from 0, without gaps
    const char *name;        // where it came from; "" for arrays
    const rung_view *fields; // of the conversion's dtypes and shapes
} rungi_convert_sample;

struct rungi_sink {
    int64_t standing; // samples from an earlier call: they are not given again
    rung_status (*add)(rungi_sink *sink, const rungi_convert_sample *sample);
    // Flushes, checks, and gives the destination its name.
    rung_status (*finish)(rungi_sink *sink, uint64_t *bytes_out);
    void (*destroy)(rungi_sink *sink);
};

rung_status rungi_sink_pack(rungi_conversion *c, rungi_sink **sink_out);
rung_status rungi_sink_tar(rungi_conversion *c, rungi_sink **sink_out);
rung_status rungi_sink_npy(rungi_conversion *c, rungi_sink **sink_out);
rung_status rungi_sink_folder(rungi_conversion *c, rungi_sink **sink_out);

// Converts a text to a file of tokens, and fills the report. convert_tokens.c
rung_status rungi_convert_tokens(const rung_convert_options *options, rung_convert_report *report);

// Reads the source from where the sink stands and gives it every sample. convert_read.c
rung_status rungi_convert_samples(rungi_conversion *c);

// ---- reading, convert_read.c

typedef struct rungi_convert_progress {
    int64_t drop;    // good samples that stand already
    int64_t written; // good samples so far, those included
} rungi_convert_progress;

// Gives a sample of the source to the sink.
rung_status rungi_convert_give(rungi_conversion *c, rungi_convert_progress *p, int64_t index,
                               const rung_view *fields);
// Does a failure of this kind lie in the sample?
bool rungi_convert_is_bad(rung_status status);
// Reads every sample, rewrites its JPEG (options.jpeg_rows) and gives it. convert_rows.c
rung_status rungi_convert_rows(rungi_conversion *c, rungi_convert_progress *p);

// Tells the progress. Errors: RUNG_CANCELLED.
rung_status rungi_convert_tell(const rungi_conversion *c, const char *stage, int64_t done,
                               int64_t total);

// ---- what sinks share, convert_common.c

// A picture as bytes of a file: as it is, or as PNG, which `png` then holds. *end_out is ".jpg" or
// the like. Errors: RUNG_DATA when it is of no kind known.
rung_status rungi_convert_picture(const rungi_conversion *c, const rungi_convert_sample *sample,
                                  rungi_string *png, const void **data_out, size_t *size_out,
                                  const char **end_out);

// Refuses what a tar archive or a folder cannot hold: anything but a picture and one label.
rung_status rungi_convert_check_pictures(const rungi_conversion *c, const char *what);

// The label of a sample.
int64_t rungi_convert_label(const rungi_conversion *c, const rungi_convert_sample *sample);

// Makes the folder TO.partial, and locks it until c->lock is closed. What an earlier call left in
// it stays if that call made the same of the same: a file .stamp in it says so. `path_out` is
// RUNGI_PATH_MAX long. Errors: RUNG_IO, also when another process is writing it.
rung_status rungi_convert_begin_folder(rungi_conversion *c, char *path_out);
// Removes .stamp, flushes the folder and renames it to TO.
rung_status rungi_convert_end_folder(const rungi_conversion *c, const char *path);

#endif
