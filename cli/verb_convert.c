// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "rung/convert.h"

// A line that is redrawn on a terminal; nothing elsewhere.
typedef struct line {
    bool terminal, shown;
    double drawn;
} line;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool draw(void *user, const char *stage, int64_t done, int64_t total)
{
    line *l = user;
    double now = seconds();
    if (!l->terminal || (now - l->drawn < 0.1 && done < total))
        return true;
    l->drawn = now;
    l->shown = true;
    fprintf(stderr, "\r\033[K%s  %" PRId64 "/%" PRId64 "  %d%%", stage, done, total,
            (int)(total > 0 ? 100 * done / total : 0));
    fflush(stderr);
    return true;
}

static void clear(line *l)
{
    if (l->shown)
        fputs("\r\033[K", stderr);
    l->shown = false;
}

// A whole number of an option; 0 when it was not given.
static rung_status take_number(const cli_arguments *arguments, const char *name, long long most,
                               int64_t *out)
{
    const char *text = cli_value(arguments, name);
    char *end;
    *out = 0;
    if (!text)
        return RUNG_OK;
    long long value = strtoll(text, &end, 10);
    if (!*text || *end || value < 1 || value > most)
        return rung_error_set(RUNG_INVALID, "convert: %s %s: must be a number from 1 to %lld", name,
                              text, most);
    *out = value;
    return RUNG_OK;
}

// "224x224", or "224" for both.
static rung_status take_size(const cli_arguments *arguments, rung_convert_options *o)
{
    const char *text = cli_value(arguments, "--raw");
    if (!text)
        return RUNG_OK;
    char *end;
    long height = strtol(text, &end, 10), width = height;
    bool good = end != text;
    if (good && *end == 'x') {
        const char *second = end + 1;
        width = strtol(second, &end, 10);
        good = end != second;
    }
    if (!good || *end || height < 1 || width < 1 || height > 65535 || width > 65535)
        return rung_error_set(RUNG_INVALID,
                              "convert: --raw %s: must be HEIGHTxWIDTH, such as 224x224", text);
    o->height = (int)height;
    o->width = (int)width;
    return RUNG_OK;
}

static rung_status take_kind(const cli_arguments *arguments, rung_convert_options *o)
{
    static const char *const names[] = {"pack", "tar", "npy", "folder", "tokens"};
    static const rung_convert_kind kinds[] = {RUNG_CONVERT_PACK, RUNG_CONVERT_TAR, RUNG_CONVERT_NPY,
                                              RUNG_CONVERT_FOLDER, RUNG_CONVERT_TOKENS};
    const char *text = cli_value(arguments, "--to");
    if (!text)
        return RUNG_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0) {
            o->kind = kinds[i];
            return RUNG_OK;
        }
    const char *nearest = rung_nearest_name(text, names, sizeof names / sizeof *names);
    return rung_error_set(RUNG_INVALID,
                          "convert: --to %s: unknown%s%s (there are pack, tar, "
                          "npy, folder and tokens)",
                          text, nearest ? ", did you mean " : "", nearest ? nearest : "");
}

static void print_report(const rung_convert_options *o, const rung_convert_report *r)
{
    if (r->vocabulary) {
        printf("%s: %" PRId64 " tokens of %s (%s, %" PRId64 " different), %.1f MB\n", o->to,
               r->samples, o->from, o->tokenizer, r->vocabulary, (double)r->bytes * 1e-6);
        return;
    }
    printf("%s: %" PRId64 " samples of %s (%s, %s), %.1f MB", o->to, r->samples, o->from, r->format,
           r->split, (double)r->bytes * 1e-6);
    if (r->resumed)
        printf(", %" PRId64 " of them stood already", r->resumed);
    if (r->left_out)
        printf(", %" PRId64 " left out", r->left_out);
    printf("\n");
}

static rung_status run(rung_context *context, const cli_arguments *arguments)
{
    line l = {.terminal = isatty(STDERR_FILENO) && !arguments->quiet};
    int64_t workers;
    rung_convert_report report;
    rung_convert_options o = {.from = arguments->words[0],
                              .to = arguments->words[1],
                              .format = cli_value(arguments, "--format"),
                              .split = cli_value(arguments, "--split"),
                              .tokenizer = cli_value(arguments, "--tokenizer"),
                              .vocabulary = cli_value(arguments, "--vocab"),
                              .merges = cli_value(arguments, "--merges"),
                              .crop = cli_value(arguments, "--crop") != NULL,
                              .channels = cli_value(arguments, "--grey") ? 1 : 0,
                              .jpeg_rows = cli_value(arguments, "--jpeg-rows") != NULL,
                              .skip_bad = cli_value(arguments, "--skip-bad") != NULL,
                              .restart = cli_value(arguments, "--restart") != NULL,
                              .progress = draw,
                              .progress_user = &l};
    rung_status status = take_number(arguments, "--workers", 1024, &workers);
    if (status == RUNG_OK)
        status = take_number(arguments, "--shard", INT64_MAX, &o.shard);
    if (status == RUNG_OK)
        status = take_size(arguments, &o);
    if (status == RUNG_OK)
        status = take_kind(arguments, &o);
    if (status != RUNG_OK)
        return status;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    o.num_workers = workers ? (int)workers : cores > 1 ? (int)cores : 0;
    status = rung_convert_data(context, &o, &report);
    clear(&l);
    if (status == RUNG_OK)
        print_report(&o, &report);
    return status;
}

static const cli_option options[] = {
    {"--to", "KIND", "What to make: pack, tar, npy, folder, tokens. Without it told by DST's end."},
    {"--format", "FORMAT", "Format of SRC, as data.format. Without it told by what lies there."},
    {"--split", "SPLIT",
     "Which part of SRC: train (the default where there are parts), test, all."},
    {"--raw", "HxW", "Decode the pictures and resize them to this size, as data.resize does."},
    {"--crop", NULL, "With --raw: keep the aspect; resize to cover the size and cut the middle."},
    {"--grey", NULL, "With --raw: one channel instead of three."},
    {"--jpeg-rows", NULL,
     "Rewrite JPEGs, without loss, so that rows above a crop need not be decoded."},
    {"--shard", "N", "Samples in each tar archive: DST is then a folder of archives."},
    {"--workers", "N", "Threads that decode. Without it as many as there are cores."},
    {"--tokenizer", "KIND", "Of a text to tokens: char, byte or gpt2."},
    {"--vocab", "FILE", "The tokenizer's vocabulary (vocab.json)."},
    {"--merges", "FILE", "Of gpt2: merges.txt."},
    {"--skip-bad", NULL, "Leave out samples that cannot be read, instead of stopping."},
    {"--restart", NULL, "Begin anew instead of going on with what was begun."},
    {0},
};

const cli_verb cli_verb_convert = {
    .name = "convert",
    .summary = "make a data set of another format",
    .arguments = "SRC DST",
    .text =
        "Reads a data set of any format and writes it as a pack (rung's own indexed file), tar "
        "archives in WebDataset's layout, NumPy arrays, or a folder for each class. Pictures in "
        "files are copied as they are; --raw makes pixels of one size of them. A text becomes a "
        "file of tokens (llm.c's .bin). DST appears whole "
        "and checked at the end; a conversion that was stopped is taken up by the same command.",
    .options = options,
    .min_arguments = 2,
    .max_arguments = 2,
    .run = run,
};
