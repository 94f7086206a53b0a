// SPDX-License-Identifier: Apache-2.0
// Pictures named in a file of comma- or tab-separated values: path, then a label or one column of 0
// and 1 for each class.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"
#include "data/picture_source.h"
#include "formats/csv_read.h"

static const size_t LIST_MAX = (size_t)1 << 31;

typedef struct list {
    rungi_picture_source *ps;
    rungi_csv_reader reader;
    size_t columns; // of every row
    rungi_string texts;
    RUNGI_ARRAY(size_t) labels; // beginnings in `texts`
    RUNGI_ARRAY(float) targets;
} list;

static bool is_bit(const char *text)
{
    return (text[0] == '0' || text[0] == '1') && text[1] == '\0';
}

// A first row is a header when no picture has its name and, with several labels, not all are 0
// or 1.
static bool is_header(const list *l)
{
    char *const *fields = l->reader.fields.data;
    bool bits = l->columns > 2;
    for (size_t i = 1; i < l->columns && bits; i++)
        bits = is_bit(fields[i]);
    if (bits || rungi_picture_name(fields[0]))
        return false;
    char *path = rungi_path_join(l->ps->root, fields[0]);
    bool exists = path && rungi_fs_exists(path);
    free(path);
    return !exists;
}

static rung_status take_targets(list *l)
{
    for (size_t i = 1; i < l->columns; i++) {
        const char *text = l->reader.fields.data[i];
        RUNG_CHECK(is_bit(text), RUNG_DATA,
                   "%s, line %" PRId64
                   ": label %zu is '%s', must be 0 or 1 where there are several",
                   l->reader.path, l->reader.line, i, text);
        RUNG_CHECK(rungi_array_push(&l->targets, (float)(*text == '1')), RUNG_NO_MEMORY,
                   "%s: no memory for its labels", l->reader.path);
    }
    return RUNG_OK;
}

static rung_status take_row(list *l)
{
    const rungi_csv_reader *r = &l->reader;
    RUNG_CHECK(r->fields.count == l->columns, RUNG_DATA,
               "%s, line %" PRId64 ": has %zu columns, the first row has %zu (a name with the "
               "separator in it must stand in quotes)",
               r->path, r->line, r->fields.count, l->columns);
    RUNG_CHECK(*r->fields.data[0], RUNG_DATA, "%s, line %" PRId64 ": names no picture", r->path,
               r->line);
    RUNG_TRY(rungi_picture_source_add(l->ps, r->fields.data[0],
                                      (rungi_picture_place){.size = -1, .archive = -1}));
    if (l->columns > 2)
        return take_targets(l);
    const char *label = r->fields.data[1];
    RUNG_CHECK(*label, RUNG_DATA, "%s, line %" PRId64 ": picture %s has no label", r->path, r->line,
               r->fields.data[0]);
    size_t begin = l->texts.size;
    rungi_string_append(&l->texts, label, strlen(label) + 1);
    RUNG_CHECK(!l->texts.failed && rungi_array_push(&l->labels, begin), RUNG_NO_MEMORY,
               "%s: no memory for its labels", r->path);
    return RUNG_OK;
}

static rung_status name_classes(list *l, bool header)
{
    for (size_t i = 1; i < l->columns; i++) {
        char number[32];
        snprintf(number, sizeof number, "%zu", i - 1);
        RUNG_TRY(rungi_picture_source_class(l->ps, header ? l->reader.fields.data[i] : number));
    }
    return RUNG_OK;
}

static rung_status read_rows(list *l)
{
    bool more;
    RUNG_TRY(rungi_csv_next(&l->reader, &more));
    RUNG_CHECK(more, RUNG_DATA, "%s: holds no pictures", l->reader.path);
    l->columns = l->reader.fields.count;
    RUNG_CHECK(l->columns >= 2, RUNG_DATA,
               "%s, line %" PRId64
               ": has one column: a path and a label are needed, with a comma or "
               "tab between them",
               l->reader.path, l->reader.line);
    bool header = is_header(l);
    if (l->columns > 2)
        RUNG_TRY(name_classes(l, header));
    if (header)
        RUNG_TRY(rungi_csv_next(&l->reader, &more));
    while (more) {
        RUNG_TRY(take_row(l));
        RUNG_TRY(rungi_csv_next(&l->reader, &more));
    }
    RUNG_CHECK(l->ps->places.count > 0, RUNG_DATA, "%s: holds no pictures", l->reader.path);
    if (l->columns == 2)
        return rungi_picture_source_label(l->ps, rungi_string_text(&l->texts), l->labels.data);
    l->ps->targets = l->targets.data;
    l->targets.data = NULL;
    return RUNG_OK;
}

static rung_status fill(const char *path, rungi_picture_source *ps)
{
    list l = {.ps = ps};
    char *text = NULL;
    size_t size = 0;
    rung_status status = rungi_fs_read(path, LIST_MAX, &text, &size);
    if (status == RUNG_OK)
        status = rungi_csv_begin(&l.reader, path, text, size);
    if (status == RUNG_OK)
        status = read_rows(&l);
    if (status == RUNG_OK)
        status = rungi_picture_source_finish(ps, path);
    rungi_csv_fini(&l.reader);
    rungi_string_fini(&l.texts);
    rungi_array_fini(&l.labels);
    rungi_array_fini(&l.targets);
    free(text);
    return status;
}

rung_status rung_source_list(rung_context *context, const char *path, rung_source **source_out)
{
    (void)context;
    rungi_picture_source *ps;
    RUNG_CHECK(path, RUNG_CONFIG, "list: data.path must name the file that lists the pictures");
    char *folder = rungi_path_folder(path);
    RUNG_CHECK(folder, RUNG_NO_MEMORY, "%s: no memory for its name", path);
    rung_status status = rungi_picture_source_create("list", folder, &ps);
    free(folder);
    RUNG_TRY(status);
    status = fill(path, ps);
    rung_source *source = &ps->source;
    if (status == RUNG_OK)
        *source_out = source;
    else
        rung_source_destroy(&source);
    return status;
}
