// SPDX-License-Identifier: Apache-2.0
// Virtual CPU devices: memory, streams and events over threads.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/context.h"
#include "base/cores.h"
#include "base/error.h"
#include "device/device.h"

enum { QUEUE_SIZE = 1024 }; // pieces of work a stream holds before submitting waits

typedef struct work {
    rungi_work_kind kind;
    rungi_work_fn fn;
    void *arg;
    void *dst; // a copy when fn is NULL
    const void *src;
    uint64_t bytes;
} work;

typedef struct cpu_stream {
    rung_stream base;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more; // work was added, or the end was asked for
    pthread_cond_t less; // work was finished
    work queue[QUEUE_SIZE];
    uint64_t added, finished; // pieces of work ever
    bool ending;
    rung_status status; // of the first failure since the last sync
    rung_error error;
} cpu_stream;

typedef struct cpu_event {
    rung_event base;
    pthread_mutex_t lock;
    pthread_cond_t happened;
    uint64_t recorded, reached;
} cpu_event;

enum { HUGE_PAGE = 2 << 20 };

// Large blocks are pages of the system's own, which are zero until they are written to. (Not where
// AddressSanitizer is to see what lies beside them.)
static bool is_mapped(const rung_device *device, uint64_t bytes)
{
#ifdef __SANITIZE_ADDRESS__
    (void)device, (void)bytes;
    return false;
#else
    enum { LEAST = 1 << 20 };
    return !device->options.huge_pages && bytes >= LEAST;
#endif
}

static rung_status cpu_alloc(rung_device *device, uint64_t bytes, bool *zero_out, void **data_out)
{
    bool huge = device->options.huge_pages && bytes >= HUGE_PAGE;
    *zero_out = is_mapped(device, bytes);
    size_t align = huge ? HUGE_PAGE : 64;
    if (bytes > SIZE_MAX - align)
        return RUNG_NO_MEMORY;
    size_t size = (bytes + align - 1) / align * align;
    if (*zero_out) {
        *data_out = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return *data_out == MAP_FAILED ? RUNG_NO_MEMORY : RUNG_OK;
    }
    void *data = aligned_alloc(align, size);
    if (!data)
        return RUNG_NO_MEMORY;
    if (huge)
        madvise(data, size, MADV_HUGEPAGE); // a wish; without it small pages serve
    *data_out = data;
    return RUNG_OK;
}

static void cpu_free(rung_device *device, void *data, uint64_t bytes)
{
    if (is_mapped(device, bytes))
        munmap(data, (bytes + 63) / 64 * 64);
    else
        free(data);
}

static void delay(const rung_device *device, const work *w)
{
    int64_t wait = 0;
    if (w->kind == RUNGI_WORK_OP)
        wait = device->options.delay_op;
    else if (w->kind == RUNGI_WORK_COPY)
        wait = device->options.delay_copy +
               (int64_t)(device->options.delay_copy_byte * (double)w->bytes);
    if (wait > 0)
        rungi_sleep(device->context, wait);
}

static rung_status perform(const rung_device *device, const work *w)
{
    rung_status status = RUNG_OK;
    // A copy reads its source as late as a slow one may.
    if (w->kind == RUNGI_WORK_COPY)
        delay(device, w);
    if (w->fn)
        status = w->fn(w->arg);
    else if (w->bytes)
        memcpy(w->dst, w->src, w->bytes);
    if (w->kind != RUNGI_WORK_COPY)
        delay(device, w);
    return status;
}

static void *stream_main(void *arg)
{
    cpu_stream *s = arg;
    rungi_cores_unbind();
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (s->added == s->finished && !s->ending)
            pthread_cond_wait(&s->more, &s->lock);
        if (s->added == s->finished)
            break;
        work w = s->queue[s->finished % QUEUE_SIZE];
        // After a failure only marks run, so that nobody waits for an event that never comes.
        bool skip = s->status != RUNG_OK && w.kind != RUNGI_WORK_MARK;
        pthread_mutex_unlock(&s->lock);
        rung_status status = skip ? RUNG_OK : perform(s->base.device, &w);
        pthread_mutex_lock(&s->lock);
        if (status != RUNG_OK && s->status == RUNG_OK) {
            s->status = status;
            s->error = *rung_error_last();
        }
        s->finished++;
        pthread_cond_broadcast(&s->less);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static rung_status cpu_stream_create(rung_device *device, rung_stream **stream_out)
{
    cpu_stream *s = calloc(1, sizeof *s);
    RUNG_CHECK(s, RUNG_NO_MEMORY, "no memory for a stream of %s", device->name);
    s->base.device = device;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->more, NULL);
    pthread_cond_init(&s->less, NULL);
    if (device->options.async && pthread_create(&s->thread, NULL, stream_main, s) != 0) {
        free(s);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no thread for a stream of %s", device->name);
    }
    *stream_out = &s->base;
    return RUNG_OK;
}

static void cpu_stream_destroy(rung_stream *stream)
{
    cpu_stream *s = (cpu_stream *)stream;
    if (stream->device->options.async) {
        pthread_mutex_lock(&s->lock);
        s->ending = true;
        pthread_cond_broadcast(&s->more);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
    }
    pthread_cond_destroy(&s->more);
    pthread_cond_destroy(&s->less);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static rung_status enqueue(rung_stream *stream, const work *w)
{
    if (!stream->device->options.async)
        return perform(stream->device, w);
    cpu_stream *s = (cpu_stream *)stream;
    pthread_mutex_lock(&s->lock);
    while (s->added - s->finished == QUEUE_SIZE)
        pthread_cond_wait(&s->less, &s->lock);
    s->queue[s->added % QUEUE_SIZE] = *w;
    s->added++;
    pthread_cond_signal(&s->more);
    pthread_mutex_unlock(&s->lock);
    return RUNG_OK;
}

static rung_status cpu_stream_submit(rung_stream *stream, rungi_work_kind kind, rungi_work_fn fn,
                                     void *arg)
{
    return enqueue(stream, &(work){.kind = kind, .fn = fn, .arg = arg});
}

static rung_status cpu_stream_copy(rung_stream *stream, void *dst, const void *src, uint64_t bytes)
{
    return enqueue(stream,
                   &(work){.kind = RUNGI_WORK_COPY, .dst = dst, .src = src, .bytes = bytes});
}

static rung_status cpu_stream_sync(rung_stream *stream)
{
    if (!stream->device->options.async)
        return RUNG_OK;
    cpu_stream *s = (cpu_stream *)stream;
    pthread_mutex_lock(&s->lock);
    while (s->added != s->finished)
        pthread_cond_wait(&s->less, &s->lock);
    rung_status status = s->status;
    if (status != RUNG_OK)
        rungi_fail_adopt(&s->error);
    s->status = RUNG_OK;
    pthread_mutex_unlock(&s->lock);
    return status;
}

static rung_status cpu_event_create(rung_device *device, rung_event **event_out)
{
    cpu_event *e = calloc(1, sizeof *e);
    RUNG_CHECK(e, RUNG_NO_MEMORY, "no memory for an event of %s", device->name);
    e->base.device = device;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->happened, NULL);
    *event_out = &e->base;
    return RUNG_OK;
}

static void cpu_event_destroy(rung_event *event)
{
    cpu_event *e = (cpu_event *)event;
    rung_event_sync(event); // a mark still in a queue refers to it
    pthread_cond_destroy(&e->happened);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

static rung_status reach(void *arg)
{
    cpu_event *e = arg;
    pthread_mutex_lock(&e->lock);
    e->reached++;
    pthread_cond_broadcast(&e->happened);
    pthread_mutex_unlock(&e->lock);
    return RUNG_OK;
}

static rung_status wait_for(void *arg)
{
    rung_event_sync(arg);
    return RUNG_OK;
}

static rung_status cpu_event_record(rung_event *event, rung_stream *stream)
{
    cpu_event *e = (cpu_event *)event;
    pthread_mutex_lock(&e->lock);
    e->recorded++;
    pthread_mutex_unlock(&e->lock);
    return cpu_stream_submit(stream, RUNGI_WORK_MARK, reach, e);
}

static rung_status cpu_event_wait(rung_event *event, rung_stream *stream)
{
    return cpu_stream_submit(stream, RUNGI_WORK_MARK, wait_for, event);
}

static void cpu_event_sync(rung_event *event)
{
    cpu_event *e = (cpu_event *)event;
    pthread_mutex_lock(&e->lock);
    while (e->reached < e->recorded)
        pthread_cond_wait(&e->happened, &e->lock);
    pthread_mutex_unlock(&e->lock);
}

static bool cpu_event_done(const rung_event *event)
{
    cpu_event *e = (cpu_event *)event;
    pthread_mutex_lock(&e->lock);
    bool done = e->reached == e->recorded;
    pthread_mutex_unlock(&e->lock);
    return done;
}

const rungi_device_backend rungi_cpu_backend = {
    .kind = RUNGI_CPU,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .stream_create = cpu_stream_create,
    .stream_destroy = cpu_stream_destroy,
    .stream_submit = cpu_stream_submit,
    .stream_sync = cpu_stream_sync,
    .stream_copy = cpu_stream_copy,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .event_record = cpu_event_record,
    .event_wait = cpu_event_wait,
    .event_sync = cpu_event_sync,
    .event_done = cpu_event_done,
};
