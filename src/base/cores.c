// SPDX-License-Identifier: Apache-2.0
#include "base/cores.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef RUNG_OPENMP
#    include <omp.h>
#endif

// Adds the cores of OpenMP's places; none where it does not bind threads.
static void add_places(cpu_set_t *set)
{
#ifdef RUNG_OPENMP
    for (int place = 0; place < omp_get_num_places(); place++) {
        int count = omp_get_place_num_procs(place);
        int *cores = calloc((size_t)count + 1, sizeof *cores);
        if (!cores)
            return;
        omp_get_place_proc_ids(place, cores);
        for (int i = 0; i < count; i++)
            CPU_SET((size_t)cores[i], set);
        free(cores);
    }
#else
    (void)set;
#endif
}

void rungi_cores_allowed(cpu_set_t *set)
{
    CPU_ZERO(set);
    if (sched_getaffinity(0, sizeof *set, set) != 0)
        for (long i = 0; i < sysconf(_SC_NPROCESSORS_ONLN) && i < CPU_SETSIZE; i++)
            CPU_SET((size_t)i, set);
    add_places(set);
}

void rungi_cores_unbind(void)
{
    cpu_set_t allowed, own;
    rungi_cores_allowed(&allowed);
    if (sched_getaffinity(0, sizeof own, &own) == 0 && !CPU_EQUAL(&allowed, &own))
        (void)pthread_setaffinity_np(pthread_self(), sizeof allowed, &allowed);
}

cpu_set_t rungi_cores_bind(const cpu_set_t *cores, int place)
{
    cpu_set_t before = *cores, one;
    (void)pthread_getaffinity_np(pthread_self(), sizeof before, &before);
    for (size_t core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, cores) && place-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(core, &one);
            (void)pthread_setaffinity_np(pthread_self(), sizeof one, &one);
            break;
        }
    return before;
}

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

int rungi_core_count(void)
{
    cpu_set_t set;
    rungi_cores_allowed(&set);
    int cores = CPU_COUNT(&set), quota = container_cores();
    if (quota > 0 && quota < cores)
        cores = quota;
    return cores > 0 ? cores : 1;
}
