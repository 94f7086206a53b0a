// SPDX-License-Identifier: Apache-2.0
// Pictures in plain tar archives, in WebDataset's layout: neighbouring entries whose names are
// equal up to the first dot of the last part belong to one sample; what follows the dot tells what
// they are. An index is made at the start, then samples are read at random.
//
// The label is the entry .cls (a number or a name). Where no sample has one, it is the folder that
// the picture lies in; without folders what follows the first _ of its name. An entry __classes__
// (which WebDataset passes over) holds the names of numbers, one a line.
//
// A compressed archive cannot be read at random: it is unpacked once into memory, up to a limit,
// and is then like any other. Beyond the limit all archives are read as streams (tar_stream.h); the
// index is made of them too, by reading them once.
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_io.h"
#include "data/picture_source.h"
#include "data/shard_names.h"
#include "data/source_tar.h"
#include "data/tar_stream.h"
#include "formats/forward.h"
#include "formats/tar.h"
#include "formats/unpack.h"

enum {
    LABEL_MAX = 1024,
    CLASSES_BYTES_MAX = 1 << 22,
};

typedef struct index {
    rungi_picture_source *ps;
    const char *path; // of the archive that is read
    int fd;
    rungi_tar_read_fn read;
    void *from;           // of `read`
    const char *spool;    // folder for what is unpacked; NULL: memory
    bool stream;          // archives are streams
    bool too_large;       // to be unpacked in memory
    uint64_t unpacked;    // bytes
    rungi_string classes; // the entry __classes__
    // The sample that is being put together.
    char *key; // NULL: none yet
    bool has_picture, has_label;
    rungi_string texts;         // labels
    RUNGI_ARRAY(size_t) labels; // of the places: beginnings in `texts`; SIZE_MAX: none
} index_state;

// Where in `name` the key ends: the first dot of its last part, or the end.
static size_t key_length(const char *name)
{
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    return (size_t)(last - name) + strcspn(last, ".");
}

// WebDataset passes over names like __this__ in the first level.
static bool is_reserved(const char *name)
{
    size_t length = strlen(name);
    return !strchr(name, '/') && length >= 4 && strncmp(name, "__", 2) == 0 &&
           strcmp(name + length - 2, "__") == 0;
}

static rung_status begin_sample(index_state *x, const char *name, size_t length)
{
    char *key = strndup(name, length);
    RUNG_CHECK(key, RUNG_NO_MEMORY, "%s: no memory for its names", x->path);
    free(x->key);
    x->key = key;
    x->has_picture = x->has_label = false;
    return RUNG_OK;
}

// The entries of a sample may come in any order: its label is kept until the picture is there.
static rung_status add_label(index_state *x, const rungi_tar_entry *entry)
{
    char text[LABEL_MAX + 1];
    RUNG_CHECK(entry->size > 0 && entry->size <= LABEL_MAX, RUNG_DATA,
               "%s, %s: a label of %" PRId64 " bytes, must be 1 to %d", x->path, entry->name,
               entry->size, LABEL_MAX);
    RUNG_CHECK(!x->has_label, RUNG_DATA, "%s, %s: the sample has two labels", x->path, entry->name);
    RUNG_TRY(x->read(x->from, (uint64_t)entry->offset, text, (size_t)entry->size));
    size_t length = (size_t)entry->size;
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    text[length] = '\0';
    RUNG_CHECK(length > 0 && strlen(text) == length, RUNG_DATA, "%s, %s: the label is no text",
               x->path, entry->name);
    size_t begin = x->texts.size;
    rungi_string_append(&x->texts, text, length + 1);
    RUNG_CHECK(!x->texts.failed, RUNG_NO_MEMORY, "%s: no memory for its labels", x->path);
    x->has_label = true;
    if (x->has_picture)
        x->labels.data[x->labels.count - 1] = begin;
    return RUNG_OK;
}

static rung_status add_picture(index_state *x, const rungi_tar_entry *entry)
{
    RUNG_CHECK(!x->has_picture, RUNG_DATA, "%s, %s: the sample has two pictures", x->path,
               entry->name);
    x->has_picture = true;
    // A label that came first is the last text.
    size_t label = SIZE_MAX;
    if (x->has_label) {
        label = x->texts.size - 1;
        while (label > 0 && x->texts.data[label - 1] != '\0')
            label--;
    }
    RUNG_CHECK(rungi_array_push(&x->labels, label), RUNG_NO_MEMORY, "%s: no memory for its labels",
               x->path);
    return rungi_picture_source_add(
        x->ps, entry->name,
        (rungi_picture_place){.begin = entry->offset,
                              .size = entry->size,
                              .archive = (int)x->ps->archives.count - 1});
}

static rung_status take_classes(index_state *x, const rungi_tar_entry *entry)
{
    RUNG_CHECK(entry->size <= CLASSES_BYTES_MAX, RUNG_DATA,
               "%s, %s: names of classes of %" PRId64 " bytes, at most %d are read", x->path,
               entry->name, entry->size, CLASSES_BYTES_MAX);
    char *text = malloc((size_t)entry->size + 1);
    RUNG_CHECK(text, RUNG_NO_MEMORY, "%s: no memory for the names of its classes", x->path);
    rung_status status = x->read(x->from, (uint64_t)entry->offset, text, (size_t)entry->size);
    if (status == RUNG_OK && memchr(text, 0, (size_t)entry->size))
        status = RUNG_FAIL(RUNG_DATA, "%s, %s: is no text", x->path, entry->name);
    x->classes.size = 0; // each shard has them
    if (status == RUNG_OK)
        rungi_string_append(&x->classes, text, (size_t)entry->size);
    free(text);
    return status;
}

static rung_status take_entry(void *user, const rungi_tar_entry *entry)
{
    index_state *x = user;
    if (entry->regular && strcmp(entry->name, "__classes__") == 0)
        return take_classes(x, entry);
    if (!entry->regular || is_reserved(entry->name))
        return RUNG_OK;
    size_t length = key_length(entry->name);
    if (!x->key || strlen(x->key) != length || strncmp(x->key, entry->name, length) != 0)
        RUNG_TRY(begin_sample(x, entry->name, length));
    const char *kind = entry->name + length;
    if (strcasecmp(kind, ".cls") == 0)
        return add_label(x, entry);
    return rungi_picture_name(kind) ? add_picture(x, entry) : RUNG_OK;
}

// From here on archives are streams: what was unpacked is given up.
static void turn_to_streams(index_state *x)
{
    x->stream = true;
    for (size_t i = 0; i < x->ps->archives.count; i++) {
        rungi_archive *archive = &x->ps->archives.data[i];
        if (archive->fd >= 0)
            close(archive->fd);
        archive->fd = -1;
    }
}

// Puts what is in the archive open as x->fd in its place. The source keeps it.
static rung_status unpack_shard(index_state *x, const char *path, uint64_t *size)
{
    uint64_t limit = x->spool ? INT64_MAX / 2 : RUNGI_TAR_MEMORY_MAX - x->unpacked;
    int fd;
    close(x->fd);
    x->fd = -1;
    rung_status status = rungi_unpack(path, x->spool, limit, &fd, size);
    x->too_large = status == RUNG_UNSUPPORTED;
    RUNG_TRY(status);
    x->unpacked += *size;
    RUNG_TRY(rungi_picture_source_adopt(x->ps, path, fd));
    x->fd = dup(fd);
    RUNG_CHECK(x->fd >= 0, RUNG_IO, "%s: cannot read it: %s", path, strerror(errno));
    return RUNG_OK;
}

static rung_status read_at_random(void *x_, uint64_t at, void *data, size_t size)
{
    const index_state *x = x_;
    return rungi_io_read_at(x->fd, x->path, at, data, size);
}

static rung_status read_random_shard(index_state *x, const char *path)
{
    uint64_t size;
    RUNG_TRY(rungi_io_open_read(path, &x->fd, &size));
    rung_status status = rungi_is_compressed(x->fd) ? unpack_shard(x, path, &size)
                                                    : rungi_picture_source_archive(x->ps, path);
    x->read = read_at_random;
    x->from = x;
    if (status == RUNG_OK)
        status = rungi_tar_walk_by(x->read, x->from, path, size, take_entry, x);
    if (x->fd >= 0)
        close(x->fd);
    return status;
}

static rung_status read_stream_shard(index_state *x, const char *path)
{
    rungi_forward *file;
    RUNG_TRY(rungi_picture_source_adopt(x->ps, path, -1));
    RUNG_TRY(rungi_forward_open(path, &file));
    x->read = rungi_forward_read;
    x->from = file;
    rung_status status = rungi_tar_walk_by(x->read, x->from, path, INT64_MAX, take_entry, x);
    rungi_forward_close(&file);
    return status;
}

static rung_status read_shard(void *user, const char *path)
{
    index_state *x = user;
    x->path = path;
    rung_status status = x->stream ? read_stream_shard(x, path) : read_random_shard(x, path);
    if (x->too_large && !x->stream) {
        turn_to_streams(x);
        status = read_stream_shard(x, path);
    }
    free(x->key); // samples do not go over the end of an archive
    x->key = NULL;
    return status;
}

// ---- labels from names

// Adds the label that the name of a picture tells; false when it tells none.
static bool add_name_label(index_state *x, const char *name, bool folders)
{
    const char *slash = strrchr(name, '/'), *begin, *end;
    size_t text = x->texts.size;
    if (folders) {
        if (!slash)
            return false;
        end = slash;
        for (begin = end; begin > name && begin[-1] != '/';)
            begin--;
    } else {
        begin = strchr(slash ? slash + 1 : name, '_');
        if (!begin)
            return false;
        begin++;
        end = name + key_length(name);
    }
    if (end <= begin)
        return false;
    rungi_string_append(&x->texts, begin, (size_t)(end - begin));
    rungi_string_append(&x->texts, "", 1);
    return !x->texts.failed && rungi_array_push(&x->labels, text);
}

// Labels are numbers, and __classes__ names them.
static rung_status name_classes(index_state *x)
{
    rungi_picture_source *ps = x->ps;
    char *at = x->classes.data;
    while (*at) {
        size_t length = strcspn(at, "\n");
        bool more = at[length] != '\0';
        at[length] = '\0';
        RUNG_TRY(rungi_picture_source_class(ps, at));
        at += length + more;
    }
    RUNG_CHECK(ps->classes.count >= (size_t)ps->source.class_count, RUNG_DATA,
               "%s: label %d, __classes__ names %zu", x->ps->archives.data[0].path,
               ps->source.class_count - 1, ps->classes.count);
    return RUNG_OK;
}

static rung_status settle_labels(index_state *x)
{
    rungi_picture_source *ps = x->ps;
    size_t labelled = 0, folders = 0, count = ps->places.count;
    for (size_t i = 0; i < count; i++) {
        labelled += x->labels.data[i] != SIZE_MAX;
        folders += strchr(ps->names.data + ps->places.data[i].name, '/') != NULL;
    }
    if (labelled == 0) {
        x->labels.count = 0;
        for (size_t i = 0; i < count; i++) {
            const char *name = ps->names.data + ps->places.data[i].name;
            RUNG_CHECK(add_name_label(x, name, folders > 0), RUNG_DATA,
                       "%s, %s: has no label: an entry .cls, a folder named like its class, or a "
                       "name like 17_CLASS.jpg",
                       ps->archives.data[ps->places.data[i].archive].path, name);
        }
    }
    for (size_t i = 0; i < count && labelled; i++)
        RUNG_CHECK(x->labels.data[i] != SIZE_MAX, RUNG_DATA,
                   "%s, %s: has no label (an entry .cls), others have",
                   ps->archives.data[ps->places.data[i].archive].path,
                   ps->names.data + ps->places.data[i].name);
    RUNG_TRY(rungi_picture_source_label(ps, rungi_string_text(&x->texts), x->labels.data));
    return x->classes.size && ps->classes.count == 0 ? name_classes(x) : RUNG_OK;
}

// ---- splits

enum { NO_PART, TRAIN_PART, VAL_PART, TEST_PART };

// What the first folder of a picture's name says.
static int part_of(const char *name)
{
    static const char *const folders[] = {
        [TRAIN_PART] = "train/", [VAL_PART] = "val/", [TEST_PART] = "test/"};
    while (strncmp(name, "./", 2) == 0)
        name += 2;
    for (int part = TRAIN_PART; part <= TEST_PART; part++)
        if (strncmp(name, folders[part], strlen(folders[part])) == 0)
            return part;
    return NO_PART;
}

// Leaves the pictures of a split, which "some" is settled to.
static rung_status keep_split(index_state *x, const char *path, const char **split_at)
{
    const char *split = *split_at;
    rungi_picture_source *ps = x->ps;
    size_t counts[TEST_PART + 1] = {0}, kept = 0;
    const char *names = rungi_string_text(&ps->names);
    for (size_t i = 0; i < ps->places.count; i++)
        counts[part_of(names + ps->places.data[i].name)]++;
    if (strcmp(split, "some") == 0)
        *split_at = split = counts[VAL_PART] || counts[TEST_PART] ? "train" : "all";
    bool test = strcmp(split, "test") == 0;
    int part = test ? (counts[VAL_PART] ? VAL_PART : TEST_PART) : TRAIN_PART;
    RUNG_CHECK(!test || counts[part], RUNG_NOT_FOUND,
               "%s: has no val or test for validation: set data.val.path, or data.val.split to "
               "hold back a share of the training samples",
               path);
    if (strcmp(split, "all") == 0 || !counts[part])
        return RUNG_OK;
    for (size_t i = 0; i < ps->places.count; i++) {
        if (part_of(names + ps->places.data[i].name) != part)
            continue;
        x->labels.data[kept] = x->labels.data[i];
        ps->places.data[kept++] = ps->places.data[i];
    }
    ps->places.count = x->labels.count = kept;
    return RUNG_OK;
}

static rung_status fill(const char *path, const rungi_tar_options *o, const char **split,
                        rungi_picture_source *ps)
{
    index_state x = {.ps = ps, .spool = o->spool, .stream = o->stream};
    int shards = 0;
    rung_status status = rungi_shard_names(path, read_shard, &x, &shards);
    if (status == RUNG_OK && ps->places.count == 0)
        status =
            RUNG_FAIL(RUNG_DATA, "%s: holds no pictures in %d archives (files .tar)", path, shards);
    if (status == RUNG_OK)
        status = keep_split(&x, path, split);
    if (status == RUNG_OK)
        status = settle_labels(&x);
    if (status == RUNG_OK)
        status = rungi_picture_source_finish(ps, path);
    if (status == RUNG_OK && x.stream)
        status = rungi_tar_streams_create(ps, &ps->streams);
    free(x.key);
    rungi_string_fini(&x.texts);
    rungi_string_fini(&x.classes);
    rungi_array_fini(&x.labels);
    return status;
}

rung_status rung_source_tar(rung_context *context, const char *path, rung_source **source_out)
{
    return rungi_source_tar(context, path, &(rungi_tar_options){0}, NULL, source_out);
}

rung_status rung_source_tar_stream(rung_context *context, const char *path,
                                   rung_source **source_out)
{
    return rungi_source_tar(context, path, &(rungi_tar_options){.stream = true}, NULL, source_out);
}

rung_status rungi_source_tar(rung_context *context, const char *path,
                             const rungi_tar_options *options, const char **split_out,
                             rung_source **source_out)
{
    (void)context;
    rungi_picture_source *ps;
    const char *split = options->split ? options->split : "all";
    RUNG_CHECK(path, RUNG_CONFIG, "tar: data.path must name the archives");
    RUNG_TRY(rungi_picture_source_create("tar", "", &ps));
    rung_status status = fill(path, options, &split, ps);
    rung_source *source = &ps->source;
    if (split_out)
        *split_out = split;
    if (status == RUNG_OK)
        *source_out = source;
    else
        rung_source_destroy(&source);
    return status;
}
