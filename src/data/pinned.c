// SPDX-License-Identifier: Apache-2.0
#include "data/pinned.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/context.h"
#include "base/error.h"
#include "base/text.h"

enum { PAGE = 4096 };

void rungi_pinned_init(rungi_pinned *pinned, rung_context *context, uint64_t limit)
{
    struct rlimit system;
    *pinned = (rungi_pinned){.context = context, .limit = limit, .system = UINT64_MAX};
    if (getrlimit(RLIMIT_MEMLOCK, &system) == 0 && system.rlim_cur != RLIM_INFINITY)
        pinned->system = system.rlim_cur;
    pthread_mutex_init(&pinned->lock, NULL);
}

void rungi_pinned_fini(rungi_pinned *pinned)
{
    rungi_array_fini(&pinned->blocks);
    pthread_mutex_destroy(&pinned->lock);
}

static void tell(rungi_pinned *pinned, size_t bytes)
{
    char want[32], limit[32], system[32] = "any amount";
    if (pinned->told)
        return;
    pinned->told = true;
    if (pinned->system != UINT64_MAX)
        rungi_text_bytes(pinned->system, system, sizeof system);
    rungi_log(pinned->context, RUNG_LOG_NOTICE,
              "data.pin_memory: not all batches are pinned, %s more would be above data.pin_limit "
              "(%s) or what the system lets this process lock (%s, ulimit -l): the others stay "
              "pageable; fewer workers or a smaller data.prefetch_factor need less",
              rungi_text_bytes(bytes, want, sizeof want),
              rungi_text_bytes(pinned->limit, limit, sizeof limit), system);
}

static rung_status allocate(void *user, size_t bytes, void **memory_out)
{
    rungi_pinned *pinned = user;
    bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    void *data = aligned_alloc(PAGE, bytes);
    RUNG_CHECK(data, RUNG_NO_MEMORY, "no memory for a batch of %zu bytes", bytes);
    pthread_mutex_lock(&pinned->lock);
    bool fits = pinned->locked + bytes <= pinned->limit && pinned->locked + bytes <= pinned->system;
    rungi_pinned_block block = {data, bytes, fits && mlock(data, bytes) == 0};
    bool kept = rungi_array_push(&pinned->blocks, block);
    if (kept)
        *(block.locked ? &pinned->locked : &pinned->pageable) += bytes;
    if (kept && !block.locked)
        tell(pinned, bytes);
    pthread_mutex_unlock(&pinned->lock);
    if (!kept) {
        free(data);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a batch of %zu bytes", bytes);
    }
    *memory_out = data;
    return RUNG_OK;
}

static void release(void *user, void *memory)
{
    rungi_pinned *pinned = user;
    pthread_mutex_lock(&pinned->lock);
    for (size_t i = 0; i < pinned->blocks.count; i++) {
        rungi_pinned_block block = pinned->blocks.data[i];
        if (block.data != memory)
            continue;
        if (block.locked)
            munlock(block.data, block.bytes);
        *(block.locked ? &pinned->locked : &pinned->pageable) -= block.bytes;
        pinned->blocks.data[i] = pinned->blocks.data[--pinned->blocks.count];
        break;
    }
    pthread_mutex_unlock(&pinned->lock);
    free(memory);
}

rung_loader_memory rungi_pinned_memory(rungi_pinned *pinned)
{
    return (rung_loader_memory){pinned, allocate, release};
}

bool rungi_pinned_is(rungi_pinned *pinned, const void *data)
{
    const char *at = data;
    bool locked = false;
    pthread_mutex_lock(&pinned->lock);
    for (size_t i = 0; i < pinned->blocks.count; i++) {
        const rungi_pinned_block *block = &pinned->blocks.data[i];
        const char *begin = block->data;
        locked |= block->locked && at >= begin && at < begin + block->bytes;
    }
    pthread_mutex_unlock(&pinned->lock);
    return locked;
}
