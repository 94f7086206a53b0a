// SPDX-License-Identifier: Apache-2.0
// Opening data sets by the name of their format, and which part of a path a split is.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fs.h"
#include "base/text.h"
#include "data/source.h"
#include "data/source_npy.h"
#include "data/source_tar.h"
#include "data/source_text.h"
#include "data/source_tokens.h"
#include "formats/npy_read.h"
#include "rung/pack.h"

static rung_status open_idx(rung_context *context, const char *path, const char *split,
                            rung_source **out)
{
    return rung_source_idx(context, &(rung_idx_options){.path = path, .split = split}, out);
}

static rung_status open_cifar10(rung_context *context, const char *path, const char *split,
                                rung_source **out)
{
    return rung_source_cifar10(context, &(rung_cifar_options){.path = path, .split = split}, out);
}

static rung_status open_cifar100(rung_context *context, const char *path, const char *split,
                                 rung_source **out)
{
    return rung_source_cifar100(context, &(rung_cifar_options){.path = path, .split = split}, out);
}

// ---- formats whose path may hold splits, or be one

static bool is_test(const char *split)
{
    return strcmp(split, "test") == 0;
}

static rung_status check_split(const char *format, const char *split)
{
    RUNG_CHECK(is_test(split) || strcmp(split, "train") == 0 || strcmp(split, "all") == 0,
               RUNG_CONFIG, "%s: no split is called %s (there are train, test and all)", format,
               split);
    return RUNG_OK;
}

// Finds PATH/NAME for the first of `names` that exists. NULL when none does (or no memory).
static char *find_part(const char *path, const char *const *names)
{
    for (; *names; names++) {
        char *part = rungi_path_join(path, *names);
        if (part && rungi_fs_exists(part))
            return part;
        free(part);
    }
    return NULL;
}

typedef rung_status (*open_fn)(rung_context *context, const char *path, rung_source **out);

// Opens the part of `path` that `names` tell, or `path` itself for all splits but the test split.
static rung_status open_part(rung_context *context, const char *path, const char *split,
                             const char *const *train, const char *const *test, open_fn open,
                             rung_source **out)
{
    char *part = NULL;
    if (strcmp(split, "all") != 0 && rungi_fs_is_folder(path))
        part = find_part(path, is_test(split) ? test : train);
    RUNG_CHECK(part || !is_test(split), RUNG_NOT_FOUND,
               "%s: has no %s or %s for validation: set data.val.path, or data.val.split to hold "
               "back a share of the training samples",
               path, test[0], test[1]);
    rung_status status = open(context, part ? part : path, out);
    free(part);
    return status;
}

static const char *const train_folder[] = {"train", NULL};
static const char *const test_folders[] = {"val", "test", NULL};

static rung_status open_image_folder(rung_context *context, const char *path, const char *split,
                                     rung_source **out)
{
    RUNG_TRY(check_split("image_folder", split));
    return open_part(context, path, split, train_folder, test_folders, rung_source_image_folder,
                     out);
}

// "some" in a folder: its train where it has a val or test, else all of it.
rung_status rungi_source_open_tar(rung_context *context, const char *path,
                                  const rungi_tar_options *options, const char **split_out,
                                  rung_source **out)
{
    rungi_tar_options o = *options;
    char *part = NULL;
    bool some = strcmp(o.split, "some") == 0;
    if (!some)
        RUNG_TRY(check_split("tar", o.split));
    if (strcmp(o.split, "all") != 0 && rungi_fs_is_folder(path)) {
        char *test = some ? find_part(path, test_folders) : NULL;
        if (!some || test)
            part = find_part(path, is_test(o.split) ? test_folders : train_folder);
        free(test);
    }
    if (part)
        o.split = "all";
    rung_status status = rungi_source_tar(context, part ? part : path, &o, split_out, out);
    if (part && split_out)
        *split_out = some ? "train" : options->split;
    free(part);
    return status;
}

static rung_status open_tar(rung_context *context, const char *path, const char *split,
                            rung_source **out)
{
    return rungi_source_open_tar(context, path, &(rungi_tar_options){.split = split}, NULL, out);
}

static rung_status open_one_pack(rung_context *context, const char *path, rung_source **out)
{
    RUNG_CHECK(!rungi_fs_is_folder(path), RUNG_NOT_FOUND, "%s: has no train.pack", path);
    return rung_source_pack(context, path, NULL, out);
}

static rung_status open_pack(rung_context *context, const char *path, const char *split,
                             rung_source **out)
{
    static const char *const train[] = {"train.pack", NULL};
    static const char *const test[] = {"val.pack", "test.pack", NULL};
    RUNG_TRY(check_split("pack", split));
    return open_part(context, path, split, train, test, open_one_pack, out);
}

static rung_status open_list(rung_context *context, const char *path, const char *split,
                             rung_source **out)
{
    static const char *const train[] = {"train.csv", "train.tsv", NULL};
    static const char *const test[] = {"val.csv", "test.csv", "val.tsv", "test.tsv", NULL};
    RUNG_TRY(check_split("list", split));
    return open_part(context, path, split, train, test, rung_source_list, out);
}

static const struct {
    const char *split, *images, *labels;
} npy_pairs[] = {
    {"train", "x_train", "y_train"}, {"train", "train_images", "train_labels"},
    {"test", "x_test", "y_test"},    {"test", "test_images", "test_labels"},
    {"test", "x_val", "y_val"},      {"test", "val_images", "val_labels"},
    {"all", "images", "labels"},
};
enum { NPY_PAIRS = sizeof npy_pairs / sizeof *npy_pairs };

static rung_status fail_no_pair(const char *path, const char *split, const char *end)
{
    static const char *const wanted[][2] = {
        {"images", NULL}, {"x_test", "test_images"}, {"x_train", "train_images"}};
    int which = strcmp(split, "all") == 0 ? 0 : is_test(split) ? 1 : 2;
    const char *second = wanted[which][1];
    return RUNG_FAIL(RUNG_NOT_FOUND, "%s: has no %s%s%s%s%s (see data.format npy)", path,
                     wanted[which][0], end, second ? " or " : "", second ? second : "",
                     second ? end : "");
}

// Of the pairs in an archive, the first whose pictures are there.
static rung_status open_npz(const char *path, const char *split, rung_source **out)
{
    rungi_names names = {0};
    int found = -1;
    RUNG_TRY(rungi_npz_list(path, &names));
    for (int i = 0; i < NPY_PAIRS && found < 0; i++)
        for (size_t k = 0; k < names.count && found < 0; k++)
            if (strcmp(split, npy_pairs[i].split) == 0 &&
                strcmp(names.data[k], npy_pairs[i].images) == 0)
                found = i;
    rungi_names_fini(&names);
    if (found < 0)
        return fail_no_pair(path, split, "");
    return rungi_source_npz(path, npy_pairs[found].images, npy_pairs[found].labels, out);
}

static char *npy_path(const char *folder, const char *name)
{
    char file[64];
    snprintf(file, sizeof file, "%s.npy", name);
    return rungi_path_join(folder, file);
}

// Of the pairs in a folder, the first whose pictures are there.
static rung_status open_npy(rung_context *context, const char *path, const char *split,
                            rung_source **out)
{
    RUNG_TRY(check_split("npy", split));
    size_t length = strlen(path);
    if (length > 4 && strcmp(path + length - 4, ".npz") == 0)
        return open_npz(path, split, out);
    for (int i = 0; i < NPY_PAIRS; i++) {
        char *images = npy_path(path, npy_pairs[i].images);
        char *labels = npy_path(path, npy_pairs[i].labels);
        bool found =
            images && labels && strcmp(split, npy_pairs[i].split) == 0 && rungi_fs_exists(images);
        rung_status status = found ? rung_source_npy(context, images, labels, out) : RUNG_OK;
        free(images);
        free(labels);
        if (found)
            return status;
    }
    return fail_no_pair(path, split, ".npy");
}

static rung_status open_tokens(rung_context *context, const char *path, const char *split,
                               rung_source **out)
{
    static const char *const train[] = {"train", NULL};
    static const char *const test[] = {"val", "test", NULL};
    RUNG_TRY(check_split("tokens", split));
    bool folder = rungi_fs_is_folder(path), all = strcmp(split, "all") == 0;
    RUNG_CHECK(folder || !is_test(split), RUNG_NOT_FOUND,
               "%s: is one part: give the folder, whose files have train and val in their names",
               path);
    const char *const *words = is_test(split) ? test : train;
    return rungi_source_tokens(context, &(rung_tokens_options){.path = path},
                               folder && !all ? words : NULL, out);
}

// The vocabulary is that of the training samples, whatever is opened.
static rung_status open_text(rung_context *context, const char *path, const char *split,
                             rung_source **out)
{
    static const char *const train[] = {"train", "train.csv", "train.tsv", NULL};
    static const char *const test[] = {"val",     "test",     "val.csv", "test.csv",
                                       "val.tsv", "test.tsv", NULL};
    RUNG_TRY(check_split("text", split));
    rung_source *training = NULL;
    bool folder = strcmp(split, "all") != 0 && rungi_fs_is_folder(path);
    char *part = folder ? find_part(path, is_test(split) ? test : train) : NULL;
    RUNG_CHECK(part || !is_test(split), RUNG_NOT_FOUND, "%s: has no val, test, val.csv or test.csv",
               path);
    rung_status status = is_test(split) ? open_text(context, path, "train", &training) : RUNG_OK;
    if (status == RUNG_OK)
        status = rungi_source_text(context, &(rung_text_options){.path = part ? part : path},
                                   training, out);
    rung_source_destroy(&training);
    free(part);
    return status;
}

typedef struct format_entry {
    const char *name;
    rung_status (*open)(rung_context *context, const char *path, const char *split,
                        rung_source **out);
    bool may_be_split; // its path may be one split by itself
} format_entry;

static const format_entry formats[] = {
    {"idx", open_idx, false},
    {"cifar10", open_cifar10, false},
    {"cifar100", open_cifar100, false},
    {"image_folder", open_image_folder, true},
    {"list", open_list, true},
    {"tar", open_tar, true},
    {"npy", open_npy, true},
    {"pack", open_pack, true},
    {"tokens", open_tokens, true},
    {"text", open_text, true},
};
enum { FORMATS = sizeof formats / sizeof *formats };

bool rungi_source_may_be_split(const char *format)
{
    for (int i = 0; i < FORMATS; i++)
        if (strcmp(format, formats[i].name) == 0)
            return formats[i].may_be_split;
    return false;
}

rung_status rung_source_open(rung_context *context, const char *format, const char *path,
                             const char *split, rung_source **source_out)
{
    const char *names[FORMATS];
    char list[128] = "";
    RUNG_CHECK(format && path && split, RUNG_CONFIG, "data.format and data.path must be given");
    for (int i = 0; i < FORMATS; i++) {
        size_t used = strlen(list);
        names[i] = formats[i].name;
        if (strcmp(format, names[i]) == 0)
            return formats[i].open(context, path, split, source_out);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    }
    const char *nearest = rungi_text_nearest(format, names, FORMATS);
    return RUNG_FAIL(RUNG_CONFIG, "data.format: unknown format %s%s%s (there are %s)", format,
                     nearest ? ", did you mean " : "", nearest ? nearest : "", list);
}
