// SPDX-License-Identifier: Apache-2.0
// Values of single options: from the parts that a file or the command line gave, to text, to YAML.
#ifndef RUNGI_BASE_OPTION_VALUE_H
#define RUNGI_BASE_OPTION_VALUE_H

#include "base/options.h"

// What the user wrote, taken apart: a scalar is one part, a list any number.
typedef struct rungi_raw {
    char **data; // the parts
    size_t count;
    size_t capacity;
    bool list; // written as a list
    bool null; // written as null, ~ or nothing
} rungi_raw;

// Adds a part of `size` bytes; false when out of memory.
bool rungi_raw_add(rungi_raw *raw, const char *text, size_t size);
void rungi_raw_fini(rungi_raw *raw);

// Takes apart the text of an override: [a, b] and a, b for lists, the text itself for others.
// `where` leads messages: "" or "config.yaml:12: ".
rung_status rungi_raw_split(const rungi_option *option, const char *where, const char *text,
                            rungi_raw *raw_out);

// Checks `raw` and puts it into `field`, freeing what was there. Nothing changes on failure.
rung_status rungi_value_set(const rungi_option *option, void *field, const rungi_raw *raw,
                            const char *where);
// Copies a field into a zeroed one. Errors: RUNG_NO_MEMORY.
rung_status rungi_value_copy(const rungi_option *option, void *to, const void *from);
// Frees what the field owns and sets it to zero.
void rungi_value_fini(const rungi_option *option, void *field);

// Adds the value as text for rungi_raw_split, or as YAML.
void rungi_value_text(const rungi_option *option, const void *field, rungi_string *out);
void rungi_value_yaml(const rungi_option *option, const void *field, rungi_string *out);

// "a whole number", "one of sgd, adam", "a number, 'auto' or 'none'".
void rungi_value_expected(const rungi_option *option, rungi_string *out);
// Fails with "expected a number, got a map", led by `where` and the key.
rung_status rungi_value_unexpected(const rungi_option *option, const char *where, const char *got);

// True when the type holds several members.
bool rungi_option_is_list(const rungi_option *option);
// The type of a list's members, or of a scalar itself.
rungi_option_type rungi_option_member(const rungi_option *option);
// Bytes of the field.
size_t rungi_value_size(const rungi_option *option);

#endif
