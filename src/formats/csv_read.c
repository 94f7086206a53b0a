// SPDX-License-Identifier: Apache-2.0
#include "formats/csv_read.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"

rung_status rungi_csv_begin(rungi_csv_reader *reader, const char *path, char *text, size_t size)
{
    const char *zero = memchr(text, 0, size);
    RUNG_CHECK(!zero, RUNG_FORMAT, "%s: is no text: byte %zu is 0", path, (size_t)(zero - text));
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        size -= 3;
    }
    const char *line_end = memchr(text, '\n', size);
    size_t first = line_end ? (size_t)(line_end - text) : size;
    *reader = (rungi_csv_reader){.path = path,
                                 .at = text,
                                 .end = text + size,
                                 .separator = memchr(text, '\t', first) ? '\t' : ',',
                                 .next_line = 1};
    return RUNG_OK;
}

// Unquotes a field that begins with a quote; leaves `at` behind it.
static rung_status take_quoted(rungi_csv_reader *r)
{
    char *to = r->at;
    r->at++;
    for (; r->at < r->end; r->at++) {
        if (*r->at == '"') {
            if (r->at + 1 >= r->end || r->at[1] != '"')
                break;
            r->at++;
        }
        r->next_line += *r->at == '\n';
        *to++ = *r->at;
    }
    RUNG_CHECK(r->at < r->end, RUNG_FORMAT, "%s, line %" PRId64 ": a quote is never closed",
               r->path, r->line);
    r->at++;
    RUNG_CHECK(r->at == r->end || *r->at == r->separator || *r->at == '\n' || *r->at == '\r',
               RUNG_FORMAT, "%s, line %" PRId64 ": text after a closing quote", r->path, r->line);
    *to = '\0';
    return RUNG_OK;
}

rung_status rungi_csv_next(rungi_csv_reader *r, bool *more_out)
{
    while (r->at < r->end && (*r->at == '\n' || *r->at == '\r')) {
        r->next_line += *r->at == '\n';
        r->at++;
    }
    r->fields.count = 0;
    r->line = r->next_line;
    if (r->at >= r->end) {
        *more_out = false;
        return RUNG_OK;
    }
    for (bool last = false; !last;) {
        char *field = r->at;
        if (r->at < r->end && *r->at == '"') {
            RUNG_TRY(take_quoted(r));
        } else {
            while (r->at < r->end && *r->at != r->separator && *r->at != '\n')
                r->at++;
        }
        char *field_end = r->at;
        last = r->at >= r->end || *r->at != r->separator;
        if (last) {
            if (r->at < r->end && *r->at == '\r')
                r->at++;
            if (field_end > field && field_end[-1] == '\r')
                field_end--;
            r->next_line += r->at < r->end;
        }
        *field_end = '\0'; // the separator, the line's end or the NUL behind the text
        if (r->at < r->end)
            r->at++;
        RUNG_CHECK(rungi_array_push(&r->fields, field), RUNG_NO_MEMORY, "%s: no memory to read it",
                   r->path);
    }
    *more_out = true;
    return RUNG_OK;
}

void rungi_csv_fini(rungi_csv_reader *reader)
{
    rungi_array_fini(&reader->fields);
}
