// SPDX-License-Identifier: Apache-2.0
// How rung's own code reports failures.
//
//   RUNG_FAIL(code, fmt, ...)   record and evaluate to the code: `return RUNG_FAIL(RUNG_IO, ...)`
//   RUNG_TRY(call)              return the status of `call` unless it is RUNG_OK
//   RUNG_TRY_GOTO(label, call)  the same with `status` set and a jump to a clean-up label
//   RUNG_CHECK(cond, code, ...) fail unless `cond` holds
#ifndef RUNGI_BASE_ERROR_H
#define RUNGI_BASE_ERROR_H

#include "rung/status.h"

#define RUNG_FAIL(code, ...) rungi_fail((code), __FILE__, __LINE__, __VA_ARGS__)

#define RUNG_TRY(call)                   \
    do {                                 \
        rung_status rungi_try_ = (call); \
        if (rungi_try_ != RUNG_OK)       \
            return rungi_try_;           \
    } while (0)

#define RUNG_TRY_GOTO(label, call) \
    do {                           \
        status = (call);           \
        if (status != RUNG_OK)     \
            goto label;            \
    } while (0)

#define RUNG_CHECK(cond, code, ...)                \
    do {                                           \
        if (!(cond))                               \
            return RUNG_FAIL((code), __VA_ARGS__); \
    } while (0)

// Writes the calling thread's error record and returns `status`. Bytes of the message that are not
// valid UTF-8, and control characters, are escaped as \xNN, so that a message can always be logged.
rung_status rungi_fail(rung_status status, const char *file, int line, const char *fmt, ...)
    RUNG_PRINTF(4, 5);

// Puts "prefix: " before the message of the last error (for context such as a layer's name) and
// returns its status.
rung_status rungi_fail_prefix(const char *fmt, ...) RUNG_PRINTF(1, 2);

// Makes `error` this thread's last error: how a joiner takes over the record of a worker thread.
// Returns its status.
rung_status rungi_fail_adopt(const rung_error *error);

#endif
