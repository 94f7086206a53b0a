// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/error.h"
#include "base/number.h"
#include "base/option_value.h"
#include "base/yaml_text.h"

bool rungi_raw_add(rungi_raw *raw, const char *text, size_t size)
{
    char *part = strndup(text, size);
    if (part && rungi_array_push(raw, part))
        return true;
    free(part);
    return false;
}

void rungi_raw_fini(rungi_raw *raw)
{
    for (size_t i = 0; i < raw->count; i++)
        free(raw->data[i]);
    rungi_array_fini(raw);
}

// Reads a quoted member that begins at s into `out`; returns what follows it, NULL when it does not
// end.
static const char *unquote(const char *s, rungi_string *out)
{
    char quote = *s++;
    rungi_string_append(out, "", 0);
    for (;; s++) {
        if (!*s)
            return NULL;
        if (*s == quote && quote == '\'' && s[1] == quote)
            s++; // '' is one quote
        else if (*s == quote)
            return s + 1;
        else if (*s == '\\' && quote == '"' && (s[1] == '"' || s[1] == '\\'))
            s++;
        rungi_string_append(out, s, 1);
    }
}

static const char *skip_blanks(const char *s)
{
    return s + strspn(s, " \t");
}

// Takes apart "a, 'b', c" from s up to `end`.
static rung_status split_members(const char *where, const char *key, const char *s, bool bracket,
                                 rungi_raw *raw)
{
    rung_status status = RUNG_OK;
    rungi_string member = {0};
    for (s = skip_blanks(s); *s && !(bracket && *s == ']');) {
        member.size = 0;
        if (*s == '\'' || *s == '"') {
            s = unquote(s, &member);
            if (!s)
                RUNG_TRY_GOTO(free_member,
                              RUNG_FAIL(RUNG_CONFIG, "%s%s: a quote is not closed", where, key));
        } else if (*s == '[') {
            RUNG_TRY_GOTO(free_member,
                          RUNG_FAIL(RUNG_CONFIG, "%s%s: a list in a list", where, key));
        } else {
            size_t length = strcspn(s, bracket ? ",]" : ",");
            const char *end = s + length;
            while (length > 0 && (s[length - 1] == ' ' || s[length - 1] == '\t'))
                length--;
            if (length == 0)
                RUNG_TRY_GOTO(
                    free_member,
                    RUNG_FAIL(RUNG_CONFIG, "%s%s: a member of the list is empty", where, key));
            rungi_string_append(&member, s, length);
            s = end;
        }
        if (member.failed || !rungi_raw_add(raw, rungi_string_text(&member), member.size))
            RUNG_TRY_GOTO(free_member,
                          RUNG_FAIL(RUNG_NO_MEMORY, "%s%s: out of memory", where, key));
        s = skip_blanks(s);
        if (*s == ',')
            s = skip_blanks(s + 1);
        else if (*s && !(bracket && *s == ']'))
            RUNG_TRY_GOTO(free_member, RUNG_FAIL(RUNG_CONFIG, "%s%s: expected ',' before '%.20s'",
                                                 where, key, s));
    }
    if (bracket && (!*s || *skip_blanks(s + 1)))
        status = RUNG_FAIL(RUNG_CONFIG, "%s%s: a list must end with ']'", where, key);
free_member:
    rungi_string_fini(&member);
    return status;
}

rung_status rungi_raw_split(const rungi_option *option, const char *where, const char *text,
                            rungi_raw *raw_out)
{
    rungi_raw raw = {0};
    rung_status status = RUNG_OK;
    if (rungi_option_is_list(option)) {
        const char *s = skip_blanks(text);
        raw.list = true;
        status = split_members(where, option->key, *s == '[' ? s + 1 : s, *s == '[', &raw);
    } else {
        raw.null = option->words && strcmp(text, "null") == 0;
        if (!rungi_raw_add(&raw, text, strlen(text)))
            status = RUNG_FAIL(RUNG_NO_MEMORY, "%s%s: out of memory", where, option->key);
    }
    if (status == RUNG_OK)
        *raw_out = raw;
    else
        rungi_raw_fini(&raw);
    return status;
}

static const char *word_of(const rungi_option *option, double number)
{
    for (const rungi_option_word *w = option->words; w && w->word; w++)
        if ((double)w->value == number)
            return w->word;
    return NULL;
}

static bool add_real(const rungi_option *option, double number, rungi_raw *raw)
{
    char text[RUNGI_NUMBER_TEXT];
    const char *word = word_of(option, number);
    const char *chosen = word ? word : rungi_number_f64_text(number, text);
    return rungi_raw_add(raw, chosen, strlen(chosen));
}

static bool add_integer(const rungi_option *option, int64_t number, rungi_raw *raw)
{
    char text[RUNGI_NUMBER_TEXT];
    const char *word = word_of(option, (double)number);
    snprintf(text, sizeof text, "%" PRId64, number);
    if (option->type == RUNGI_OPTION_BYTES)
        rungi_number_bytes_text(number, text);
    else if (option->type == RUNGI_OPTION_DURATION)
        rungi_number_duration_text(number, text);
    const char *chosen = word ? word : text;
    return rungi_raw_add(raw, chosen, strlen(chosen));
}

// The parts of a field as they would be read. False when out of memory.
static bool parts_of(const rungi_option *option, const void *field, rungi_raw *raw)
{
    bool ok = true;
    const char *text = NULL;
    switch (option->type) {
    case RUNGI_OPTION_BOOL:
        text = *(const bool *)field ? "true" : "false";
        break;
    case RUNGI_OPTION_CHOICE: {
        int choice;
        memcpy(&choice, field, sizeof choice);
        text = option->choices[choice];
        break;
    }
    case RUNGI_OPTION_TEXT:
        text = *(char *const *)field;
        break;
    case RUNGI_OPTION_REAL:
        return add_real(option, *(const double *)field, raw);
    case RUNGI_OPTION_TEXTS: {
        const rungi_texts *texts = field;
        for (size_t i = 0; i < texts->count && ok; i++)
            ok = rungi_raw_add(raw, texts->data[i], strlen(texts->data[i]));
        return ok;
    }
    case RUNGI_OPTION_INTS: {
        const rungi_ints *ints = field;
        for (size_t i = 0; i < ints->count && ok; i++)
            ok = add_integer(option, ints->data[i], raw);
        return ok;
    }
    case RUNGI_OPTION_REALS: {
        const rungi_reals *reals = field;
        for (size_t i = 0; i < reals->count && ok; i++)
            ok = add_real(option, reals->data[i], raw);
        return ok;
    }
    default:
        return add_integer(option, *(const int64_t *)field, raw);
    }
    return rungi_raw_add(raw, text, strlen(text));
}

rung_status rungi_value_copy(const rungi_option *option, void *to, const void *from)
{
    if (!rungi_option_is_list(option) && option->type != RUNGI_OPTION_TEXT) {
        memcpy(to, from, rungi_value_size(option));
        return RUNG_OK;
    }
    rungi_raw raw = {0};
    rung_status status = RUNG_OK;
    if (!parts_of(option, from, &raw))
        status = RUNG_FAIL(RUNG_NO_MEMORY, "%s: out of memory", option->key);
    else
        status = rungi_value_set(option, to, &raw, "");
    rungi_raw_fini(&raw);
    return status;
}

static bool is_text(const rungi_option *option)
{
    rungi_option_type type = rungi_option_member(option);
    return type == RUNGI_OPTION_TEXT || type == RUNGI_OPTION_CHOICE;
}

void rungi_value_yaml(const rungi_option *option, const void *field, rungi_string *out)
{
    rungi_raw raw = {0};
    bool list = rungi_option_is_list(option);
    if (!parts_of(option, field, &raw))
        out->failed = true;
    rungi_string_add(out, "%s", list ? "[" : "");
    for (size_t i = 0; i < raw.count; i++) {
        rungi_string_add(out, "%s", i ? ", " : "");
        if (is_text(option))
            rungi_yaml_add_text(raw.data[i], out);
        else
            rungi_string_add(out, "%s", raw.data[i]);
    }
    rungi_string_add(out, "%s", list ? "]" : "");
    rungi_raw_fini(&raw);
}

// In single quotes where the splitter would otherwise see something else.
static void add_quoted(const char *text, rungi_string *out)
{
    size_t length = strlen(text);
    if (length > 0 && !strpbrk(text, ",[]'\"") && text[0] != ' ' && text[length - 1] != ' ') {
        rungi_string_add(out, "%s", text);
        return;
    }
    rungi_string_append(out, "'", 1);
    for (; *text; text++)
        rungi_string_add(out, *text == '\'' ? "''" : "%c", *text);
    rungi_string_append(out, "'", 1);
}

void rungi_value_text(const rungi_option *option, const void *field, rungi_string *out)
{
    rungi_raw raw = {0};
    bool list = rungi_option_is_list(option);
    if (!parts_of(option, field, &raw))
        out->failed = true;
    rungi_string_add(out, "%s", list ? "[" : "");
    for (size_t i = 0; i < raw.count; i++) {
        rungi_string_add(out, "%s", i ? ", " : "");
        if (list && is_text(option))
            add_quoted(raw.data[i], out);
        else
            rungi_string_add(out, "%s", raw.data[i]);
    }
    rungi_string_add(out, "%s", list ? "]" : "");
    rungi_raw_fini(&raw);
}
