// SPDX-License-Identifier: Apache-2.0
// JSON through jansson: reading with errors that name file and member, writing whole files.
#ifndef RUNGI_BASE_JSON_H
#define RUNGI_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "rung/status.h"

// Reads a file of at most `limit` bytes. The caller frees *root_out with json_decref. Errors:
// RUNG_FORMAT with file and line (duplicate members too), and those of rungi_fs_read.
rung_status rungi_json_load(const char *path, size_t limit, json_t **root_out);
// The same for text in memory; `name` stands for the file in messages.
rung_status rungi_json_parse(const char *text, size_t size, const char *name, json_t **root_out);

// Reading a member of an object. `where` names file and place in messages ("manifest.json:
// tensors[3]"). Each fails with RUNG_FORMAT when `object` is no object, or the member is missing
// or of another type. What is borrowed lives as long as the object.
rung_status rungi_json_i64(const json_t *object, const char *where, const char *member, int64_t min,
                           int64_t max, int64_t *out);
// null reads as NaN: that is how rungi_json_real writes it.
rung_status rungi_json_f64(const json_t *object, const char *where, const char *member,
                           double *out);
rung_status rungi_json_bool(const json_t *object, const char *where, const char *member, bool *out);
rung_status rungi_json_text(const json_t *object, const char *where, const char *member,
                            const char **out);
rung_status rungi_json_object(const json_t *object, const char *where, const char *member,
                              json_t **out);
rung_status rungi_json_array(const json_t *object, const char *where, const char *member,
                             json_t **out);

// New values to put into objects (with json_object_set_new, which owns them and takes NULL for a
// failure). A number that is not finite becomes null; bytes that are not UTF-8 become \xNN.
json_t *rungi_json_real(double value);
json_t *rungi_json_string(const char *text);

// Adds `value` as text: members in the order in which they were set, numbers in the shortest digits
// that read back as the same bits. `pretty`: over several lines, indented by two, but arrays of
// plain values on one; else on one line without blanks, without a final newline.
void rungi_json_print(const json_t *value, bool pretty, rungi_string *out);
// Writes a pretty file, whole or not at all.
rung_status rungi_json_save(const char *path, const json_t *root);

#endif
