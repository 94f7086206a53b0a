// SPDX-License-Identifier: Apache-2.0
// The inside of the text source: examples are read first (source_text_read.c), then the vocabulary
// is made and words become ids (source_text.c).
#ifndef RUNGI_DATA_SOURCE_TEXT_H
#define RUNGI_DATA_SOURCE_TEXT_H

#include "data/words.h"
#include "rung/text.h"

typedef struct rungi_example {
    size_t begin, size; // in `text`
    int64_t label;
    int32_t file; // in `files`
    int64_t line;
} rungi_example;

typedef struct rungi_text_source {
    rung_source source; // first
    RUNGI_ARRAY(char *) files;
    RUNGI_ARRAY(char *) classes;
    rungi_string text;
    RUNGI_ARRAY(rungi_example) examples;
    int64_t blank;     // lines left out
    rungi_words words; // the vocabulary, number = id
    int32_t *ids;      // [count, length]
    int32_t *lengths;  // [count]
    int64_t length;
} rungi_text_source;

// What separates words.
static inline bool rungi_is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

// Reads the examples of a path. Errors: those of rung_source_text.
rung_status rungi_text_read(rungi_text_source *s, const char *path);

// rung_source_text with the vocabulary of another text source (NULL: as the options say).
rung_status rungi_source_text(rung_context *context, const rung_text_options *options,
                              const rung_source *vocabulary, rung_source **source_out);

#endif
