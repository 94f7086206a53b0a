// SPDX-License-Identifier: Apache-2.0
// Reads single samples of a source as they are, without transforms: what tools look at data with.
// For one thread.
#ifndef RUNGI_DATA_READER_H
#define RUNGI_DATA_READER_H

#include "formats/image_file.h"
#include "rung/data.h"

typedef struct rungi_reader {
    rung_source *source;
    rungi_decoder *decoder; // of pictures as files, else NULL
    void *state;            // the source's
    bool opened;
    unsigned char *room[RUNG_MAX_FIELDS];
    rung_view fields[RUNG_MAX_FIELDS]; // of the last sample
    rungi_block pixels;
} rungi_reader;

// Opens a source (borrowed) as its worker number `worker`. Ended by close, after a failure too.
rung_status rungi_reader_open(rung_source *source, int worker, rungi_reader *reader);
void rungi_reader_close(rungi_reader *reader);

// Reads sample `index` into reader->fields, valid until the next read. Errors: the source's.
rung_status rungi_reader_read(rungi_reader *reader, int64_t index);

// The first field of the last sample as 8-bit pixels with 1 or 3 channels, and what is known of it
// (of an array: its size). `name` begins messages. A picture is decoded whole. Valid until the next
// call. Errors: those of rung_image_decode; RUNG_UNSUPPORTED when the field is no image of bytes.
rung_status rungi_reader_picture(rungi_reader *reader, const char *name, bool rotate,
                                 rungi_image_info *info_out, rungi_pixels *pixels_out);

// The field named "label", or -1.
int rungi_source_label_field(const rung_source *source);

#endif
