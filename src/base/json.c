// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"
#include "base/number.h"

rung_status rungi_json_parse(const char *text, size_t size, const char *name, json_t **root_out)
{
    json_error_t error;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!root) {
        if (json_error_code(&error) == json_error_out_of_memory)
            return RUNG_FAIL(RUNG_NO_MEMORY, "%s: cannot read: out of memory", name);
        if (size == 0)
            return RUNG_FAIL(RUNG_FORMAT, "%s: bad JSON: the file is empty", name);
        return RUNG_FAIL(RUNG_FORMAT, "%s:%d: bad JSON: %s", name, error.line, error.text);
    }
    *root_out = root;
    return RUNG_OK;
}

rung_status rungi_json_load(const char *path, size_t limit, json_t **root_out)
{
    char *data = NULL;
    size_t size;
    RUNG_TRY(rungi_fs_read(path, limit, &data, &size));
    rung_status status = rungi_json_parse(data, size, path, root_out);
    free(data);
    return status;
}

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "a whole number";
    case JSON_REAL:
        return "a number";
    case JSON_NULL:
        return "null";
    default:
        return "a boolean";
    }
}

static rung_status fail_type(const char *where, const char *member, const char *expected,
                             const json_t *value)
{
    return RUNG_FAIL(RUNG_FORMAT, "%s: member '%s': expected %s, found %s", where, member, expected,
                     type_name(value));
}

static rung_status find(const json_t *object, const char *where, const char *member, json_t **out)
{
    RUNG_CHECK(json_is_object(object), RUNG_FORMAT, "%s: expected an object, found %s", where,
               object ? type_name(object) : "nothing");
    json_t *value = json_object_get(object, member);
    RUNG_CHECK(value, RUNG_FORMAT, "%s: member '%s' is missing", where, member);
    *out = value;
    return RUNG_OK;
}

rung_status rungi_json_i64(const json_t *object, const char *where, const char *member, int64_t min,
                           int64_t max, int64_t *out)
{
    json_t *value = NULL;
    RUNG_TRY(find(object, where, member, &value));
    if (!json_is_integer(value))
        return fail_type(where, member, "a whole number", value);
    int64_t number = json_integer_value(value);
    RUNG_CHECK(number >= min && number <= max, RUNG_FORMAT,
               "%s: member '%s' is %" PRId64 ", expected %" PRId64 " to %" PRId64, where, member,
               number, min, max);
    *out = number;
    return RUNG_OK;
}

rung_status rungi_json_f64(const json_t *object, const char *where, const char *member, double *out)
{
    json_t *value = NULL;
    RUNG_TRY(find(object, where, member, &value));
    if (!json_is_number(value) && !json_is_null(value))
        return fail_type(where, member, "a number", value);
    *out = json_is_null(value) ? (double)NAN : json_number_value(value);
    return RUNG_OK;
}

rung_status rungi_json_bool(const json_t *object, const char *where, const char *member, bool *out)
{
    json_t *value = NULL;
    RUNG_TRY(find(object, where, member, &value));
    if (!json_is_boolean(value))
        return fail_type(where, member, "true or false", value);
    *out = json_is_true(value);
    return RUNG_OK;
}

rung_status rungi_json_text(const json_t *object, const char *where, const char *member,
                            const char **out)
{
    json_t *value = NULL;
    RUNG_TRY(find(object, where, member, &value));
    if (!json_is_string(value))
        return fail_type(where, member, "a string", value);
    *out = json_string_value(value);
    return RUNG_OK;
}

rung_status rungi_json_object(const json_t *object, const char *where, const char *member,
                              json_t **out)
{
    json_t *value = NULL;
    RUNG_TRY(find(object, where, member, &value));
    if (!json_is_object(value))
        return fail_type(where, member, "an object", value);
    *out = value;
    return RUNG_OK;
}

rung_status rungi_json_array(const json_t *object, const char *where, const char *member,
                             json_t **out)
{
    json_t *value = NULL;
    RUNG_TRY(find(object, where, member, &value));
    if (!json_is_array(value))
        return fail_type(where, member, "an array", value);
    *out = value;
    return RUNG_OK;
}

json_t *rungi_json_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *rungi_json_string(const char *text)
{
    size_t size = strlen(text) * 4 + 1;
    json_t *string = json_string(text);
    char *escaped = string ? NULL : malloc(size);
    if (escaped) {
        rungi_text_escape(text, escaped, size);
        string = json_string(escaped);
        free(escaped);
    }
    return string;
}

static void print_string(const char *text, size_t length, rungi_string *out)
{
    rungi_string_append(out, "\"", 1);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            rungi_string_add(out, "\\%c", c);
        else if (c == '\n')
            rungi_string_append(out, "\\n", 2);
        else if (c < 0x20 || c == 0x7F)
            rungi_string_add(out, "\\u%04x", c);
        else
            rungi_string_append(out, text + i, 1);
    }
    rungi_string_append(out, "\"", 1);
}

static void new_line(bool pretty, int depth, rungi_string *out)
{
    if (pretty)
        rungi_string_add(out, "\n%*s", depth * 2, "");
}

static void print(const json_t *value, bool pretty, int depth, rungi_string *out);

static void print_array(const json_t *array, bool pretty, int depth, rungi_string *out)
{
    bool nested = false;
    size_t count = json_array_size(array);
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(array, i);
        nested |= json_is_object(item) || json_is_array(item);
    }
    rungi_string_append(out, "[", 1);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            rungi_string_add(out, pretty && !nested ? ", " : ",");
        new_line(pretty && nested, depth + 1, out);
        print(json_array_get(array, i), pretty, depth + 1, out);
    }
    new_line(pretty && nested, depth, out);
    rungi_string_append(out, "]", 1);
}

static void print_object(const json_t *object, bool pretty, int depth, rungi_string *out)
{
    // Iterating needs an object that is not const, though it changes nothing.
    json_t *iterated = (json_t *)(uintptr_t)object;
    bool first = true;
    rungi_string_append(out, "{", 1);
    for (void *i = json_object_iter(iterated); i; i = json_object_iter_next(iterated, i)) {
        if (!first)
            rungi_string_append(out, ",", 1);
        first = false;
        new_line(pretty, depth + 1, out);
        const char *key = json_object_iter_key(i);
        print_string(key, strlen(key), out);
        rungi_string_add(out, pretty ? ": " : ":");
        print(json_object_iter_value(i), pretty, depth + 1, out);
    }
    new_line(pretty && !first, depth, out);
    rungi_string_append(out, "}", 1);
}

static void print(const json_t *value, bool pretty, int depth, rungi_string *out)
{
    char number[RUNGI_NUMBER_TEXT];
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        print_object(value, pretty, depth, out);
        break;
    case JSON_ARRAY:
        print_array(value, pretty, depth, out);
        break;
    case JSON_STRING:
        print_string(json_string_value(value), json_string_length(value), out);
        break;
    case JSON_INTEGER:
        rungi_string_add(out, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        break;
    case JSON_REAL:
        rungi_string_add(out, "%s", rungi_number_f64_text(json_real_value(value), number));
        break;
    default:
        rungi_string_add(out, "%s",
                         json_is_null(value)   ? "null"
                         : json_is_true(value) ? "true"
                                               : "false");
    }
}

void rungi_json_print(const json_t *value, bool pretty, rungi_string *out)
{
    print(value, pretty, 0, out);
}

rung_status rungi_json_save(const char *path, const json_t *root)
{
    rungi_string text = {0};
    rungi_json_print(root, true, &text);
    rungi_string_append(&text, "\n", 1);
    rung_status status = text.failed
                             ? RUNG_FAIL(RUNG_NO_MEMORY, "%s: cannot write: out of memory", path)
                             : rungi_fs_write(path, text.data, text.size);
    rungi_string_fini(&text);
    return status;
}
