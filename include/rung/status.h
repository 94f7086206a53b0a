// SPDX-License-Identifier: Apache-2.0
// Status codes and the thread-local error record.
//
// Every fallible function of rung returns a rung_status. When it is not RUNG_OK, the first place
// that detected the failure has written one line of explanation into this thread's error record;
// rung_error_last() reads it. Outputs (`*_out` parameters) are set only on success.
#ifndef RUNG_STATUS_H
#define RUNG_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#    define RUNG_API __attribute__((visibility("default")))
#    define RUNG_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#    define RUNG_API
#    define RUNG_PRINTF(fmt, args)
#endif

// name, text, exit status of the command line
#define RUNG_STATUS_MAP(X)               \
    X(OK, "ok", 0)                       \
    X(INVALID, "invalid argument", 2)    \
    X(MISMATCH, "shapes do not fit", 2)  \
    X(CONFIG, "bad configuration", 2)    \
    X(NOT_FOUND, "not found", 1)         \
    X(IO, "input/output error", 1)       \
    X(FORMAT, "malformed file", 1)       \
    X(CORRUPT, "damaged file", 1)        \
    X(DATA, "bad data", 1)               \
    X(TIMEOUT, "timed out", 1)           \
    X(UNSUPPORTED, "not supported", 1)   \
    X(INTERNAL, "internal error", 1)     \
    X(LIBRARY, "library call failed", 1) \
    X(GATE, "check not passed", 3)       \
    X(DIVERGED, "training diverged", 4)  \
    X(NO_DEVICE, "no such device", 5)    \
    X(NO_MEMORY, "out of memory", 5)     \
    X(CANCELLED, "cancelled", 1)

typedef enum rung_status {
#define RUNG_STATUS_ENUM(name, text, exit_status) RUNG_##name,
    RUNG_STATUS_MAP(RUNG_STATUS_ENUM)
#undef RUNG_STATUS_ENUM
} rung_status;

// The record that the first detector of a failure writes. `message` is one line without a final
// newline. `file` and `line` say where in rung's source it was detected; NULL and 0 outside of it.
typedef struct rung_error {
    rung_status status;
    char message[1024];
    const char *file;
    int line;
} rung_error;

// The calling thread's last error. Never NULL; status is RUNG_OK when nothing has failed yet. The
// pointer stays valid for the life of the thread; the next failure overwrites it.
RUNG_API const rung_error *rung_error_last(void);

// Writes the calling thread's error record, for programs and for functions of one's own that rung
// calls (sources, transforms), and returns `status`: `return rung_error_set(RUNG_DATA, "%s: no
// label", path)`. Control characters and bytes that are not UTF-8 are escaped as \xNN.
RUNG_API rung_status rung_error_set(rung_status status, const char *fmt, ...) RUNG_PRINTF(2, 3);

// Forgets the calling thread's last error.
RUNG_API void rung_error_clear(void);

// Short text of a status ("out of memory"). Never NULL.
RUNG_API const char *rung_status_text(rung_status status);

// Exit status that the command line gives for a status (0 to 5).
RUNG_API int rung_status_exit(rung_status status);

#ifdef __cplusplus
}
#endif

#endif
