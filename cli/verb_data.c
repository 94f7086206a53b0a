// SPDX-License-Identifier: Apache-2.0
// rung data check | show | bench: a look at a data set before training.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "rung/convert.h"
#include "rung/data_tools.h"

static void show_progress(void *user, int64_t done, int64_t total, const char *what)
{
    (void)user;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%s %" PRId64 "/%" PRId64, what, done, total);
}

static void clear_progress(void)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

// The configuration of `target`: a YAML file, or a data set whose format is guessed.
static rung_status load(rung_context *context, const cli_arguments *arguments, const char *target,
                        rung_config **config_out, bool *is_path)
{
    const char *format;
    *is_path = !ends_with(target, ".yaml") && !ends_with(target, ".yml");
    rung_status status = cli_load_config(context, arguments, *is_path ? NULL : target, config_out);
    if (status != RUNG_OK || !*is_path)
        return status;
    status = rung_config_set(*config_out, "data.path", target);
    for (int i = 0; i < arguments->override_count; i++)
        if (strncmp(arguments->overrides[i], "data.format=", 12) == 0)
            return status;
    if (status == RUNG_OK)
        status = rung_source_guess(target, &format);
    if (status == RUNG_FORMAT)
        return rung_error_set(
            status,
            "%s: is neither a configuration (.yaml) nor a data set of a kind that "
            "its name tells: say it, data.format=FORMAT",
            target);
    return status == RUNG_OK ? rung_config_set(*config_out, "data.format", format) : status;
}

static rung_status read_number(const cli_arguments *arguments, const char *name, double *out)
{
    const char *text = cli_value(arguments, name);
    char *end;
    if (!text)
        return RUNG_OK;
    *out = strtod(text, &end);
    if (!*text || *end || !(*out > 0 && *out < 1e6))
        return rung_error_set(RUNG_INVALID, "data: %s is not a number above 0: '%s'", name, text);
    return RUNG_OK;
}

static rung_status write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    bool good = file && fputs(text, file) >= 0;
    good = (!file || fclose(file) == 0) && good;
    return good ? RUNG_OK : rung_error_set(RUNG_IO, "%s: cannot write it", path);
}

static void print(const cli_arguments *arguments, const rung_data_report *report)
{
    if (cli_value(arguments, "--json"))
        printf("%s\n", report->json);
    else if (report->text)
        fputs(report->text, stdout);
}

static rung_status check(rung_context *context, const cli_arguments *arguments,
                         const rung_config *config, bool is_path)
{
    rung_data_report report;
    rung_data_check_options options = {.optional_validation = is_path,
                                       .progress = arguments->quiet ? NULL : show_progress};
    double threads = 0;
    rung_status status = read_number(arguments, "--threads", &threads);
    options.threads = (int)threads;
    if (status == RUNG_OK)
        status = rung_data_check(context, config, &options, &report);
    clear_progress();
    if (status != RUNG_OK)
        return status;
    print(arguments, &report);
    if (!report.sound)
        status = rung_error_set(RUNG_GATE, "%s: %" PRId64 " problem%s", arguments->words[1],
                                report.problems, report.problems == 1 ? "" : "s");
    rung_data_report_fini(&report);
    return status;
}

static rung_status show(rung_context *context, const cli_arguments *arguments,
                        const rung_config *config)
{
    rung_data_report report;
    const char *path = cli_value(arguments, "-o");
    double count = 0;
    if (!path)
        return rung_error_set(RUNG_INVALID, "data show: where to? give -o SHEET.png");
    rung_status status = read_number(arguments, "--count", &count);
    if (status == RUNG_OK)
        status = rung_data_show(context, config, (int)count, path, &report);
    if (status != RUNG_OK)
        return status;
    print(arguments, &report);
    rung_data_report_fini(&report);
    return status;
}

static rung_status bench(rung_context *context, const cli_arguments *arguments,
                         const rung_config *config)
{
    rung_data_report report;
    const char *path = cli_value(arguments, "-o");
    double seconds = 0, workers = 0;
    rung_status status = read_number(arguments, "--seconds", &seconds);
    if (status == RUNG_OK)
        status = read_number(arguments, "--workers", &workers);
    rung_data_bench_options options = {.seconds = seconds,
                                       .max_workers = (int)workers,
                                       .progress = arguments->quiet ? NULL : show_progress};
    if (status == RUNG_OK)
        status = rung_data_bench(context, config, &options, &report);
    clear_progress();
    if (status != RUNG_OK)
        return status;
    print(arguments, &report);
    if (path)
        status = write_file(path, report.svg);
    rung_data_report_fini(&report);
    return status;
}

static rung_status run(rung_context *context, const cli_arguments *arguments)
{
    static const char *const parts[] = {"check", "show", "bench"};
    rung_config *config = NULL;
    bool is_path;
    int part = 0;
    while (part < 3 && strcmp(arguments->words[0], parts[part]) != 0)
        part++;
    if (part == 3)
        return rung_error_set(RUNG_INVALID, "data: no such part '%s': check, show or bench",
                              arguments->words[0]);
    rung_context *own = NULL;
    rung_status status = load(context, arguments, arguments->words[1], &config, &is_path);
    if (status == RUNG_OK)
        status = cli_context_create(arguments, rung_config_isa(config), &own);
    if (status == RUNG_OK)
        status = part == 0   ? check(own, arguments, config, is_path)
                 : part == 1 ? show(own, arguments, config)
                             : bench(own, arguments, config);
    rung_context_destroy(&own);
    rung_config_destroy(&config);
    return status;
}

static const cli_option options[] = {
    {"-o", "FILE", "show: the PNG to write; bench: a drawing of samples/s by workers (SVG)."},
    {"--json", NULL, "Print one JSON object instead of text (show: an array)."},
    {"--count", "N", "show: samples on the sheet (24)."},
    {"--threads", "N", "check: threads that read; the cores there are by default."},
    {"--seconds", "S", "bench: time for each measurement (2)."},
    {"--workers", "N", "bench: the most workers to try; twice the cores by default."},
    {0},
};

const cli_verb cli_verb_data = {
    .name = "data",
    .summary = "check a data set, show augmented samples, measure how fast they come",
    .arguments = "check|show|bench CONFIG|PATH [KEY=VALUE ...]",
    .text = "check reads and decodes every sample of training and validation: damaged ones by name "
            "and reason, kinds and sizes, samples of each class, equal samples within and between "
            "both, bad labels; its status is 3 if anything is wrong. show draws samples of an "
            "augmented batch beside the undisturbed ones. bench measures samples/s by the number "
            "of workers, what each stage costs, and what limits it. PATH is a data set without a "
            "configuration: a folder, a list (.csv, .tsv) or an archive (.tar).",
    .options = options,
    .min_arguments = 2,
    .max_arguments = 2,
    .config = true,
    .run = run,
};
