// SPDX-License-Identifier: Apache-2.0
#include "data/picture_source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "data/tar_stream.h"
#include "formats/image_file.h"

enum { OPEN_ARCHIVES_MAX = 256 };

// ---- reading

static rung_status fail_open(const char *path, int error)
{
    return RUNG_FAIL(error == ENOENT || error == ENOTDIR ? RUNG_NOT_FOUND : RUNG_IO,
                     "%s: cannot open it: %s", path, strerror(error));
}

// Reads `size` bytes at `begin` into the block, with slack behind them.
static rung_status read_bytes(int fd, const char *path, int64_t begin, int64_t size,
                              rungi_block *block)
{
    RUNG_CHECK(size <= RUNGI_PICTURE_BYTES_MAX, RUNG_UNSUPPORTED,
               "%s: a picture of %" PRId64 " bytes, at most %d are read", path, size,
               RUNGI_PICTURE_BYTES_MAX);
    RUNG_CHECK(rungi_block_reserve(block, (size_t)size + RUNGI_PIXELS_SLACK), RUNG_NO_MEMORY,
               "%s: no memory to read its %" PRId64 " bytes", path, size);
    for (int64_t done = 0; done < size;) {
        ssize_t got = pread(fd, block->data + done, (size_t)(size - done), begin + done);
        if (got < 0 && errno == EINTR)
            continue;
        RUNG_CHECK(got >= 0, RUNG_IO, "%s: cannot read it: %s", path, strerror(errno));
        RUNG_CHECK(got > 0, RUNG_CORRUPT,
                   "%s: cut: expected %" PRId64 " bytes from %" PRId64 " on, found %" PRId64
                   ": the file has changed since it was opened",
                   path, size, begin, done);
        done += got;
    }
    memset(block->data + size, 0, RUNGI_PIXELS_SLACK);
    return RUNG_OK;
}

static rung_status read_file(const char *path, rungi_block *block, int64_t *size_out)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe must not stop us
    if (fd < 0)
        return fail_open(path, errno);
    rung_status status = RUNG_OK;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        status = RUNG_FAIL(RUNG_IO, "%s: is %s, not a file", path,
                           S_ISDIR(info.st_mode) ? "a folder" : "a device or pipe");
    else
        status = read_bytes(fd, path, 0, info.st_size, block);
    close(fd);
    *size_out = info.st_size;
    return status;
}

static const char *name_of(const rungi_picture_source *ps, int64_t index)
{
    return rungi_string_text(&ps->names) + ps->places.data[index].name;
}

static rung_status fetch(const rungi_picture_source *ps, int64_t index, rungi_block *block,
                         int64_t *size_out)
{
    const rungi_picture_place *place = &ps->places.data[index];
    if (place->archive < 0) {
        char path[PATH_MAX];
        const char *name = name_of(ps, index);
        bool alone = !*ps->root || *name == '/';
        int length =
            snprintf(path, sizeof path, "%s%s%s", alone ? "" : ps->root, alone ? "" : "/", name);
        RUNG_CHECK(length < PATH_MAX, RUNG_IO, "%s: name is too long", name);
        return read_file(path, block, size_out);
    }
    const rungi_archive *archive = &ps->archives.data[place->archive];
    *size_out = place->size;
    if (archive->fd >= 0)
        return read_bytes(archive->fd, archive->path, place->begin, place->size, block);
    int fd = open(archive->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_open(archive->path, errno);
    rung_status status = read_bytes(fd, archive->path, place->begin, place->size, block);
    close(fd);
    return status;
}

static rung_status open_worker(void *self, int worker, void **state_out)
{
    (void)self;
    (void)worker;
    *state_out = calloc(1, sizeof(rungi_block));
    RUNG_CHECK(*state_out, RUNG_NO_MEMORY, "no memory to read pictures");
    return RUNG_OK;
}

static void close_worker(void *self, void *state)
{
    (void)self;
    free(((rungi_block *)state)->data);
    free(state);
}

static rung_status read_sample(void *self, void *state, const rung_sample *sample,
                               rung_view *fields)
{
    const rungi_picture_source *ps = self;
    rungi_block *block = state;
    int64_t *size = &fields[0].shape.dim[0];
    RUNG_TRY(ps->streams ? rungi_tar_streams_fetch(ps->streams, sample, block, size)
                         : fetch(ps, sample->index, block, size));
    fields[0].data = block->data;
    size_t classes = ps->classes.count;
    if (ps->targets)
        memcpy(fields[1].data, ps->targets + (size_t)sample->index * classes,
               classes * sizeof *ps->targets);
    else
        *(int64_t *)fields[1].data = ps->places.data[sample->index].label;
    return RUNG_OK;
}

static void describe(void *self, int64_t index, char *out, size_t size)
{
    const rungi_picture_source *ps = self;
    const rungi_picture_place *place = &ps->places.data[index];
    const char *name = name_of(ps, index);
    if (place->archive >= 0)
        snprintf(out, size, "%s, %s", ps->archives.data[place->archive].path, name);
    else
        snprintf(out, size, "%s%s%s", *name == '/' ? "" : ps->root,
                 *ps->root && *name != '/' ? "/" : "", name);
}

// ---- life

static void destroy(rung_source *source)
{
    rungi_picture_source *ps = (rungi_picture_source *)source;
    rungi_tar_streams_destroy(&ps->streams);
    for (size_t i = 0; i < ps->archives.count; i++) {
        if (ps->archives.data[i].fd >= 0)
            close(ps->archives.data[i].fd);
        free(ps->archives.data[i].path);
    }
    for (size_t i = 0; i < ps->classes.count; i++)
        free(ps->classes.data[i]);
    rungi_array_fini(&ps->archives);
    rungi_array_fini(&ps->classes);
    rungi_array_fini(&ps->places);
    rungi_string_fini(&ps->names);
    free(ps->targets);
    free(ps->root);
    free(ps);
}

rung_status rungi_picture_source_create(const char *name, const char *root,
                                        rungi_picture_source **source_out)
{
    rungi_picture_source *ps = calloc(1, sizeof *ps);
    RUNG_CHECK(ps, RUNG_NO_MEMORY, "no memory for a data source");
    ps->source = (rung_source){.name = name,
                               .self = ps,
                               .open = open_worker,
                               .close = close_worker,
                               .read = read_sample,
                               .describe = describe,
                               .destroy = destroy};
    ps->root = rungi_text_copy(root);
    if (!ps->root) {
        destroy(&ps->source);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a data source");
    }
    *source_out = ps;
    return RUNG_OK;
}

rung_status rungi_picture_source_add(rungi_picture_source *ps, const char *name,
                                     rungi_picture_place place)
{
    place.name = ps->names.size;
    rungi_string_append(&ps->names, name, strlen(name) + 1);
    RUNG_CHECK(!ps->names.failed && rungi_array_push(&ps->places, place), RUNG_NO_MEMORY,
               "no memory for the names of %zu pictures", ps->places.count);
    return RUNG_OK;
}

rung_status rungi_picture_source_class(rungi_picture_source *ps, const char *name)
{
    char escaped[1024];
    rungi_text_escape(name, escaped, sizeof escaped);
    char *copy = rungi_text_copy(escaped);
    if (copy && rungi_array_push(&ps->classes, copy))
        return RUNG_OK;
    free(copy);
    return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for the names of the classes");
}

rung_status rungi_picture_source_archive(rungi_picture_source *ps, const char *path)
{
    bool keep = ps->archives.count < OPEN_ARCHIVES_MAX;
    return rungi_picture_source_adopt(ps, path, keep ? open(path, O_RDONLY | O_CLOEXEC) : -1);
}

rung_status rungi_picture_source_adopt(rungi_picture_source *ps, const char *path, int fd)
{
    rungi_archive archive = {rungi_text_copy(path), fd};
    if (archive.path && rungi_array_push(&ps->archives, archive))
        return RUNG_OK;
    if (archive.fd >= 0)
        close(archive.fd);
    free(archive.path);
    return RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for its name", path);
}

// ---- labels

static bool take_class(const char *text, int64_t *out)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    *out = value;
    return *end == '\0' && errno == 0 && value < INT32_MAX;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static rung_status number_texts(rungi_picture_source *ps, const char *texts, const size_t *labels)
{
    size_t count = ps->places.count, different = 0;
    const char **sorted = calloc(count, sizeof *sorted);
    RUNG_CHECK(sorted, RUNG_NO_MEMORY, "no memory for the labels");
    for (size_t i = 0; i < count; i++)
        sorted[i] = texts + labels[i];
    qsort(sorted, count, sizeof *sorted, compare_texts);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || strcmp(sorted[different - 1], sorted[i]) != 0)
            sorted[different++] = sorted[i];
    rung_status status = RUNG_OK;
    for (size_t i = 0; i < different && status == RUNG_OK; i++)
        status = rungi_picture_source_class(ps, sorted[i]);
    for (size_t i = 0; i < count && status == RUNG_OK; i++) {
        const char *text = texts + labels[i];
        const char **found = bsearch(&text, sorted, different, sizeof *sorted, compare_texts);
        ps->places.data[i].label = found - sorted;
    }
    free(sorted);
    ps->source.class_count = (int)different;
    return status;
}

rung_status rungi_picture_source_label(rungi_picture_source *ps, const char *texts,
                                       const size_t *labels)
{
    int64_t most = -1, value = 0;
    size_t count = ps->places.count, numbers = 0;
    for (size_t i = 0; i < count; i++)
        numbers += take_class(texts + labels[i], &value);
    if (numbers < count)
        return number_texts(ps, texts, labels);
    for (size_t i = 0; i < count; i++) {
        take_class(texts + labels[i], &value);
        ps->places.data[i].label = value;
        most = value > most ? value : most;
    }
    ps->source.class_count = (int)most + 1;
    return RUNG_OK;
}

rung_status rungi_picture_source_finish(rungi_picture_source *ps, const char *where)
{
    rung_source *source = &ps->source;
    RUNG_CHECK(ps->places.count > 0, RUNG_DATA, "%s: holds no pictures", where);
    source->count = (int64_t)ps->places.count;
    source->field_count = 2;
    source->fields[0] = (rung_field){"image", RUNG_U8, {.rank = 1, .dim = {0}}, RUNG_PIXELS_FILE};
    source->fields[1] = (rung_field){"label", RUNG_I64, RUNG_SCALAR, RUNG_PIXELS_NONE};
    if (ps->targets)
        source->fields[1] = (rung_field){"label", RUNG_F32, RUNG_SHAPE((int64_t)ps->classes.count),
                                         RUNG_PIXELS_NONE};
    if (ps->classes.count) {
        source->class_count = (int)ps->classes.count;
        source->class_names = (const char *const *)ps->classes.data;
    }
    return RUNG_OK;
}

const rungi_picture_source *rungi_picture_source_of(const rung_source *source)
{
    return source->destroy == destroy ? (const rungi_picture_source *)source : NULL;
}

const char *rungi_picture_source_sample(const rung_source *source, int64_t index)
{
    const rungi_picture_source *ps = rungi_picture_source_of(source);
    return ps ? name_of(ps, index) : NULL;
}

const int64_t *rungi_picture_source_label_of(const rung_source *source, int64_t index)
{
    const rungi_picture_source *ps = rungi_picture_source_of(source);
    return ps && !ps->targets ? &ps->places.data[index].label : NULL;
}

bool rungi_picture_name(const char *name)
{
    static const char *const ends[] = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                       ".pgm", ".tif",  ".tiff", ".webp"};
    return rungi_text_ends_in(name, ends, sizeof ends / sizeof *ends);
}
