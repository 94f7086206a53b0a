// SPDX-License-Identifier: Apache-2.0
// Devices, their memory, streams and events.
//
// A device is named "cpu:N". CPU devices are virtual: each has its own memory account and cap, its
// own streams and its own share of the cores, so that code for many devices, paths for lack of
// memory, and races can be tested on any machine. Work is submitted to a stream and runs in order.
// A stream of an inline device (the default) runs the work at once on the calling thread and costs
// nothing over a call; a stream of an asynchronous device has a thread of its own.
#ifndef RUNG_DEVICE_H
#define RUNG_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "rung/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rung_device rung_device;
typedef struct rung_stream rung_stream;
typedef struct rung_event rung_event;

typedef struct rung_device_options {
    int threads;            // threads that kernels may use; 0: the cores this process may run on
    uint64_t memory_cap;    // bytes that may be live at once; 0: no cap
    bool async;             // streams run on threads of their own
    bool huge_pages;        // ask for huge pages for allocations of 2 MiB and more
    int64_t delay_op;       // nanoseconds added to each operation, through the context's clock
    double op_rate;         // an operator of n floating-point operations takes n / op_rate
                            // nanoseconds at least, as on a device of so many GFLOP/s; 0: no limit
    int64_t delay_copy;     // nanoseconds added to each copy
    double delay_copy_byte; // nanoseconds added per byte copied
} rung_device_options;

// The account of a device's memory. Beside each number what PyTorch's memory_stats calls it.
// Always active + cached = reserved.
typedef struct rung_memory_stats {
    uint64_t live;           // bytes asked for and not freed: allocated_bytes
    uint64_t active;         // of the blocks that serve them, which may be larger: active_bytes
    uint64_t cached;         // of blocks that were freed and are kept for later
    uint64_t reserved;       // held from the system: reserved_bytes
    uint64_t largest_cached; // the largest block of the cache
    // The most since creation or the last reset.
    uint64_t peak_live, peak_active, peak_reserved;
    uint64_t cap;         // of reserved; 0: none
    uint64_t allocations; // successful calls since creation
    uint64_t reused;      // of them, served by the cache
    uint64_t retries;     // times that the cache was emptied for a request: num_alloc_retries
    uint64_t failures;    // requests that were refused: num_ooms
    uint64_t misuses;     // blocks freed twice or written to after they were freed
} rung_memory_stats;

// Makes device `name` ("cpu:0", "cpu:1", ...). `options` may be NULL. The caller owns the device
// and destroys it after its streams, memory and plans; the context is borrowed.
// Errors: RUNG_NO_DEVICE for a name that is not a device here; RUNG_INVALID for negative options.
RUNG_API rung_status rung_device_create(rung_context *context, const char *name,
                                        const rung_device_options *options,
                                        rung_device **device_out);
RUNG_API void rung_device_destroy(rung_device **device);

// The device's name. Borrowed.
RUNG_API const char *rung_device_name(const rung_device *device);
// Threads that its kernels use.
RUNG_API int rung_device_threads(const rung_device *device);
// The context that it was made from. Borrowed.
RUNG_API rung_context *rung_device_context(const rung_device *device);

// Allocates `bytes` (0 gives one byte), aligned to 64, contents undefined. `what` names the use in
// messages and is copied. Freed with rung_device_free, which keeps the block for a later request
// that fills at least four fifths of it. When the cap or the system leave no room, the cache is
// emptied and it is tried once more. (A plan's arena is not cached.)
// Errors: RUNG_NO_MEMORY, with the bytes asked for, live and cached, the cache's largest block and
// the cap.
RUNG_API rung_status rung_device_alloc(rung_device *device, uint64_t bytes, const char *what,
                                       void **data_out);
// In a build with assertions, freed blocks are filled, and one that was written to when it is taken
// again counts as a misuse; freeing twice does in every build. Both are logged with the block's
// use.
RUNG_API void rung_device_free(rung_device *device, void *data);

RUNG_API rung_memory_stats rung_device_memory(const rung_device *device);
// Gives the cache back to the system; returns its bytes. PyTorch: empty_cache.
RUNG_API uint64_t rung_device_memory_release(rung_device *device);
// What is live, by use, largest first: one line each, as "42.6 MiB parameters". Freed with free().
RUNG_API rung_status rung_device_memory_text(const rung_device *device, char **text_out);
// Sets the peaks to the present values.
RUNG_API void rung_device_memory_reset_peak(rung_device *device);

// Makes a stream of the device. Owned by the caller; destroying it waits for its work.
RUNG_API rung_status rung_stream_create(rung_device *device, rung_stream **stream_out);
RUNG_API void rung_stream_destroy(rung_stream **stream);

// Waits until all work of the stream is done. Returns the first failure of that work, with its
// error record, and forgets it.
RUNG_API rung_status rung_stream_sync(rung_stream *stream);

// Copies `bytes` from `src` to `dst` in stream order. Both must stay valid until it is done.
RUNG_API rung_status rung_stream_copy(rung_stream *stream, void *dst, const void *src,
                                      uint64_t bytes);

// An event marks a place in a stream. Before it is recorded it counts as done.
RUNG_API rung_status rung_event_create(rung_device *device, rung_event **event_out);
RUNG_API void rung_event_destroy(rung_event **event);
// Marks the present end of `stream`.
RUNG_API rung_status rung_event_record(rung_event *event, rung_stream *stream);
// Makes later work of `stream` wait for the event.
RUNG_API rung_status rung_event_wait(rung_event *event, rung_stream *stream);
// Blocks the caller until the event has happened.
RUNG_API void rung_event_sync(rung_event *event);
// Has the event happened?
RUNG_API bool rung_event_done(const rung_event *event);

#ifdef __cplusplus
}
#endif

#endif
