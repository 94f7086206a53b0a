// SPDX-License-Identifier: Apache-2.0
// How tests start themselves again as processes of mpirun.
#ifndef RUNGI_TESTS_MPIRUN_H
#define RUNGI_TESTS_MPIRUN_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Output (cut at the end of the buffer) and exit status of a shell command.
static inline int mpirun_shell(const char *command, char *out, size_t size)
{
    FILE *pipe = popen(command, "r");
    size_t filled = 0, got;
    char rest[4096];
    if (!pipe)
        return -1;
    while (filled + 1 < size && (got = fread(out + filled, 1, size - 1 - filled, pipe)) > 0)
        filled += got;
    out[filled] = 0;
    while (fread(rest, 1, sizeof rest, pipe) > 0)
        continue;
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Is there an mpirun?
static inline bool mpirun_found(void)
{
    char out[256];
    return mpirun_shell("mpirun --version 2>/dev/null", out, sizeof out) == 0;
}

// Runs this program with `arguments` as `processes` processes, at most 120 s. Cores may be fewer,
// and the user may be root, as in containers. When one fails, mpirun ends the others: they have
// three seconds to say something, which it waits for twice. With `patient` (Open MPI) it leaves
// them alone until they have ended by themselves, as all must, and its status is 0. Gives mpirun's
// exit status; `out` gets all that was printed.
static inline int mpirun_with(int processes, const char *arguments, bool patient, char *out,
                              size_t size)
{
    char self[4096], command[8192], version[256] = "";
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return -1;
    self[length] = 0;
    mpirun_shell("mpirun --version 2>/dev/null", version, sizeof version);
    bool open = strstr(version, "Open MPI") || strstr(version, "OpenRTE");
    const char *options = open ? "--allow-run-as-root --oversubscribe --bind-to none "
                                 "--mca odls_base_sigkill_timeout 3 --mca btl self,vader "
                                 "--mca plm isolated --mca orte_tmpdir_base /tmp"
                               : "";
    // MPI itself leaves memory behind, which is no business of LeakSanitizer's.
    snprintf(command, sizeof command,
             "ASAN_OPTIONS=detect_leaks=0 timeout -k 5 120 mpirun %s%s -n %d '%s' %s 2>&1", options,
             open && patient ? " --mca orte_abort_on_non_zero_status 0" : "", processes, self,
             arguments);
    return mpirun_shell(command, out, size);
}

static inline int mpirun(int processes, const char *arguments, char *out, size_t size)
{
    return mpirun_with(processes, arguments, false, out, size);
}

#endif
