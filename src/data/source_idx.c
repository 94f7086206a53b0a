// SPDX-License-Identifier: Apache-2.0
// IDX files: two zero bytes, a type (8: u8), the rank, big-endian dimensions, the elements.
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/checked.h"
#include "base/context.h"
#include "base/error.h"
#include "data/datafile.h"
#include "data/known_sets.h"
#include "data/memory_source.h"

enum { MAGIC_LABELS = 0x801, MAGIC_IMAGES = 0x803, REST_LIMIT = 1 << 20 };

typedef struct idx_file {
    int64_t dim[3];
    unsigned char *bytes; // the whole file, uncompressed
    bool mapped;          // from a mapping of it; else from malloc
    size_t header, size;
} idx_file;

static uint32_t big_endian(const unsigned char *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static rung_status check_magic(const char *path, const unsigned char *head, size_t got,
                               uint32_t expected, bool gzip)
{
    const char *what = expected == MAGIC_IMAGES ? "images" : "labels";
    RUNG_CHECK(got >= 4, RUNG_CORRUPT,
               "%s: is no IDX file of %s: expected at least %d bytes, found %zu", path, what,
               expected == MAGIC_IMAGES ? 16 : 8, got);
    uint32_t found = big_endian(head);
    if (found == expected)
        return RUNG_OK;
    RUNG_CHECK(!rungi_is_gzip(head), RUNG_FORMAT,
               "%s: is still gzip-compressed%s: decompress it with gunzip first", path,
               gzip ? " after decompression (it was compressed twice)" : "");
    const char *hint = "this is no such IDX file";
    if (found == MAGIC_LABELS)
        hint = "this is a label file: are images and labels exchanged?";
    else if (found == MAGIC_IMAGES)
        hint = "this is an image file: are images and labels exchanged?";
    return RUNG_FAIL(RUNG_FORMAT, "%s: wrong magic number of %s: expected %u, found %u (%s)", path,
                     what, expected, found, hint);
}

static rung_status wrong_length(const rungi_datafile *file, const idx_file *idx, int64_t expected,
                                int64_t found, bool more)
{
    return RUNG_FAIL(RUNG_CORRUPT,
                     "%s: wrong length%s: its header wants %" PRId64 " items, so expected %" PRId64
                     " bytes, found %s%" PRId64 "%s",
                     file->path, file->gzip ? " after decompression" : "", idx->dim[0], expected,
                     more ? "more than " : "", found,
                     file->cut ? " (the compressed file is cut)" : "");
}

// Reads the dimensions and works out how long the file must be.
static rung_status read_header(rungi_datafile *file, uint32_t magic, idx_file *idx,
                               unsigned char *head, int64_t *expected_out)
{
    int rank = (int)(magic & 0xff);
    size_t got = 0, header = 4 + 4 * (size_t)rank;
    RUNG_TRY(rungi_datafile_read(file, head, header, &got));
    RUNG_TRY(check_magic(file->path, head, got, magic, file->gzip));
    RUNG_CHECK(got == header, RUNG_CORRUPT,
               "%s: wrong length: expected at least %zu bytes, found %zu", file->path, header, got);
    int64_t expected = 1;
    for (int i = 0; i < rank; i++) {
        idx->dim[i] = big_endian(head + 4 + 4 * i);
        RUNG_CHECK(idx->dim[i] > 0, RUNG_DATA, "%s: holds no samples (dimension %d is 0)",
                   file->path, i);
        RUNG_CHECK(rungi_i64_mul(expected, idx->dim[i], &expected) &&
                       expected < INT64_MAX - (int64_t)header,
                   RUNG_CORRUPT, "%s: its header names sizes that no file can have", file->path);
    }
    idx->header = header;
    *expected_out = expected + (int64_t)header;
    return RUNG_OK;
}

// Large files that are not compressed are read where they lie, when they are needed: the first
// step does not wait for all of them. (As with packs, nobody may cut them meanwhile.)
static bool map_file(const rungi_datafile *file, idx_file *idx)
{
    enum { LEAST = 1 << 20 };
    if (file->gzip || idx->size < LEAST)
        return false;
    void *data = mmap(NULL, idx->size, PROT_READ, MAP_PRIVATE, file->fd, 0);
    idx->mapped = data != MAP_FAILED;
    idx->bytes = idx->mapped ? data : NULL;
    return idx->mapped;
}

static void drop(const idx_file *idx)
{
    if (idx->mapped)
        munmap(idx->bytes, idx->size);
    else
        free(idx->bytes);
}

static rung_status own(rungi_memory_source *memory, const idx_file *idx)
{
    return idx->mapped ? rungi_memory_source_own_map(memory, idx->bytes, idx->size)
                       : rungi_memory_source_own(memory, idx->bytes);
}

// Reads and checks a whole file. Nothing is allocated on the word of a header alone: the file must
// be able to hold it.
static rung_status read_idx(const char *path, uint32_t magic, idx_file *idx_out)
{
    rung_status status;
    rungi_datafile file;
    idx_file idx = {0};
    unsigned char head[16];
    int64_t expected = 0, rest = 0;
    size_t got = 0;
    RUNG_TRY(rungi_datafile_open(path, &file));
    RUNG_TRY_GOTO(close_file, read_header(&file, magic, &idx, head, &expected));
    if (file.gzip ? rungi_datafile_most(&file) < expected : file.size != expected) {
        // Count what a compressed file really holds.
        int64_t found = file.size;
        if (file.gzip) {
            RUNG_TRY_GOTO(close_file, rungi_datafile_rest(&file, INT64_MAX, &found));
            found += (int64_t)idx.header;
        }
        status = wrong_length(&file, &idx, expected, found, false);
        goto close_file;
    }
    idx.size = (size_t)expected;
    if (map_file(&file, &idx))
        goto whole;
    idx.bytes = rungi_memory_source_block(idx.size);
    if (!idx.bytes) {
        status =
            RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for its %" PRId64 " bytes", path, expected);
        goto close_file;
    }
    if (file.gzip && rungi_datafile_inflate(&file, idx.bytes, idx.size))
        goto whole;
    memcpy(idx.bytes, head, idx.header);
    RUNG_TRY_GOTO(free_bytes,
                  rungi_datafile_read(&file, idx.bytes + idx.header, idx.size - idx.header, &got));
    RUNG_TRY_GOTO(free_bytes, rungi_datafile_rest(&file, REST_LIMIT, &rest));
    got += idx.header;
    if (got != idx.size || rest || file.cut) {
        status = wrong_length(&file, &idx, expected, (int64_t)got + rest, rest >= REST_LIMIT);
        goto free_bytes;
    }
whole:
    rungi_datafile_close(&file);
    *idx_out = idx;
    return RUNG_OK;
free_bytes:
    free(idx.bytes);
close_file:
    rungi_datafile_close(&file);
    return status;
}

// Labels as i64, each below `classes`.
static rung_status convert_labels(const char *path, const idx_file *idx, int classes,
                                  int64_t **labels_out)
{
    const unsigned char *bytes = idx->bytes + idx->header;
    for (int64_t i = 0; i < idx->dim[0]; i++)
        RUNG_CHECK(bytes[i] < classes, RUNG_DATA,
                   "%s: label %d of record %" PRId64
                   " is above %d: wrong file, or more classes than "
                   "%d",
                   path, bytes[i], i, classes - 1, classes);
    int64_t *labels = malloc((size_t)idx->dim[0] * sizeof *labels);
    RUNG_CHECK(labels, RUNG_NO_MEMORY, "%s: no memory for its labels", path);
    for (int64_t i = 0; i < idx->dim[0]; i++)
        labels[i] = bytes[i];
    *labels_out = labels;
    return RUNG_OK;
}

// Finds "train-images-idx3-ubyte" and the like in a folder: plain before compressed.
static rung_status find_file(const char *folder, const char *split, const char *kind, int rank,
                             char path[PATH_MAX])
{
    static const char *const ends[] = {"", ".gz"};
    static const char dots[] = {'-', '.'};
    struct stat info;
    RUNG_CHECK(stat(folder, &info) == 0, RUNG_NOT_FOUND, "%s: no such folder (data.path)", folder);
    RUNG_CHECK(S_ISDIR(info.st_mode), RUNG_IO,
               "%s: is a file; data.path is the folder that holds %s-%s-idx%d-ubyte[.gz]", folder,
               split, kind, rank);
    for (int end = 0; end < 2; end++)
        for (int dot = 0; dot < 2; dot++) {
            int length = snprintf(path, PATH_MAX, "%s/%s-%s%cidx%d-ubyte%s", folder, split, kind,
                                  dots[dot], rank, ends[end]);
            if (length > 0 && length < PATH_MAX && access(path, F_OK) == 0)
                return RUNG_OK;
        }
    return RUNG_FAIL(RUNG_NOT_FOUND,
                     "%s: no %s-%s-idx%d-ubyte or %s-%s-idx%d-ubyte.gz there (data.path)", folder,
                     split, kind, rank, split, kind, rank);
}

static rung_status find_files(const rung_idx_options *options, char images[PATH_MAX],
                              char labels[PATH_MAX])
{
    if (options->images || options->labels) {
        RUNG_CHECK(options->images && options->labels, RUNG_INVALID,
                   "idx: give both the image and the label file");
        RUNG_CHECK(strlen(options->images) < PATH_MAX && strlen(options->labels) < PATH_MAX,
                   RUNG_INVALID, "idx: a file name is too long");
        strcpy(images, options->images);
        strcpy(labels, options->labels);
        return RUNG_OK;
    }
    RUNG_CHECK(options->path, RUNG_CONFIG, "idx: data.path must name the folder of the files");
    const char *split = options->split ? options->split : "train";
    bool test = strcmp(split, "test") == 0;
    RUNG_CHECK(test || strcmp(split, "train") == 0, RUNG_CONFIG,
               "idx: no split is called %s (there are train and test)", split);
    RUNG_TRY(find_file(options->path, test ? "t10k" : "train", "images", 3, images));
    return find_file(options->path, test ? "t10k" : "train", "labels", 1, labels);
}

// Labels are small, and all of them are looked at: they need no mapping.
static rung_status read_labels(const char *path, rungi_memory_source *memory, idx_file *labels)
{
    RUNG_TRY(read_idx(path, MAGIC_LABELS, labels));
    if (!labels->mapped)
        return rungi_memory_source_own(memory, labels->bytes);
    unsigned char *copy = rungi_memory_source_block(labels->size);
    if (copy)
        memcpy(copy, labels->bytes, labels->size);
    drop(labels);
    labels->mapped = false;
    labels->bytes = copy;
    RUNG_CHECK(copy, RUNG_NO_MEMORY, "%s: no memory for its labels", path);
    return rungi_memory_source_own(memory, copy);
}

static rung_status check_known(rung_context *context, const rung_idx_options *options,
                               const char *images_path, const char *labels_path,
                               const idx_file *images, const idx_file *labels,
                               rungi_memory_source *memory, const rungi_known_set **set_out)
{
    rungi_known_files files = {.images_path = images_path,
                               .labels_path = labels_path,
                               .labels = XXH3_64bits(labels->bytes, labels->size),
                               .count = images->dim[0]};
    RUNG_TRY(rungi_known_set_find(options->known, &files, set_out));
    if (!*set_out && !rungi_known_set_count(files.count))
        return RUNG_OK;
    return rungi_known_set_later(context, *set_out, &files, images->bytes, images->size, memory);
}

// Reads both files into `memory`, which owns all that is read at once.
static rung_status fill(rung_context *context, const rung_idx_options *options,
                        const char *images_path, const char *labels_path,
                        rungi_memory_source *memory)
{
    int classes = options->classes ? options->classes : 10;
    idx_file images = {0}, labels = {0};
    int64_t *numbers = NULL;
    const rungi_known_set *set = NULL;
    RUNG_CHECK(classes >= 1 && classes <= 256, RUNG_INVALID,
               "idx: classes is %d, must be 1 to 256 (labels are bytes)", classes);
    RUNG_TRY(read_idx(images_path, MAGIC_IMAGES, &images));
    RUNG_TRY(own(memory, &images));
    RUNG_TRY(read_labels(labels_path, memory, &labels));
    RUNG_CHECK(images.dim[0] == labels.dim[0], RUNG_DATA,
               "%s holds %" PRId64 " images but %s holds %" PRId64
               " labels: they do not belong together",
               images_path, images.dim[0], labels_path, labels.dim[0]);
    RUNG_TRY(convert_labels(labels_path, &labels, classes, &numbers));
    RUNG_TRY(rungi_memory_source_own(memory, numbers));
    RUNG_TRY(
        check_known(context, options, images_path, labels_path, &images, &labels, memory, &set));

    rung_shape shape = RUNG_SHAPE(1, images.dim[1], images.dim[2]);
    RUNG_TRY(rungi_memory_source_field(memory, "image", RUNG_U8, shape, RUNG_PIXELS_CHW,
                                       images.bytes + images.header,
                                       (size_t)(images.dim[1] * images.dim[2])));
    RUNG_TRY(rungi_memory_source_field(memory, "label", RUNG_I64, RUNG_SCALAR, RUNG_PIXELS_NONE,
                                       numbers, sizeof *numbers));
    RUNG_TRY(rungi_memory_source_file(memory, images_path, 0));
    memory->source.count = images.dim[0];
    memory->source.class_count = classes;
    if (set && classes == RUNGI_KNOWN_CLASSES)
        RUNG_TRY(rungi_memory_source_classes(memory, set->class_names, classes));
    return RUNG_OK;
}

rung_status rung_source_idx(rung_context *context, const rung_idx_options *options,
                            rung_source **source_out)
{
    char images_path[PATH_MAX], labels_path[PATH_MAX];
    rungi_memory_source *memory;
    RUNG_TRY(find_files(options, images_path, labels_path));
    RUNG_TRY(rungi_memory_source_create("idx", &memory));
    rung_status status = fill(context, options, images_path, labels_path, memory);
    if (status != RUNG_OK) {
        rungi_memory_source_drop(&memory);
        return status;
    }
    *source_out = &memory->source;
    return RUNG_OK;
}

rung_status rung_idx_image(const char *path, int64_t row, rung_image *image_out)
{
    idx_file file;
    RUNG_TRY(read_idx(path, MAGIC_IMAGES, &file));
    rung_status status = RUNG_OK;
    size_t pixels = (size_t)(file.dim[1] * file.dim[2]);
    if (row < 0 || row >= file.dim[0])
        status = RUNG_FAIL(RUNG_INVALID,
                           "%s: no row %" PRId64 ": it holds %" PRId64 " images, from row 0 on",
                           path, row, file.dim[0]);
    else if (pixels > RUNG_IMAGE_PIXELS_MAX)
        status = RUNG_FAIL(RUNG_UNSUPPORTED, "%s: its images are too large", path);
    unsigned char *copy = status == RUNG_OK ? malloc(pixels) : NULL;
    if (status == RUNG_OK && !copy)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for an image", path);
    if (status == RUNG_OK) {
        memcpy(copy, file.bytes + file.header + (size_t)row * pixels, pixels);
        *image_out = (rung_image){
            .width = (int)file.dim[2], .height = (int)file.dim[1], .channels = 1, .pixels = copy};
    }
    drop(&file);
    return status;
}
