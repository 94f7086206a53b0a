// SPDX-License-Identifier: Apache-2.0
#include "data/memory_source.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"

static rung_status read_sample(void *self, void *state, const rung_sample *sample,
                               rung_view *fields)
{
    (void)state;
    const rungi_memory_source *memory = self;
    for (int f = 0; f < memory->source.field_count; f++) {
        const rungi_memory_field *field = &memory->fields[f];
        const uint8_t *at = field->data + (size_t)sample->index * field->stride;
        if (sample->may_borrow >> f & 1)
            fields[f].data = (void *)(uintptr_t)at; // only ever read from
        else
            memcpy(fields[f].data, at, field->bytes);
    }
    return RUNG_OK;
}

static void describe(void *self, int64_t index, char *out, size_t size)
{
    const rungi_memory_source *memory = self;
    const rungi_memory_file *file = NULL;
    for (size_t i = 0; i < memory->files.count && memory->files.data[i].first <= index; i++)
        file = &memory->files.data[i];
    if (file)
        snprintf(out, size, "%s, record %" PRId64, file->path, index - file->first);
    else
        snprintf(out, size, "%s", memory->source.name);
}

static void destroy(rung_source *source)
{
    rungi_memory_source *memory = (rungi_memory_source *)source;
    (void)rungi_thread_join(&memory->later);
    free(memory->later_arg);
    if (memory->mapped)
        munmap(memory->mapped, memory->mapped_bytes);
    for (size_t i = 0; i < memory->owned.count; i++)
        free(memory->owned.data[i]);
    rungi_array_fini(&memory->owned);
    for (size_t i = 0; i < memory->files.count; i++)
        free(memory->files.data[i].path);
    rungi_array_fini(&memory->files);
    free(memory);
}

rung_status rungi_memory_source_create(const char *name, rungi_memory_source **memory_out)
{
    rungi_memory_source *memory = calloc(1, sizeof *memory);
    RUNG_CHECK(memory, RUNG_NO_MEMORY, "no memory for a data source");
    memory->source.name = name;
    memory->source.self = memory;
    memory->source.read = read_sample;
    memory->source.describe = describe;
    memory->source.destroy = destroy;
    *memory_out = memory;
    return RUNG_OK;
}

void rungi_memory_source_drop(rungi_memory_source **memory)
{
    if (*memory)
        destroy(&(*memory)->source);
    *memory = NULL;
}

rung_status rungi_memory_source_own_map(rungi_memory_source *memory, void *data, size_t bytes)
{
    if (memory->mapped) {
        munmap(data, bytes);
        return RUNG_FAIL(RUNG_INTERNAL, "a source has one mapping");
    }
    memory->mapped = data;
    memory->mapped_bytes = bytes;
    return RUNG_OK;
}

void rungi_memory_source_later(rungi_memory_source *memory, rungi_thread_fn fn, void *arg)
{
    memory->later_arg = arg;
    if (rungi_thread_start(&memory->later, "rung-verify", fn, arg) != RUNG_OK)
        (void)fn(arg);
}

rung_status rungi_memory_source_field(rungi_memory_source *memory, const char *name,
                                      rung_dtype dtype, rung_shape shape, rung_pixels pixels,
                                      const void *data, size_t stride)
{
    rung_source *source = &memory->source;
    int64_t count;
    size_t bytes;
    RUNG_TRY(rung_shape_count(&shape, &count));
    RUNG_CHECK(rungi_size_mul((size_t)count, rung_dtype_size(dtype), &bytes), RUNG_INVALID,
               "field %s: a sample is larger than memory can be", name);
    RUNG_CHECK(source->field_count < RUNG_MAX_FIELDS, RUNG_INVALID,
               "field %s: a source has at most %d fields", name, RUNG_MAX_FIELDS);
    int f = source->field_count++;
    source->fields[f] = (rung_field){name, dtype, shape, pixels};
    memory->fields[f] = (rungi_memory_field){data, stride, bytes};
    return RUNG_OK;
}

void *rungi_memory_source_block(size_t size)
{
    enum { HUGE_PAGE = 2 << 20 };
    if (size < 2 * (size_t)HUGE_PAGE || size > SIZE_MAX - HUGE_PAGE)
        return malloc(size);
    size = (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *block = aligned_alloc(HUGE_PAGE, size);
    if (block)
        madvise(block, size, MADV_HUGEPAGE); // a wish
    return block;
}

rung_status rungi_memory_source_own(rungi_memory_source *memory, void *block)
{
    if (block && rungi_array_push(&memory->owned, block))
        return RUNG_OK;
    free(block);
    return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a data source");
}

rung_status rungi_memory_source_file(rungi_memory_source *memory, const char *path, int64_t first)
{
    char *copy = rungi_text_copy(path);
    if (copy && rungi_array_push(&memory->files, (rungi_memory_file){copy, first}))
        return RUNG_OK;
    free(copy);
    return RUNG_FAIL(RUNG_NO_MEMORY, "%s: no memory for its name", path);
}

rung_status rungi_memory_source_classes(rungi_memory_source *memory, const char *const *names,
                                        int count)
{
    const char **copies = calloc((size_t)count + 1, sizeof *copies);
    RUNG_TRY(rungi_memory_source_own(memory, (void *)copies));
    for (int i = 0; i < count; i++) {
        char *copy = rungi_text_copy(names[i]);
        RUNG_TRY(rungi_memory_source_own(memory, copy));
        copies[i] = copy;
    }
    memory->source.class_count = count;
    memory->source.class_names = copies;
    return RUNG_OK;
}
