// SPDX-License-Identifier: Apache-2.0
#include "data/source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "data/picture_source.h"
#include "data/source_pack.h"

void rung_source_destroy(rung_source **source)
{
    if (!source || !*source)
        return;
    if ((*source)->destroy && !(*source)->reserved)
        (*source)->destroy(*source);
    *source = NULL;
}

void rungi_source_abandon(rung_source *source)
{
    source->reserved = 1;
}

rung_status rungi_source_check(const rung_source *source)
{
    RUNG_CHECK(source, RUNG_INVALID, "no data source given");
    const char *name = source->name ? source->name : "data source";
    RUNG_CHECK(source->count >= 0, RUNG_UNSUPPORTED, "%s: streams are not supported yet", name);
    RUNG_CHECK(source->count > 0, RUNG_DATA, "%s: holds no samples", name);
    RUNG_CHECK(source->read, RUNG_INVALID, "%s: has no read function", name);
    RUNG_CHECK(source->field_count >= 1 && source->field_count <= RUNG_MAX_FIELDS, RUNG_INVALID,
               "%s: has %d fields, must be 1 to %d", name, source->field_count, RUNG_MAX_FIELDS);
    for (int f = 0; f < source->field_count; f++) {
        const rung_field *field = &source->fields[f];
        char text[RUNG_SHAPE_TEXT];
        int64_t count;
        RUNG_CHECK(field->name, RUNG_INVALID, "%s: field %d has no name", name, f);
        RUNG_CHECK(rung_dtype_size(field->dtype), RUNG_INVALID, "%s: field %s has no dtype", name,
                   field->name);
        RUNG_CHECK(field->shape.rank >= 0 && field->shape.rank < RUNG_MAX_RANK, RUNG_MISMATCH,
                   "%s: field %s has rank %d, can be at most %d", name, field->name,
                   field->shape.rank, RUNG_MAX_RANK - 1);
        if (field->pixels == RUNG_PIXELS_FILE) {
            RUNG_CHECK(field->dtype == RUNG_U8 && field->shape.rank == 1, RUNG_MISMATCH,
                       "%s: field %s holds pictures as files: it must be u8 of one dimension", name,
                       field->name);
            continue;
        }
        RUNG_TRY(rung_shape_count(&field->shape, &count));
        RUNG_CHECK(count > 0 && count <= INT64_MAX / 16, RUNG_MISMATCH,
                   "%s: field %s: a sample of shape %s has no usable size", name, field->name,
                   rung_shape_text(&field->shape, text, sizeof text));
        RUNG_CHECK(field->pixels == RUNG_PIXELS_NONE || field->shape.rank == 3, RUNG_MISMATCH,
                   "%s: field %s is an image but has shape %s", name, field->name,
                   rung_shape_text(&field->shape, text, sizeof text));
    }
    return RUNG_OK;
}

size_t rungi_field_bytes(const rung_field *field)
{
    if (field->pixels == RUNG_PIXELS_FILE)
        return 0; // borrowed
    int64_t count = 1;
    for (int i = 0; i < field->shape.rank; i++)
        count *= field->shape.dim[i];
    return (size_t)count * rung_dtype_size(field->dtype);
}

int64_t rungi_batch_bytes(const rung_batch *batch)
{
    int64_t bytes = 0, count;
    for (int f = 0; f < batch->field_count; f++)
        if (rung_shape_count(&batch->fields[f].shape, &count) == RUNG_OK)
            bytes += count * (int64_t)rung_dtype_size(batch->fields[f].dtype);
    return bytes;
}

void rungi_source_describe(const rung_source *source, int64_t index, char *out, size_t size)
{
    char place[512] = "";
    if (source->describe)
        source->describe(source->self, index, place, sizeof place);
    if (*place)
        snprintf(out, size, "sample %" PRId64 " (%s)", index, place);
    else
        snprintf(out, size, "sample %" PRId64 " of %s", index,
                 source->name ? source->name : "the data source");
}

const char *rungi_source_name(const rung_source *source, int64_t index)
{
    const char *name = rungi_picture_source_sample(source, index);
    name = name ? name : rungi_source_pack_sample(source, index);
    return name ? name : "";
}

const int64_t *rungi_source_label(const rung_source *source, int64_t index)
{
    const int64_t *label = rungi_picture_source_label_of(source, index);
    return label ? label : rungi_source_pack_label(source, index);
}
