// SPDX-License-Identifier: Apache-2.0
// What format is it? Told by names: of the path, or of what lies in the folder; and, of files .bin,
// by how they begin.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file_io.h"
#include "base/fs.h"
#include "base/text.h"
#include "formats/token_file.h"
#include "rung/convert.h"

enum { A_FILE = 1, IN_FOLDER = 2, EITHER = 3 };

typedef struct rule {
    const char *pattern, *format;
    int where;
} rule;

// The first that fits any name counts.
static const rule rules[] = {
    {"*.pack", "pack", EITHER},
    {"*-idx3-ubyte*", "idx", IN_FOLDER},
    {"data_batch_*.bin", "cifar10", EITHER},
    {"test_batch.bin", "cifar10", EITHER},
    {"fine_label_names.txt", "cifar100", IN_FOLDER},
    {"*.bin", "tokens", EITHER},
    {"train.bin", "cifar100", IN_FOLDER},
    {"*.npz", "npy", A_FILE},
    {"x_train.npy", "npy", IN_FOLDER},
    {"x_test.npy", "npy", IN_FOLDER},
    {"train_images.npy", "npy", IN_FOLDER},
    {"images.npy", "npy", IN_FOLDER},
    {"train.csv", "list", IN_FOLDER},
    {"train.tsv", "list", IN_FOLDER},
    {"*.csv", "list", A_FILE},
    {"*.tsv", "list", A_FILE},
    {"*.tar", "tar", EITHER},
    {"*.tar.gz", "tar", EITHER},
    {"*.tgz", "tar", EITHER},
    {"*.tar.zst", "tar", EITHER},
    {"*.tar.bz2", "tar", EITHER},
};
enum { RULES = sizeof rules / sizeof *rules };

// Does the file begin as one of tokens does? Leaves the error record alone.
static bool holds_tokens(const char *path)
{
    int32_t magic = 0;
    int fd = -1;
    uint64_t size;
    if (!rungi_fs_exists(path) || rungi_fs_is_folder(path) ||
        rungi_io_open_read(path, &fd, &size) != RUNG_OK)
        return false;
    bool read = pread(fd, &magic, sizeof magic, 0) == (ssize_t)sizeof magic;
    close(fd);
    return read && (magic == RUNGI_TOKEN_MAGIC_16 || magic == RUNGI_TOKEN_MAGIC_32);
}

static bool fits(const rule *r, int where, const char *path)
{
    return (r->where & where) && rungi_text_match(r->pattern, rungi_path_name(path)) &&
           (strcmp(r->format, "tokens") != 0 || holds_tokens(path));
}

static rung_status guess_names(const char *path, const rungi_names *names, const char **out)
{
    for (int r = 0; r < RULES && !*out; r++)
        for (size_t i = 0; i < names->count && !*out; i++) {
            char *inner = rungi_path_join(path, names->data[i]);
            RUNG_CHECK(inner, RUNG_NO_MEMORY, "%s: no memory for a path", path);
            if (fits(&rules[r], IN_FOLDER, inner))
                *out = rules[r].format;
            free(inner);
        }
    return RUNG_OK;
}

// A folder of splits is what they are; other folders are classes.
static rung_status guess_folders(const char *path, const rungi_names *names, const char **out)
{
    for (size_t i = 0; i < names->count; i++) {
        char *inner = rungi_path_join(path, names->data[i]);
        RUNG_CHECK(inner, RUNG_NO_MEMORY, "%s: no memory for a path", path);
        bool split = strcmp(names->data[i], "train") == 0 || strcmp(names->data[i], "val") == 0 ||
                     strcmp(names->data[i], "test") == 0;
        const char *found = "image_folder";
        if (rungi_fs_is_folder(inner) && (!split || rung_source_guess(inner, &found) == RUNG_OK))
            *out = found;
        free(inner);
        if (split && *out)
            return RUNG_OK;
    }
    RUNG_CHECK(*out, RUNG_FORMAT, "%s: its format cannot be told from the names in it: give it",
               path);
    return RUNG_OK;
}

static rung_status guess_folder(const char *path, const char **out)
{
    rungi_names names = {0};
    const char *found = NULL;
    RUNG_TRY(rungi_fs_list(path, &names));
    rung_status status = guess_names(path, &names, &found);
    if (status == RUNG_OK && !found)
        status = guess_folders(path, &names, &found);
    rungi_names_fini(&names);
    if (status == RUNG_OK)
        *out = found;
    return status;
}

rung_status rung_source_guess(const char *path, const char **format_out)
{
    RUNG_CHECK(path && *path, RUNG_INVALID, "no path of a data set given");
    if (rungi_fs_is_folder(path))
        return guess_folder(path, format_out);
    for (int r = 0; r < RULES; r++)
        if (fits(&rules[r], A_FILE, path)) {
            *format_out = rules[r].format;
            return RUNG_OK;
        }
    RUNG_CHECK(rungi_fs_exists(path), RUNG_NOT_FOUND, "%s: no such file or folder", path);
    return RUNG_FAIL(RUNG_FORMAT, "%s: its format cannot be told from its name: give it", path);
}
