// SPDX-License-Identifier: Apache-2.0
// What format is it? Told by names: of the path, or of what lies in the folder.
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/fs.h"
#include "rung/convert.h"

typedef struct rule {
    const char *end, *format;
} rule;

// Ends of names. In a folder the first rule that any name fits decides.
static const rule rules[] = {
    {".pack", "pack"},
    {"-idx3-ubyte", "idx"},
    {"-idx3-ubyte.gz", "idx"},
    {"data_batch_1.bin", "cifar10"},
    {"test_batch.bin", "cifar10"},
    {"fine_label_names.txt", "cifar100"},
    {".npz", "npy"},
    {"images.npy", "npy"},
    {"x_train.npy", "npy"},
    {"x_test.npy", "npy"},
    {".tar", "tar"},
    {".tar.gz", "tar"},
    {".tgz", "tar"},
    {".tar.zst", "tar"},
    {".tar.bz2", "tar"},
    {".csv", "list"},
    {".tsv", "list"},
};
enum { RULES = sizeof rules / sizeof *rules };

static bool fits(const char *name, const char *end)
{
    size_t length = strlen(name), want = strlen(end);
    return length >= want && strcasecmp(name + length - want, end) == 0;
}

// A folder whose folders are not splits holds classes; one that has splits is what they are.
static rung_status guess_folders(const char *path, const rungi_names *names, const char **out)
{
    static const char *const splits[] = {"train", "val", "test"};
    for (size_t s = 0; s < sizeof splits / sizeof *splits; s++)
        for (size_t i = 0; i < names->count; i++) {
            char *below = strcmp(names->data[i], splits[s]) == 0
                              ? rungi_path_join(path, names->data[i])
                              : NULL;
            rung_status status =
                below && rungi_fs_is_folder(below) ? rung_source_guess(below, out) : RUNG_NOT_FOUND;
            free(below);
            if (status == RUNG_OK)
                return status;
        }
    for (size_t i = 0; i < names->count; i++) {
        char *below = rungi_path_join(path, names->data[i]);
        bool folder = below && rungi_fs_is_folder(below);
        free(below);
        if (folder) {
            *out = "image_folder";
            return RUNG_OK;
        }
    }
    return RUNG_FAIL(RUNG_FORMAT, "%s: its format cannot be told from the names in it: give it",
                     path);
}

static rung_status guess_folder(const char *path, const char **out)
{
    rungi_names names = {0};
    RUNG_TRY(rungi_fs_list(path, &names));
    *out = NULL;
    for (int r = 0; r < RULES && !*out; r++)
        for (size_t i = 0; i < names.count && !*out; i++)
            if (fits(names.data[i], rules[r].end))
                *out = rules[r].format;
    rung_status status = *out ? RUNG_OK : guess_folders(path, &names, out);
    rungi_names_fini(&names);
    return status;
}

rung_status rung_source_guess(const char *path, const char **format_out)
{
    RUNG_CHECK(path && *path, RUNG_INVALID, "no path of a data set given");
    if (rungi_fs_is_folder(path))
        return guess_folder(path, format_out);
    for (int r = 0; r < RULES; r++)
        if (fits(path, rules[r].end)) {
            *format_out = rules[r].format;
            return RUNG_OK;
        }
    if (!rungi_fs_exists(path))
        return rungi_fs_fail(path, "cannot open", ENOENT);
    return RUNG_FAIL(RUNG_FORMAT, "%s: its format cannot be told from its name: give it", path);
}
