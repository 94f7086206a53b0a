// SPDX-License-Identifier: Apache-2.0
// Strings as YAML scalars.
#ifndef RUNGI_BASE_YAML_TEXT_H
#define RUNGI_BASE_YAML_TEXT_H

#include <stdbool.h>

#include "base/text.h"

// Is `text` what YAML 1.1 or 1.2 readers take for null: nothing, ~, null, Null, NULL?
bool rungi_yaml_is_null(const char *text);
// Is it true, yes or on (1), or false, no or off (0), in lower case, capitals or Capitalized? Else
// -1.
int rungi_yaml_boolean(const char *text);

// Adds `text` as a scalar that every YAML reader takes for a string of exactly these bytes: plain
// where no reader could take it for something else, in double quotes, or as !!binary when it is not
// UTF-8 (which YAML cannot hold).
void rungi_yaml_add_text(const char *text, rungi_string *out);

// Decodes the base64 of a !!binary scalar; blanks and line breaks are skipped. NULL when it is not
// base64, holds a NUL or memory is out. The caller frees the result.
char *rungi_yaml_decode_binary(const char *text);

#endif
