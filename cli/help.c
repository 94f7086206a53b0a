// SPDX-License-Identifier: Apache-2.0
// Help, printed from the tables of verbs, options and keys.
#include <string.h>

#include "cli.h"

enum { WIDTH = 80 };

// Prints words, from column `column` on, in lines that begin at column `indent`.
static void print_wrapped(FILE *out, int indent, int column, const char *text)
{
    bool first = true;
    while (*text) {
        int length = (int)strcspn(text, " ");
        if (!first && column + 1 + length > WIDTH) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
            first = true;
        }
        fprintf(out, "%s%.*s", first ? "" : " ", length, text);
        column += length + !first;
        first = false;
        text += length;
        text += strspn(text, " ");
    }
    fprintf(out, "\n");
}

static void print_options(FILE *out, const cli_option *options)
{
    for (; options && options->name; options++) {
        int length = fprintf(out, "  %s%s%s", options->name, options->value ? " " : "",
                             options->value ? options->value : "");
        fprintf(out, "%*s", length < 20 ? 20 - length : 1, "");
        print_wrapped(out, 20, length < 20 ? 20 : length + 1, options->help);
    }
}

static void add(char *out, size_t size, const char *before, const char *text)
{
    size_t used = strlen(out);
    snprintf(out + used, size - used, "%s%s", before, text);
}

// "one of sgd, adam, adamw", "integer >= 1 or auto (steps)"
static void describe_type(size_t index, const rung_config_key *key, char *out, size_t size)
{
    snprintf(out, size, "%s", key->type);
    for (size_t i = 0; key->choices && key->choices[i]; i++)
        add(out, size, i ? ", " : " ", key->choices[i]);
    if (key->range)
        add(out, size, strchr("[(", *key->range) ? " in " : " ", key->range);
    for (size_t i = 0; rung_config_word(index, i); i++)
        add(out, size, rung_config_word(index, i + 1) ? ", " : " or ", rung_config_word(index, i));
    if (key->unit) {
        add(out, size, " (", key->unit);
        add(out, size, ")", "");
    }
    if (key->flag)
        add(out, size, "; also ", key->flag);
}

static void print_keys(FILE *out)
{
    rung_config_key key;
    char type[500];
    fprintf(out, "\nkeys, with their defaults (KEY=VALUE or --KEY=VALUE; YAML in CONFIG):\n");
    for (size_t i = 0; rung_config_describe(i, &key); i++) {
        describe_type(i, &key, type, sizeof type);
        int column = fprintf(out, "  %s=%s  ", key.key, key.initial);
        print_wrapped(out, 6, column, type);
        fprintf(out, "%6s", "");
        print_wrapped(out, 6, 6, key.help);
    }
}

void cli_print_help(FILE *out, const cli_verb *verb)
{
    if (verb) {
        fprintf(out, "usage: rung %s%s%s [options]\n\n", verb->name, *verb->arguments ? " " : "",
                verb->arguments);
        print_wrapped(out, 0, 0, verb->text);
    } else {
        fprintf(out, "usage: rung VERB [arguments] [options]\n\n");
        print_wrapped(out, 0, 0,
                      "Trains neural networks, shows where each step's time went, and keeps a "
                      "speed-up only when training got faster and its result stayed right.");
        fprintf(out, "\nverbs ('rung VERB --help' tells more):\n");
        for (const cli_verb *const *v = cli_verbs; *v; v++)
            fprintf(out, "  %-10s%s\n", (*v)->name, (*v)->summary);
    }
    fprintf(out, "\noptions:\n");
    if (verb)
        print_options(out, verb->options);
    print_options(out, cli_common_options);
    if (verb && verb->config)
        print_keys(out);
}
