// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static _Thread_local rung_error last_error;

static const char *const status_texts[] = {
#define STATUS_TEXT(name, text, exit_status) text,
    RUNG_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
};

static const int status_exits[] = {
#define STATUS_EXIT(name, text, exit_status) exit_status,
    RUNG_STATUS_MAP(STATUS_EXIT)
#undef STATUS_EXIT
};

static const int status_count = (int)(sizeof status_exits / sizeof *status_exits);

const rung_error *rung_error_last(void)
{
    return &last_error;
}

void rung_error_clear(void)
{
    last_error = (rung_error){0};
}

const char *rung_status_text(rung_status status)
{
    return (int)status >= 0 && (int)status < status_count ? status_texts[status] : "unknown status";
}

int rung_status_exit(rung_status status)
{
    return (int)status >= 0 && (int)status < status_count ? status_exits[status] : 1;
}

static void record(rung_status status, const char *file, int line, const char *fmt, va_list args)
{
    char raw[sizeof last_error.message];
    vsnprintf(raw, sizeof raw, fmt, args);
    last_error.status = status;
    last_error.file = file;
    last_error.line = line;
    rungi_text_escape(raw, last_error.message, sizeof last_error.message);
}

rung_status rungi_fail(rung_status status, const char *file, int line, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    record(status, file, line, fmt, args);
    va_end(args);
    return status;
}

rung_status rung_error_set(rung_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    record(status, NULL, 0, fmt, args);
    va_end(args);
    return status;
}

rung_status rungi_fail_prefix(const char *fmt, ...)
{
    char raw[sizeof last_error.message];
    va_list args;
    va_start(args, fmt);
    int used = vsnprintf(raw, sizeof raw, fmt, args);
    va_end(args);
    if (used < 0)
        return last_error.status;
    if ((size_t)used < sizeof raw)
        snprintf(raw + used, sizeof raw - (size_t)used, ": %s", last_error.message);
    rungi_text_escape(raw, last_error.message, sizeof last_error.message);
    return last_error.status;
}

rung_status rungi_fail_adopt(const rung_error *error)
{
    last_error = *error;
    return error->status;
}
