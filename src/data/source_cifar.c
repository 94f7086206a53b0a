// SPDX-License-Identifier: Apache-2.0
// CIFAR binary files: records of one label byte (CIFAR-100: coarse and fine) and 3072 bytes of
// pixels, planes of red, green and blue.
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/context.h"
#include "base/error.h"
#include "data/datafile.h"
#include "data/memory_source.h"

enum { PIXELS = 3072, MAX_FILES = 5, MAX_CLASSES = 100 };

// What tells the two sets apart.
typedef struct cifar_kind {
    const char *name;
    const char *folder; // that the archive unpacks to
    int label_bytes;
    const char *train[MAX_FILES];
    int train_count;
    const char *test;
} cifar_kind;

static const cifar_kind cifar10 = {
    "cifar10",
    "cifar-10-batches-bin",
    1,
    {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
     "data_batch_5.bin"},
    5,
    "test_batch.bin",
};

static const cifar_kind cifar100 = {
    "cifar100", "cifar-100-binary", 2, {"train.bin"}, 1, "test.bin",
};

static const char *const cifar10_names[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                            "dog",      "frog",       "horse", "ship", "truck"};

// The labels that are asked for: which byte, how many classes, the file of their names.
typedef struct label_choice {
    int byte;
    int classes;
    const char *names_file;
} label_choice;

static label_choice choose_labels(const cifar_kind *kind, bool coarse)
{
    if (kind->label_bytes == 1)
        return (label_choice){0, 10, "batches.meta.txt"};
    return coarse ? (label_choice){0, 20, "coarse_label_names.txt"}
                  : (label_choice){1, 100, "fine_label_names.txt"};
}

static rung_status check_labels(const char *path, const unsigned char *bytes, int64_t records,
                                const cifar_kind *kind)
{
    size_t stride = PIXELS + (size_t)kind->label_bytes;
    const int limits[2] = {kind->label_bytes == 1 ? 10 : 20, 100};
    for (int64_t i = 0; i < records; i++)
        for (int b = 0; b < kind->label_bytes; b++) {
            int label = bytes[(size_t)i * stride + (size_t)b];
            RUNG_CHECK(label < limits[b], RUNG_DATA,
                       "%s: label %d of record %" PRId64 " is above %d: this is no %s file", path,
                       label, i, limits[b] - 1, kind->name);
        }
    return RUNG_OK;
}

// Appends one file's records to *bytes.
static rung_status read_file(const char *path, const cifar_kind *kind, unsigned char **bytes,
                             int64_t *records)
{
    rung_status status;
    rungi_datafile file;
    int64_t stride = PIXELS + kind->label_bytes, more;
    size_t got;
    RUNG_TRY(rungi_datafile_open(path, &file));
    if (file.gzip) {
        status =
            RUNG_FAIL(RUNG_FORMAT, "%s: is still gzip-compressed: unpack it first (tar xzf)", path);
        goto close_file;
    }
    more = file.size / stride;
    if (file.size % stride != 0) {
        status = RUNG_FAIL(RUNG_CORRUPT,
                           "%s: wrong length: %" PRId64 " bytes are not a multiple of %" PRId64
                           " (expected %" PRId64 " or %" PRId64 " bytes, found %" PRId64 ")",
                           path, file.size, stride, more * stride, (more + 1) * stride, file.size);
        goto close_file;
    }
    unsigned char *grown = realloc(*bytes, (size_t)((*records + more) * stride));
    if (!grown) {
        status =
            RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for its %" PRId64 " bytes", path, file.size);
        goto close_file;
    }
    *bytes = grown;
    grown += *records * stride;
    RUNG_TRY_GOTO(close_file, rungi_datafile_read(&file, grown, (size_t)file.size, &got));
    if ((int64_t)got != file.size) {
        status =
            RUNG_FAIL(RUNG_CORRUPT,
                      "%s: became shorter while it was read: expected %" PRId64 " bytes, found %zu",
                      path, file.size, got);
        goto close_file;
    }
    RUNG_TRY_GOTO(close_file, check_labels(path, grown, more, kind));
    *records += more;
close_file:
    rungi_datafile_close(&file);
    return status;
}

// Reads class names, one a line, from the set's file in `folder`; without it CIFAR-10 has built-in
// ones. None, or another number of them, are no error: names are for people.
static rung_status read_names(rungi_memory_source *memory, const char *folder,
                              const label_choice *choice)
{
    char path[PATH_MAX], line[256], names[MAX_CLASSES][64];
    const char *listed[MAX_CLASSES];
    int count = 0;
    memory->source.class_count = choice->classes;
    snprintf(path, sizeof path, "%s/%s", folder, choice->names_file);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\r\n")] = '\0';
        if (*line && count < MAX_CLASSES) {
            snprintf(names[count], sizeof names[count], "%s", line);
            listed[count] = names[count];
        }
        count += *line != '\0';
    }
    if (file)
        fclose(file);
    if (count == choice->classes)
        return rungi_memory_source_classes(memory, listed, count);
    if (choice->classes == 10)
        return rungi_memory_source_classes(memory, cifar10_names, 10);
    return RUNG_OK;
}

// The folder that holds the set's files: `path`, or the one that the archive unpacks to in it.
static rung_status find_folder(const cifar_kind *kind, const char *path, const char *file,
                               char folder[PATH_MAX])
{
    char probe[PATH_MAX];
    const char *middle[] = {"", kind->folder};
    for (int i = 0; i < 2; i++) {
        int length = snprintf(folder, PATH_MAX, "%s%s%s", path, i ? "/" : "", middle[i]);
        RUNG_CHECK(length > 0 && length < PATH_MAX - 32, RUNG_INVALID, "%s: name is too long",
                   path);
        snprintf(probe, sizeof probe, "%s/%s", folder, file);
        if (access(probe, F_OK) == 0)
            return RUNG_OK;
    }
    return RUNG_FAIL(RUNG_NOT_FOUND, "%s: no %s there (data.path)", path, file);
}

// Reads all files of the split; gives the folder that they are in.
static rung_status read_split(const cifar_kind *kind, const rung_cifar_options *options,
                              rungi_memory_source *memory, unsigned char **bytes,
                              char folder[PATH_MAX])
{
    const char *split = options->split ? options->split : "train";
    bool test = strcmp(split, "test") == 0;
    struct stat info;
    char path[PATH_MAX];
    RUNG_CHECK(options->path, RUNG_CONFIG, "%s: data.path must name the folder of the files",
               kind->name);
    RUNG_CHECK(test || strcmp(split, "train") == 0, RUNG_CONFIG,
               "%s: no split is called %s (there are train and test)", kind->name, split);
    RUNG_CHECK(stat(options->path, &info) == 0, RUNG_NOT_FOUND,
               "%s: no such file or folder (data.path)", options->path);
    RUNG_CHECK(strlen(options->path) < PATH_MAX - 64, RUNG_INVALID, "%s: name is too long",
               options->path);
    int64_t *count = &memory->source.count;
    if (!S_ISDIR(info.st_mode)) {
        const char *slash = strrchr(options->path, '/');
        snprintf(folder, PATH_MAX, "%.*s", slash ? (int)(slash - options->path) : 1,
                 slash ? options->path : ".");
        RUNG_TRY(rungi_memory_source_file(memory, options->path, 0));
        return read_file(options->path, kind, bytes, count);
    }
    const char *const *files = test ? &kind->test : kind->train;
    RUNG_TRY(find_folder(kind, options->path, files[0], folder));
    for (int i = 0; i < (test ? 1 : kind->train_count); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        RUNG_TRY(rungi_memory_source_file(memory, path, *count));
        RUNG_TRY(read_file(path, kind, bytes, count));
    }
    return RUNG_OK;
}

static rung_status fill(const cifar_kind *kind, const rung_cifar_options *options,
                        rungi_memory_source *memory)
{
    char folder[PATH_MAX];
    unsigned char *bytes = NULL;
    rung_status status = read_split(kind, options, memory, &bytes, folder);
    if (status != RUNG_OK) {
        free(bytes);
        return status;
    }
    RUNG_TRY(rungi_memory_source_own(memory, bytes));

    label_choice choice = choose_labels(kind, options->coarse);
    size_t count = (size_t)memory->source.count, stride = PIXELS + (size_t)kind->label_bytes;
    int64_t *labels = malloc(count * sizeof *labels);
    RUNG_TRY(rungi_memory_source_own(memory, labels));
    for (size_t i = 0; i < count; i++)
        labels[i] = bytes[i * stride + (size_t)choice.byte];
    RUNG_TRY(rungi_memory_source_field(memory, "image", RUNG_U8, RUNG_SHAPE(3, 32, 32),
                                       RUNG_PIXELS_CHW, bytes + kind->label_bytes, stride));
    RUNG_TRY(rungi_memory_source_field(memory, "label", RUNG_I64, RUNG_SCALAR, RUNG_PIXELS_NONE,
                                       labels, sizeof *labels));
    return read_names(memory, folder, &choice);
}

static rung_status open_set(const cifar_kind *kind, const rung_cifar_options *options,
                            rung_source **source_out)
{
    rungi_memory_source *memory;
    RUNG_TRY(rungi_memory_source_create(kind->name, &memory));
    rung_status status = fill(kind, options, memory);
    if (status != RUNG_OK) {
        rungi_memory_source_drop(&memory);
        return status;
    }
    *source_out = &memory->source;
    return RUNG_OK;
}

rung_status rung_source_cifar10(rung_context *context, const rung_cifar_options *options,
                                rung_source **source_out)
{
    (void)context;
    return open_set(&cifar10, options, source_out);
}

rung_status rung_source_cifar100(rung_context *context, const rung_cifar_options *options,
                                 rung_source **source_out)
{
    (void)context;
    return open_set(&cifar100, options, source_out);
}
