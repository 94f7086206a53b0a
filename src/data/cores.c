// SPDX-License-Identifier: Apache-2.0
#include "data/cores.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int rungi_quota_cores(const char *cpu_max)
{
    char *rest;
    long quota = strtol(cpu_max, &rest, 10);
    long period = strtol(rest, NULL, 10);
    if (quota <= 0 || period <= 0)
        return 0;
    return (int)((quota + period - 1) / period);
}

static int read_line(const char *path, char *out, size_t size)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    int ok = fgets(out, (int)size, file) != NULL;
    fclose(file);
    return ok;
}

static int container_cores(void)
{
    char line[64], period[32];
    if (read_line("/sys/fs/cgroup/cpu.max", line, sizeof line))
        return rungi_quota_cores(line);
    if (!read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", line, 32) ||
        !read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period))
        return 0;
    line[strcspn(line, "\n")] = '\0';
    strcat(line, " ");
    strcat(line, period);
    return rungi_quota_cores(line);
}

int rungi_usable_cores(void)
{
    cpu_set_t set;
    long cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                             : sysconf(_SC_NPROCESSORS_ONLN);
    int quota = container_cores();
    if (quota > 0 && quota < cores)
        cores = quota;
    return cores > 0 ? (int)cores : 1;
}
