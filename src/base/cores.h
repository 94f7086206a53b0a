// SPDX-License-Identifier: Apache-2.0
// The processor cores that this process may use.
#ifndef RUNGI_BASE_CORES_H
#define RUNGI_BASE_CORES_H

#include <sched.h>

// The cores that the process was given. OpenMP, told to bind its threads (OMP_PROC_BIND,
// OMP_PLACES), has bound the first one to its own place before main began: what the system says of
// that thread is one core then, and threads that it starts would all share it. So the cores of all
// of OpenMP's places count too.
void rungi_cores_allowed(cpu_set_t *set);

// How many there are, cut by the container's quota (control groups, version 1 and 2, rounded up).
// At least 1.
int rungi_core_count(void);

// For a thread that was just started: lets it run on all of them.
void rungi_cores_unbind(void);

// Binds this thread to one of `cores`, the first for place 0; where there are fewer it stays where
// it is. Returns where it was allowed to run.
cpu_set_t rungi_cores_bind(const cpu_set_t *cores, int place);

// The part that reads a quota: cores of "max 100000" or "150000 100000" (rounded up), 0 for none.
int rungi_quota_cores(const char *cpu_max);

#endif
