// SPDX-License-Identifier: Apache-2.0
// The messages are encoded by hand: a handful of fields of tensorflow/core/util/event.proto and
// framework/{summary,tensor}.proto. Field numbers are in the comments.
#include "formats/tfevents.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/context.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/text.h"
#include "formats/crc32c.h"
#include "formats/json_scan.h"

enum { BUFFER_FULL = 64 * 1024 };

struct rungi_tfevents {
    rungi_file file;
    rung_clock clock;
    double wall_begin; // seconds since 1970 when the clock read clock_begin
    int64_t clock_begin;
    int64_t first_step;
    rungi_string buffer; // records not yet in the file
    rungi_string event;  // scratch of the record being made
    rungi_string inner;
};

// Protocol buffers: a key is the field's number and the wire type.
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_varint(rungi_string *s, uint64_t value)
{
    char out[10];
    size_t size = 0;
    for (; value >= 0x80; value >>= 7)
        out[size++] = (char)(value | 0x80);
    out[size++] = (char)value;
    rungi_string_append(s, out, size);
}

static void put_key(rungi_string *s, unsigned field, unsigned wire)
{
    put_varint(s, field << 3 | wire);
}

static void put_bytes(rungi_string *s, unsigned field, const char *data, size_t size)
{
    put_key(s, field, BYTES);
    put_varint(s, size);
    rungi_string_append(s, data, size);
}

static void clear(rungi_string *s)
{
    s->size = 0;
}

// length, its checksum, data, their checksum
static void put_record(rungi_string *out, const rungi_string *data)
{
    uint64_t length = data->size;
    uint32_t crc = rungi_crc32c_masked(&length, sizeof length);
    rungi_string_append(out, (const char *)&length, sizeof length);
    rungi_string_append(out, (const char *)&crc, sizeof crc);
    rungi_string_append(out, data->data, data->size);
    crc = rungi_crc32c_masked(data->data, data->size);
    rungi_string_append(out, (const char *)&crc, sizeof crc);
}

// Event: wall_time = 1 (double), step = 2 (int64). What it says follows.
static void begin_event(rungi_tfevents *e, int64_t step)
{
    int64_t passed = e->clock.now(e->clock.user) - e->clock_begin;
    double wall = e->wall_begin + (double)passed * 1e-9;
    clear(&e->event);
    put_key(&e->event, 1, FIXED64);
    rungi_string_append(&e->event, (const char *)&wall, sizeof wall);
    put_key(&e->event, 2, VARINT);
    put_varint(&e->event, (uint64_t)step);
}

static rung_status end_event(rungi_tfevents *e)
{
    RUNG_CHECK(!e->event.failed && !e->inner.failed, RUNG_NO_MEMORY, "%s: no memory for a record",
               e->file.path);
    put_record(&e->buffer, &e->event);
    RUNG_CHECK(!e->buffer.failed, RUNG_NO_MEMORY, "%s: no memory for a record", e->file.path);
    return e->buffer.size < BUFFER_FULL ? RUNG_OK : rungi_tfevents_flush(e);
}

// file_version = 3, then session_log = 7 with status = 1 (START = 1).
static rung_status put_start(rungi_tfevents *e)
{
    static const char version[] = "brain.Event:2", start[] = {1 << 3 | VARINT, 1};
    begin_event(e, e->first_step);
    put_bytes(&e->event, 3, version, sizeof version - 1);
    RUNG_TRY(end_event(e));
    begin_event(e, e->first_step);
    put_bytes(&e->event, 7, start, sizeof start);
    RUNG_TRY(end_event(e));
    return rungi_tfevents_flush(e);
}

// The latest time among the names of event files in a folder, -1 when it has none.
static rung_status latest_time(const char *folder, long long *time_out)
{
    static const char prefix[] = "events.out.tfevents.";
    DIR *dir = opendir(folder);
    if (!dir)
        return rungi_io_fail(folder, "list", errno, 0);
    *time_out = -1;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        const char *digits = entry->d_name + sizeof prefix - 1;
        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) != 0 ||
            strspn(digits, "0123456789") != 10)
            continue;
        long long time_found = strtoll(digits, NULL, 10);
        *time_out = time_found > *time_out ? time_found : *time_out;
    }
    closedir(dir);
    return RUNG_OK;
}

static rung_status make_name(const char *folder, const rungi_tfevents_options *options, double wall,
                             char out[RUNGI_PATH_MAX])
{
    char host[65] = "localhost";
    if (options->host)
        snprintf(host, sizeof host, "%s", options->host);
    else if (gethostname(host, sizeof host) != 0 || !memchr(host, 0, sizeof host) || !host[0])
        strcpy(host, "localhost");
    for (char *c = host; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '.')
            *c = '_';
    long long latest = -1;
    RUNG_TRY(latest_time(folder, &latest));
    long long second = (long long)wall > latest ? (long long)wall : latest + 1;
    return rungi_path_format(out, "%s/events.out.tfevents.%010lld.%s.%d.0", folder, second, host,
                             options->process ? options->process : (int)getpid());
}

rung_status rungi_tfevents_create(const char *folder, const rungi_tfevents_options *options,
                                  rungi_tfevents **events_out)
{
    rungi_tfevents_options given = options ? *options : (rungi_tfevents_options){0};
    RUNG_CHECK(given.first_step >= 0, RUNG_INVALID, "%s: a session cannot begin at step %lld",
               folder, (long long)given.first_step);
    rungi_tfevents *e = calloc(1, sizeof *e);
    RUNG_CHECK(e, RUNG_NO_MEMORY, "%s: no memory for an event file", folder);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now); // once: from here on the clock counts, never backwards
    e->file.fd = -1;
    e->clock = given.clock ? *given.clock : *rungi_clock_monotonic();
    e->clock_begin = e->clock.now(e->clock.user);
    e->wall_begin =
        given.wall_time != 0 ? given.wall_time : (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    e->first_step = given.first_step;
    char path[RUNGI_PATH_MAX];
    rung_status status;
    if (given.resumed)
        RUNG_TRY_GOTO(close_events, rungi_tfevents_cut(folder, given.first_step));
    RUNG_TRY_GOTO(close_events, make_name(folder, &given, e->wall_begin, path));
    RUNG_TRY_GOTO(close_events, rungi_file_create(&e->file, path, 0, NULL));
    RUNG_TRY_GOTO(close_events, put_start(e));
    *events_out = e;
    return RUNG_OK;
close_events:
    if (e->file.fd >= 0)
        rungi_file_abandon(&e->file);
    clear(&e->buffer);
    (void)rungi_tfevents_close(&e);
    return status;
}

static rung_status check_utf8(const rungi_tfevents *e, const char *text)
{
    RUNG_CHECK(rungi_utf8_valid(text, strlen(text)), RUNG_INVALID, "%s: not UTF-8: %.60s",
               e->file.path, text);
    return RUNG_OK;
}

static rung_status check_step(const rungi_tfevents *e, int64_t step)
{
    RUNG_CHECK(step >= e->first_step, RUNG_INVALID,
               "%s: step %lld is before the first of this session, %lld", e->file.path,
               (long long)step, (long long)e->first_step);
    return RUNG_OK;
}

// Summary.value = 1 of tag = 1 and simple_value = 2 (float); the event's summary = 5.
rung_status rungi_tfevents_scalars(rungi_tfevents *e, int64_t step, size_t count,
                                   const char *const *tags, const double *values)
{
    RUNG_TRY(check_step(e, step));
    for (size_t i = 0; i < count; i++)
        RUNG_TRY(check_utf8(e, tags[i]));
    clear(&e->inner);
    for (size_t i = 0; i < count; i++) {
        float value = (float)values[i];
        size_t tag_size = strlen(tags[i]);
        // The value's size: key, length and bytes of the tag, key and bytes of the number.
        size_t length_size = 1;
        for (size_t rest = tag_size; rest >= 0x80; rest >>= 7)
            length_size++;
        put_key(&e->inner, 1, BYTES);
        put_varint(&e->inner, 1 + length_size + tag_size + 1 + sizeof value);
        put_bytes(&e->inner, 1, tags[i], tag_size);
        put_key(&e->inner, 2, FIXED32);
        rungi_string_append(&e->inner, (const char *)&value, sizeof value);
    }
    begin_event(e, step);
    put_bytes(&e->event, 5, rungi_string_text(&e->inner), e->inner.size);
    return end_event(e);
}

rung_status rungi_tfevents_scalar(rungi_tfevents *e, int64_t step, const char *tag, double value)
{
    return rungi_tfevents_scalars(e, step, 1, &tag, &value);
}

// Summary.Value: tag = 1, tensor = 8 {dtype = 1 (DT_STRING 7), shape = 2 {dim = 2 {size = 1: 1}},
// string_val = 8}, metadata = 9 {plugin_data = 1 {plugin_name = 1}}.
rung_status rungi_tfevents_text(rungi_tfevents *e, int64_t step, const char *tag, const char *text)
{
    static const char head[] = {1 << 3 | VARINT, 7, 2 << 3 | BYTES, 4,
                                2 << 3 | BYTES,  2, 1 << 3,         1};
    static const char plugin[] = "\x0a\x06\x0a\x04text";
    RUNG_TRY(check_step(e, step));
    RUNG_TRY(check_utf8(e, tag));
    RUNG_TRY(check_utf8(e, text));
    rungi_string tensor = {0}, value = {0};
    rungi_string_append(&tensor, head, sizeof head);
    put_bytes(&tensor, 8, text, strlen(text));
    put_bytes(&value, 1, tag, strlen(tag));
    put_bytes(&value, 8, rungi_string_text(&tensor), tensor.size);
    put_bytes(&value, 9, plugin, sizeof plugin - 1);
    clear(&e->inner);
    put_bytes(&e->inner, 1, rungi_string_text(&value), value.size);
    bool failed = tensor.failed || value.failed;
    rungi_string_fini(&tensor);
    rungi_string_fini(&value);
    RUNG_CHECK(!failed, RUNG_NO_MEMORY, "%s: no memory for a text", e->file.path);
    begin_event(e, step);
    put_bytes(&e->event, 5, e->inner.data, e->inner.size);
    return end_event(e);
}

rung_status rungi_tfevents_flush(rungi_tfevents *e)
{
    uint64_t good = e->file.written;
    rung_status status = rungi_file_write(&e->file, rungi_string_text(&e->buffer), e->buffer.size);
    if (status == RUNG_OK) {
        clear(&e->buffer);
        return RUNG_OK;
    }
    // Half a record would end the reading of all that follows it.
    if (ftruncate(e->file.fd, (off_t)good) == 0 && lseek(e->file.fd, (off_t)good, SEEK_SET) >= 0)
        e->file.written = good;
    return status;
}

const char *rungi_tfevents_path(const rungi_tfevents *e)
{
    return e->file.path;
}

rung_status rungi_tfevents_close(rungi_tfevents **events)
{
    if (!events || !*events)
        return RUNG_OK;
    rungi_tfevents *e = *events;
    rung_status status = RUNG_OK;
    if (e->file.fd >= 0) {
        status = rungi_tfevents_flush(e);
        if (close(e->file.fd) != 0 && status == RUNG_OK)
            status = rungi_io_fail(e->file.path, "close", errno, 0);
    }
    rungi_string_fini(&e->buffer);
    rungi_string_fini(&e->event);
    rungi_string_fini(&e->inner);
    free(e);
    *events = NULL;
    return status;
}
