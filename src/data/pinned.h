// SPDX-License-Identifier: Apache-2.0
// Memory that a device can copy from at once: locked into RAM, up to a cap and to what the system
// lets this process lock. What does not fit stays pageable, which is told once.
#ifndef RUNGI_DATA_PINNED_H
#define RUNGI_DATA_PINNED_H

#include <pthread.h>

#include "base/array.h"
#include "rung/data.h"

typedef struct rungi_pinned_block {
    void *data;
    size_t bytes;
    bool locked;
} rungi_pinned_block;

typedef struct rungi_pinned {
    rung_context *context;
    uint64_t limit;  // data.pin_limit
    uint64_t system; // what the system lets this process lock
    pthread_mutex_t lock;
    RUNGI_ARRAY(rungi_pinned_block) blocks;
    uint64_t locked, pageable; // bytes now
    bool told;
} rungi_pinned;

// `limit` in bytes. Ended by fini, after all of its memory was given back.
void rungi_pinned_init(rungi_pinned *pinned, rung_context *context, uint64_t limit);
void rungi_pinned_fini(rungi_pinned *pinned);

// The functions that a loader takes (rung_loader_options.memory).
rung_loader_memory rungi_pinned_memory(rungi_pinned *pinned);

// Is this part of memory locked?
bool rungi_pinned_is(rungi_pinned *pinned, const void *data);

#endif
