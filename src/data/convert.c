// SPDX-License-Identifier: Apache-2.0
#include "rung/convert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/error.h"
#include "base/fs.h"
#include "data/convert.h"
#include "data/source.h"
#include "data/source_tar.h"

// ---- the source

// Compressed archives are unpacked beside the destination: there is room for it.
static rung_status open_tar(rungi_conversion *c, const char *split)
{
    const rung_convert_options *o = c->options;
    char *folder = rungi_path_folder(o->to);
    RUNG_CHECK(folder, RUNG_NO_MEMORY, "%s: no memory for a path", o->to);
    rung_status status = rungi_source_open_tar(
        c->context, o->from, &(rungi_tar_options){.split = split, .spool = folder}, &c->split,
        &c->source);
    free(folder);
    return status;
}

static rung_status open_split(rungi_conversion *c, const char *split)
{
    const rung_convert_options *o = c->options;
    c->split = split;
    return rung_source_open(c->context, c->format, o->from, split, &c->source);
}

// Without a split told: train where there are splits, and all of what is one by itself.
static rung_status open_source(rungi_conversion *c)
{
    const rung_convert_options *o = c->options;
    c->format = o->format;
    if (!c->format)
        RUNG_TRY(rung_source_guess(o->from, &c->format));
    if (strcmp(c->format, "tar") == 0)
        return open_tar(c, o->split ? o->split : "some");
    if (o->split)
        return open_split(c, o->split);
    if (!rungi_source_may_be_split(c->format))
        return open_split(c, "train");
    // Formats that have no train there take the whole for it, or fail.
    rung_source *test = NULL;
    rung_status status = open_split(c, "test");
    if (status == RUNG_OK) {
        test = c->source;
        c->source = NULL;
        rung_source_destroy(&test);
        return open_split(c, "train");
    }
    if (open_split(c, "train") == RUNG_OK) {
        c->split = strcmp(c->format, "npy") == 0 ? "train" : "all";
        return RUNG_OK;
    }
    return open_split(c, "all");
}

// ---- fields

static rung_status settle_fields(rungi_conversion *c)
{
    const rung_convert_options *o = c->options;
    const rung_source *source = c->source;
    c->image = c->label = -1;
    c->field_count = source->field_count;
    memcpy(c->fields, source->fields, sizeof c->fields);
    for (int f = 0; f < c->field_count; f++) {
        if (c->fields[f].pixels != RUNG_PIXELS_NONE && c->image < 0)
            c->image = f;
        if (strcmp(c->fields[f].name, "label") == 0 && c->fields[f].dtype == RUNG_I64 &&
            c->fields[f].shape.rank == 0)
            c->label = f;
    }
    c->raw = o->height > 0;
    if (!c->raw)
        return RUNG_OK;
    RUNG_CHECK(c->image >= 0, RUNG_MISMATCH, "%s: has no pictures that could be resized", o->from);
    rung_field *image = &c->fields[c->image];
    int64_t channels = o->channels ? o->channels : 3;
    if (image->pixels != RUNG_PIXELS_FILE)
        channels = image->shape.dim[image->pixels == RUNG_PIXELS_CHW ? 0 : 2];
    image->pixels = RUNG_PIXELS_HWC;
    image->shape = RUNG_SHAPE(o->height, o->width, channels);
    return RUNG_OK;
}

// Two conversions of the same to the same have the same stamp, others another.
static void settle_stamp(rungi_conversion *c, rungi_string *text)
{
    const rung_convert_options *o = c->options;
    char *whole = realpath(o->from, NULL);
    struct stat info = {0};
    if (stat(o->from, &info) != 0)
        info.st_size = 0;
    rungi_string_add(text, "%s %s %s %" PRId64 " %d %d %d %d %d %d %d %" PRId64 " %d", c->format,
                     c->split, whole ? whole : o->from, c->source->count, o->height, o->width,
                     o->crop, o->channels, (int)o->filter, o->keep_orientation, o->jpeg_rows,
                     o->shard, (int)o->skip_bad);
    rungi_string_add(text, " %lld %lld.%09ld", (long long)info.st_size,
                     (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
    for (int i = 0; c->source->class_names && i < c->source->class_count; i++)
        rungi_string_add(text, "\n%s", c->source->class_names[i]);
    char place[512];
    for (int64_t i = 0; c->source->describe && i < c->source->count; i++) {
        c->source->describe(c->source->self, i, place, sizeof place);
        if (text->size > 1 << 20) { // fold
            uint64_t sum = XXH3_64bits(text->data, text->size);
            text->size = 0;
            rungi_string_append(text, (const char *)&sum, sizeof sum);
        }
        rungi_string_append(text, place, strlen(place) + 1);
    }
    c->stamp = XXH3_64bits(rungi_string_text(text), text->size);
    free(whole);
}

static rung_status settle_note(rungi_conversion *c)
{
    const rung_convert_options *o = c->options;
    rungi_string text = {0};
    char size[64] = "";
    if (c->raw)
        snprintf(size, sizeof size, ", resized to %dx%d%s", o->height, o->width,
                 o->crop ? ", cropped" : "");
    else if (o->jpeg_rows)
        snprintf(size, sizeof size, ", with restart markers");
    c->note =
        rungi_text_format("%s (%s, %s)%s", rungi_path_name(o->from), c->format, c->split, size);
    settle_stamp(c, &text);
    bool failed = text.failed;
    rungi_string_fini(&text);
    RUNG_CHECK(c->note && !failed, RUNG_NO_MEMORY, "%s: no memory to convert it", o->from);
    return RUNG_OK;
}

// ---- the destination

static bool ends(const char *text, const char *end)
{
    size_t length = strlen(text), want = strlen(end);
    return length > want && strcasecmp(text + length - want, end) == 0;
}

static rung_status settle_kind(const rung_convert_options *o, rung_convert_kind *kind)
{
    *kind = o->kind;
    if (*kind == RUNG_CONVERT_AUTO && ends(o->to, ".pack"))
        *kind = RUNG_CONVERT_PACK;
    if (*kind == RUNG_CONVERT_AUTO && ends(o->to, ".tar"))
        *kind = RUNG_CONVERT_TAR;
    if (*kind == RUNG_CONVERT_AUTO && ends(o->to, ".bin"))
        *kind = RUNG_CONVERT_TOKENS;
    RUNG_CHECK(*kind != RUNG_CONVERT_AUTO, RUNG_INVALID,
               "%s: what is to be made? Give a name that ends in .pack, .tar or .bin, or say it: "
               "pack, tar, npy, folder or tokens",
               o->to);
    RUNG_CHECK(!o->tokenizer || *kind == RUNG_CONVERT_TOKENS, RUNG_INVALID,
               "%s: a tokenizer belongs to files of tokens (.bin)", o->to);
    RUNG_CHECK(o->shard == 0 || *kind == RUNG_CONVERT_TAR, RUNG_INVALID,
               "%s: only tar archives come in shards", o->to);
    return RUNG_OK;
}

static rung_status check_options(const rung_convert_options *o)
{
    RUNG_CHECK((o->height > 0) == (o->width > 0) && o->height >= 0 && o->width >= 0 &&
                   o->height <= UINT16_MAX && o->width <= UINT16_MAX,
               RUNG_INVALID, "convert: raw pixels of %d x %d: must be 1 to %d", o->height, o->width,
               UINT16_MAX);
    RUNG_CHECK(o->height > 0 || (!o->crop && !o->channels), RUNG_INVALID,
               "convert: crop and channels belong to raw pixels of a size");
    RUNG_CHECK(!o->jpeg_rows || o->height == 0, RUNG_INVALID,
               "convert: raw pixels are no JPEGs that could be rewritten");
    RUNG_CHECK(o->channels == 0 || o->channels == 1 || o->channels == 3, RUNG_INVALID,
               "convert: %d channels, must be 1 or 3", o->channels);
    RUNG_CHECK(o->shard >= 0 && o->num_workers >= 0, RUNG_INVALID,
               "convert: a negative number of samples or workers");
    struct stat info;
    RUNG_CHECK(lstat(o->to, &info) != 0, RUNG_INVALID,
               "%s: exists already: remove it, or give another name", o->to);
    return RUNG_OK;
}

static rung_status run(rungi_conversion *c, rung_convert_kind kind)
{
    static rung_status (*const make[])(rungi_conversion *, rungi_sink **) = {
        [RUNG_CONVERT_PACK] = rungi_sink_pack,
        [RUNG_CONVERT_TAR] = rungi_sink_tar,
        [RUNG_CONVERT_NPY] = rungi_sink_npy,
        [RUNG_CONVERT_FOLDER] = rungi_sink_folder,
    };
    RUNG_TRY(open_source(c));
    RUNG_TRY(rungi_source_check(c->source));
    RUNG_TRY(settle_fields(c));
    RUNG_TRY(settle_note(c));
    RUNG_TRY(make[kind](c, &c->sink));
    RUNG_TRY(rungi_convert_samples(c));
    RUNG_CHECK(c->report.samples > 0, RUNG_DATA, "%s: not one sample could be read",
               c->options->from);
    return c->sink->finish(c->sink, &c->report.bytes);
}

static rung_status convert(rung_context *context, const rung_convert_options *options,
                           rung_convert_report *report_out)
{
    rung_convert_kind kind;
    rungi_conversion c = {.context = context, .options = options, .lock = -1};
    RUNG_TRY(check_options(options));
    RUNG_TRY(settle_kind(options, &kind));
    bool tokens = kind == RUNG_CONVERT_TOKENS;
    rung_status status = tokens ? rungi_convert_tokens(options, &c.report) : run(&c, kind);
    if (tokens) {
        c.format = "text";
        c.split = options->tokenizer;
    }
    if (c.sink)
        c.sink->destroy(c.sink);
    if (status == RUNG_OK && report_out) {
        *report_out = c.report;
        snprintf(report_out->format, sizeof report_out->format, "%s", c.format);
        snprintf(report_out->split, sizeof report_out->split, "%s", c.split);
    }
    rung_source_destroy(&c.source);
    if (c.lock >= 0)
        close(c.lock);
    free(c.note);
    return status;
}

rung_status rung_convert_data(rung_context *context, const rung_convert_options *options,
                              rung_convert_report *report_out)
{
    RUNG_CHECK(options && options->from && *options->from && options->to && *options->to,
               RUNG_INVALID, "convert: give a source and a destination");
    // A folder may be given with a slash at its end.
    size_t length = strlen(options->to);
    while (length > 1 && options->to[length - 1] == '/')
        length--;
    rung_convert_options o = *options;
    char *to = strndup(options->to, length);
    RUNG_CHECK(to, RUNG_NO_MEMORY, "%s: no memory for its name", options->to);
    o.to = to;
    rung_status status = convert(context, &o, report_out);
    free(to);
    return status;
}
