// SPDX-License-Identifier: Apache-2.0
// Examples line by line: the vocabulary, and words as ids.
#include "data/source_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/context.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"

enum { LENGTH_DEFAULT = 64, LENGTH_MAX = 1 << 20, PAD = 0, UNKNOWN = 1, SPECIAL = 2 };
static const size_t VOCABULARY_BYTES_MAX = (size_t)1 << 30;

// The next word behind *at; false at the end.
static bool next_word(const char **at, const char *end, const char **word, size_t *size)
{
    while (*at < end && rungi_is_blank(**at))
        ++*at;
    *word = *at;
    while (*at < end && !rungi_is_blank(**at))
        ++*at;
    *size = (size_t)(*at - *word);
    return *size > 0;
}

static void to_lower(rungi_string *text)
{
    for (size_t i = 0; i < text->size; i++)
        if (text->data[i] >= 'A' && text->data[i] <= 'Z')
            text->data[i] = (char)(text->data[i] + ('a' - 'A'));
}

// ---- the vocabulary

static rung_status no_memory(void)
{
    return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a vocabulary");
}

static bool begin_vocabulary(rungi_words *words)
{
    return rungi_words_add(words, "<pad>", 5) == PAD &&
           rungi_words_add(words, "<unk>", 5) == UNKNOWN;
}

static rung_status count_words(const rungi_text_source *s, rungi_words *all)
{
    for (size_t i = 0; i < s->examples.count; i++) {
        const rungi_example *e = &s->examples.data[i];
        const char *at = s->text.data + e->begin, *end = at + e->size, *word;
        for (size_t size; next_word(&at, end, &word, &size);) {
            int64_t number = rungi_words_add(all, word, size);
            if (number < 0)
                return no_memory();
            all->list.data[number].count++;
        }
    }
    return RUNG_OK;
}

static int by_count_then_bytes(const void *a_, const void *b_, void *words)
{
    const rungi_words *all = words;
    int64_t a = *(const int64_t *)a_, b = *(const int64_t *)b_;
    const rungi_word *wa = &all->list.data[a], *wb = &all->list.data[b];
    if (wa->count != wb->count)
        return wa->count > wb->count ? -1 : 1;
    return strcmp(rungi_words_text(all, a), rungi_words_text(all, b));
}

static rung_status choose_words(rungi_text_source *s, rungi_words *all, const rung_text_options *o)
{
    size_t count = all->list.count;
    int64_t *order = calloc(count + 1, sizeof *order);
    if (!order || !begin_vocabulary(&s->words)) {
        free(order);
        return no_memory();
    }
    for (size_t i = 0; i < count; i++)
        order[i] = (int64_t)i;
    qsort_r(order, count, sizeof *order, by_count_then_bytes, all);
    rung_status status = RUNG_OK;
    for (size_t i = 0; i < count && status == RUNG_OK; i++) {
        const rungi_word *word = &all->list.data[order[i]];
        if (word->count < o->vocabulary_least ||
            (o->vocabulary_most && (int64_t)s->words.list.count >= o->vocabulary_most))
            break;
        if (rungi_words_add(&s->words, rungi_words_text(all, order[i]), word->size) < 0)
            status = no_memory();
    }
    free(order);
    return status;
}

static rung_status build_vocabulary(rungi_text_source *s, const rung_text_options *o)
{
    rungi_words all = {0};
    rung_status status = count_words(s, &all);
    if (status == RUNG_OK)
        status = choose_words(s, &all, o);
    rungi_words_fini(&all);
    return status;
}

static rung_status load_lines(rungi_words *words, const char *path, const char *text, size_t size)
{
    int64_t line = 0;
    for (size_t at = 0; at < size; line++) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at;
        RUNG_CHECK(length > 0 && !memchr(text + at, 0, length), RUNG_FORMAT,
                   "%s, line %" PRId64 ": is no word", path, line + 1);
        int64_t number = rungi_words_add(words, text + at, length);
        if (number < 0)
            return no_memory();
        RUNG_CHECK(number == line, RUNG_FORMAT, "%s, line %" PRId64 ": %.*s stands there twice",
                   path, line + 1, (int)(length < 100 ? length : 100), text + at);
        at += length + 1;
    }
    RUNG_CHECK(line >= SPECIAL && strcmp(rungi_words_text(words, PAD), "<pad>") == 0 &&
                   strcmp(rungi_words_text(words, UNKNOWN), "<unk>") == 0,
               RUNG_FORMAT, "%s: not a vocabulary: its first lines are <pad> and <unk>", path);
    return RUNG_OK;
}

static rung_status load_vocabulary(rungi_words *words, const char *path)
{
    char *text = NULL;
    size_t size;
    RUNG_TRY(rungi_fs_read(path, VOCABULARY_BYTES_MAX, &text, &size));
    rung_status status = load_lines(words, path, text, size);
    free(text);
    return status;
}

static rung_status copy_vocabulary(rungi_words *words, const rungi_words *from)
{
    for (size_t i = 0; i < from->list.count; i++)
        if (rungi_words_add(words, rungi_words_text(from, (int64_t)i), from->list.data[i].size) < 0)
            return no_memory();
    return RUNG_OK;
}

// ---- ids

static rung_status make_ids(rungi_text_source *s)
{
    size_t count = s->examples.count, elements, bytes;
    RUNG_CHECK(rungi_size_mul(count, (size_t)s->length, &elements) &&
                   rungi_size_mul(elements, sizeof *s->ids, &bytes),
               RUNG_INVALID, "text: %zu examples of %" PRId64 " ids are more than memory can be",
               count, s->length);
    s->ids = calloc(elements + 1, sizeof *s->ids);
    s->lengths = calloc(count + 1, sizeof *s->lengths);
    RUNG_CHECK(s->ids && s->lengths, RUNG_NO_MEMORY,
               "no memory for %zu examples of %" PRId64 " ids", count, s->length);
    for (size_t i = 0; i < count; i++) {
        const rungi_example *e = &s->examples.data[i];
        const char *at = s->text.data + e->begin, *end = at + e->size, *word;
        int32_t *ids = s->ids + i * (size_t)s->length, length = 0;
        for (size_t size; length < s->length && next_word(&at, end, &word, &size);) {
            int64_t id = rungi_words_find(&s->words, word, size);
            ids[length++] = id >= SPECIAL ? (int32_t)id : UNKNOWN;
        }
        s->lengths[i] = length;
    }
    rungi_string_fini(&s->text);
    return RUNG_OK;
}

// ---- the source

static rung_status read_sample(void *self, void *state, const rung_sample *sample,
                               rung_view *fields)
{
    const rungi_text_source *s = self;
    (void)state;
    const int32_t *ids = s->ids + (size_t)sample->index * (size_t)s->length;
    int64_t *out = fields[0].data;
    for (int64_t i = 0; i < s->length; i++)
        out[i] = ids[i];
    *(int64_t *)fields[1].data = s->examples.data[sample->index].label;
    *(int64_t *)fields[2].data = s->lengths[sample->index];
    return RUNG_OK;
}

static void describe(void *self, int64_t index, char *out, size_t size)
{
    const rungi_text_source *s = self;
    const rungi_example *e = &s->examples.data[index];
    snprintf(out, size, "%s, line %" PRId64, s->files.data[e->file], e->line);
}

static void destroy(rung_source *source)
{
    rungi_text_source *s = (rungi_text_source *)source;
    for (size_t i = 0; i < s->files.count; i++)
        free(s->files.data[i]);
    for (size_t i = 0; i < s->classes.count; i++)
        free(s->classes.data[i]);
    rungi_array_fini(&s->files);
    rungi_array_fini(&s->classes);
    rungi_array_fini(&s->examples);
    rungi_string_fini(&s->text);
    rungi_words_fini(&s->words);
    free(s->ids);
    free(s->lengths);
    free(s);
}

static void fill(rungi_text_source *s)
{
    rung_source *source = &s->source;
    source->count = (int64_t)s->examples.count;
    source->field_count = 3;
    source->fields[0] = (rung_field){"tokens", RUNG_I64, RUNG_SHAPE(s->length), RUNG_PIXELS_NONE};
    source->fields[1] = (rung_field){"label", RUNG_I64, RUNG_SCALAR, RUNG_PIXELS_NONE};
    source->fields[2] = (rung_field){"length", RUNG_I64, RUNG_SCALAR, RUNG_PIXELS_NONE};
    if (s->classes.count) {
        source->class_count = (int)s->classes.count;
        source->class_names = (const char *const *)s->classes.data;
    }
}

static rung_status make(rungi_text_source *s, const rung_text_options *o,
                        const rung_source *vocabulary)
{
    RUNG_TRY(rungi_text_read(s, o->path));
    RUNG_CHECK(s->examples.count > 0, RUNG_DATA, "%s: holds no lines of text", o->path);
    if (o->lower)
        to_lower(&s->text);
    if (vocabulary)
        RUNG_TRY(copy_vocabulary(&s->words, &((const rungi_text_source *)vocabulary)->words));
    else if (o->vocabulary)
        RUNG_TRY(load_vocabulary(&s->words, o->vocabulary));
    else
        RUNG_TRY(build_vocabulary(s, o));
    return make_ids(s);
}

rung_status rungi_source_text(rung_context *context, const rung_text_options *o,
                              const rung_source *vocabulary, rung_source **source_out)
{
    RUNG_CHECK(o && o->path, RUNG_CONFIG, "text: data.path must name the files");
    RUNG_CHECK(o->length >= 0 && o->length <= LENGTH_MAX &&
                   (o->vocabulary_most == 0 || o->vocabulary_most >= SPECIAL) &&
                   o->vocabulary_least >= 0,
               RUNG_INVALID, "text: %" PRId64 " ids of a vocabulary of %" PRId64 ": out of range",
               o->length, o->vocabulary_most);
    rungi_text_source *s = calloc(1, sizeof *s);
    RUNG_CHECK(s, RUNG_NO_MEMORY, "no memory for a data source");
    s->source = (rung_source){
        .name = "text", .self = s, .read = read_sample, .describe = describe, .destroy = destroy};
    s->length = o->length ? o->length : LENGTH_DEFAULT;
    rung_status status = make(s, o, vocabulary);
    if (status != RUNG_OK) {
        destroy(&s->source);
        return status;
    }
    fill(s);
    if (s->blank)
        rungi_log(context, RUNG_LOG_NOTICE, "%s: %" PRId64 " blank lines are left out", o->path,
                  s->blank);
    *source_out = &s->source;
    return RUNG_OK;
}

rung_status rung_source_text(rung_context *context, const rung_text_options *options,
                             rung_source **source_out)
{
    return rungi_source_text(context, options, NULL, source_out);
}

static const rungi_text_source *text_of(const rung_source *source)
{
    return source && source->destroy == destroy ? (const rungi_text_source *)source : NULL;
}

int64_t rung_source_text_ids(const rung_source *source)
{
    const rungi_text_source *s = text_of(source);
    return s ? (int64_t)s->words.list.count : -1;
}

const char *rung_source_text_word(const rung_source *source, int64_t id)
{
    const rungi_text_source *s = text_of(source);
    return s && id >= 0 && id < (int64_t)s->words.list.count ? rungi_words_text(&s->words, id)
                                                             : NULL;
}

rung_status rung_source_text_save(const rung_source *source, const char *path)
{
    const rungi_text_source *s = text_of(source);
    rungi_string text = {0};
    RUNG_CHECK(s && path, RUNG_INVALID, "text: only a text source has a vocabulary to save");
    for (size_t i = 0; i < s->words.list.count; i++) {
        rungi_string_append(&text, rungi_words_text(&s->words, (int64_t)i),
                            s->words.list.data[i].size);
        rungi_string_append(&text, "\n", 1);
    }
    rung_status status = text.failed ? no_memory() : rungi_fs_write(path, text.data, text.size);
    rungi_string_fini(&text);
    return status;
}
