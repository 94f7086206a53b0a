// SPDX-License-Identifier: Apache-2.0
#include "measure/resident.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

// A line of /proc/self/status, in bytes.
static uint64_t status_line(const char *name)
{
    char line[256];
    unsigned long long kb = 0;
    size_t length = strlen(name);
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, length) == 0 && sscanf(line + length, ": %llu kB", &kb) == 1)
            break;
    if (file)
        fclose(file);
    return kb * 1024;
}

uint64_t rungi_peak_resident(void)
{
    return status_line("VmHWM");
}

uint64_t rungi_resident(void)
{
    return status_line("VmRSS");
}

double rungi_cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}
