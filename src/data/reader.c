// SPDX-License-Identifier: Apache-2.0
#include "data/reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "data/source.h"

rung_status rungi_reader_open(rung_source *source, int worker, rungi_reader *reader)
{
    *reader = (rungi_reader){.source = source};
    for (int f = 0; f < source->field_count; f++) {
        reader->room[f] = malloc(rungi_field_bytes(&source->fields[f]) + 1);
        RUNG_CHECK(reader->room[f], RUNG_NO_MEMORY, "no memory for a sample");
    }
    if (source->fields[0].pixels == RUNG_PIXELS_FILE)
        RUNG_TRY(rungi_decoder_create(&reader->decoder));
    if (source->open)
        RUNG_TRY(source->open(source->self, worker, &reader->state));
    reader->opened = true;
    return RUNG_OK;
}

void rungi_reader_close(rungi_reader *reader)
{
    const rung_source *source = reader->source;
    if (reader->opened && source->open && source->close)
        source->close(source->self, reader->state);
    rungi_decoder_destroy(&reader->decoder);
    for (int f = 0; f < RUNG_MAX_FIELDS; f++)
        free(reader->room[f]);
    free(reader->pixels.data);
    *reader = (rungi_reader){0};
}

rung_status rungi_reader_read(rungi_reader *reader, int64_t index)
{
    const rung_source *source = reader->source;
    rung_sample sample = {.index = index, .worker = -1, .may_borrow = UINT32_MAX};
    for (int f = 0; f < source->field_count; f++)
        reader->fields[f] =
            (rung_view){source->fields[f].dtype, source->fields[f].shape, reader->room[f]};
    RUNG_TRY(source->read(source->self, reader->state, &sample, reader->fields));
    const rung_view *first = &reader->fields[0];
    RUNG_CHECK(!reader->decoder || (first->data != reader->room[0] && first->shape.dim[0] >= 0),
               RUNG_INVALID, "field %s: the source gave no picture", source->fields[0].name);
    return RUNG_OK;
}

// An image of bytes as interleaved pixels.
static rung_status array_pixels(rungi_reader *reader, rungi_image_info *info, rungi_pixels *out)
{
    const rung_field *field = &reader->source->fields[0];
    const int64_t *d = field->shape.dim;
    bool hwc = field->pixels == RUNG_PIXELS_HWC;
    RUNG_CHECK(
        field->shape.rank == 3 && field->dtype == RUNG_U8 && field->pixels != RUNG_PIXELS_NONE &&
            (d[hwc ? 2 : 0] == 1 || d[hwc ? 2 : 0] == 3),
        RUNG_UNSUPPORTED, "field %s is not an image of bytes with 1 or 3 channels", field->name);
    int channels = (int)d[hwc ? 2 : 0], height = (int)d[hwc ? 0 : 1], width = (int)d[hwc ? 1 : 2];
    size_t plane = (size_t)height * (size_t)width, c = (size_t)channels;
    RUNG_CHECK(rungi_block_reserve(&reader->pixels, plane * c + RUNGI_PIXELS_SLACK), RUNG_NO_MEMORY,
               "no memory for a picture of %d x %d", width, height);
    const uint8_t *from = reader->fields[0].data;
    uint8_t *to = reader->pixels.data;
    for (size_t i = 0; i < plane; i++)
        for (size_t k = 0; k < c; k++)
            to[i * c + k] = hwc ? from[i * c + k] : from[k * plane + i];
    *info = (rungi_image_info){.width = width,
                               .height = height,
                               .channels = channels,
                               .colour = channels == 1 ? RUNGI_COLOUR_GREY : RUNGI_COLOUR_RGB,
                               .orientation = 1};
    *out = (rungi_pixels){to, (size_t)width * c, width, height, channels};
    return RUNG_OK;
}

rung_status rungi_reader_picture(rungi_reader *reader, const char *name, bool rotate,
                                 rungi_image_info *info_out, rungi_pixels *pixels_out)
{
    if (!reader->decoder)
        return array_pixels(reader, info_out, pixels_out);
    const rung_view *file = &reader->fields[0];
    RUNG_TRY(rungi_decoder_begin(reader->decoder, file->data, (size_t)file->shape.dim[0], name,
                                 rotate, info_out));
    rungi_rect whole = {0, 0, info_out->width, info_out->height};
    return rungi_decoder_read(reader->decoder, &whole, info_out->channels, pixels_out);
}

int rungi_source_label_field(const rung_source *source)
{
    for (int f = 0; f < source->field_count; f++)
        if (strcmp(source->fields[f].name, "label") == 0)
            return f;
    return -1;
}
