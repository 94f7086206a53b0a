// SPDX-License-Identifier: Apache-2.0
#ifndef RUNGI_MEASURE_RESIDENT_H
#define RUNGI_MEASURE_RESIDENT_H

#include <stdint.h>

// The most memory that this process has had resident, in bytes, by the kernel's account; 0 where it
// keeps none.
uint64_t rungi_peak_resident(void);
// What it has now.
uint64_t rungi_resident(void);

#endif
