// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_MEASURE_RESIDENT_H
#define RUNGI_MEASURE_RESIDENT_H

#include <stdint.h>

// The most memory that this process has had resident, in bytes, by the kernel's account; 0 where it
// keeps none.
uint64_t rungi_peak_resident(void);
// What it has now.
uint64_t rungi_resident(void);

// Seconds that its threads have computed, in user code and in the system.
double rungi_cpu_seconds(void);

#endif
