// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/text.h"
#include "formats/checkpoint_manifest.h"
#include "formats/checkpoint_store.h"

// Everything about a save that is known before the disk is touched.
typedef struct save_plan {
    const rungi_checkpoint_file *files;
    rungi_safetensors_plan *plans;
    size_t count;
    uint64_t needed;
    json_t *entries;
} save_plan;

static void save_plan_fini(save_plan *plan)
{
    for (size_t i = 0; plan->plans && i < plan->count; i++)
        rungi_safetensors_plan_fini(&plan->plans[i]);
    free(plan->plans);
    json_decref(plan->entries);
}

static rung_status save_plan_init(save_plan *plan, const rungi_checkpoint_file *files, size_t count)
{
    *plan = (save_plan){.files = files, .count = count};
    plan->plans = calloc(count + 1, sizeof *plan->plans);
    plan->entries = json_object();
    rung_status status = RUNG_OK;
    if (!plan->plans || !plan->entries)
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory to save a checkpoint");
    for (size_t i = 0; i < count && status == RUNG_OK; i++) {
        status =
            rungi_safetensors_plan_init(&plan->plans[i], files[i].sources, files[i].count, NULL, 0);
        // The manifest has some 60 bytes beside each tensor's name.
        plan->needed += plan->plans[i].file_size + plan->plans[i].header_size + 4096;
    }
    if (status != RUNG_OK)
        save_plan_fini(plan);
    return status;
}

static rung_status write_tensors(rungi_checkpoints *c, const char *folder, save_plan *plan,
                                 size_t index)
{
    const rungi_checkpoint_file *file = &plan->files[index];
    char path[RUNGI_PATH_MAX];
    rungi_file out;
    rungi_sum header;
    rung_status status;
    rungi_sum *sums = calloc(file->count + 1, sizeof *sums);
    RUNG_CHECK(sums, RUNG_NO_MEMORY, "no memory to save %s", file->name);
    RUNG_TRY_GOTO(free_sums, rungi_path_format(path, "%s/%s", folder, file->name));
    RUNG_TRY_GOTO(free_sums, rungi_file_create(&out, path, plan->needed, c->options.hook));
    status = rungi_safetensors_emit(&plan->plans[index], &out, &header, sums);
    if (status == RUNG_OK)
        status = rungi_file_finish(&out);
    else
        rungi_file_abandon(&out);
    if (status == RUNG_OK)
        status =
            rungi_manifest_add_file(plan->entries, file->name, &plan->plans[index], header, sums);
free_sums:
    free(sums);
    return status;
}

static rung_status write_manifest(rungi_checkpoints *c, const char *folder, const save_plan *plan,
                                  json_t *state)
{
    char path[RUNGI_PATH_MAX];
    rungi_file out;
    rungi_string text = {0};
    rung_status status = rungi_manifest_write(c->next_save, plan->entries, state, &text);
    if (status == RUNG_OK)
        status = rungi_path_format(path, "%s/" RUNGI_MANIFEST_NAME, folder);
    if (status == RUNG_OK)
        status = rungi_file_create(&out, path, plan->needed, c->options.hook);
    if (status == RUNG_OK) {
        status = rungi_file_write(&out, text.data, text.size);
        if (status == RUNG_OK)
            status = rungi_file_finish(&out);
        else
            rungi_file_abandon(&out);
    }
    rungi_string_fini(&text);
    return status;
}

static rung_status write_folder(rungi_checkpoints *c, const char *folder, save_plan *plan,
                                json_t *state)
{
    for (size_t i = 0; i < plan->count; i++)
        RUNG_TRY(write_tensors(c, folder, plan, i));
    RUNG_TRY(write_manifest(c, folder, plan, state));
    if (!c->options.no_verify && rung_checkpoint_verify(folder) != RUNG_OK)
        return rungi_fail_prefix("what was written cannot be read back");
    return rungi_io_sync_folder(folder, c->options.hook);
}

static rung_status make_temporary(rungi_checkpoints *c, const char *target,
                                  char out[RUNGI_PATH_MAX])
{
    bool exists;
    do {
        RUNG_TRY(rungi_path_temporary(out, target, "tmp", c->attempt++));
        RUNG_TRY(rungi_io_make_folder(out, &exists, c->options.hook));
    } while (exists);
    return RUNG_OK;
}

// Puts the folder `from` in the place of the existing `target`. Exchanging both names leaves no
// moment without a checkpoint of that name; file systems that cannot do that get two renames.
static rung_status replace_folder(rungi_checkpoints *c, const char *from, const char *target)
{
    const rungi_io_hook *hook = c->options.hook;
    int error = hook ? hook->before(hook->user, "exchange", target) : 0;
    if (!error && renameat2(AT_FDCWD, from, AT_FDCWD, target, RENAME_EXCHANGE) != 0)
        error = errno;
    if (!error) {
        (void)rungi_io_remove(from, hook); // the old one now; else the next start removes it
        return RUNG_OK;
    }
    if (error != EINVAL && error != ENOSYS && error != ENOTSUP)
        return rungi_io_fail(target, "exchange", error, 0);
    char old[RUNGI_PATH_MAX];
    RUNG_TRY(rungi_path_temporary(old, target, "old", c->attempt++));
    RUNG_TRY(rungi_io_rename(target, old, hook));
    rung_status status = rungi_io_rename(from, target, hook);
    if (status != RUNG_OK) {
        (void)rename(old, target);
        return status;
    }
    // Under the temporary name nobody takes a half removed one for a checkpoint.
    if (rungi_io_rename(old, from, hook) == RUNG_OK)
        (void)rungi_io_remove(from, hook);
    return RUNG_OK;
}

// Writes the file that will become `latest`: the disk may be full before the checkpoint gets its
// name, but not after.
static rung_status prepare_latest(rungi_checkpoints *c, const char *name, uint64_t needed,
                                  rungi_file *mark)
{
    char path[RUNGI_PATH_MAX], text[RUNGI_CHECKPOINT_NAME_MAX + 2];
    RUNG_TRY(rungi_path_format(path, "%s/" RUNGI_CHECKPOINT_LATEST, c->root));
    RUNG_TRY(rungi_file_create_beside(mark, path, needed, c->options.hook));
    int length = snprintf(text, sizeof text, "%s\n", name);
    rung_status status = rungi_file_write(mark, text, (size_t)length);
    if (status == RUNG_OK)
        status = rungi_file_finish(mark);
    if (status != RUNG_OK)
        rungi_file_abandon(mark);
    return status;
}

// Gives the written folder its name, then moves `latest`.
static rung_status install(rungi_checkpoints *c, const char *temporary, const char *target,
                           rungi_file *mark)
{
    struct stat st;
    char latest[RUNGI_PATH_MAX];
    RUNG_TRY(rungi_path_format(latest, "%s/" RUNGI_CHECKPOINT_LATEST, c->root));
    if (lstat(target, &st) == 0)
        RUNG_TRY(replace_folder(c, temporary, target));
    else
        RUNG_TRY(rungi_io_rename(temporary, target, c->options.hook));
    c->next_save++;
    RUNG_TRY(rungi_io_sync_folder(c->root, c->options.hook));
    RUNG_TRY(rungi_io_rename(mark->path, latest, c->options.hook));
    return rungi_io_sync_folder(c->root, c->options.hook);
}

rung_status rungi_checkpoints_save(rungi_checkpoints *c, const char *name,
                                   const rungi_checkpoint_file *files, size_t file_count,
                                   json_t *state)
{
    char target[RUNGI_PATH_MAX], temporary[RUNGI_PATH_MAX];
    save_plan plan;
    rungi_file mark;
    RUNG_TRY(rungi_checkpoint_check_name(name));
    for (size_t i = 0; i < file_count; i++)
        RUNG_TRY(rungi_checkpoint_check_name(files[i].name));
    RUNG_TRY(rungi_path_format(target, "%s/%s", c->root, name));
    RUNG_TRY(save_plan_init(&plan, files, file_count));
    rung_status status;
    RUNG_TRY_GOTO(fini_plan, make_temporary(c, target, temporary));
    RUNG_TRY_GOTO(remove_temporary, write_folder(c, temporary, &plan, state));
    RUNG_TRY_GOTO(remove_temporary, prepare_latest(c, name, plan.needed, &mark));
    status = install(c, temporary, target, &mark);
    if (status == RUNG_OK)
        goto fini_plan;
    rungi_file_abandon(&mark);
remove_temporary:
    (void)rungi_io_remove(temporary, c->options.hook);
fini_plan:
    save_plan_fini(&plan);
    return status;
}
