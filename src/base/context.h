// SPDX-License-Identifier: Apache-2.0
// Inside of the context, for rung's own modules.
#ifndef RUNGI_BASE_CONTEXT_H
#define RUNGI_BASE_CONTEXT_H

#include <stdbool.h>

#include "rung/context.h"

// Nanoseconds of the context's clock.
int64_t rungi_now(const rung_context *context);
void rungi_sleep(const rung_context *context, int64_t nanoseconds);

// The context's clock itself. Borrowed.
const rung_clock *rungi_clock(const rung_context *context);

// Sends one line to the context's log callback. Escaped like an error message.
void rungi_log(rung_context *context, rung_log_level level, const char *fmt, ...) RUNG_PRINTF(3, 4);

// The monotonic clock of the system (CLOCK_MONOTONIC), for code without a context.
const rung_clock *rungi_clock_monotonic(void);

// Highest instruction set of this CPU.
rung_isa rungi_cpu_isa(void);
// Has it units that multiply tiles of bf16 (AMX)?
bool rungi_cpu_multiplies_tiles(void);

#endif
