// SPDX-License-Identifier: Apache-2.0
// The device interface that back ends implement (cpu/ now). Public calls check their arguments and
// keep the memory account in device.c, then go through this table.
#ifndef RUNGI_DEVICE_DEVICE_H
#define RUNGI_DEVICE_DEVICE_H

#include <pthread.h>

#include "rung/device.h"

// Kinds of devices that operators have kernels for.
typedef enum rungi_device_kind { RUNGI_CPU, RUNGI_DEVICE_KINDS } rungi_device_kind;

// Work of a stream: returns a status like any other call. A failure is kept by the stream and later
// work of it is skipped until rung_stream_sync reports it.
typedef rung_status (*rungi_work_fn)(void *arg);

// Which delay of the device applies to a piece of work.
typedef enum rungi_work_kind { RUNGI_WORK_OP, RUNGI_WORK_COPY, RUNGI_WORK_MARK } rungi_work_kind;

typedef struct rungi_device_backend {
    rungi_device_kind kind;
    // *zero_out: are the contents zero?
    rung_status (*alloc)(rung_device *device, uint64_t bytes, bool *zero_out, void **data_out);
    void (*free)(rung_device *device, void *data, uint64_t bytes);
    rung_status (*stream_create)(rung_device *device, rung_stream **stream_out);
    void (*stream_destroy)(rung_stream *stream);
    rung_status (*stream_submit)(rung_stream *stream, rungi_work_kind kind, rungi_work_fn fn,
                                 void *arg);
    rung_status (*stream_sync)(rung_stream *stream);
    rung_status (*stream_copy)(rung_stream *stream, void *dst, const void *src, uint64_t bytes);
    rung_status (*event_create)(rung_device *device, rung_event **event_out);
    void (*event_destroy)(rung_event *event);
    rung_status (*event_record)(rung_event *event, rung_stream *stream);
    rung_status (*event_wait)(rung_event *event, rung_stream *stream);
    void (*event_sync)(rung_event *event);
    bool (*event_done)(const rung_event *event);
} rungi_device_backend;

struct rung_device {
    const rungi_device_backend *backend;
    rung_context *context;
    char name[32];
    int index;
    rung_device_options options; // threads resolved
    pthread_mutex_t lock;        // guards what follows
    rung_memory_stats memory;
    struct rungi_block *blocks; // live allocations, newest first
    struct rungi_block *cache;  // freed ones
};

// Enters memory into the device's account that is allocated elsewhere (of a communicator), and
// takes it off again, before it is freed. Errors: RUNG_NO_MEMORY beyond the cap, as
// rung_device_alloc.
rung_status rungi_device_adopt(rung_device *device, void *data, uint64_t bytes, const char *what);
void rungi_device_disown(rung_device *device, void *data);
// As rung_device_alloc, with zeros. Of large blocks that come from the system these are pages that
// have not been touched yet: what is not used until the first step does not hold up its beginning.
rung_status rungi_device_alloc_zero(rung_device *device, uint64_t bytes, const char *what,
                                    void **data_out);
// Frees without caching.
void rungi_device_free_now(rung_device *device, void *data);
// Sets the cap; what is reserved beyond it stays.
void rungi_device_set_cap(rung_device *device, uint64_t cap);
// device_memory.c, for rung_device_destroy: frees everything.
void rungi_device_memory_fini(rung_device *device);

// Every back end's stream and event begin with the device.
struct rung_stream {
    rung_device *device;
};

struct rung_event {
    rung_device *device;
};

// Submits work to a stream. On an inline device it has run when this returns, and a failure is
// returned at once. `arg` must stay valid until it has run.
rung_status rungi_stream_submit(rung_stream *stream, rungi_work_kind kind, rungi_work_fn fn,
                                void *arg);

extern const rungi_device_backend rungi_cpu_backend;

#endif
