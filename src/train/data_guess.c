// SPDX-License-Identifier: Apache-2.0
// What kind of data set lies at a path.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fs.h"
#include "base/text.h"
#include "rung/data_tools.h"

typedef struct sign {
    const char *pattern; // of a name in the folder
    const char *format;
} sign;

// The first that is found counts.
static const sign signs[] = {{"*-images-idx3-ubyte*", "idx"},
                             {"data_batch_*.bin", "cifar10"},
                             {"fine_label_names.txt", "cifar100"},
                             {"train.bin", "cifar100"},
                             {"x_train.npy", "npy"},
                             {"x.npy", "npy"},
                             {"train.csv", "list"},
                             {"train.tsv", "list"},
                             {"*.tar", "tar"}};

static const char *by_names(const rungi_names *names)
{
    for (size_t s = 0; s < sizeof signs / sizeof *signs; s++)
        for (size_t i = 0; i < names->count; i++)
            if (rungi_text_match(signs[s].pattern, names->data[i]))
                return signs[s].format;
    return NULL;
}

// Folders of archives, or of classes.
static rung_status by_folders(const char *path, const rungi_names *names, const char **format)
{
    for (size_t i = 0; i < names->count && !*format; i++) {
        char *inner = rungi_path_join(path, names->data[i]);
        RUNG_CHECK(inner, RUNG_NO_MEMORY, "no memory for a path");
        if (rungi_fs_is_folder(inner)) {
            rungi_names within;
            rung_status status = rungi_fs_list(inner, &within);
            if (status == RUNG_OK) {
                const char *found = by_names(&within);
                *format = found && strcmp(found, "tar") == 0 ? "tar" : "image_folder";
                rungi_names_fini(&within);
            }
        }
        free(inner);
    }
    return RUNG_OK;
}

rung_status rung_data_guess_format(const char *path, const char **format_out)
{
    static const sign files[] = {{"*.csv", "list"}, {"*.tsv", "list"}, {"*.tar", "tar"}};
    const char *format = NULL;
    for (size_t s = 0; s < sizeof files / sizeof *files; s++)
        if (rungi_text_match(files[s].pattern, path)) {
            *format_out = files[s].format;
            return RUNG_OK;
        }
    RUNG_CHECK(rungi_fs_exists(path), RUNG_NOT_FOUND, "%s: no such file or folder", path);
    RUNG_CHECK(rungi_fs_is_folder(path), RUNG_FORMAT,
               "%s: is neither a configuration (.yaml) nor a data set: give a folder, a list (.csv "
               "or .tsv) or an archive (.tar)",
               path);
    rungi_names names;
    RUNG_TRY(rungi_fs_list(path, &names));
    format = by_names(&names);
    rung_status status = format ? RUNG_OK : by_folders(path, &names, &format);
    rungi_names_fini(&names);
    RUNG_TRY(status);
    RUNG_CHECK(format, RUNG_FORMAT,
               "%s: holds no data set of a kind that is known: name it in a configuration "
               "(data.format)",
               path);
    *format_out = format;
    return RUNG_OK;
}
