// SPDX-License-Identifier: Apache-2.0
#include "base/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "base/option_value.h"
#include "base/options_inside.h"

const rungi_option *rungi_options_at(const rungi_options *options, size_t index)
{
    return index < options->count ? options->entries[index].option : NULL;
}

void *rungi_options_field(const rungi_options *options, size_t index)
{
    return (char *)options->values + options->entries[index].offset;
}

// The field that each type needs.
static const rungi_option_field fields[] = {
    [RUNGI_OPTION_BOOL] = RUNGI_FIELD_BOOL,    [RUNGI_OPTION_INT] = RUNGI_FIELD_I64,
    [RUNGI_OPTION_REAL] = RUNGI_FIELD_F64,     [RUNGI_OPTION_BYTES] = RUNGI_FIELD_I64,
    [RUNGI_OPTION_DURATION] = RUNGI_FIELD_I64, [RUNGI_OPTION_CHOICE] = RUNGI_FIELD_ENUM,
    [RUNGI_OPTION_TEXT] = RUNGI_FIELD_TEXT,    [RUNGI_OPTION_TEXTS] = RUNGI_FIELD_TEXTS,
    [RUNGI_OPTION_INTS] = RUNGI_FIELD_INTS,    [RUNGI_OPTION_REALS] = RUNGI_FIELD_REALS,
};

static rung_status set_default(const rungi_option *option, void *field)
{
    RUNG_CHECK(option->field == fields[option->type], RUNG_INTERNAL,
               "option %s: its type and its field do not fit", option->key);
    RUNG_CHECK(option->initial && option->help &&
                   (option->type != RUNGI_OPTION_CHOICE || option->choices),
               RUNG_INTERNAL, "option %s: default, help or choices are missing", option->key);
    rungi_raw raw = {0};
    memset(field, 0, rungi_value_size(option));
    rung_status status = rungi_raw_split(option, "default of ", option->initial, &raw);
    if (status == RUNG_OK)
        status = rungi_value_set(option, field, &raw, "default of ");
    rungi_raw_fini(&raw);
    return status == RUNG_CONFIG ? RUNG_FAIL(RUNG_INTERNAL, "%s", rung_error_last()->message)
                                 : status;
}

rung_status rungi_options_init(rungi_options *options, const rungi_option_table *tables,
                               size_t table_count, void *values)
{
    rungi_options made = {.tables = tables, .table_count = table_count, .values = values};
    rung_status status = RUNG_OK;
    size_t total = 0;
    for (size_t t = 0; t < table_count; t++)
        for (const rungi_option *o = tables[t].options; o->key; o++)
            total++;
    made.entries = calloc(total + 1, sizeof *made.entries);
    RUNG_CHECK(made.entries, RUNG_NO_MEMORY, "no memory for options");
    for (size_t t = 0; t < table_count; t++) {
        for (const rungi_option *o = tables[t].options; o->key; o++) {
            rungi_option_entry entry = {o, tables[t].base + o->offset, {0}};
            RUNG_TRY_GOTO(fini_options, set_default(o, (char *)values + entry.offset));
            made.entries[made.count++] = entry;
        }
    }
    *options = made;
    return RUNG_OK;
fini_options:
    rungi_options_fini(&made);
    return status;
}

void rungi_options_fini(rungi_options *options)
{
    for (size_t i = 0; i < options->count; i++)
        rungi_value_fini(rungi_options_at(options, i), rungi_options_field(options, i));
    for (size_t i = 0; i < options->file_count; i++)
        free(options->files[i]);
    free(options->files);
    free(options->entries);
    *options = (rungi_options){0};
}

rung_status rungi_options_keep_file(rungi_options *options, const char *name, const char **kept_out)
{
    for (size_t i = 0; i < options->file_count; i++) {
        if (strcmp(options->files[i], name) == 0) {
            *kept_out = options->files[i];
            return RUNG_OK;
        }
    }
    char *copy = rungi_text_copy(name);
    char **files = reallocarray(options->files, options->file_count + 1, sizeof *files);
    if (files)
        options->files = files;
    if (!copy || !files) {
        free(copy);
        return RUNG_FAIL(RUNG_NO_MEMORY, "%s: out of memory", name);
    }
    *kept_out = files[options->file_count++] = copy;
    return RUNG_OK;
}

rung_status rungi_options_copy(rungi_options *copy, void *values, const rungi_options *options)
{
    rungi_options made;
    rung_status status;
    RUNG_TRY(rungi_options_init(&made, options->tables, options->table_count, values));
    for (size_t i = 0; i < made.count; i++) {
        const rungi_option *option = rungi_options_at(options, i);
        void *field = rungi_options_field(&made, i);
        rungi_value_fini(option, field);
        RUNG_TRY_GOTO(fini_options,
                      rungi_value_copy(option, field, rungi_options_field(options, i)));
        made.entries[i].source = options->entries[i].source;
        if (options->entries[i].source.file)
            RUNG_TRY_GOTO(fini_options,
                          rungi_options_keep_file(&made, options->entries[i].source.file,
                                                  &made.entries[i].source.file));
    }
    *copy = made;
    return RUNG_OK;
fini_options:
    rungi_options_fini(&made);
    return status;
}

rung_status rungi_options_put(rungi_options *options, size_t index, const rungi_raw *raw,
                              rungi_source source)
{
    char where[320];
    rungi_source_lead(&source, where, sizeof where);
    RUNG_TRY(rungi_value_set(rungi_options_at(options, index), rungi_options_field(options, index),
                             raw, where));
    options->entries[index].source = source;
    return RUNG_OK;
}

void rungi_source_lead(const rungi_source *source, char *out, size_t size)
{
    *out = 0;
    if (source->kind == RUNGI_SOURCE_FILE)
        snprintf(out, size, "%s:%d: ", source->file, source->line);
    else if (source->kind == RUNGI_SOURCE_COMMAND_LINE)
        snprintf(out, size, "command line: ");
}

void rungi_options_source(const rungi_options *options, size_t index, char *out, size_t size)
{
    const rungi_source *source = &options->entries[index].source;
    if (source->kind == RUNGI_SOURCE_FILE)
        snprintf(out, size, "%s:%d", source->file, source->line);
    else
        snprintf(out, size, "%s",
                 source->kind == RUNGI_SOURCE_DEFAULT        ? "default"
                 : source->kind == RUNGI_SOURCE_COMMAND_LINE ? "command line"
                                                             : "program");
}

rung_status rungi_options_set(rungi_options *options, const char *key, const char *text,
                              rungi_source_kind kind)
{
    rungi_source source = {.kind = kind};
    char where[64];
    size_t index;
    rungi_source_lead(&source, where, sizeof where);
    RUNG_TRY(rungi_options_look_up(options, where, key, &index));
    rungi_raw raw = {0};
    RUNG_TRY(rungi_raw_split(rungi_options_at(options, index), where, text, &raw));
    rung_status status = rungi_options_put(options, index, &raw, source);
    rungi_raw_fini(&raw);
    return status;
}

static const rungi_option *find_flag(const rungi_options *options, const char *flag, size_t length)
{
    const rungi_option *option;
    for (size_t i = 0; (option = rungi_options_at(options, i)); i++)
        if (option->flag && strlen(option->flag) == length &&
            memcmp(option->flag, flag, length) == 0)
            return option;
    return NULL;
}

rung_status rungi_options_assign(rungi_options *options, const char *argument)
{
    bool dashes = strncmp(argument, "--", 2) == 0;
    size_t length = strcspn(argument, "=");
    const rungi_option *flag = dashes ? find_flag(options, argument, length) : NULL;
    char *key = flag ? rungi_text_copy(flag->key)
                     : strndup(argument + (dashes ? 2 : 0), length - (dashes ? 2 : 0));
    RUNG_CHECK(key, RUNG_NO_MEMORY, "command line: out of memory");
    rung_status status;
    size_t index;
    RUNG_TRY_GOTO(free_key, rungi_options_look_up(options, "command line: ", key, &index));
    const char *text = argument[length] ? argument + length + 1 : NULL;
    if (!text && dashes && rungi_options_at(options, index)->type == RUNGI_OPTION_BOOL)
        text = "true";
    if (text)
        status = rungi_options_set(options, key, text, RUNGI_SOURCE_COMMAND_LINE);
    else
        status = RUNG_FAIL(RUNG_CONFIG, "command line: %s: a value is missing: write %s%s=VALUE",
                           key, dashes ? "--" : "", key);
free_key:
    free(key);
    return status;
}

rung_status rungi_options_check(const rungi_options *options, rung_context *context)
{
    for (size_t t = 0; t < options->table_count; t++) {
        const rungi_option_table *table = &options->tables[t];
        if (table->check)
            RUNG_TRY(table->check(options, (const char *)options->values + table->base, context));
    }
    return RUNG_OK;
}

rung_status rungi_options_fail(const rungi_options *options, const char *key, const char *fmt, ...)
{
    char where[320] = "", message[700];
    size_t index;
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    if (rungi_options_index(options, key, &index))
        rungi_source_lead(&options->entries[index].source, where, sizeof where);
    return RUNG_FAIL(RUNG_CONFIG, "%s%s: %s", where, key, message);
}

void rungi_options_note(const rungi_options *options, rung_context *context, const char *key,
                        const char *fmt, ...)
{
    char where[320] = "", message[700];
    size_t index;
    va_list args;
    if (!context)
        return;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    if (rungi_options_index(options, key, &index))
        rungi_source_lead(&options->entries[index].source, where, sizeof where);
    rungi_log(context, RUNG_LOG_NOTICE, "%s%s: %s", where, key, message);
}

rung_status rungi_options_number(const rungi_options *options, size_t index, double *out)
{
    const rungi_option *option = rungi_options_at(options, index);
    const void *field = rungi_options_field(options, index);
    switch (option->type) {
    case RUNGI_OPTION_BOOL:
        *out = *(const bool *)field;
        return RUNG_OK;
    case RUNGI_OPTION_REAL:
        *out = *(const double *)field;
        return RUNG_OK;
    case RUNGI_OPTION_INT:
    case RUNGI_OPTION_BYTES:
        *out = (double)*(const int64_t *)field;
        return RUNG_OK;
    case RUNGI_OPTION_DURATION:
        *out = (double)*(const int64_t *)field / 1e9;
        return RUNG_OK;
    default:
        return RUNG_FAIL(RUNG_INVALID, "%s is not a number: read it as text", option->key);
    }
}

void rungi_options_text(const rungi_options *options, size_t index, rungi_string *out)
{
    rungi_value_text(rungi_options_at(options, index), rungi_options_field(options, index), out);
}
