// SPDX-License-Identifier: Apache-2.0
// Where the examples of a text source come from: a folder with a file for each class, or a file of
// comma- or tab-separated values.
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/fs.h"
#include "data/source_text.h"
#include "formats/csv_read.h"

static const size_t FILE_MAX = (size_t)1 << 31;

static rung_status add_example(rungi_text_source *s, const char *text, size_t size, int64_t label,
                               int64_t line)
{
    rungi_example e = {s->text.size, size, label, (int32_t)s->files.count - 1, line};
    while (size > 0 && rungi_is_blank(text[size - 1]))
        size--;
    if (size == 0) {
        s->blank++;
        return RUNG_OK;
    }
    rungi_string_append(&s->text, text, size);
    e.size = size;
    RUNG_CHECK(!s->text.failed && rungi_array_push(&s->examples, e), RUNG_NO_MEMORY,
               "%s: no memory for its lines", s->files.data[e.file]);
    return RUNG_OK;
}

static rung_status add_class(rungi_text_source *s, const char *name)
{
    char escaped[1024];
    rungi_text_escape(name, escaped, sizeof escaped);
    char *copy = rungi_text_copy(escaped);
    if (copy && rungi_array_push(&s->classes, copy))
        return RUNG_OK;
    free(copy);
    return RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for its name", name);
}

static rung_status add_file(rungi_text_source *s, const char *path)
{
    char *copy = rungi_text_copy(path);
    if (copy && rungi_array_push(&s->files, copy))
        return RUNG_OK;
    free(copy);
    return RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for its name", path);
}

// ---- a file for each class

// What tells files apart: what follows the last dot, if what stands before is the same in all.
static size_t stem_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? (size_t)(dot - name) : strlen(name);
}

static bool same_stems(const rungi_names *names)
{
    for (size_t i = 1; i < names->count; i++)
        if (stem_of(names->data[i]) != stem_of(names->data[0]) ||
            strncmp(names->data[i], names->data[0], stem_of(names->data[0])) != 0)
            return false;
    return names->count > 1;
}

static rung_status read_lines(rungi_text_source *s, const char *path, int64_t label)
{
    char *text = NULL;
    size_t size, before = s->examples.count;
    RUNG_TRY(add_file(s, path));
    RUNG_TRY(rungi_fs_read(path, FILE_MAX, &text, &size));
    rung_status status = RUNG_OK;
    int64_t line = 1;
    if (memchr(text, 0, size))
        status = RUNG_FAIL(RUNG_FORMAT, "%s: is no text: it holds a NUL", path);
    for (size_t at = 0; at < size && status == RUNG_OK; line++) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at;
        status = add_example(s, text + at, length, label, line);
        at += length + 1;
    }
    free(text);
    if (status == RUNG_OK && s->examples.count == before)
        status = RUNG_FAIL(RUNG_DATA, "%s: holds no lines", path);
    return status;
}

static rung_status read_folder(rungi_text_source *s, const char *path)
{
    rungi_names names = {0};
    RUNG_TRY(rungi_fs_list(path, &names));
    size_t kept = 0;
    for (size_t i = 0; i < names.count; i++) { // files that are not hidden
        char *file = rungi_path_join(path, names.data[i]);
        if (*names.data[i] != '.' && file && !rungi_fs_is_folder(file)) {
            char *moved = names.data[kept];
            names.data[kept++] = names.data[i];
            names.data[i] = moved;
        }
        free(file);
    }
    rungi_names files = {names.data, kept, kept};
    bool by_end = same_stems(&files);
    rung_status status = kept ? RUNG_OK : RUNG_FAIL(RUNG_DATA, "%s: holds no files of text", path);
    for (size_t i = 0; i < kept && status == RUNG_OK; i++) {
        char *name = files.data[i], *file = rungi_path_join(path, name);
        status = file ? read_lines(s, file, (int64_t)i)
                      : RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for its names", path);
        if (status == RUNG_OK)
            status = add_class(s, by_end ? name + stem_of(name) + 1 : name);
        free(file);
    }
    rungi_names_fini(&names);
    return status;
}

// ---- columns

typedef struct columns {
    size_t text, label;
    rungi_words labels; // each different one
} columns;

// A first row that names them; else text, then label.
static bool find_columns(const rungi_csv_reader *reader, columns *c)
{
    int found = 0;
    for (size_t i = 0; i < reader->fields.count; i++) {
        if (strcasecmp(reader->fields.data[i], "text") == 0) {
            c->text = i;
            found |= 1;
        } else if (strcasecmp(reader->fields.data[i], "label") == 0) {
            c->label = i;
            found |= 2;
        }
    }
    if (found != 3) {
        c->text = 0;
        c->label = 1;
    }
    return found == 3;
}

static rung_status take_row(rungi_text_source *s, const rungi_csv_reader *reader, columns *c)
{
    size_t last = c->text > c->label ? c->text : c->label;
    RUNG_CHECK(reader->fields.count > last, RUNG_DATA,
               "%s, line %" PRId64 ": has %zu columns, text is the %zuth and label the %zuth",
               reader->path, reader->line, reader->fields.count, c->text + 1, c->label + 1);
    const char *text = reader->fields.data[c->text], *label = reader->fields.data[c->label];
    RUNG_CHECK(*label, RUNG_DATA, "%s, line %" PRId64 ": has no label", reader->path, reader->line);
    int64_t number = rungi_words_add(&c->labels, label, strlen(label));
    RUNG_CHECK(number >= 0, RUNG_NO_MEMORY, "%s: no memory for its labels", reader->path);
    return add_example(s, text, strlen(text), number, reader->line);
}

static int64_t whole_number(const char *text)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno && value < INT32_MAX ? value : -1;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Labels that are all whole numbers are those; others are numbered in the order of their bytes.
static rung_status number_labels(rungi_text_source *s, const columns *c)
{
    size_t count = c->labels.list.count, numbers = 0;
    const char **sorted = calloc(count + 1, sizeof *sorted);
    int64_t *to = calloc(count + 1, sizeof *to), most = -1;
    rung_status status = sorted && to ? RUNG_OK : RUNG_FAIL(RUNG_NO_MEMORY, "no memory for labels");
    for (size_t i = 0; i < count && status == RUNG_OK; i++) {
        sorted[i] = rungi_words_text(&c->labels, (int64_t)i);
        to[i] = whole_number(sorted[i]);
        numbers += to[i] >= 0;
        most = to[i] > most ? to[i] : most;
    }
    s->source.class_count = (int)most + 1;
    if (status == RUNG_OK && numbers < count) {
        qsort((void *)sorted, count, sizeof *sorted, compare_texts);
        for (size_t i = 0; i < count && status == RUNG_OK; i++) {
            to[rungi_words_find(&c->labels, sorted[i], strlen(sorted[i]))] = (int64_t)i;
            status = add_class(s, sorted[i]);
        }
        s->source.class_count = (int)count;
    }
    for (size_t i = 0; i < s->examples.count && status == RUNG_OK; i++)
        s->examples.data[i].label = to[s->examples.data[i].label];
    free((void *)sorted);
    free(to);
    return status;
}

static rung_status read_rows(rungi_text_source *s, const char *path, char *text, size_t size)
{
    rungi_csv_reader reader = {0};
    columns c = {0};
    bool more = false;
    rung_status status = rungi_csv_begin(&reader, path, text, size);
    if (status == RUNG_OK)
        status = rungi_csv_next(&reader, &more);
    if (status == RUNG_OK && more && !find_columns(&reader, &c))
        status = take_row(s, &reader, &c);
    while (status == RUNG_OK && more && (status = rungi_csv_next(&reader, &more)) == RUNG_OK &&
           more)
        status = take_row(s, &reader, &c);
    if (status == RUNG_OK)
        status = number_labels(s, &c);
    rungi_words_fini(&c.labels);
    rungi_csv_fini(&reader);
    return status;
}

rung_status rungi_text_read(rungi_text_source *s, const char *path)
{
    if (rungi_fs_is_folder(path))
        return read_folder(s, path);
    char *text = NULL;
    size_t size;
    RUNG_TRY(add_file(s, path));
    RUNG_TRY(rungi_fs_read(path, FILE_MAX, &text, &size));
    rung_status status = read_rows(s, path, text, size);
    free(text);
    return status;
}
