// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cores.h"
#include "base/error.h"

static rung_status parse_name(const char *name, int *index_out)
{
    char *end = NULL;
    if (strcmp(name, "cpu") == 0)
        name = "cpu:0";
    long index = strncmp(name, "cpu:", 4) == 0 ? strtol(name + 4, &end, 10) : -1;
    bool digits = end && end != name + 4 && *end == 0 && name[4] >= '0' && name[4] <= '9';
    RUNG_CHECK(digits && index >= 0 && index < 1024, RUNG_NO_DEVICE,
               "device '%s' does not exist here: devices are named cpu:0, cpu:1, ...", name);
    *index_out = (int)index;
    return RUNG_OK;
}

rung_status rung_device_create(rung_context *context, const char *name,
                               const rung_device_options *options, rung_device **device_out)
{
    rung_device_options given = options ? *options : (rung_device_options){0};
    int index = 0;
    RUNG_TRY(parse_name(name, &index));
    RUNG_CHECK(given.threads >= 0, RUNG_INVALID, "device.threads is %d; it must be 0 or more",
               given.threads);
    RUNG_CHECK(given.delay_op >= 0 && given.delay_copy >= 0 && given.delay_copy_byte >= 0,
               RUNG_INVALID, "delays of device %s must not be negative", name);
    if (given.threads == 0)
        given.threads = rungi_core_count();
    rung_device *device = calloc(1, sizeof *device);
    RUNG_CHECK(device, RUNG_NO_MEMORY, "no memory for device %s", name);
    device->backend = &rungi_cpu_backend;
    device->context = context;
    device->index = index;
    snprintf(device->name, sizeof device->name, "cpu:%d", index);
    device->options = given;
    device->memory.cap = given.memory_cap;
    pthread_mutex_init(&device->lock, NULL);
    *device_out = device;
    return RUNG_OK;
}

void rung_device_destroy(rung_device **device)
{
    if (!device || !*device)
        return;
    rungi_device_memory_fini(*device);
    pthread_mutex_destroy(&(*device)->lock);
    free(*device);
    *device = NULL;
}

const char *rung_device_name(const rung_device *device)
{
    return device->name;
}

int rung_device_threads(const rung_device *device)
{
    return device->options.threads;
}

rung_context *rung_device_context(const rung_device *device)
{
    return device->context;
}

rung_status rung_stream_create(rung_device *device, rung_stream **stream_out)
{
    return device->backend->stream_create(device, stream_out);
}

void rung_stream_destroy(rung_stream **stream)
{
    if (!stream || !*stream)
        return;
    (*stream)->device->backend->stream_destroy(*stream);
    *stream = NULL;
}

rung_status rung_stream_sync(rung_stream *stream)
{
    return stream->device->backend->stream_sync(stream);
}

rung_status rung_stream_copy(rung_stream *stream, void *dst, const void *src, uint64_t bytes)
{
    return stream->device->backend->stream_copy(stream, dst, src, bytes);
}

rung_status rungi_stream_submit(rung_stream *stream, rungi_work_kind kind, rungi_work_fn fn,
                                void *arg)
{
    return stream->device->backend->stream_submit(stream, kind, fn, arg);
}

rung_status rung_event_create(rung_device *device, rung_event **event_out)
{
    return device->backend->event_create(device, event_out);
}

void rung_event_destroy(rung_event **event)
{
    if (!event || !*event)
        return;
    (*event)->device->backend->event_destroy(*event);
    *event = NULL;
}

rung_status rung_event_record(rung_event *event, rung_stream *stream)
{
    return event->device->backend->event_record(event, stream);
}

rung_status rung_event_wait(rung_event *event, rung_stream *stream)
{
    return event->device->backend->event_wait(event, stream);
}

void rung_event_sync(rung_event *event)
{
    event->device->backend->event_sync(event);
}

bool rung_event_done(const rung_event *event)
{
    return event->device->backend->event_done(event);
}
