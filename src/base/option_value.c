// SPDX-License-Identifier: Apache-2.0
#include "base/option_value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "base/option_range.h"
#include "base/yaml_text.h"

// A value of any type on its way into a field.
typedef union value {
    bool b;
    int64_t i;
    double f;
    int choice;
    char *text;
    rungi_texts texts;
    rungi_ints ints;
    rungi_reals reals;
} value;

size_t rungi_value_size(const rungi_option *option)
{
    static const size_t sizes[] = {
        [RUNGI_FIELD_ENUM] = sizeof(int),        [RUNGI_FIELD_BOOL] = sizeof(bool),
        [RUNGI_FIELD_I64] = sizeof(int64_t),     [RUNGI_FIELD_F64] = sizeof(double),
        [RUNGI_FIELD_TEXT] = sizeof(char *),     [RUNGI_FIELD_TEXTS] = sizeof(rungi_texts),
        [RUNGI_FIELD_INTS] = sizeof(rungi_ints), [RUNGI_FIELD_REALS] = sizeof(rungi_reals),
    };
    return sizes[option->field];
}

bool rungi_option_is_list(const rungi_option *option)
{
    return option->type == RUNGI_OPTION_TEXTS || option->type == RUNGI_OPTION_INTS ||
           option->type == RUNGI_OPTION_REALS;
}

rungi_option_type rungi_option_member(const rungi_option *option)
{
    switch (option->type) {
    case RUNGI_OPTION_TEXTS:
        return RUNGI_OPTION_TEXT;
    case RUNGI_OPTION_INTS:
        return RUNGI_OPTION_INT;
    case RUNGI_OPTION_REALS:
        return RUNGI_OPTION_REAL;
    default:
        return option->type;
    }
}

static void add_choices(const rungi_option *option, rungi_string *out)
{
    for (size_t i = 0; option->choices[i]; i++)
        rungi_string_add(out, "%s%s", i ? ", " : "", option->choices[i]);
}

void rungi_value_expected(const rungi_option *option, rungi_string *out)
{
    static const char *const names[] = {
        [RUNGI_OPTION_BOOL] = "true or false",
        [RUNGI_OPTION_INT] = "a whole number",
        [RUNGI_OPTION_REAL] = "a number",
        [RUNGI_OPTION_BYTES] = "a size such as 64MiB",
        [RUNGI_OPTION_DURATION] = "a duration such as 60s",
        [RUNGI_OPTION_CHOICE] = "one of ",
        [RUNGI_OPTION_TEXT] = "text",
        [RUNGI_OPTION_TEXTS] = "a list",
        [RUNGI_OPTION_INTS] = "whole numbers",
        [RUNGI_OPTION_REALS] = "numbers",
    };
    bool numbers = option->type == RUNGI_OPTION_INTS || option->type == RUNGI_OPTION_REALS;
    if (numbers && option->length)
        rungi_string_add(out, "a list of %zu ", option->length);
    else if (numbers)
        rungi_string_add(out, "a list of ");
    if (option->type == RUNGI_OPTION_TEXT && option->choices)
        rungi_string_add(out, "one of ");
    else
        rungi_string_add(out, "%s", names[option->type]);
    if (option->type == RUNGI_OPTION_TEXTS && option->choices)
        rungi_string_add(out, " of ");
    if (option->choices)
        add_choices(option, out);
    for (const rungi_option_word *w = option->words; w && w->word; w++)
        rungi_string_add(out, "%s'%s'", w[1].word ? ", " : " or ", w->word);
}

rung_status rungi_value_unexpected(const rungi_option *option, const char *where, const char *got)
{
    rungi_string expected = {0};
    rungi_value_expected(option, &expected);
    rung_status status = RUNG_FAIL(RUNG_CONFIG, "%s%s: expected %s, got %s", where, option->key,
                                   rungi_string_text(&expected), got);
    rungi_string_fini(&expected);
    return status;
}

// The same for a text that the user wrote, with the nearest choice or word.
static rung_status fail_expected(const rungi_option *option, const char *where, const char *text)
{
    const char *names[64];
    size_t count = 0;
    char got[200];
    if (!*text)
        return rungi_value_unexpected(option, where, "nothing");
    for (size_t i = 0; option->choices && option->choices[i] && count < 32; i++)
        names[count++] = option->choices[i];
    for (const rungi_option_word *w = option->words; w && w->word && count < 64; w++)
        names[count++] = w->word;
    const char *nearest = rungi_text_nearest(text, names, count);
    snprintf(got, sizeof got, "'%.60s'%s%s%s", text, nearest ? " (did you mean '" : "",
             nearest ? nearest : "", nearest ? "'?)" : "");
    return rungi_value_unexpected(option, where, got);
}

static rung_status check_range(const rungi_option *option, const char *where, const char *text,
                               long double number)
{
    if (rungi_range_holds(option->range, rungi_option_member(option), number))
        return RUNG_OK;
    return RUNG_FAIL(RUNG_CONFIG, "%s%s: %.60s is out of range (must be %s%s)", where, option->key,
                     text, strchr("[(", *option->range) ? "in " : "", option->range);
}

static rung_status parse_number(const rungi_option *option, const char *where, const char *text,
                                value *out)
{
    rungi_option_type type = rungi_option_member(option);
    for (const rungi_option_word *w = option->words; w && w->word; w++) {
        if (strcmp(text, w->word) != 0)
            continue;
        if (type == RUNGI_OPTION_REAL)
            out->f = (double)w->value;
        else
            out->i = w->value;
        return RUNG_OK;
    }
    long double number;
    rungi_number result = rungi_range_number(type, text, &number);
    if (result == RUNGI_NUMBER_SYNTAX)
        return fail_expected(option, where, text);
    RUNG_CHECK(result == RUNGI_NUMBER_OK, RUNG_CONFIG, "%s%s: %.60s is too large", where,
               option->key, text);
    RUNG_TRY(check_range(option, where, text, number));
    if (type == RUNGI_OPTION_REAL)
        out->f = (double)number;
    else
        out->i = (int64_t)number;
    return RUNG_OK;
}

static int find_choice(const rungi_option *option, const char *text)
{
    for (int i = 0; option->choices[i]; i++)
        if (strcmp(option->choices[i], text) == 0)
            return i;
    return -1;
}

// One member, or a scalar. Text is copied to the heap.
static rung_status parse_member(const rungi_option *option, const char *where, const char *text,
                                value *out)
{
    switch (rungi_option_member(option)) {
    case RUNGI_OPTION_BOOL: {
        int boolean = rungi_yaml_boolean(text);
        if (boolean < 0)
            return fail_expected(option, where, text);
        out->b = boolean;
        return RUNG_OK;
    }
    case RUNGI_OPTION_CHOICE:
        out->choice = find_choice(option, text);
        return out->choice >= 0 ? RUNG_OK : fail_expected(option, where, text);
    case RUNGI_OPTION_TEXT: {
        bool unset = option->type == RUNGI_OPTION_TEXT && !*text && !*option->initial;
        if (option->choices && !unset && find_choice(option, text) < 0)
            return fail_expected(option, where, text);
        out->text = rungi_text_copy(text);
        RUNG_CHECK(out->text, RUNG_NO_MEMORY, "%s%s: out of memory", where, option->key);
        return RUNG_OK;
    }
    default:
        return parse_number(option, where, text, out);
    }
}

static void free_texts(rungi_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++)
        free(texts->data[i]);
    free(texts->data);
}

static rung_status parse_list(const rungi_option *option, const char *where, const rungi_raw *raw,
                              value *out)
{
    RUNG_CHECK(!option->length || raw->count == option->length, RUNG_CONFIG,
               "%s%s: expected a list of %zu, got %zu", where, option->key, option->length,
               raw->count);
    memset(out, 0, sizeof *out); // {0} would set only the first member of the union
    if (raw->count == 0)
        return RUNG_OK;
    void *data = calloc(raw->count, sizeof(int64_t));
    RUNG_CHECK(data, RUNG_NO_MEMORY, "%s%s: out of memory", where, option->key);
    rung_status status = RUNG_OK;
    size_t done = 0;
    for (; done < raw->count; done++) {
        value member;
        RUNG_TRY_GOTO(free_members, parse_member(option, where, raw->data[done], &member));
        if (option->type == RUNGI_OPTION_TEXTS)
            ((char **)data)[done] = member.text;
        else if (option->type == RUNGI_OPTION_INTS)
            ((int64_t *)data)[done] = member.i;
        else
            ((double *)data)[done] = member.f;
    }
    if (option->type == RUNGI_OPTION_TEXTS)
        out->texts = (rungi_texts){data, done};
    else if (option->type == RUNGI_OPTION_INTS)
        out->ints = (rungi_ints){data, done};
    else
        out->reals = (rungi_reals){data, done};
    return RUNG_OK;
free_members:
    if (option->type == RUNGI_OPTION_TEXTS)
        free_texts(&(rungi_texts){data, done});
    else
        free(data);
    return status;
}

rung_status rungi_value_set(const rungi_option *option, void *field, const rungi_raw *raw,
                            const char *where)
{
    value parsed;
    memset(&parsed, 0, sizeof parsed);
    bool list = rungi_option_is_list(option);
    if (list) {
        RUNG_TRY(parse_list(option, where, raw, &parsed));
    } else if (raw->list) {
        return rungi_value_unexpected(option, where, "a list");
    } else if (raw->null) {
        // Nothing is the first word of a number, no text, and no value for the others.
        bool text = option->type == RUNGI_OPTION_TEXT;
        const char *nothing = text ? "" : option->words ? option->words[0].word : NULL;
        if (!nothing)
            return rungi_value_unexpected(option, where, "nothing");
        RUNG_TRY(parse_member(option, where, nothing, &parsed));
    } else {
        RUNG_TRY(parse_member(option, where, raw->data[0], &parsed));
    }
    rungi_value_fini(option, field);
    memcpy(field, &parsed, rungi_value_size(option));
    return RUNG_OK;
}

void rungi_value_fini(const rungi_option *option, void *field)
{
    if (option->type == RUNGI_OPTION_TEXT) {
        free(*(char **)field);
    } else if (option->type == RUNGI_OPTION_TEXTS) {
        free_texts(field);
    } else if (option->type == RUNGI_OPTION_INTS) {
        free(((rungi_ints *)field)->data);
    } else if (option->type == RUNGI_OPTION_REALS) {
        free(((rungi_reals *)field)->data);
    }
    memset(field, 0, rungi_value_size(option));
}
