// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/options_inside.h"

// Length of the leading sections that two keys share, in whole parts with the dot.
static size_t shared_sections(const char *a, const char *b)
{
    size_t shared = 0;
    for (size_t i = 0; a[i] && a[i] == b[i]; i++)
        if (a[i] == '.')
            shared = i + 1;
    return shared;
}

static int parts_in(const char *key, size_t length)
{
    int parts = 0;
    for (size_t i = 0; i < length; i++)
        parts += key[i] == '.';
    return parts;
}

static void add_indent(int depth, rungi_string *out)
{
    rungi_string_add(out, "%*s", depth * 2, "");
}

// Help is wrapped so that lines stay within 100 columns.
static void add_help(const rungi_option *option, int depth, rungi_string *out)
{
    size_t width = 98 - (size_t)depth * 2, column = 0;
    add_indent(depth, out);
    rungi_string_append(out, "#", 1);
    for (const char *word = option->help; *word;) {
        size_t length = strcspn(word, " ");
        if (column > 0 && column + length + 1 > width) {
            rungi_string_append(out, "\n", 1);
            add_indent(depth, out);
            rungi_string_append(out, "#", 1);
            column = 0;
        }
        rungi_string_append(out, " ", 1);
        rungi_string_append(out, word, length);
        column += length + 1;
        word += length;
        word += strspn(word, " ");
    }
    rungi_string_append(out, "\n", 1);
}

void rungi_options_dump(const rungi_options *options, unsigned flags, rungi_string *out)
{
    const char *before = "";
    for (size_t i = 0; i < options->count; i++) {
        const rungi_option *option = rungi_options_at(options, i);
        const char *key = option->key;
        size_t start = shared_sections(before, key);
        int depth = parts_in(key, start);
        if (before[0] && (flags & RUNGI_DUMP_HELP) && !start && strchr(key, '.'))
            rungi_string_append(out, "\n", 1);
        for (const char *dot; (dot = strchr(key + start, '.')); start = (size_t)(dot - key) + 1) {
            add_indent(depth++, out);
            rungi_string_append(out, key + start, (size_t)(dot - key) - start);
            rungi_string_append(out, ":\n", 2);
        }
        if (flags & RUNGI_DUMP_HELP)
            add_help(option, depth, out);
        add_indent(depth, out);
        rungi_string_add(out, "%s: ", key + start);
        rungi_value_yaml(option, rungi_options_field(options, i), out);
        if (flags & RUNGI_DUMP_SOURCES) {
            char source[320], line[1300];
            rungi_options_source(options, i, source, sizeof source);
            rungi_text_escape(source, line, sizeof line);
            rungi_string_add(out, " # %s", line);
        }
        rungi_string_append(out, "\n", 1);
        before = key;
    }
}
