// SPDX-License-Identifier: Apache-2.0
#include "measure/resident.h"

#include <stdio.h>

uint64_t rungi_peak_resident(void)
{
    char line[256];
    unsigned long long kb = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %llu kB", &kb) == 1)
            break;
    if (file)
        fclose(file);
    return kb * 1024;
}
