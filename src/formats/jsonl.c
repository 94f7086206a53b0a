// SPDX-License-Identifier: Apache-2.0
#include "formats/jsonl.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fs.h"
#include "base/text.h"

static const size_t FILE_MAX = (size_t)4 << 30;

struct rungi_jsonl {
    rungi_file file;
};

json_t *rungi_jsonl_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

rung_status rungi_jsonl_create(const char *path, const rungi_io_hook *hook, rungi_jsonl **log_out)
{
    rungi_jsonl *log = calloc(1, sizeof *log);
    RUNG_CHECK(log, RUNG_NO_MEMORY, "%s: no memory to write it", path);
    rung_status status = rungi_file_create(&log->file, path, 0, hook);
    if (status != RUNG_OK) {
        free(log);
        return status;
    }
    *log_out = log;
    return RUNG_OK;
}

// Does the line stay when the run goes on after `step`?
static bool stays(const char *line, size_t size, int64_t step)
{
    json_t *object = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
    const json_t *at = json_object_get(object, "step");
    const char *event = json_string_value(json_object_get(object, "event"));
    bool good = json_is_object(object) && (!at || json_integer_value(at) <= step) &&
                !(event && strcmp(event, "end") == 0);
    json_decref(object);
    return good;
}

static rung_status cut(const char *path, int64_t step, const rungi_io_hook *hook,
                       size_t *dropped_out)
{
    char *data = NULL;
    size_t size = 0, kept = 0, dropped = 0;
    rung_status status = rungi_fs_read(path, FILE_MAX, &data, &size);
    if (status == RUNG_NOT_FOUND) {
        data = NULL;
        status = rungi_file_replace(path, "", 0, hook);
    }
    RUNG_TRY(status);
    for (size_t at = 0; at < size;) {
        const char *newline = memchr(data + at, '\n', size - at);
        size_t length = newline ? (size_t)(newline - data) - at + 1 : size - at;
        // A last line without its end was torn even when it reads as JSON: {"step": 1 and 10 do.
        if (newline && stays(data + at, length, step)) {
            memmove(data + kept, data + at, length);
            kept += length;
        } else {
            dropped++;
        }
        at += length;
    }
    if (dropped)
        status = rungi_file_replace(path, data, kept, hook);
    free(data);
    if (status == RUNG_OK && dropped_out)
        *dropped_out = dropped;
    return status;
}

rung_status rungi_jsonl_resume(const char *path, int64_t step, const rungi_io_hook *hook,
                               size_t *dropped_out, rungi_jsonl **log_out)
{
    rungi_jsonl *log = calloc(1, sizeof *log);
    RUNG_CHECK(log, RUNG_NO_MEMORY, "%s: no memory to write it", path);
    rung_status status;
    RUNG_TRY_GOTO(free_log, rungi_path_format(log->file.path, "%s", path));
    RUNG_TRY_GOTO(free_log, cut(path, step, hook, dropped_out));
    log->file.hook = hook;
    log->file.fd = open(path, O_WRONLY | O_CLOEXEC);
    off_t end = log->file.fd < 0 ? -1 : lseek(log->file.fd, 0, SEEK_END);
    if (end < 0) {
        status = rungi_io_fail(path, "open", errno, 0);
        goto close_file;
    }
    log->file.written = (uint64_t)end;
    *log_out = log;
    return RUNG_OK;
close_file:
    if (log->file.fd >= 0)
        close(log->file.fd);
free_log:
    free(log);
    return status;
}

rung_status rungi_jsonl_append(rungi_jsonl *log, const json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(15));
    char *line = text ? rungi_text_format("%s\n", text) : NULL;
    free(text);
    RUNG_CHECK(line, RUNG_NO_MEMORY, "%s: no memory for a line", log->file.path);
    uint64_t good = log->file.written;
    rung_status status = rungi_file_write(&log->file, line, strlen(line));
    free(line);
    if (status != RUNG_OK && ftruncate(log->file.fd, (off_t)good) == 0 &&
        lseek(log->file.fd, (off_t)good, SEEK_SET) >= 0)
        log->file.written = good;
    return status;
}

rung_status rungi_jsonl_sync(rungi_jsonl *log)
{
    int error =
        log->file.hook ? log->file.hook->before(log->file.hook->user, "fsync", log->file.path) : 0;
    if (!error && fsync(log->file.fd) != 0)
        error = errno;
    return error ? rungi_io_fail(log->file.path, "flush", error, 0) : RUNG_OK;
}

void rungi_jsonl_close(rungi_jsonl **log)
{
    if (!log || !*log)
        return;
    close((*log)->file.fd);
    free(*log);
    *log = NULL;
}
