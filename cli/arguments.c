// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { CANDIDATES_MAX = 512 };

const cli_option cli_common_options[] = {
    {"--help", NULL, "Print this help; also -h."},
    {"--version", NULL, "Print the version."},
    {"--verbose", NULL, "Tell more on stderr; also -v."},
    {"--quiet", NULL, "Tell only warnings and errors on stderr; also -q."},
    {0},
};

void cli_arguments_fini(cli_arguments *arguments)
{
    for (int i = 0; i < arguments->override_count; i++)
        free(arguments->overrides[i]);
    for (int i = 0; i < arguments->option_count; i++)
        free(arguments->options[i]);
    free(arguments->overrides);
    free(arguments->options);
    free(arguments->words);
}

const char *cli_value(const cli_arguments *arguments, const char *name)
{
    size_t length = strlen(name);
    for (int i = arguments->option_count - 1; i >= 0; i--) {
        const char *option = arguments->options[i];
        if (strncmp(option, name, length) == 0 && (option[length] == '=' || !option[length]))
            return option + length + (option[length] == '=');
    }
    return NULL;
}

rung_status cli_number(const cli_arguments *arguments, const char *name, int64_t least,
                       int64_t otherwise, int64_t *out)
{
    enum { MOST = 1000000 };
    const char *value = cli_value(arguments, name);
    char *end;
    *out = otherwise;
    if (!value)
        return RUNG_OK;
    *out = strtoll(value, &end, 10);
    if (end == value || *end || *out < least || *out > MOST)
        return rung_error_set(RUNG_INVALID, "%s: %s takes a number from %lld on, not '%s'",
                              arguments->verb->name, name, (long long)least, value);
    return RUNG_OK;
}

// "name=value", or "name" without a value, on the heap.
static rung_status keep(char **list, int *count, const char *name, size_t length, const char *value)
{
    size_t size = length + (value ? strlen(value) : 0) + 2;
    char *text = malloc(size);
    if (!text)
        return rung_error_set(RUNG_NO_MEMORY, "out of memory");
    snprintf(text, size, "%.*s%s%s", (int)length, name, value ? "=" : "", value ? value : "");
    list[(*count)++] = text;
    return RUNG_OK;
}

static bool is_named(const char *name, const char *text, size_t length)
{
    return name && strlen(name) == length && memcmp(name, text, length) == 0;
}

static const cli_option *find_option(const cli_option *options, const char *name, size_t length)
{
    for (; options && options->name; options++)
        if (is_named(options->name, name, length))
            return options;
    return NULL;
}

// The key that "--optim.lr" or a flag such as "--quick" stands for.
static bool find_key(const char *name, size_t length, rung_config_key *key_out)
{
    for (size_t i = 0; rung_config_describe(i, key_out); i++)
        if (is_named(key_out->flag, name, length) || is_named(key_out->key, name + 2, length - 2))
            return true;
    return false;
}

// What leads messages: "env: " or "".
static const char *lead(const cli_arguments *arguments, char *out, size_t size)
{
    snprintf(out, size, "%s%s", arguments->verb ? arguments->verb->name : "",
             arguments->verb ? ": " : "");
    return out;
}

static rung_status fail_unknown_option(cli_arguments *arguments, const char *name, size_t length)
{
    const char *names[CANDIDATES_MAX];
    char own[64], wanted[64], text[80];
    size_t count = 0;
    rung_config_key key;
    const cli_verb *verb = arguments->verb;
    for (const cli_option *o = cli_common_options; o->name; o++)
        names[count++] = o->name;
    for (const cli_option *o = verb ? verb->options : NULL; o && o->name && count < 64; o++)
        names[count++] = o->name;
    snprintf(wanted, sizeof wanted, "%.*s", (int)length, name);
    const char *nearest = rung_nearest_name(wanted, names, count);
    if (!nearest && verb && verb->config) {
        for (count = 0; count < CANDIDATES_MAX && rung_config_describe(count, &key); count++)
            names[count] = key.key;
        const char *found = rung_nearest_name(wanted + strspn(wanted, "-"), names, count);
        snprintf(text, sizeof text, "--%s", found ? found : "");
        nearest = found ? text : NULL;
    }
    lead(arguments, own, sizeof own);
    if (nearest)
        return rung_error_set(RUNG_INVALID, "%sunknown option '%s' (did you mean '%s'?)", own,
                              wanted, nearest);
    return rung_error_set(RUNG_INVALID, "%sunknown option '%s' (see 'rung %s%s--help')", own,
                          wanted, verb ? verb->name : "", verb ? " " : "");
}

static bool take_common(cli_arguments *arguments, const char *name, size_t length)
{
    if (is_named("--help", name, length) || is_named("-h", name, length))
        arguments->help = true;
    else if (is_named("--version", name, length))
        arguments->version = true;
    else if (is_named("--verbose", name, length) || is_named("-v", name, length))
        arguments->verbose = true;
    else if (is_named("--quiet", name, length) || is_named("-q", name, length))
        arguments->quiet = true;
    else
        return false;
    return true;
}

// Takes the option at list[*at], and the argument behind it where that is its value.
static rung_status take_option(cli_arguments *arguments, int count, char **list, int *at)
{
    char own[64];
    const char *name = list[*at];
    size_t length = strcspn(name, "=");
    const char *value = name[length] ? name + length + 1 : NULL;
    const cli_verb *verb = arguments->verb;
    const cli_option *option = verb ? find_option(verb->options, name, length) : NULL;
    rung_config_key key = {0};
    bool is_key = !option && verb && verb->config && strncmp(name, "--", 2) == 0 &&
                  find_key(name, length, &key);
    lead(arguments, own, sizeof own);
    if (!option && !is_key) {
        if (!take_common(arguments, name, length))
            return fail_unknown_option(arguments, name, length);
        if (value)
            return rung_error_set(RUNG_INVALID, "%s%.*s takes no value", own, (int)length, name);
        return RUNG_OK;
    }
    bool is_switch = option ? !option->value : key.boolean;
    if (option && is_switch && value)
        return rung_error_set(RUNG_INVALID, "%s%s takes no value", own, option->name);
    if (!is_switch && !value) {
        if (*at + 1 >= count)
            return rung_error_set(RUNG_INVALID, "%s%.*s needs a value: %.*s=%s", own, (int)length,
                                  name, (int)length, name, option ? option->value : "VALUE");
        value = list[++*at];
    }
    if (option)
        return keep(arguments->options, &arguments->option_count, name, length, value);
    return keep(arguments->overrides, &arguments->override_count, key.key, strlen(key.key),
                value ? value : "true");
}

// Does the argument look like KEY=VALUE, and not like a path that holds a '='?
static bool is_override(const char *text)
{
    size_t length = 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_' || text[length] == '.')
        length++;
    return length > 0 && isalpha((unsigned char)text[0]) && text[length] == '=';
}

static rung_status find_verb(cli_arguments *arguments, const char *name)
{
    const char *names[64];
    size_t count = 0;
    if (strcmp(name, "help") == 0) { // rung help VERB
        arguments->help = true;
        return RUNG_OK;
    }
    for (; cli_verbs[count] && count < 64; count++) {
        names[count] = cli_verbs[count]->name;
        if (strcmp(name, names[count]) == 0) {
            arguments->verb = cli_verbs[count];
            return RUNG_OK;
        }
    }
    const char *nearest = rung_nearest_name(name, names, count);
    if (nearest)
        return rung_error_set(RUNG_INVALID, "unknown verb '%s' (did you mean '%s'?)", name,
                              nearest);
    return rung_error_set(RUNG_INVALID, "unknown verb '%s' (see 'rung --help')", name);
}

static rung_status check_words(cli_arguments *arguments)
{
    const cli_verb *verb = arguments->verb;
    if (!verb || arguments->help || arguments->version)
        return RUNG_OK;
    if (arguments->word_count < verb->min_arguments)
        return rung_error_set(RUNG_INVALID, "%s: too few arguments (usage: rung %s %s)", verb->name,
                              verb->name, verb->arguments);
    if (verb->max_arguments >= 0 && arguments->word_count > verb->max_arguments)
        return rung_error_set(RUNG_INVALID, "%s: unexpected argument '%s' (see 'rung %s --help')",
                              verb->name, arguments->words[verb->max_arguments], verb->name);
    return RUNG_OK;
}

rung_status cli_arguments_parse(cli_arguments *arguments, int count, char **list)
{
    *arguments = (cli_arguments){0};
    arguments->words = calloc((size_t)count + 1, sizeof(char *));
    arguments->overrides = calloc((size_t)count + 1, sizeof(char *));
    arguments->options = calloc((size_t)count + 1, sizeof(char *));
    if (!arguments->words || !arguments->overrides || !arguments->options)
        return rung_error_set(RUNG_NO_MEMORY, "out of memory");
    rung_status status = RUNG_OK;
    bool ended = false;
    for (int i = 0; i < count && status == RUNG_OK; i++) {
        char *text = list[i];
        bool config = arguments->verb && arguments->verb->config;
        if (!ended && strcmp(text, "--") == 0)
            ended = true;
        else if (!ended && text[0] == '-' && text[1])
            status = take_option(arguments, count, list, &i);
        else if (!arguments->verb)
            status = find_verb(arguments, text);
        else if (!ended && config && is_override(text))
            status =
                keep(arguments->overrides, &arguments->override_count, text, strlen(text), NULL);
        else
            arguments->words[arguments->word_count++] = text;
    }
    return status == RUNG_OK ? check_words(arguments) : status;
}

rung_status cli_load_config(rung_context *context, const cli_arguments *arguments, const char *path,
                            rung_config **config_out)
{
    rung_config *config = NULL;
    rung_status status = rung_config_create(context, &config);
    if (status == RUNG_OK && path)
        status = rung_config_load(config, path);
    for (int i = 0; i < arguments->override_count && status == RUNG_OK; i++)
        status = rung_config_override(config, arguments->overrides[i]);
    if (status == RUNG_OK)
        *config_out = config;
    else
        rung_config_destroy(&config);
    return status;
}
