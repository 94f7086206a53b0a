// SPDX-License-Identifier: Apache-2.0
// Pictures in folders, one for each class: torchvision's ImageFolder. Classes are the folders in
// the order of their names, pictures the files below them with its extensions, in the order of the
// folders' paths and then of the names.
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/context.h"
#include "base/error.h"
#include "base/fs.h"
#include "data/picture_source.h"

enum { DEPTH_MAX = 64 };

typedef RUNGI_ARRAY(char *) names;

typedef struct scan {
    rungi_picture_source *ps;
    names folders; // below the root, to look through
    int64_t label;
    int64_t left_out; // files of other names
} scan;

static bool is_folder(const char *folder, const struct dirent *entry)
{
    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK)
        return entry->d_type == DT_DIR;
    char *path = rungi_path_join(folder, entry->d_name);
    bool result = path && rungi_fs_is_folder(path);
    free(path);
    return result;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_names(names *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->data[i]);
    rungi_array_fini(list);
}

static void sort_names(names *list)
{
    if (list->count)
        qsort(list->data, list->count, sizeof *list->data, compare_names);
}

// Lists the folders and the other names in `path`, sorted.
static rung_status list_folder(const char *path, names *folders, names *files)
{
    DIR *dir = opendir(path);
    if (!dir)
        return rungi_fs_fail(path, "cannot open", errno);
    rung_status status = RUNG_OK;
    for (struct dirent *entry; status == RUNG_OK && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *copy = rungi_text_copy(entry->d_name);
        names *list = is_folder(path, entry) ? folders : files;
        if (!copy || !rungi_array_push(list, copy)) {
            free(copy);
            status = RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for its names", path);
        }
    }
    closedir(dir);
    sort_names(folders);
    sort_names(files);
    return status;
}

// All folders below root/name, with itself. Links are followed; going round in circles ends at a
// depth.
static rung_status collect(scan *s, const char *root, const char *name, int depth)
{
    names folders = {0}, files = {0};
    char *path = rungi_path_join(root, name), *copy = rungi_text_copy(name);
    rung_status status = RUNG_OK;
    if (!path || !copy || !rungi_array_push(&s->folders, copy)) {
        free(copy);
        status = RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for its name", name);
        goto done;
    }
    if (depth > DEPTH_MAX) {
        status = RUNG_FAIL(RUNG_DATA,
                           "%s: folders lie more than %d deep: does a link lead round "
                           "in a circle?",
                           path, DEPTH_MAX);
        goto done;
    }
    status = list_folder(path, &folders, &files);
    for (size_t i = 0; i < folders.count && status == RUNG_OK; i++) {
        char *below = rungi_path_join(name, folders.data[i]);
        status = below ? collect(s, root, below, depth + 1)
                       : RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for its names", path);
        free(below);
    }
done:
    free_names(&folders);
    free_names(&files);
    free(path);
    return status;
}

static rung_status add_files(scan *s, const char *root, const char *folder)
{
    names folders = {0}, files = {0};
    char *path = rungi_path_join(root, folder);
    rung_status status = path ? list_folder(path, &folders, &files)
                              : RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for its name", folder);
    for (size_t i = 0; i < files.count && status == RUNG_OK; i++) {
        if (!rungi_picture_name(files.data[i])) {
            s->left_out++;
            continue;
        }
        char *name = rungi_path_join(folder, files.data[i]);
        status = name ? rungi_picture_source_add(
                            s->ps, name,
                            (rungi_picture_place){.size = -1, .archive = -1, .label = s->label})
                      : RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for its names", path);
        free(name);
    }
    free_names(&folders);
    free_names(&files);
    free(path);
    return status;
}

static rung_status add_class(scan *s, const char *root, const char *name)
{
    size_t before = s->ps->places.count;
    rung_status status = collect(s, root, name, 1);
    sort_names(&s->folders);
    for (size_t i = 0; i < s->folders.count && status == RUNG_OK; i++)
        status = add_files(s, root, s->folders.data[i]);
    for (size_t i = 0; i < s->folders.count; i++)
        free(s->folders.data[i]);
    s->folders.count = 0;
    RUNG_TRY(status);
    RUNG_CHECK(s->ps->places.count > before, RUNG_DATA,
               "%s: the folder of class %s holds no pictures: remove it, or put some there", root,
               name);
    s->label++;
    return rungi_picture_source_class(s->ps, name);
}

static rung_status fill(rung_context *context, const char *path, rungi_picture_source *ps)
{
    scan s = {.ps = ps};
    names folders = {0}, files = {0};
    rung_status status = list_folder(path, &folders, &files);
    if (status == RUNG_OK && folders.count == 0)
        status = RUNG_FAIL(RUNG_DATA,
                           "%s: has no folders: each class must have one with its pictures", path);
    for (size_t i = 0; i < folders.count && status == RUNG_OK; i++)
        status = add_class(&s, path, folders.data[i]);
    free_names(&folders);
    free_names(&files);
    rungi_array_fini(&s.folders);
    RUNG_TRY(status);
    if (s.left_out)
        rungi_log(context, RUNG_LOG_NOTICE,
                  "%s: %lld files are left out, their names do not end as pictures' do", path,
                  (long long)s.left_out);
    return rungi_picture_source_finish(ps, path);
}

rung_status rung_source_image_folder(rung_context *context, const char *path,
                                     rung_source **source_out)
{
    rungi_picture_source *ps;
    RUNG_CHECK(path, RUNG_CONFIG, "image_folder: data.path must name the folder of the classes");
    RUNG_TRY(rungi_picture_source_create("image_folder", path, &ps));
    rung_status status = fill(context, path, ps);
    rung_source *source = &ps->source;
    if (status == RUNG_OK)
        *source_out = source;
    else
        rung_source_destroy(&source);
    return status;
}
