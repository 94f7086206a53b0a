// SPDX-License-Identifier: Apache-2.0
// Reading comma- or tab-separated values (RFC 4180): quoted fields may hold the separator, doubled
// quotes and line breaks. Lines end with \n or \r\n; empty lines are passed over.
#ifndef RUNGI_FORMATS_CSV_READ_H
#define RUNGI_FORMATS_CSV_READ_H

#include "base/array.h"
#include "rung/status.h"

typedef struct rungi_csv_reader {
    const char *path; // begins messages; borrowed
    char *at, *end;   // what is left; fields are unquoted in place
    char separator;
    int64_t line; // of the row that was read last, from 1
    int64_t next_line;
    RUNGI_ARRAY(char *) fields; // of that row; each ends with a NUL
} rungi_csv_reader;

// Begins with `size` bytes of text followed by a NUL, which are changed and borrowed. The separator
// is the tab when the first line has one, else the comma. A byte order mark is passed over.
// Errors: RUNG_FORMAT when the text holds a NUL.
rung_status rungi_csv_begin(rungi_csv_reader *reader, const char *path, char *text, size_t size);
// Reads a row; *more_out is false at the end. Errors: RUNG_FORMAT naming the line.
rung_status rungi_csv_next(rungi_csv_reader *reader, bool *more_out);
void rungi_csv_fini(rungi_csv_reader *reader);

#endif
