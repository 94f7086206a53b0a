// SPDX-License-Identifier: Apache-2.0
// Converting to a folder for each class: CLASS/00000000.jpg. The classes' order is that of the
// folders' names, so where that is not their order, or they have no names, numbers lead.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"
#include "data/convert.h"
#include "formats/crc32c.h"

typedef struct made_file {
    uint32_t crc;
    int32_t label;
    const char *end; // ".jpg"
} made_file;

typedef struct folder_sink {
    rungi_sink sink; // first
    rungi_conversion *c;
    char path[RUNGI_PATH_MAX];
    char **folders; // of the classes
    bool *begun;    // is it there?
    int count;
    RUNGI_ARRAY(made_file) files;
    uint64_t bytes;
    rungi_string png;
} folder_sink;

// ---- names of the folders

static bool in_order(const rung_source *source)
{
    for (int i = 0; source->class_names && i < source->class_count; i++) {
        const char *name = source->class_names[i];
        if (!*name || *name == '.' || strchr(name, '/') || strlen(name) > 200 ||
            (i > 0 && strcmp(source->class_names[i - 1], name) >= 0))
            return false;
    }
    return source->class_names != NULL;
}

static rung_status name_folders(folder_sink *s)
{
    const rung_source *source = s->c->source;
    int digits = snprintf(NULL, 0, "%d", source->class_count - 1);
    bool plain = in_order(source);
    for (int i = 0; i < s->count; i++) {
        const char *name = source->class_names ? source->class_names[i] : "";
        char *made = plain ? rungi_text_copy(name)
                           : rungi_text_format("%0*d%s%.200s", digits, i, *name ? "_" : "", name);
        RUNG_CHECK(made, RUNG_NO_MEMORY, "%s: no memory for its folders", s->c->options->to);
        for (char *at = made; *at; at++)
            if (*at == '/')
                *at = '_';
        s->folders[i] = made;
    }
    return RUNG_OK;
}

// ---- files

static bool holds(const char *path, const void *data, size_t size)
{
    char *there = NULL;
    size_t got = 0;
    bool same = rungi_fs_exists(path) && rungi_fs_read(path, size, &there, &got) == RUNG_OK &&
                got == size && memcmp(there, data, size) == 0;
    free(there);
    return same;
}

static rung_status write_file(const char *path, const void *data, size_t size)
{
    rungi_file file = {.fd = -1, .needed = size};
    RUNG_TRY(rungi_path_format(file.path, "%s", path));
    file.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file.fd < 0)
        return rungi_fs_fail(path, "cannot create", errno);
    rung_status status = rungi_file_write(&file, data, size);
    if (close(file.fd) != 0 && status == RUNG_OK)
        status = rungi_io_fail(path, "close", errno, size);
    return status; // flushed with all others, at the end
}

static rung_status add(rungi_sink *sink, const rungi_convert_sample *sample)
{
    folder_sink *s = (folder_sink *)sink;
    const void *data;
    size_t size;
    made_file made = {0};
    char path[RUNGI_PATH_MAX];
    int64_t label = rungi_convert_label(s->c, sample);
    RUNG_CHECK(label >= 0 && label < s->count, RUNG_DATA, "label %" PRId64 " of %d classes", label,
               s->count);
    RUNG_TRY(rungi_convert_picture(s->c, sample, &s->png, &data, &size, &made.end));
    if (!s->begun[label]) {
        RUNG_TRY(rungi_path_format(path, "%s/%s", s->path, s->folders[label]));
        RUNG_TRY(rungi_fs_make_folders(path));
        s->begun[label] = true;
    }
    RUNG_TRY(rungi_path_format(path, "%s/%s/%08" PRId64 "%s", s->path, s->folders[label],
                               sample->number, made.end));
    if (holds(path, data, size))
        s->c->report.resumed++;
    else
        RUNG_TRY(write_file(path, data, size));
    made.crc = rungi_crc32c(0, data, size);
    made.label = (int32_t)label;
    s->bytes += size;
    RUNG_CHECK(rungi_array_push(&s->files, made), RUNG_NO_MEMORY, "%s: no memory for its files",
               s->c->options->to);
    return RUNG_OK;
}

// ---- the end

static rung_status check_file(const folder_sink *s, int label, const char *name, int64_t *found)
{
    char path[RUNGI_PATH_MAX], *data = NULL, *end;
    size_t size = 0;
    long long number = strtoll(name, &end, 10);
    RUNG_TRY(rungi_path_format(path, "%s/%s/%s", s->path, s->folders[label], name));
    const made_file *made = end != name && number >= 0 && number < (long long)s->files.count
                                ? &s->files.data[number]
                                : NULL;
    if (!made || made->label != label || strcmp(made->end, end) != 0)
        return rungi_fs_remove_tree(path); // of an earlier call that left out other samples
    RUNG_TRY(rungi_fs_read(path, SIZE_MAX / 2, &data, &size));
    bool same = rungi_crc32c(0, data, size) == made->crc;
    free(data);
    RUNG_CHECK(same, RUNG_CORRUPT, "%s: what was read back is not what was written", path);
    ++*found;
    return RUNG_OK;
}

static rung_status check_class(const folder_sink *s, int label, int64_t *found)
{
    rungi_names names = {0};
    char path[RUNGI_PATH_MAX];
    RUNG_TRY(rungi_path_format(path, "%s/%s", s->path, s->folders[label]));
    RUNG_TRY(rungi_fs_list(path, &names));
    rung_status status = RUNG_OK;
    for (size_t i = 0; i < names.count && status == RUNG_OK; i++)
        status = check_file(s, label, names.data[i], found);
    if (status == RUNG_OK)
        status = rungi_convert_tell(s->c, "checking", *found, (int64_t)s->files.count);
    rungi_names_fini(&names);
    return status;
}

static rung_status finish(rungi_sink *sink, uint64_t *bytes_out)
{
    folder_sink *s = (folder_sink *)sink;
    int64_t found = 0;
    for (int i = 0; i < s->count; i++)
        RUNG_CHECK(s->begun[i], RUNG_DATA,
                   "%s: class %s has no samples: folders of classes cannot hold it; convert to a "
                   "pack or a tar archive",
                   s->c->options->from, s->folders[i]);
    int fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || syncfs(fd) != 0) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return rungi_fs_fail(s->path, "cannot flush", error);
    }
    close(fd);
    for (int i = 0; i < s->count; i++)
        RUNG_TRY(check_class(s, i, &found));
    RUNG_CHECK(found == (int64_t)s->files.count, RUNG_CORRUPT,
               "%s: %" PRId64 " of %zu files are there", s->path, found, s->files.count);
    *bytes_out = s->bytes;
    return rungi_convert_end_folder(s->c, s->path);
}

static void destroy(rungi_sink *sink)
{
    folder_sink *s = (folder_sink *)sink;
    for (int i = 0; s->folders && i < s->count; i++)
        free(s->folders[i]);
    free((void *)s->folders);
    free(s->begun);
    rungi_array_fini(&s->files);
    rungi_string_fini(&s->png);
    free(s);
}

static rung_status begin(folder_sink *s)
{
    s->folders = calloc((size_t)s->count, sizeof *s->folders);
    s->begun = calloc((size_t)s->count, sizeof *s->begun);
    RUNG_CHECK(s->folders && s->begun, RUNG_NO_MEMORY, "%s: no memory for its folders",
               s->c->options->to);
    RUNG_TRY(name_folders(s));
    return rungi_convert_begin_folder(s->c, s->path);
}

rung_status rungi_sink_folder(rungi_conversion *c, rungi_sink **sink_out)
{
    RUNG_TRY(rungi_convert_check_pictures(c, "a folder of classes"));
    RUNG_CHECK(c->source->class_count > 0, RUNG_MISMATCH,
               "%s: has no classes: a folder for each needs them", c->options->from);
    folder_sink *s = calloc(1, sizeof *s);
    RUNG_CHECK(s, RUNG_NO_MEMORY, "%s: no memory to write it", c->options->to);
    s->c = c;
    s->count = c->source->class_count;
    s->sink = (rungi_sink){.add = add, .finish = finish, .destroy = destroy};
    rung_status status = begin(s);
    if (status != RUNG_OK) {
        destroy(&s->sink);
        return status;
    }
    *sink_out = &s->sink;
    return RUNG_OK;
}
