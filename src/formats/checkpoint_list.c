// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/error.h"
#include "base/fs.h"
#include "base/text.h"
#include "formats/checkpoint_folder.h"
#include "formats/checkpoint_manifest.h"

static int newest_first(const void *a, const void *b)
{
    const rungi_checkpoint_listed *x = a, *y = b;
    if (!x->reason != !y->reason)
        return x->reason ? -1 : 1;
    if (x->save != y->save)
        return x->save > y->save ? -1 : 1;
    return strcmp(y->name, x->name);
}

static rung_status add(rungi_checkpoint_list *list, const char *root, const char *name)
{
    char path[RUNGI_PATH_MAX];
    struct stat st;
    RUNG_TRY(rungi_path_format(path, "%s/%s", root, name));
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return RUNG_OK;
    rungi_checkpoint_listed listed = {.name = rungi_text_copy(name), .save = -1};
    json_t *manifest = NULL;
    if (rungi_manifest_read(path, &manifest) == RUNG_OK) {
        listed.save = rungi_manifest_save(manifest);
        json_decref(manifest);
    } else {
        listed.reason = rungi_text_copy(rung_error_last()->message);
    }
    if (listed.name && (listed.reason || listed.save >= 0) && rungi_array_push(list, listed))
        return RUNG_OK;
    free(listed.name);
    free(listed.reason);
    return RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory to list it", root);
}

rung_status rungi_checkpoint_list_read(const char *root, rungi_checkpoint_list *list_out)
{
    rungi_checkpoint_list list = {0};
    DIR *dir = opendir(root);
    if (!dir && errno != ENOENT)
        return rungi_io_fail(root, "list", errno, 0);
    rung_status status = RUNG_OK;
    for (struct dirent *entry; dir && status == RUNG_OK && (entry = readdir(dir));)
        if (entry->d_name[0] != '.' && !rungi_name_is_temporary(entry->d_name, "tmp"))
            status = add(&list, root, entry->d_name);
    if (dir)
        closedir(dir);
    if (status != RUNG_OK) {
        rungi_checkpoint_list_fini(&list);
        return status;
    }
    if (list.count)
        qsort(list.data, list.count, sizeof *list.data, newest_first);
    *list_out = list;
    return RUNG_OK;
}

void rungi_checkpoint_list_fini(rungi_checkpoint_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->data[i].name);
        free(list->data[i].reason);
    }
    rungi_array_fini(list);
}

bool rungi_checkpoint_read_mark(const char *path, char name_out[RUNGI_CHECKPOINT_NAME_MAX + 1])
{
    char *text = NULL;
    size_t size = 0;
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > RUNGI_CHECKPOINT_NAME_MAX + 1)
        return false;
    if (rungi_fs_read(path, RUNGI_CHECKPOINT_NAME_MAX + 1, &text, &size) != RUNG_OK)
        return false;
    if (size && text[size - 1] == '\n')
        text[--size] = 0;
    bool good = size > 0 && size <= RUNGI_CHECKPOINT_NAME_MAX && strlen(text) == size &&
                text[0] != '.' && !strpbrk(text, "/\n");
    if (good)
        memcpy(name_out, text, size + 1);
    free(text);
    return good;
}
