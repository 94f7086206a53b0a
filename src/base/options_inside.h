// SPDX-License-Identifier: Apache-2.0
// What the files of the options share.
#ifndef RUNGI_BASE_OPTIONS_INSIDE_H
#define RUNGI_BASE_OPTIONS_INSIDE_H

#include "base/option_value.h"
#include "base/options.h"

// Finds a key without any message.
bool rungi_options_index(const rungi_options *options, const char *key, size_t *index_out);
// Finds a key; else fails with the nearest one, the message led by `where`.
rung_status rungi_options_look_up(const rungi_options *options, const char *where, const char *key,
                                  size_t *index_out);
// The first key of section `name` ("optim" of "optim.lr"), NULL when there is no such section.
const char *rungi_options_in_section(const rungi_options *options, const char *name);

// Sets option `index` and its source.
rung_status rungi_options_put(rungi_options *options, size_t index, const rungi_raw *raw,
                              rungi_source source);
// The options' own copy of a file's name.
rung_status rungi_options_keep_file(rungi_options *options, const char *name,
                                    const char **kept_out);
// What leads messages about a value from there: "config.yaml:12: ", "command line: " or "".
void rungi_source_lead(const rungi_source *source, char *out, size_t size);

#endif
