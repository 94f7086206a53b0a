// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "data/memory_source.h"

static rung_status add_array(rungi_memory_source *memory, const rung_array_field *array, bool copy)
{
    char text[RUNG_SHAPE_TEXT];
    const rung_shape *all = &array->all.shape;
    RUNG_CHECK(array->name, RUNG_INVALID, "arrays: field %d has no name",
               memory->source.field_count);
    RUNG_CHECK(all->rank >= 1 && all->rank <= RUNG_MAX_RANK, RUNG_MISMATCH,
               "arrays: field %s has rank %d, its first dimension must count the samples",
               array->name, all->rank);
    RUNG_CHECK(all->dim[0] > 0, RUNG_DATA, "arrays: field %s has shape %s: no samples", array->name,
               rung_shape_text(all, text, sizeof text));
    RUNG_CHECK(memory->source.count == 0 || all->dim[0] == memory->source.count, RUNG_MISMATCH,
               "arrays: field %s has %" PRId64 " samples, field %s has %" PRId64, array->name,
               all->dim[0], memory->source.fields[0].name, memory->source.count);
    RUNG_CHECK(array->all.data, RUNG_INVALID, "arrays: field %s has no data", array->name);
    RUNG_CHECK(array->pixels == RUNG_PIXELS_NONE || all->rank == 4, RUNG_MISMATCH,
               "arrays: field %s holds images but has shape %s", array->name,
               rung_shape_text(all, text, sizeof text));
    rung_shape shape = {.rank = all->rank - 1};
    for (int i = 0; i < shape.rank; i++)
        shape.dim[i] = all->dim[i + 1];
    int64_t elements;
    size_t bytes;
    RUNG_TRY(rung_shape_count(all, &elements));
    RUNG_CHECK(elements > 0 &&
                   rungi_size_mul((size_t)elements, rung_dtype_size(array->all.dtype), &bytes),
               RUNG_MISMATCH, "arrays: field %s has shape %s: samples of no usable size",
               array->name, rung_shape_text(all, text, sizeof text));
    const void *data = array->all.data;
    if (copy) {
        void *copied = rungi_memory_source_block(bytes);
        RUNG_TRY(rungi_memory_source_own(memory, copied));
        data = memcpy(copied, array->all.data, bytes);
    }
    char *name = rungi_text_copy(array->name);
    RUNG_TRY(rungi_memory_source_own(memory, name));
    memory->source.count = all->dim[0];
    return rungi_memory_source_field(memory, name, array->all.dtype, shape, array->pixels, data,
                                     bytes / (size_t)all->dim[0]);
}

rung_status rung_source_arrays(rung_context *context, const rung_array_field *fields,
                               int field_count, int class_count, bool copy,
                               rung_source **source_out)
{
    (void)context;
    rung_status status = RUNG_OK;
    rungi_memory_source *memory;
    RUNG_CHECK(field_count >= 1 && field_count <= RUNG_MAX_FIELDS, RUNG_INVALID,
               "arrays: %d fields given, must be 1 to %d", field_count, RUNG_MAX_FIELDS);
    RUNG_TRY(rungi_memory_source_create("arrays", &memory));
    memory->source.class_count = class_count;
    for (int f = 0; f < field_count && status == RUNG_OK; f++)
        status = add_array(memory, &fields[f], copy);
    if (status != RUNG_OK) {
        rungi_memory_source_drop(&memory);
        return status;
    }
    *source_out = &memory->source;
    return RUNG_OK;
}
