// SPDX-License-Identifier: Apache-2.0
#include "formats/csv.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/decimal.h"

static void separate(rungi_string *out)
{
    if (out->size && out->data[out->size - 1] != '\n')
        rungi_string_append(out, ",", 1);
}

void rungi_csv_text(rungi_string *out, const char *field)
{
    separate(out);
    // An empty field at the start of a row stands in quotes: the comma after it needs something to
    // follow, and a row of one empty field would be an empty line.
    bool at_start = out->size == 0 || out->data[out->size - 1] == '\n';
    if (!strpbrk(field, ",\"\r\n") && !(at_start && !*field)) {
        rungi_string_append(out, field, strlen(field));
        return;
    }
    rungi_string_append(out, "\"", 1);
    for (const char *c = field; *c; c++) {
        if (*c == '"')
            rungi_string_append(out, "\"", 1);
        rungi_string_append(out, c, 1);
    }
    rungi_string_append(out, "\"", 1);
}

void rungi_csv_integer(rungi_string *out, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    rungi_csv_text(out, text);
}

void rungi_csv_number(rungi_string *out, double value)
{
    char text[32] = "";
    if (isfinite(value))
        snprintf(text, sizeof text, "%.15g", value);
    rungi_decimal_fix(text);
    rungi_csv_text(out, text);
}

void rungi_csv_end(rungi_string *out)
{
    rungi_string_append(out, "\n", 1);
}
