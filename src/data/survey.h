// SPDX-License-Identifier: Apache-2.0
// What kinds of pictures a source holds, told from their headers.
#ifndef RUNGI_DATA_SURVEY_H
#define RUNGI_DATA_SURVEY_H

#include "base/text.h"
#include "formats/image_file.h"
#include "rung/data.h"

typedef struct rungi_survey {
    int64_t seen, unreadable; // pictures looked at; those of them that have no good header
    int64_t colours[RUNGI_COLOUR_COUNT];
    int64_t deep;            // with 16 bits
    int64_t turned;          // to be turned by EXIF
    int64_t bad_orientation; // whose note of that is damaged: taken for none
} rungi_survey;

// Looks at `most` pictures of the source, evenly spread, or all when there are no more. The
// source's first field must be RUNG_PIXELS_FILE. Errors: those of the source's `open`;
// RUNG_NO_MEMORY.
rung_status rungi_survey_run(rung_source *source, int64_t most, rungi_survey *survey_out);

// Adds "1000 of 50000 looked at: 980 RGB, 12 grey, ..." to `out`.
void rungi_survey_text(const rungi_survey *survey, int64_t count, rungi_string *out);

#endif
