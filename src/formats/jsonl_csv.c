// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl as a table.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/fs.h"
#include "formats/csv.h"
#include "formats/jsonl.h"

static const size_t FILE_MAX = (size_t)4 << 30;

typedef struct column {
    char *name;
    json_t *value; // of the row under way; owned
} column;

typedef struct table {
    RUNGI_ARRAY(column) columns;
    bool failed; // out of memory
} table;

static column *find_column(table *t, const char *name)
{
    for (size_t i = 0; i < t->columns.count; i++)
        if (strcmp(t->columns.data[i].name, name) == 0)
            return &t->columns.data[i];
    column added = {.name = rungi_text_copy(name)};
    if (!added.name || !rungi_array_push(&t->columns, added)) {
        free(added.name);
        t->failed = true;
        return NULL;
    }
    return &t->columns.data[t->columns.count - 1];
}

// Puts the members of an object into their columns; those of objects inside as outer.inner.
static void spread(table *t, json_t *object, const char *prefix)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        char *name = prefix ? rungi_text_format("%s.%s", prefix, key) : rungi_text_copy(key);
        if (!name) {
            t->failed = true;
            return;
        }
        if (json_is_object(value) && !prefix) {
            spread(t, value, name);
        } else {
            column *c = find_column(t, name);
            if (c) {
                json_decref(c->value); // {"a": {"b": 1}, "a.b": 2}: the later one
                c->value = json_incref(value);
            }
        }
        free(name);
    }
}

static void put_value(rungi_string *out, const json_t *value)
{
    if (json_is_string(value))
        rungi_csv_text(out, json_string_value(value));
    else if (json_is_integer(value))
        rungi_csv_integer(out, json_integer_value(value));
    else if (json_is_real(value))
        rungi_csv_number(out, json_real_value(value));
    else if (json_is_boolean(value))
        rungi_csv_text(out, json_is_true(value) ? "true" : "false");
    else if (!value || json_is_null(value))
        rungi_csv_text(out, "");
    else {
        char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(15));
        rungi_csv_text(out, text ? text : "");
        free(text);
    }
}

// Goes over the lines. Without `out` it only finds the columns.
static void walk(table *t, char *data, size_t size, rungi_string *out)
{
    for (size_t at = 0; at < size && !t->failed;) {
        const char *newline = memchr(data + at, '\n', size - at);
        size_t length = newline ? (size_t)(newline - data) - at + 1 : size - at;
        json_t *object = json_loadb(data + at, length, 0, NULL);
        at += length;
        if (json_is_object(object)) {
            spread(t, object, NULL);
            for (size_t i = 0; i < t->columns.count; i++) {
                if (out)
                    put_value(out, t->columns.data[i].value);
                json_decref(t->columns.data[i].value);
                t->columns.data[i].value = NULL;
            }
            if (out)
                rungi_csv_end(out);
        }
        json_decref(object);
    }
}

rung_status rungi_jsonl_to_csv(const char *jsonl_path, const char *csv_path)
{
    char *data = NULL;
    size_t size = 0;
    table t = {0};
    rungi_string out = {0};
    RUNG_TRY(rungi_fs_read(jsonl_path, FILE_MAX, &data, &size));
    walk(&t, data, size, NULL);
    for (size_t i = 0; i < t.columns.count; i++)
        rungi_csv_text(&out, t.columns.data[i].name);
    if (t.columns.count)
        rungi_csv_end(&out);
    walk(&t, data, size, &out);
    rung_status status =
        t.failed || out.failed
            ? RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory to write it", csv_path)
            : rungi_file_replace(csv_path, rungi_string_text(&out), out.size, NULL);
    for (size_t i = 0; i < t.columns.count; i++)
        free(t.columns.data[i].name);
    rungi_array_fini(&t.columns);
    rungi_string_fini(&out);
    free(data);
    return status;
}
