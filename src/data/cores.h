// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_DATA_CORES_H
#define RUNGI_DATA_CORES_H

// Cores that this process may use: its CPU set, and the container's quota (cgroup v1 and v2)
// rounded up. At least 1.
int rungi_usable_cores(void);

// The part that reads a quota: cores of "max 100000" or "150000 100000" (rounded up), 0 for none.
int rungi_quota_cores(const char *cpu_max);

#endif
