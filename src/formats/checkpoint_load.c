// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/error.h"
#include "base/fs.h"
#include "formats/checkpoint_folder.h"
#include "formats/checkpoint_manifest.h"

typedef struct opened {
    const char *name; // borrowed from the manifest
    rung_safetensors *file;
} opened;

struct rungi_checkpoint {
    char path[RUNGI_PATH_MAX];
    json_t *manifest;
    RUNGI_ARRAY(opened) files;
};

// Follows a mark to the folder beside it.
static rung_status resolve(const char *path, char out[RUNGI_PATH_MAX])
{
    struct stat st;
    char name[RUNGI_CHECKPOINT_NAME_MAX + 1];
    if (stat(path, &st) != 0 || S_ISDIR(st.st_mode))
        return rungi_path_format(out, "%s", path);
    RUNG_CHECK(rungi_checkpoint_read_mark(path, name), RUNG_FORMAT,
               "%s: not a checkpoint: a checkpoint is a folder with " RUNGI_MANIFEST_NAME, path);
    int length = (int)(rungi_path_name(path) - path);
    return rungi_path_format(out, "%.*s%s", length, path, name);
}

rung_status rungi_checkpoint_open(const char *path, bool verify, rungi_checkpoint **checkpoint_out)
{
    rungi_checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
    RUNG_CHECK(checkpoint, RUNG_NO_MEMORY, "%s: no memory to open it", path);
    rung_status status;
    const char *name;
    json_t *entry;
    RUNG_TRY_GOTO(close_checkpoint, resolve(path, checkpoint->path));
    RUNG_TRY_GOTO(close_checkpoint, rungi_manifest_read(checkpoint->path, &checkpoint->manifest));
    json_object_foreach(rungi_manifest_files(checkpoint->manifest), name, entry)
    {
        opened one = {.name = name};
        RUNG_TRY_GOTO(close_checkpoint,
                      rungi_manifest_check_file(checkpoint->path, name, entry, verify, &one.file));
        if (!rungi_array_push(&checkpoint->files, one)) {
            rung_safetensors_close(&one.file);
            status = RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory to open it", path);
            goto close_checkpoint;
        }
    }
    *checkpoint_out = checkpoint;
    return RUNG_OK;
close_checkpoint:
    rungi_checkpoint_close(&checkpoint);
    return status;
}

void rungi_checkpoint_close(rungi_checkpoint **checkpoint)
{
    if (!checkpoint || !*checkpoint)
        return;
    for (size_t i = 0; i < (*checkpoint)->files.count; i++)
        rung_safetensors_close(&(*checkpoint)->files.data[i].file);
    rungi_array_fini(&(*checkpoint)->files);
    json_decref((*checkpoint)->manifest);
    free(*checkpoint);
    *checkpoint = NULL;
}

rung_status rung_checkpoint_verify(const char *path)
{
    rungi_checkpoint *checkpoint = NULL;
    RUNG_CHECK(path, RUNG_INVALID, "rung_checkpoint_verify: no path");
    RUNG_TRY(rungi_checkpoint_open(path, true, &checkpoint));
    rungi_checkpoint_close(&checkpoint);
    return RUNG_OK;
}

static rung_status try_newest(const char *root, const rungi_checkpoint_list *list,
                              rungi_checkpoint_reject_fn reject, void *user,
                              rungi_checkpoint **checkpoint_out)
{
    char path[RUNGI_PATH_MAX];
    rung_error newest = {0};
    for (size_t i = 0; i < list->count; i++) {
        const rungi_checkpoint_listed *listed = &list->data[i];
        RUNG_TRY(rungi_path_format(path, "%s/%s", root, listed->name));
        rung_status status = listed->reason ? RUNG_FAIL(RUNG_CORRUPT, "%s", listed->reason)
                                            : rungi_checkpoint_open(path, true, checkpoint_out);
        if (status == RUNG_OK)
            return RUNG_OK;
        // Without memory nothing is known about the file.
        if (status == RUNG_NO_MEMORY)
            return status;
        if (newest.status == RUNG_OK)
            newest = *rung_error_last();
        if (reject)
            reject(user, path, rung_error_last()->message);
    }
    RUNG_CHECK(newest.status != RUNG_OK, RUNG_NOT_FOUND, "%s: holds no checkpoint", root);
    return RUNG_FAIL(RUNG_CORRUPT, "%s: none of %zu checkpoints can be used; one: %.600s", root,
                     list->count, newest.message);
}

rung_status rungi_checkpoint_open_newest(const char *root, rungi_checkpoint_reject_fn reject,
                                         void *user, rungi_checkpoint **checkpoint_out)
{
    rungi_checkpoint_list list = {0};
    RUNG_TRY(rungi_checkpoint_list_read(root, &list));
    rung_status status = try_newest(root, &list, reject, user, checkpoint_out);
    rungi_checkpoint_list_fini(&list);
    return status;
}

const char *rungi_checkpoint_path(const rungi_checkpoint *checkpoint)
{
    return checkpoint->path;
}

json_t *rungi_checkpoint_state(const rungi_checkpoint *checkpoint)
{
    return rungi_manifest_state(checkpoint->manifest);
}

rung_safetensors *rungi_checkpoint_tensors(const rungi_checkpoint *checkpoint, const char *name)
{
    for (size_t i = 0; i < checkpoint->files.count; i++)
        if (strcmp(checkpoint->files.data[i].name, name) == 0)
            return checkpoint->files.data[i].file;
    return NULL;
}
