// SPDX-License-Identifier: Apache-2.0
// Measured choices of kernels (`plan.autotune`). A table maps each piece of work (operator, pass,
// shapes, layouts, threads) to the kernel that was fastest here. What is not in it is measured when
// a plan is compiled and added. Kept with a run, the table makes a resumed run choose the same
// kernels, and so keep its bits.
#ifndef RUNG_TUNING_H
#define RUNG_TUNING_H

#include <stdbool.h>

#include "rung/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rung_tuning rung_tuning;

// Makes an empty table. The caller owns it and destroys it after the plans that use it are made.
RUNG_API rung_status rung_tuning_create(rung_tuning **tuning_out);
RUNG_API void rung_tuning_destroy(rung_tuning **tuning);

// Adds the choices of a file (JSON) that are not in the table yet. A file that does not exist is
// empty. One made on another kind of CPU is left out when `same_cpu` is set.
RUNG_API rung_status rung_tuning_load(rung_tuning *tuning, const char *path, bool same_cpu);
// Writes the table, whole or not at all.
RUNG_API rung_status rung_tuning_save(const rung_tuning *tuning, const char *path);

// Number of choices, and how many of them were measured since the table was made or loaded.
RUNG_API int rung_tuning_count(const rung_tuning *tuning, int *measured_out);

#ifdef __cplusplus
}
#endif

#endif
