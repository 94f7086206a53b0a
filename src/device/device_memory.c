// SPDX-License-Identifier: Apache-2.0
// A device's memory: the account of what is live, and a cache of freed blocks. Blocks are the
// system's own, so that none is cut into pieces that nobody can use: a request takes the smallest
// cached block that it fills well enough, else a new one.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "base/text.h"
#include "device/device.h"

#ifdef __SANITIZE_ADDRESS__
#    include <sanitizer/asan_interface.h>
#else
#    define ASAN_POISON_MEMORY_REGION(data, size) ((void)(data), (void)(size))
#    define ASAN_UNPOISON_MEMORY_REGION(data, size) ((void)(data), (void)(size))
#endif

#if !defined NDEBUG
enum { FILLED = 1 };
#else
enum { FILLED = 0 };
#endif

enum { FREED = 0xDD }; // what freed blocks are filled with

// What an allocation remembers, for the account and for messages.
typedef struct rungi_block {
    void *data;
    uint64_t bytes;    // asked for
    uint64_t capacity; // of the block
    char what[48];
    bool foreign; // adopted: not to be freed here
    bool zero;    // new from the system, and zero
    struct rungi_block *next;
} rungi_block;

// ---- the account ------------------------------------------------------------------------------

static void raise_to(uint64_t *peak, uint64_t value)
{
    if (value > *peak)
        *peak = value;
}

static void count(rung_device *device)
{
    rung_memory_stats *m = &device->memory;
    m->reserved = m->active + m->cached;
    m->largest_cached = 0;
    for (const rungi_block *b = device->cache; b; b = b->next)
        raise_to(&m->largest_cached, b->capacity);
    raise_to(&m->peak_live, m->live);
    raise_to(&m->peak_active, m->active);
    raise_to(&m->peak_reserved, m->reserved);
}

static rung_status refuse(rung_device *device, uint64_t bytes, const char *what,
                          const rung_memory_stats *m)
{
    char asked[32], live[32], cached[32], largest[32], cap[32];
    return RUNG_FAIL(RUNG_NO_MEMORY,
                     "%s: no memory for %s: asked for %s, live %s, cached %s (largest block %s), "
                     "cap %s",
                     device->name, what, rungi_text_bytes(bytes, asked, sizeof asked),
                     rungi_text_bytes(m->live, live, sizeof live),
                     rungi_text_bytes(m->cached, cached, sizeof cached),
                     rungi_text_bytes(m->largest_cached, largest, sizeof largest),
                     m->cap ? rungi_text_bytes(m->cap, cap, sizeof cap) : "none");
}

static void misuse(rung_device *device, const rungi_block *block, const char *how)
{
    device->memory.misuses++;
    rungi_log(device->context, RUNG_LOG_ERROR, "%s: %s was %s", device->name, block->what, how);
}

// ---- blocks -----------------------------------------------------------------------------------

static bool fits_cap(const rung_device *device, uint64_t bytes)
{
    const rung_memory_stats *m = &device->memory;
    return !m->cap || (bytes <= m->cap && m->reserved <= m->cap - bytes);
}

// Takes the smallest cached block that the request fills to four fifths; NULL: there is none.
static rungi_block *take_cached(rung_device *device, uint64_t bytes)
{
    rungi_block **best = NULL;
    for (rungi_block **link = &device->cache; *link; link = &(*link)->next)
        if ((*link)->capacity >= bytes && (*link)->capacity - bytes <= (*link)->capacity / 5 &&
            (!best || (*link)->capacity < (*best)->capacity))
            best = link;
    if (!best)
        return NULL;
    rungi_block *block = *best;
    *best = block->next;
    device->memory.cached -= block->capacity;
    device->memory.reused++;
    ASAN_UNPOISON_MEMORY_REGION(block->data, block->capacity);
    for (uint64_t i = 0; FILLED && i < block->capacity; i++)
        if (((const unsigned char *)block->data)[i] != FREED) {
            misuse(device, block, "written to after it was freed");
            break;
        }
    return block;
}

static uint64_t release(rung_device *device)
{
    uint64_t bytes = device->memory.cached;
    while (device->cache) {
        rungi_block *block = device->cache;
        device->cache = block->next;
        ASAN_UNPOISON_MEMORY_REGION(block->data, block->capacity);
        device->backend->free(device, block->data, block->capacity);
        free(block);
    }
    device->memory.cached = 0;
    count(device);
    return bytes;
}

static bool make_block(rung_device *device, uint64_t bytes, rungi_block *block)
{
    block->capacity = bytes;
    return fits_cap(device, bytes) &&
           device->backend->alloc(device, bytes, &block->zero, &block->data) == RUNG_OK;
}

// From the cache, or new; NULL when there is no room.
static rungi_block *find_block(rung_device *device, uint64_t bytes)
{
    rungi_block *block = take_cached(device, bytes);
    if (block)
        return block;
    block = calloc(1, sizeof *block);
    if (!block || make_block(device, bytes, block))
        return block;
    if (device->cache) {
        device->memory.retries++;
        release(device);
        if (make_block(device, bytes, block))
            return block;
    }
    free(block);
    return NULL;
}

static void enter(rung_device *device, rungi_block *block, uint64_t bytes, const char *what)
{
    block->bytes = bytes;
    snprintf(block->what, sizeof block->what, "%s", what);
    block->next = device->blocks;
    device->blocks = block;
    device->memory.live += bytes;
    device->memory.active += block->capacity;
    device->memory.allocations++;
    count(device);
}

static rung_status allocate(rung_device *device, uint64_t bytes, const char *what, bool *zero_out,
                            void **data_out)
{
    if (bytes == 0)
        bytes = 1;
    pthread_mutex_lock(&device->lock);
    rung_memory_stats *m = &device->memory, before = *m;
    rungi_block *block = find_block(device, bytes);
    if (block) {
        enter(device, block, bytes, what);
        *zero_out = block->zero;
        *data_out = block->data;
        block->zero = false; // from now on others write to it
    } else {
        m->failures++;
    }
    pthread_mutex_unlock(&device->lock);
    return block ? RUNG_OK : refuse(device, bytes, what, &before);
}

rung_status rungi_device_adopt(rung_device *device, void *data, uint64_t bytes, const char *what)
{
    rungi_block *block = calloc(1, sizeof *block);
    RUNG_CHECK(block, RUNG_NO_MEMORY, "no memory for a device's account");
    *block = (rungi_block){.data = data, .capacity = bytes, .foreign = true};
    pthread_mutex_lock(&device->lock);
    rung_memory_stats before = device->memory;
    bool fits = fits_cap(device, bytes);
    if (!fits && device->cache) {
        device->memory.retries++;
        release(device);
        fits = fits_cap(device, bytes);
    }
    if (fits)
        enter(device, block, bytes, what);
    else
        device->memory.failures++;
    pthread_mutex_unlock(&device->lock);
    if (fits)
        return RUNG_OK;
    free(block);
    return refuse(device, bytes, what, &before);
}

rung_status rung_device_alloc(rung_device *device, uint64_t bytes, const char *what,
                              void **data_out)
{
    bool zero;
    return allocate(device, bytes, what, &zero, data_out);
}

rung_status rungi_device_alloc_zero(rung_device *device, uint64_t bytes, const char *what,
                                    void **data_out)
{
    bool zero = false;
    RUNG_TRY(allocate(device, bytes, what, &zero, data_out));
    if (!zero)
        memset(*data_out, 0, bytes);
    return RUNG_OK;
}

static void free_block(rung_device *device, void *data, bool keep)
{
    rungi_block **link = &device->blocks;
    while (*link && (*link)->data != data)
        link = &(*link)->next;
    rungi_block *block = *link;
    if (!block) {
        for (const rungi_block *b = device->cache; b; b = b->next)
            if (b->data == data)
                misuse(device, b, "freed twice");
        return;
    }
    *link = block->next;
    device->memory.live -= block->bytes;
    device->memory.active -= block->capacity;
    if (block->foreign) {
        free(block);
    } else if (keep) {
        if (FILLED)
            memset(block->data, FREED, block->capacity);
        ASAN_POISON_MEMORY_REGION(block->data, block->capacity);
        block->next = device->cache;
        device->cache = block;
        device->memory.cached += block->capacity;
    } else {
        device->backend->free(device, block->data, block->capacity);
        free(block);
    }
    count(device);
}

void rung_device_free(rung_device *device, void *data)
{
    if (!data)
        return;
    pthread_mutex_lock(&device->lock);
    free_block(device, data, true);
    pthread_mutex_unlock(&device->lock);
}

void rungi_device_free_now(rung_device *device, void *data)
{
    if (!data)
        return;
    pthread_mutex_lock(&device->lock);
    free_block(device, data, false);
    pthread_mutex_unlock(&device->lock);
}

void rungi_device_disown(rung_device *device, void *data)
{
    rungi_device_free_now(device, data);
}

void rungi_device_memory_fini(rung_device *device)
{
    while (device->blocks)
        free_block(device, device->blocks->data, false);
    release(device);
}

// ---- looking ----------------------------------------------------------------------------------

rung_memory_stats rung_device_memory(const rung_device *device)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&device->lock;
    pthread_mutex_lock(lock);
    rung_memory_stats memory = device->memory;
    pthread_mutex_unlock(lock);
    return memory;
}

void rung_device_memory_reset_peak(rung_device *device)
{
    pthread_mutex_lock(&device->lock);
    device->memory.peak_live = device->memory.live;
    device->memory.peak_active = device->memory.active;
    device->memory.peak_reserved = device->memory.reserved;
    pthread_mutex_unlock(&device->lock);
}

uint64_t rung_device_memory_release(rung_device *device)
{
    pthread_mutex_lock(&device->lock);
    uint64_t bytes = release(device);
    pthread_mutex_unlock(&device->lock);
    return bytes;
}

void rungi_device_set_cap(rung_device *device, uint64_t cap)
{
    pthread_mutex_lock(&device->lock);
    device->memory.cap = cap;
    pthread_mutex_unlock(&device->lock);
}

static int by_bytes(const void *a, const void *b)
{
    const rungi_block *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : strcmp(x->what, y->what);
}

rung_status rung_device_memory_text(const rung_device *device, char **text_out)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&device->lock;
    rungi_string out = {0};
    size_t n = 0, all = 0;
    pthread_mutex_lock(lock);
    for (const rungi_block *b = device->blocks; b; b = b->next)
        all++;
    rungi_block *uses = calloc(all + 1, sizeof *uses);
    for (const rungi_block *b = device->blocks; uses && b; b = b->next) {
        size_t at = 0;
        while (at < n && strcmp(uses[at].what, b->what) != 0)
            at++;
        if (at == n)
            memcpy(uses[n++].what, b->what, sizeof b->what);
        uses[at].bytes += b->bytes;
    }
    pthread_mutex_unlock(lock);
    RUNG_CHECK(uses, RUNG_NO_MEMORY, "no memory for a text");
    qsort(uses, n, sizeof *uses, by_bytes);
    rungi_string_add(&out, "%s", "");
    for (size_t i = 0; i < n; i++) {
        char bytes[32];
        rungi_string_add(&out, "%s %s\n", rungi_text_bytes(uses[i].bytes, bytes, sizeof bytes),
                         uses[i].what);
    }
    free(uses);
    if (out.failed || !out.data) {
        rungi_string_fini(&out);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a text");
    }
    *text_out = out.data;
    return RUNG_OK;
}
