// SPDX-License-Identifier: Apache-2.0
// The context: what everything else hangs off. It holds the log callback, the clock and the cap on
// instruction sets. rung keeps no mutable globals: two contexts in one process do not know each
// other (the exceptions that libraries force on a process are listed in docs/architecture.md).
#ifndef RUNG_CONTEXT_H
#define RUNG_CONTEXT_H

#include <stdint.h>

#include "rung/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rung_context rung_context;

typedef enum rung_log_level {
    RUNG_LOG_DEBUG,
    RUNG_LOG_INFO,
    RUNG_LOG_NOTICE, // something the user should know once
    RUNG_LOG_WARNING,
    RUNG_LOG_ERROR,
} rung_log_level;

// Receives each message: one line of valid UTF-8 without a final newline. May be called from any
// thread; calls are serialised by the context.
typedef void (*rung_log_fn)(void *user, rung_log_level level, const char *line);

// A source of time, so that tests can inject one. `now` gives nanoseconds from an arbitrary start
// and never runs backwards; `sleep` waits that many nanoseconds. Both may be called from any
// thread.
typedef struct rung_clock {
    void *user;
    int64_t (*now)(void *user);
    void (*sleep)(void *user, int64_t nanoseconds);
} rung_clock;

// Highest instruction set that kernels may use. AUTO is what the CPU has.
typedef enum rung_isa {
    RUNG_ISA_AUTO,
    RUNG_ISA_SCALAR, // the baseline of the architecture
    RUNG_ISA_AVX2,   // with FMA
    RUNG_ISA_AVX512, // F, BW, DQ, VL
} rung_isa;

typedef struct rung_context_options {
    rung_log_fn log;          // NULL: messages are dropped
    void *log_user;           // passed to `log`
    rung_log_level log_level; // lower levels are dropped; default RUNG_LOG_DEBUG
    const rung_clock *clock;  // borrowed for the life of the context; NULL: the monotonic clock
    rung_isa isa;             // cap; default RUNG_ISA_AUTO
} rung_context_options;

// Makes a context. `options` may be NULL for the defaults. The caller owns the result and passes it
// to rung_context_destroy after everything made from it is gone.
// Errors: RUNG_NO_MEMORY; RUNG_UNSUPPORTED when the CPU lacks the instruction set asked for.
RUNG_API rung_status rung_context_create(const rung_context_options *options,
                                         rung_context **context_out);

// Frees *context and sets it to NULL. NULL and pointers to NULL are accepted.
RUNG_API void rung_context_destroy(rung_context **context);

// The instruction set in force: the CPU's, or the cap.
RUNG_API rung_isa rung_context_isa(const rung_context *context);

// "auto", "scalar", "avx2" or "avx512".
RUNG_API const char *rung_isa_name(rung_isa isa);

// rung's version, "0.1.0".
RUNG_API const char *rung_version(void);

#ifdef __cplusplus
}
#endif

#endif
