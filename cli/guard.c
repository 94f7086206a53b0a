// SPDX-License-Identifier: Apache-2.0
// What is left when the supervisor of a job is killed: a child of its own that sees it end, by a
// pipe that closes, and ends the job. A launcher alone takes longer: Open MPI's waits a second.
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

// Not one that has ended and is not waited for.
static bool is_alive(long pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] && name_end[2] != 'Z' && name_end[2] != 'X';
}

int cli_job_processes(pid_t launcher, int number)
{
    char path[300];
    int found = -1;
    snprintf(path, sizeof path, "/proc/%ld/task", (long)launcher);
    DIR *threads = opendir(path);
    for (const struct dirent *e; threads && (e = readdir(threads));) {
        snprintf(path, sizeof path, "/proc/%ld/task/%.20s/children", (long)launcher, e->d_name);
        FILE *file = *e->d_name == '.' ? NULL : fopen(path, "re");
        if (!file)
            continue;
        found = found < 0 ? 0 : found;
        for (long pid; fscanf(file, "%ld", &pid) == 1;)
            if (is_alive(pid)) {
                found++;
                if (number)
                    kill((pid_t)pid, number);
            }
        fclose(file);
    }
    if (threads)
        closedir(threads);
    return found;
}

static int remove_one(const char *path, const struct stat *found, int type, struct FTW *place)
{
    (void)found, (void)type, (void)place;
    return remove(path);
}

void cli_remove_tree(const char *path)
{
    if (*path)
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

// The supervisor is gone: its job follows. Ranks end at once when the launcher tells them to.
static void end_job(pid_t job, const char *scratch)
{
    enum { TICK_MS = 10, GRACE = 400 / TICK_MS };
    kill(job, SIGTERM);
    for (int i = 0; i < GRACE && cli_job_processes(job, 0) > 0; i++)
        usleep(TICK_MS * 1000);
    cli_job_processes(job, SIGKILL);
    kill(job, SIGKILL);
    cli_remove_tree(scratch);
}

cli_guard cli_guard_start(pid_t job, const char *scratch)
{
    cli_guard guard = {.pipe = -1};
    int ends[2];
    char byte;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return guard; // then the job has its own signal, see run_job
    guard.pid = fork();
    if (guard.pid == 0) {
        signal(SIGINT, SIG_IGN);
        signal(SIGTERM, SIG_IGN);
        setpgid(0, 0);
        close(ends[1]);
        while (read(ends[0], &byte, 1) != 0)
            continue; // interrupted: nobody writes
        end_job(job, scratch);
        _exit(0);
    }
    close(ends[0]);
    if (guard.pid > 0)
        guard.pipe = ends[1];
    else
        close(ends[1]);
    return guard;
}

void cli_guard_end(cli_guard *guard)
{
    if (guard->pipe < 0)
        return;
    kill(guard->pid, SIGKILL); // before it sees the pipe close
    waitpid(guard->pid, NULL, 0);
    close(guard->pipe);
}
