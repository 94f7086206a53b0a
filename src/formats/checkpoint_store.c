// SPDX-License-Identifier: Apache-2.0
// Lock, left-overs, marks and pruning of a folder of checkpoints.
#include "formats/checkpoint_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/context.h"
#include "base/error.h"

static void notice(const rungi_checkpoints *c, rung_log_level level, const char *path,
                   const char *what)
{
    if (c->options.context)
        rungi_log(c->options.context, level, "%s: %s", path, what);
}

static rung_status take_lock(rungi_checkpoints *c)
{
    char path[RUNGI_PATH_MAX], owner[32] = "";
    RUNG_TRY(rungi_path_format(path, "%s/.lock", c->root));
    c->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (c->lock < 0)
        return rungi_io_fail(path, "open", errno, 0);
    if (flock(c->lock, LOCK_EX | LOCK_NB) == 0) {
        int length = snprintf(owner, sizeof owner, "%d\n", (int)getpid());
        if (ftruncate(c->lock, 0) != 0 || pwrite(c->lock, owner, (size_t)length, 0) != length)
            notice(c, RUNG_LOG_WARNING, path, "cannot note who holds the lock");
        return RUNG_OK;
    }
    if (errno != EWOULDBLOCK) { // a file system without locks
        notice(c, RUNG_LOG_WARNING, path,
               "cannot lock: see to it that no other run saves checkpoints here");
        return RUNG_OK;
    }
    ssize_t got = pread(c->lock, owner, sizeof owner - 1, 0);
    owner[got > 0 ? got : 0] = 0;
    owner[strcspn(owner, "\n")] = 0;
    return RUNG_FAIL(RUNG_IO,
                     "%s: another run saves its checkpoints here (process %s); "
                     "choose another run folder",
                     c->root, owner[0] ? owner : "unknown");
}

// A save that was killed left NAME.tmp-...: removed. One that was killed between the two renames of
// a replacement left NAME.old-... and no NAME: brought back.
static rung_status remove_leftovers(rungi_checkpoints *c)
{
    DIR *dir = opendir(c->root);
    if (!dir)
        return rungi_io_fail(c->root, "list", errno, 0);
    rung_status status = RUNG_OK;
    for (struct dirent *entry; status == RUNG_OK && (entry = readdir(dir));) {
        char path[RUNGI_PATH_MAX], base[RUNGI_PATH_MAX];
        bool old = rungi_name_is_temporary(entry->d_name, "old");
        if (!old && !rungi_name_is_temporary(entry->d_name, "tmp"))
            continue;
        status = rungi_path_format(path, "%s/%s", c->root, entry->d_name);
        if (status != RUNG_OK)
            break;
        strcpy(base, path);
        *strrchr(base, '.') = 0;
        struct stat st;
        if (old && lstat(base, &st) != 0)
            status = rungi_io_rename(path, base, c->options.hook);
        else if (rungi_io_remove(path, c->options.hook))
            notice(c, RUNG_LOG_NOTICE, path, "removed: left by a save that did not finish");
        else
            notice(c, RUNG_LOG_WARNING, path, "cannot remove what a killed save left");
    }
    closedir(dir);
    return status;
}

static rung_status find_next_save(rungi_checkpoints *c)
{
    rungi_checkpoint_list list = {0};
    RUNG_TRY(rungi_checkpoint_list_read(c->root, &list));
    for (size_t i = 0; i < list.count; i++)
        if (list.data[i].save >= c->next_save)
            c->next_save = list.data[i].save + 1;
    rungi_checkpoint_list_fini(&list);
    return RUNG_OK;
}

rung_status rungi_checkpoints_open(const char *root, const rungi_checkpoints_options *options,
                                   rungi_checkpoints **checkpoints_out)
{
    rungi_checkpoints *c = calloc(1, sizeof *c);
    RUNG_CHECK(c, RUNG_NO_MEMORY, "%s: no memory to save there", root);
    c->lock = -1;
    if (options)
        c->options = *options;
    rung_status status;
    RUNG_TRY_GOTO(close_all, rungi_path_format(c->root, "%s", root));
    RUNG_TRY_GOTO(close_all, rungi_io_make_folders(root, c->options.hook));
    RUNG_TRY_GOTO(close_all, take_lock(c));
    RUNG_TRY_GOTO(close_all, remove_leftovers(c));
    RUNG_TRY_GOTO(close_all, find_next_save(c));
    *checkpoints_out = c;
    return RUNG_OK;
close_all:
    rungi_checkpoints_close(&c);
    return status;
}

void rungi_checkpoints_close(rungi_checkpoints **checkpoints)
{
    if (!checkpoints || !*checkpoints)
        return;
    if ((*checkpoints)->lock >= 0)
        close((*checkpoints)->lock);
    free(*checkpoints);
    *checkpoints = NULL;
}

rung_status rungi_checkpoint_check_name(const char *name)
{
    RUNG_CHECK(name[0] && name[0] != '.' && !strpbrk(name, "/\n") &&
                   strlen(name) <= RUNGI_CHECKPOINT_NAME_MAX &&
                   !rungi_name_is_temporary(name, "tmp") && !rungi_name_is_temporary(name, "old"),
               RUNG_INVALID, "%s: cannot be the name of a checkpoint", name);
    return RUNG_OK;
}

rung_status rungi_checkpoints_mark(rungi_checkpoints *c, const char *mark, const char *name)
{
    char path[RUNGI_PATH_MAX], text[RUNGI_CHECKPOINT_NAME_MAX + 2];
    struct stat st;
    RUNG_TRY(rungi_checkpoint_check_name(mark));
    RUNG_TRY(rungi_checkpoint_check_name(name));
    RUNG_TRY(rungi_path_format(path, "%s/%s", c->root, name));
    RUNG_CHECK(stat(path, &st) == 0 && S_ISDIR(st.st_mode), RUNG_NOT_FOUND,
               "%s: no such checkpoint to mark as %s", path, mark);
    RUNG_TRY(rungi_path_format(path, "%s/%s", c->root, mark));
    if (rungi_checkpoint_read_mark(path, text) && strcmp(text, name) == 0)
        return RUNG_OK;
    int length = snprintf(text, sizeof text, "%s\n", name);
    return rungi_file_replace(path, text, (size_t)length, c->options.hook);
}

// Is the checkpoint `name` marked by a file of `root`?
static bool is_marked(const char *root, const char *name)
{
    DIR *dir = opendir(root);
    bool marked = false;
    if (!dir)
        return true; // nothing is known: keep it
    for (struct dirent *entry; !marked && (entry = readdir(dir));) {
        char path[RUNGI_PATH_MAX], target[RUNGI_CHECKPOINT_NAME_MAX + 1];
        marked = entry->d_name[0] != '.' && !rungi_name_is_temporary(entry->d_name, "tmp") &&
                 rungi_path_format(path, "%s/%s", root, entry->d_name) == RUNG_OK &&
                 rungi_checkpoint_read_mark(path, target) && strcmp(target, name) == 0;
    }
    closedir(dir);
    return marked;
}

// The name goes first, in one step: half of a checkpoint never has its name.
static rung_status remove_checkpoint(rungi_checkpoints *c, const char *name)
{
    char path[RUNGI_PATH_MAX], temporary[RUNGI_PATH_MAX];
    RUNG_TRY(rungi_path_format(path, "%s/%s", c->root, name));
    RUNG_TRY(rungi_path_temporary(temporary, path, "tmp", c->attempt++));
    if (rungi_io_rename(path, temporary, c->options.hook) != RUNG_OK ||
        !rungi_io_remove(temporary, c->options.hook))
        notice(c, RUNG_LOG_WARNING, path, "cannot remove this checkpoint");
    return RUNG_OK;
}

rung_status rungi_checkpoints_prune(rungi_checkpoints *c, size_t keep, const char *const *protect,
                                    size_t protect_count)
{
    rungi_checkpoint_list list = {0};
    RUNG_TRY(rungi_checkpoint_list_read(c->root, &list));
    rung_status status = RUNG_OK;
    size_t kept = 0;
    for (size_t i = 0; i < list.count && keep && status == RUNG_OK; i++) {
        const rungi_checkpoint_listed *listed = &list.data[i];
        if (listed->reason || rungi_name_is_temporary(listed->name, "old") || kept++ < keep)
            continue;
        bool wanted = is_marked(c->root, listed->name);
        for (size_t j = 0; j < protect_count; j++)
            wanted = wanted || strcmp(protect[j], listed->name) == 0;
        if (!wanted)
            status = remove_checkpoint(c, listed->name);
    }
    rungi_checkpoint_list_fini(&list);
    return status;
}
