// SPDX-License-Identifier: Apache-2.0
// Comma-separated values, built field by field into a string. Quoting as in RFC 4180: a field with
// a comma, a quote or a line break stands in quotes, quotes are doubled. Lines end with \n alone,
// as Unix tools expect.
#ifndef RUNGI_FORMATS_CSV_H
#define RUNGI_FORMATS_CSV_H

#include "base/text.h"

// Adds a field to the row under way.
void rungi_csv_text(rungi_string *out, const char *field);
void rungi_csv_integer(rungi_string *out, int64_t value);
// Up to 15 significant digits, so that 0.1 is 0.1. Not a number and infinite: an empty field.
void rungi_csv_number(rungi_string *out, double value);
// Ends the row.
void rungi_csv_end(rungi_string *out);

#endif
