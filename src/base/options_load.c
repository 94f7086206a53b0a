// SPDX-License-Identifier: Apache-2.0
// The YAML reader, over libyaml's events: a document is one map whose maps are sections.
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/array.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/options_inside.h"
#include "base/yaml_text.h"

enum { FILE_MAX = 1 << 20 };

typedef struct seen_key {
    char *key;
    int line;
} seen_key;

typedef struct loader {
    rungi_options *options;
    const char *name; // kept by the options
    const char *text;
    size_t size;
    yaml_parser_t parser;
    RUNGI_ARRAY(seen_key) seen;
} loader;

static int line_of(const yaml_event_t *event)
{
    return (int)event->start_mark.line + 1;
}

// Why libyaml stopped, with the line, and a hint at the two mistakes that it words obscurely.
static rung_status fail_parser(const loader *l)
{
    const yaml_parser_t *p = &l->parser;
    RUNG_CHECK(p->error != YAML_MEMORY_ERROR, RUNG_NO_MEMORY, "%s: out of memory", l->name);
    if (p->error == YAML_READER_ERROR) {
        int line = 1;
        for (size_t i = 0; i < p->problem_offset && i < l->size; i++)
            line += l->text[i] == '\n';
        return RUNG_FAIL(RUNG_CONFIG, "%s:%d: not a YAML file: %s (value 0x%02x)", l->name, line,
                         p->problem, (unsigned)p->problem_value);
    }
    // A line without a colon is noticed only on the next one.
    bool key = p->context && strcmp(p->context, "while scanning a simple key") == 0;
    const yaml_mark_t *mark = key ? &p->context_mark : &p->problem_mark;
    size_t at = mark->index;
    const char *hint = "";
    if (at < l->size && l->text[at] == '\t')
        hint = " (YAML is indented by blanks, not by tabs)";
    else if (p->context && (strstr(p->context, "alias") || strstr(p->context, "anchor")))
        hint = " (put a value that begins with * or & in quotes)";
    return RUNG_FAIL(RUNG_CONFIG, "%s:%zu: not valid YAML at column %zu: %s%s", l->name,
                     mark->line + 1, mark->column + 1, p->problem, hint);
}

// Gets the next event, which the caller deletes; refuses what configurations do not need.
static rung_status next_event(loader *l, yaml_event_t *event)
{
    if (!yaml_parser_parse(&l->parser, event))
        return fail_parser(l);
    const yaml_char_t *anchor = NULL, *tag = NULL;
    bool alias = event->type == YAML_ALIAS_EVENT;
    if (event->type == YAML_SCALAR_EVENT) {
        anchor = event->data.scalar.anchor;
        tag = event->data.scalar.tag;
        if (tag && strcmp((const char *)tag, "tag:yaml.org,2002:binary") == 0)
            tag = NULL;
    } else if (event->type == YAML_MAPPING_START_EVENT) {
        anchor = event->data.mapping_start.anchor;
        tag = event->data.mapping_start.tag;
    } else if (event->type == YAML_SEQUENCE_START_EVENT) {
        anchor = event->data.sequence_start.anchor;
        tag = event->data.sequence_start.tag;
    }
    rung_status status = RUNG_OK;
    if (anchor || alias)
        status = RUNG_FAIL(RUNG_CONFIG,
                           "%s:%d: anchors and aliases (&name, *name) are not supported: write the "
                           "value out, or put it in quotes if it begins with * or &",
                           l->name, line_of(event));
    else if (tag)
        status = RUNG_FAIL(RUNG_CONFIG, "%s:%d: tags (%.40s) are not supported: leave it out",
                           l->name, line_of(event), (const char *)tag);
    if (status != RUNG_OK)
        yaml_event_delete(event);
    return status;
}

// Adds a scalar as a part of `raw`.
static rung_status add_scalar(loader *l, const char *key, const yaml_event_t *event, rungi_raw *raw)
{
    const char *text = (const char *)event->data.scalar.value;
    RUNG_CHECK(strlen(text) == event->data.scalar.length, RUNG_CONFIG,
               "%s:%d: %s: a NUL character is not supported", l->name, line_of(event), key);
    char *decoded = NULL;
    if (event->data.scalar.tag) {
        decoded = rungi_yaml_decode_binary(text);
        RUNG_CHECK(decoded, RUNG_CONFIG, "%s:%d: %s: not the base64 that !!binary announces",
                   l->name, line_of(event), key);
        text = decoded;
    }
    bool ok = rungi_raw_add(raw, text, strlen(text));
    free(decoded);
    RUNG_CHECK(ok, RUNG_NO_MEMORY, "%s: out of memory", l->name);
    return RUNG_OK;
}

static bool is_null(const yaml_event_t *event)
{
    return event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !event->data.scalar.tag &&
           rungi_yaml_is_null((const char *)event->data.scalar.value);
}

static rung_status read_sequence(loader *l, const char *key, rungi_raw *raw)
{
    raw->list = true;
    for (;;) {
        yaml_event_t event;
        RUNG_TRY(next_event(l, &event));
        rung_status status = RUNG_OK;
        bool end = event.type == YAML_SEQUENCE_END_EVENT;
        if (!end && event.type != YAML_SCALAR_EVENT)
            status = RUNG_FAIL(RUNG_CONFIG, "%s:%d: %s: a list may hold only single values",
                               l->name, line_of(&event), key);
        else if (!end && is_null(&event))
            status = RUNG_FAIL(RUNG_CONFIG, "%s:%d: %s: a member of the list is empty", l->name,
                               line_of(&event), key);
        else if (!end)
            status = add_scalar(l, key, &event, raw);
        yaml_event_delete(&event);
        if (end || status != RUNG_OK)
            return status;
    }
}

static rung_status read_option(loader *l, const char *key, int line, yaml_event_t *event)
{
    char where[320];
    size_t index = 0;
    rungi_source source = {RUNGI_SOURCE_FILE, l->name, line};
    rungi_source_lead(&source, where, sizeof where);
    RUNG_TRY(rungi_options_look_up(l->options, where, key, &index));
    if (event->type == YAML_MAPPING_START_EVENT)
        return rungi_value_unexpected(rungi_options_at(l->options, index), where, "a map");
    rungi_raw raw = {0};
    rung_status status = RUNG_OK;
    if (event->type == YAML_SEQUENCE_START_EVENT)
        status = read_sequence(l, key, &raw);
    else if (is_null(event))
        raw.null = true;
    else
        status = add_scalar(l, key, event, &raw);
    if (status == RUNG_OK)
        status = rungi_options_put(l->options, index, &raw, source);
    rungi_raw_fini(&raw);
    return status;
}

// Remembers a key; takes it over on success.
static rung_status remember(loader *l, char *key, int line)
{
    for (size_t i = 0; i < l->seen.count; i++)
        RUNG_CHECK(strcmp(l->seen.data[i].key, key) != 0, RUNG_CONFIG,
                   "%s:%d: '%s' is given twice, first on line %d", l->name, line, key,
                   l->seen.data[i].line);
    RUNG_CHECK(rungi_array_push(&l->seen, (seen_key){key, line}), RUNG_NO_MEMORY,
               "%s: out of memory", l->name);
    return RUNG_OK;
}

static rung_status read_map(loader *l, const char *section);

// Reads the value that belongs to `key`, which `section` leads.
static rung_status read_entry(loader *l, const char *section, const yaml_event_t *key)
{
    int line = line_of(key);
    RUNG_CHECK(key->type == YAML_SCALAR_EVENT && !key->data.scalar.tag, RUNG_CONFIG,
               "%s:%d: expected a key, such as 'lr:'", l->name, line);
    const char *name = (const char *)key->data.scalar.value;
    RUNG_CHECK(strcmp(name, "<<") != 0, RUNG_CONFIG,
               "%s:%d: merge keys (<<) are not supported: write the keys out", l->name, line);
    char *full = rungi_text_format("%s%s%s", section, *section ? "." : "", name);
    RUNG_CHECK(full, RUNG_NO_MEMORY, "%s: out of memory", l->name);
    yaml_event_t value;
    rung_status status = remember(l, full, line);
    if (status != RUNG_OK) {
        free(full);
        return status;
    }
    RUNG_TRY(next_event(l, &value));
    bool inside = rungi_options_in_section(l->options, full);
    if (inside && value.type == YAML_MAPPING_START_EVENT)
        status = read_map(l, full);
    else if (!inside || value.type != YAML_SCALAR_EVENT || !is_null(&value))
        status = read_option(l, full, line, &value);
    yaml_event_delete(&value);
    return status;
}

// Reads entries up to the end of the map. Sections are known keys, so that they nest no deeper than
// the tables do.
static rung_status read_map(loader *l, const char *section)
{
    for (;;) {
        yaml_event_t key;
        RUNG_TRY(next_event(l, &key));
        bool end = key.type == YAML_MAPPING_END_EVENT;
        rung_status status = end ? RUNG_OK : read_entry(l, section, &key);
        yaml_event_delete(&key);
        if (end || status != RUNG_OK)
            return status;
    }
}

// The event at the top of the document, whose type says what the file holds.
static rung_status read_top(loader *l, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_STREAM_END_EVENT:
        return RUNG_FAIL(RUNG_CONFIG, "%s: holds no keys (such as 'optim.lr: 0.1')", l->name);
    case YAML_SCALAR_EVENT:
        if (is_null(event))
            return RUNG_FAIL(RUNG_CONFIG, "%s: holds no keys (such as 'optim.lr: 0.1')", l->name);
        // fall through
    case YAML_SEQUENCE_START_EVENT:
        return RUNG_FAIL(RUNG_CONFIG, "%s:%d: expected 'key: value', got %s", l->name,
                         line_of(event), event->type == YAML_SCALAR_EVENT ? "text" : "a list");
    case YAML_MAPPING_START_EVENT:
        return read_map(l, "");
    default: // starts and ends of stream and document
        return RUNG_OK;
    }
}

static rung_status read_stream(loader *l)
{
    bool map = false;
    for (;;) {
        yaml_event_t event;
        RUNG_TRY(next_event(l, &event));
        bool end = event.type == YAML_STREAM_END_EVENT;
        rung_status status = RUNG_OK;
        if (map && event.type == YAML_DOCUMENT_START_EVENT)
            status = RUNG_FAIL(RUNG_CONFIG,
                               "%s:%d: a second document begins here; only one is supported",
                               l->name, line_of(&event));
        else if (!map || !end)
            status = read_top(l, &event);
        map |= event.type == YAML_MAPPING_START_EVENT;
        yaml_event_delete(&event);
        if (end || status != RUNG_OK)
            return status;
    }
}

rung_status rungi_options_load_text(rungi_options *options, const char *name, const char *text,
                                    size_t size)
{
    loader l = {.options = options, .text = text, .size = size};
    RUNG_TRY(rungi_options_keep_file(options, name, &l.name));
    RUNG_CHECK(yaml_parser_initialize(&l.parser), RUNG_NO_MEMORY, "%s: out of memory", name);
    yaml_parser_set_input_string(&l.parser, (const unsigned char *)text, size);
    rung_status status = read_stream(&l);
    yaml_parser_delete(&l.parser);
    for (size_t i = 0; i < l.seen.count; i++)
        free(l.seen.data[i].key);
    rungi_array_fini(&l.seen);
    return status;
}

rung_status rungi_options_load(rungi_options *options, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    RUNG_TRY(rungi_fs_read(path, FILE_MAX, &text, &size));
    rung_status status = rungi_options_load_text(options, path, text, size);
    free(text);
    return status;
}
