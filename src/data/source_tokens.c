// SPDX-License-Identifier: Apache-2.0
// Windows of tokens from llm.c's files. Positions, not bytes, are kept: a window is read from its
// file when it is asked for, so that a set may be larger than memory.
#include "data/source_tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/context.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"
#include "base/text.h"
#include "formats/token_file.h"

enum { LENGTH_DEFAULT = 1024, LENGTH_MAX = 1 << 24, OPEN_FILES_MAX = 256 };

typedef struct shard {
    char *path;
    int fd; // -1: opened for each read
    rungi_token_file file;
    int64_t first; // its first window
} shard;

typedef struct tokens_source {
    rung_source source; // first
    RUNGI_ARRAY(shard) shards;
    int64_t length, vocabulary;
    int64_t unused; // tokens that are in no window
} tokens_source;

// ---- reading

static const shard *find_shard(const tokens_source *s, int64_t index)
{
    size_t low = 0, high = s->shards.count; // the last whose first is not above index
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (s->shards.data[middle].first <= index)
            low = middle;
        else
            high = middle;
    }
    return &s->shards.data[low];
}

static rung_status read_window(const tokens_source *s, const shard *from, int64_t window, void *raw)
{
    size_t width = (size_t)from->file.width, bytes = (size_t)(s->length + 1) * width;
    uint64_t at = RUNGI_TOKEN_HEADER + (uint64_t)(window * s->length) * width, size;
    if (from->fd >= 0)
        return rungi_io_read_at(from->fd, from->path, at, raw, bytes);
    int fd;
    RUNG_TRY(rungi_io_open_read(from->path, &fd, &size));
    rung_status status = rungi_io_read_at(fd, from->path, at, raw, bytes);
    close(fd);
    return status;
}

static rung_status read_sample(void *self, void *state, const rung_sample *sample,
                               rung_view *fields)
{
    const tokens_source *s = self;
    const shard *from = find_shard(s, sample->index);
    int64_t window = sample->index - from->first;
    int64_t *tokens = fields[0].data, *next = fields[1].data;
    RUNG_TRY(read_window(s, from, window, state));
    for (int64_t i = 0; i <= s->length; i++) {
        int64_t token =
            from->file.width == 2 ? ((const uint16_t *)state)[i] : ((const uint32_t *)state)[i];
        RUNG_CHECK(!s->vocabulary || token < s->vocabulary, RUNG_DATA,
                   "%s: token %" PRId64 " is %" PRId64 ", the vocabulary has %" PRId64, from->path,
                   window * s->length + i, token, s->vocabulary);
        if (i < s->length)
            tokens[i] = token;
        if (i > 0)
            next[i - 1] = token;
    }
    return RUNG_OK;
}

static rung_status open_worker(void *self, int worker, void **state_out)
{
    const tokens_source *s = self;
    (void)worker;
    *state_out = malloc((size_t)(s->length + 1) * sizeof(uint32_t));
    RUNG_CHECK(*state_out, RUNG_NO_MEMORY, "no memory to read tokens");
    return RUNG_OK;
}

static void close_worker(void *self, void *state)
{
    (void)self;
    free(state);
}

static void describe(void *self, int64_t index, char *out, size_t size)
{
    const tokens_source *s = self;
    const shard *from = find_shard(s, index);
    snprintf(out, size, "%s, tokens from %" PRId64 " on", from->path,
             (index - from->first) * s->length);
}

static void destroy(rung_source *source)
{
    tokens_source *s = (tokens_source *)source;
    for (size_t i = 0; i < s->shards.count; i++) {
        if (s->shards.data[i].fd >= 0)
            close(s->shards.data[i].fd);
        free(s->shards.data[i].path);
    }
    rungi_array_fini(&s->shards);
    free(s);
}

// ---- files

static rung_status add_file(tokens_source *s, const char *path)
{
    uint64_t size;
    shard added = {.first = s->source.count};
    RUNG_TRY(rungi_io_open_read(path, &added.fd, &size));
    rung_status status = rungi_token_file_check(added.fd, path, size, &added.file);
    added.path = status == RUNG_OK ? rungi_text_copy(path) : NULL;
    int64_t windows = added.file.count > 0 ? (added.file.count - 1) / s->length : 0;
    s->unused += added.file.count - (windows ? windows * s->length + 1 : 0);
    if (s->shards.count >= OPEN_FILES_MAX) {
        close(added.fd);
        added.fd = -1;
    }
    if (status == RUNG_OK && windows == 0) { // nothing to read there
        free(added.path);
        if (added.fd >= 0)
            close(added.fd);
        return RUNG_OK;
    }
    if (status == RUNG_OK && added.path && rungi_array_push(&s->shards, added)) {
        s->source.count += windows;
        return RUNG_OK;
    }
    if (added.fd >= 0)
        close(added.fd);
    free(added.path);
    return status != RUNG_OK ? status : RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for it", path);
}

// Is it a file of this split, by its name? llm.c's are called SET_train_000001.bin, SET_val.bin.
static bool fits(const char *name, const char *pattern, const char *const *words)
{
    if (!rungi_text_match(pattern, name))
        return false;
    for (; words && *words; words++)
        if (strstr(name, *words))
            return true;
    return !words;
}

static rung_status add_files(tokens_source *s, const char *folder, const char *pattern,
                             const char *const *words)
{
    rungi_names names = {0};
    RUNG_TRY(rungi_fs_list(folder, &names));
    rung_status status = RUNG_OK;
    size_t found = 0;
    for (size_t i = 0; i < names.count && status == RUNG_OK; i++) {
        if (!fits(names.data[i], pattern, words))
            continue;
        char *path = rungi_path_join(folder, names.data[i]);
        status = path ? add_file(s, path) : RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory", folder);
        free(path);
        found++;
    }
    rungi_names_fini(&names);
    RUNG_TRY(status);
    RUNG_CHECK(found, RUNG_NOT_FOUND, "%s: holds no files %s%s%s%s%s", folder, pattern,
               words ? " with " : "", words ? words[0] : "", words && words[1] ? " or " : "",
               words && words[1] ? words[1] : "");
    return RUNG_OK;
}

static rung_status add_path(tokens_source *s, const char *path, const char *const *words)
{
    if (rungi_fs_is_folder(path))
        return add_files(s, path, "*.bin", words);
    if (rungi_fs_exists(path) || !strpbrk(rungi_path_name(path), "*?"))
        return add_file(s, path);
    char *folder = rungi_path_folder(path);
    RUNG_CHECK(folder, RUNG_NO_MEMORY, "%s: no memory for a path", path);
    rung_status status = add_files(s, folder, rungi_path_name(path), NULL);
    free(folder);
    return status;
}

static void fill(tokens_source *s)
{
    rung_source *source = &s->source;
    source->field_count = 2;
    source->fields[0] = (rung_field){"tokens", RUNG_I64, RUNG_SHAPE(s->length), RUNG_PIXELS_NONE};
    source->fields[1] = (rung_field){"label", RUNG_I64, RUNG_SHAPE(s->length), RUNG_PIXELS_NONE};
    source->class_count = (int)s->vocabulary;
}

rung_status rungi_source_tokens(rung_context *context, const rung_tokens_options *o,
                                const char *const *words, rung_source **source_out)
{
    RUNG_CHECK(o && o->path, RUNG_CONFIG, "tokens: data.path must name the files");
    RUNG_CHECK(o->length >= 0 && o->length <= LENGTH_MAX && o->vocabulary >= 0 &&
                   o->vocabulary <= INT32_MAX,
               RUNG_INVALID, "tokens: windows of %" PRId64 " tokens, must be 1 to %d", o->length,
               LENGTH_MAX);
    tokens_source *s = calloc(1, sizeof *s);
    RUNG_CHECK(s, RUNG_NO_MEMORY, "no memory for a data source");
    s->source = (rung_source){.name = "tokens",
                              .self = s,
                              .open = open_worker,
                              .close = close_worker,
                              .read = read_sample,
                              .describe = describe,
                              .destroy = destroy};
    s->length = o->length ? o->length : LENGTH_DEFAULT;
    s->vocabulary = o->vocabulary;
    fill(s);
    rung_status status = add_path(s, o->path, words);
    if (status == RUNG_OK && s->source.count == 0)
        status = RUNG_FAIL(RUNG_DATA, "%s: %" PRId64 " tokens, a window needs %" PRId64, o->path,
                           s->unused, s->length + 1);
    if (status != RUNG_OK) {
        destroy(&s->source);
        return status;
    }
    if (s->unused)
        rungi_log(context, RUNG_LOG_NOTICE,
                  "%s: %" PRId64 " tokens at the ends of files are in none of the %" PRId64
                  " windows of %" PRId64,
                  o->path, s->unused, s->source.count, s->length);
    *source_out = &s->source;
    return RUNG_OK;
}

rung_status rung_source_tokens(rung_context *context, const rung_tokens_options *options,
                               rung_source **source_out)
{
    return rungi_source_tokens(context, options, NULL, source_out);
}
