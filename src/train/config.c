// SPDX-License-Identifier: Apache-2.0
#include "rung/config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file_io.h"
#include "train/train_config.h"

struct rung_config {
    rung_context *context;
    rungi_options options;
    rungi_train_config values;
    bool told; // what is ignored, since a key was given last
};

rung_status rung_config_create(rung_context *context, rung_config **config_out)
{
    rung_config *config = calloc(1, sizeof *config);
    RUNG_CHECK(config, RUNG_NO_MEMORY, "no memory for a configuration");
    config->context = context;
    rung_status status = rungi_options_init(&config->options, rungi_train_tables,
                                            rungi_train_table_count, &config->values);
    if (status == RUNG_OK)
        *config_out = config;
    else
        free(config);
    return status;
}

void rung_config_destroy(rung_config **config)
{
    if (!config || !*config)
        return;
    rungi_options_fini(&(*config)->options);
    free(*config);
    *config = NULL;
}

rung_status rung_config_copy(const rung_config *config, rung_config **copy_out)
{
    rung_config *copy = calloc(1, sizeof *copy);
    RUNG_CHECK(copy, RUNG_NO_MEMORY, "no memory for a configuration");
    copy->context = config->context;
    copy->told = config->told;
    rung_status status = rungi_options_copy(&copy->options, &copy->values, &config->options);
    if (status == RUNG_OK)
        *copy_out = copy;
    else
        free(copy);
    return status;
}

rung_status rungi_config_copy_for(rung_context *context, const rung_config *config,
                                  rung_config **copy_out)
{
    RUNG_TRY(rung_config_copy(config, copy_out));
    (*copy_out)->context = context;
    return RUNG_OK;
}

rung_status rung_config_load(rung_config *config, const char *path)
{
    config->told = false;
    return rungi_options_load(&config->options, path);
}

rung_status rung_config_load_text(rung_config *config, const char *name, const char *text,
                                  size_t size)
{
    config->told = false;
    return rungi_options_load_text(&config->options, name, text, size);
}

rung_status rung_config_override(rung_config *config, const char *argument)
{
    config->told = false;
    return rungi_options_assign(&config->options, argument);
}

rung_status rung_config_set(rung_config *config, const char *key, const char *text)
{
    return rungi_options_set(&config->options, key, text, RUNGI_SOURCE_PROGRAM);
}

rung_status rung_config_check(const rung_config *config)
{
    RUNG_TRY(rungi_options_check(&config->options, config->told ? NULL : config->context));
    ((rung_config *)(uintptr_t)config)->told = true; // a program checks before a session does
    return RUNG_OK;
}

// Hands the text of `s` to the caller.
static rung_status give_text(rungi_string *s, char **text_out)
{
    rungi_string_append(s, "", 0);
    if (s->failed) {
        rungi_string_fini(s);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for the text of a configuration");
    }
    *text_out = s->data;
    return RUNG_OK;
}

rung_status rung_config_text(const rung_config *config, const char *key, char **text_out)
{
    size_t index;
    rungi_string text = {0};
    RUNG_TRY(rungi_options_find(&config->options, key, &index));
    rungi_options_text(&config->options, index, &text);
    return give_text(&text, text_out);
}

rung_status rung_config_number(const rung_config *config, const char *key, double *number_out)
{
    size_t index;
    RUNG_TRY(rungi_options_find(&config->options, key, &index));
    return rungi_options_number(&config->options, index, number_out);
}

rung_status rung_config_source(const rung_config *config, const char *key, char **source_out)
{
    size_t index;
    char source[512];
    rungi_string text = {0};
    RUNG_TRY(rungi_options_find(&config->options, key, &index));
    rungi_options_source(&config->options, index, source, sizeof source);
    rungi_string_add(&text, "%s", source);
    return give_text(&text, source_out);
}

rung_isa rung_config_isa(const rung_config *config)
{
    return config->values.device.isa;
}

static_assert((int)RUNG_CONFIG_HELP == (int)RUNGI_DUMP_HELP &&
                  (int)RUNG_CONFIG_SOURCES == (int)RUNGI_DUMP_SOURCES,
              "the flags of a dump are one");

rung_status rung_config_dump(const rung_config *config, unsigned flags, char **yaml_out)
{
    rungi_string text = {0};
    rungi_options_dump(&config->options, flags, &text);
    return give_text(&text, yaml_out);
}

rung_status rung_config_save(const rung_config *config, unsigned flags, const char *path)
{
    char *yaml = NULL;
    RUNG_TRY(rung_config_dump(config, flags, &yaml));
    rung_status status = rungi_fs_write(path, yaml, strlen(yaml));
    free(yaml);
    return status;
}

// Option `index` of the tables, without a configuration.
static const rungi_option *option_at(size_t index)
{
    for (size_t t = 0; t < rungi_train_table_count; t++)
        for (const rungi_option *o = rungi_train_tables[t].options; o->key; o++)
            if (index-- == 0)
                return o;
    return NULL;
}

bool rung_config_describe(size_t index, rung_config_key *key_out)
{
    static const char *const types[] = {
        [RUNGI_OPTION_BOOL] = "boolean",
        [RUNGI_OPTION_INT] = "integer",
        [RUNGI_OPTION_REAL] = "number",
        [RUNGI_OPTION_BYTES] = "size",
        [RUNGI_OPTION_DURATION] = "duration",
        [RUNGI_OPTION_CHOICE] = "one of",
        [RUNGI_OPTION_TEXT] = "text",
        [RUNGI_OPTION_TEXTS] = "list",
        [RUNGI_OPTION_INTS] = "list of integers",
        [RUNGI_OPTION_REALS] = "list of numbers",
    };
    const rungi_option *o = option_at(index);
    if (!o)
        return false;
    *key_out = (rung_config_key){
        .key = o->key,
        .type = o->type == RUNGI_OPTION_TEXT && o->choices ? "one of" : types[o->type],
        .initial = o->initial,
        .range = o->range,
        .unit = o->unit,
        .flag = o->flag,
        .help = o->help,
        .choices = o->choices,
        .boolean = o->type == RUNGI_OPTION_BOOL,
    };
    return true;
}

const char *rung_config_word(size_t index, size_t word)
{
    const rungi_option *o = option_at(index);
    for (size_t i = 0; o && o->words && o->words[i].word; i++)
        if (i == word)
            return o->words[i].word;
    return NULL;
}

const char *rung_nearest_name(const char *wanted, const char *const *names, size_t count)
{
    return rungi_text_nearest(wanted, names, count);
}

const rungi_train_config *rungi_config_values(const rung_config *config)
{
    return &config->values;
}

const rungi_options *rungi_config_options(const rung_config *config)
{
    return &config->options;
}
