// SPDX-License-Identifier: Apache-2.0
// One picture after the other: which decoder, rotation, number of channels.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "formats/image_file.h"

struct rungi_decoder {
    rungi_jpeg *jpeg;
    const unsigned char *data;
    size_t size;
    const char *name;
    rungi_image_info info; // in the file's own coordinates, but for orientation
    rungi_block converted, turned;
    rung_image image; // of formats other than JPEG
};

bool rungi_block_reserve(rungi_block *block, size_t size)
{
    if (size <= block->size)
        return true;
    if (size > SIZE_MAX / 2)
        return false;
    size = (size + size / 8 + 63) / 64 * 64; // pictures differ a little
    uint8_t *data = aligned_alloc(64, size);
    if (!data)
        return false;
    free(block->data);
    *block = (rungi_block){data, size};
    return true;
}

rung_status rungi_decoder_create(rungi_decoder **decoder_out)
{
    rungi_decoder *decoder = calloc(1, sizeof *decoder);
    RUNG_CHECK(decoder, RUNG_NO_MEMORY, "no memory for a picture decoder");
    rung_status status = rungi_jpeg_create(&decoder->jpeg);
    if (status != RUNG_OK) {
        free(decoder);
        return status;
    }
    *decoder_out = decoder;
    return RUNG_OK;
}

void rungi_decoder_destroy(rungi_decoder **decoder)
{
    if (!*decoder)
        return;
    rungi_jpeg_destroy(&(*decoder)->jpeg);
    free((*decoder)->converted.data);
    free((*decoder)->turned.data);
    rung_image_fini(&(*decoder)->image);
    free(*decoder);
    *decoder = NULL;
}

// ---- the header

static rung_status probe(rungi_decoder *d, rungi_image_info *info)
{
    const unsigned char *bytes = d->data;
    RUNG_CHECK(d->size > 0, RUNG_CORRUPT, "%s: cut: expected a picture, found 0 bytes", d->name);
    if (d->size > 2 && bytes[0] == 0xff && bytes[1] == 0xd8) {
        info->kind = RUNGI_IMAGE_JPEG;
        return rungi_jpeg_begin(d->jpeg, bytes, d->size, d->name, info);
    }
    if (d->size > 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0) {
        info->kind = RUNGI_IMAGE_PNG;
        return rungi_image_probe_png(bytes, d->size, d->name, info);
    }
    if (d->size > 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0) {
        info->kind = RUNGI_IMAGE_WEBP;
        return rungi_image_probe_webp(bytes, d->size, d->name, info);
    }
    if (d->size > 2 && bytes[0] == 'P' && memchr("2356", bytes[1], 4)) {
        info->kind = RUNGI_IMAGE_PNM;
        return rungi_image_probe_pnm(bytes, d->size, d->name, info);
    }
    return RUNG_FAIL(RUNG_FORMAT, "%s: not a picture of kind JPEG, PNG, WebP, PGM or PPM", d->name);
}

// Orientations 5 to 8 lie on their side.
static bool is_sideways(int orientation)
{
    return orientation >= 5;
}

rung_status rungi_decoder_begin(rungi_decoder *decoder, const void *data, size_t size,
                                const char *name, bool rotate, rungi_image_info *info_out)
{
    rungi_image_info info = {.orientation = 1};
    rung_image_fini(&decoder->image);
    decoder->data = data;
    decoder->size = size;
    decoder->name = name;
    RUNG_TRY(probe(decoder, &info));
    if (!rotate)
        info.orientation = 1;
    decoder->info = info;
    if (is_sideways(info.orientation)) {
        info.width = decoder->info.height;
        info.height = decoder->info.width;
    }
    *info_out = info;
    return RUNG_OK;
}

// ---- pixels

// Where pixel (0, 0) of the picture as seen lies in the file's picture, and where its neighbours to
// the right and below are from there.
typedef struct turn {
    bool sideways, from_right, from_bottom;
} turn;

static turn turn_of(int orientation)
{
    static const turn turns[9] = {
        [2] = {false, true, false}, [3] = {false, true, true}, [4] = {false, false, true},
        [5] = {true, false, false}, [6] = {true, false, true}, [7] = {true, true, true},
        [8] = {true, true, false},
    };
    return turns[orientation];
}

static rungi_rect stored_part(const rungi_decoder *d, const rungi_rect *part)
{
    turn t = turn_of(d->info.orientation);
    rungi_rect r = *part;
    if (t.sideways)
        r = (rungi_rect){part->y, part->x, part->height, part->width};
    if (t.from_right)
        r.x = d->info.width - r.x - r.width;
    if (t.from_bottom)
        r.y = d->info.height - r.y - r.height;
    return r;
}

static rung_status turn_pixels(rungi_decoder *d, rungi_pixels *pixels)
{
    turn t = turn_of(d->info.orientation);
    const rungi_pixels from = *pixels;
    size_t c = (size_t)from.channels;
    rungi_pixels to = from;
    if (t.sideways) {
        to.width = from.height;
        to.height = from.width;
    }
    to.stride = (size_t)to.width * c;
    RUNG_CHECK(rungi_block_reserve(&d->turned, to.stride * (size_t)to.height + RUNGI_PIXELS_SLACK),
               RUNG_NO_MEMORY, "%s: no memory to rotate it", d->name);
    uint8_t *out = d->turned.data;
    for (int y = 0; y < to.height; y++)
        for (int x = 0; x < to.width; x++, out += c) {
            int column = t.sideways ? y : x, row = t.sideways ? x : y;
            column = t.from_right ? from.width - 1 - column : column;
            row = t.from_bottom ? from.height - 1 - row : row;
            memcpy(out, from.at + (size_t)row * from.stride + (size_t)column * c, c);
        }
    to.at = d->turned.data;
    *pixels = to;
    return RUNG_OK;
}

void rungi_grey_of_rgb(const uint8_t *rgb, uint8_t *grey, size_t count)
{
    for (size_t i = 0; i < count; i++)
        grey[i] = (uint8_t)((rgb[3 * i] * 19595u + rgb[3 * i + 1] * 38470u +
                             rgb[3 * i + 2] * 7471u + 0x8000u) >>
                            16);
}

void rungi_rgb_of_grey(const uint8_t *grey, uint8_t *rgb, size_t count)
{
    for (size_t i = 0; i < count; i++)
        memset(rgb + 3 * i, grey[i], 3);
}

// A part of a picture that was decoded as a whole.
static rung_status cut_part(rungi_decoder *d, const rungi_rect *part, int channels,
                            rungi_pixels *pixels_out)
{
    const rung_image *image = &d->image;
    size_t c = (size_t)image->channels, stride = (size_t)image->width * c;
    rungi_pixels from = {image->pixels + (size_t)part->y * stride + (size_t)part->x * c, stride,
                         part->width, part->height, image->channels};
    *pixels_out = from;
    if (image->channels == channels)
        return RUNG_OK;
    size_t to_stride = (size_t)part->width * (size_t)channels;
    RUNG_CHECK(
        rungi_block_reserve(&d->converted, to_stride * (size_t)part->height + RUNGI_PIXELS_SLACK),
        RUNG_NO_MEMORY, "%s: no memory for its pixels", d->name);
    for (int y = 0; y < part->height; y++)
        (channels == 1 ? rungi_grey_of_rgb : rungi_rgb_of_grey)(
            from.at + (size_t)y * stride, d->converted.data + (size_t)y * to_stride,
            (size_t)part->width);
    *pixels_out = (rungi_pixels){d->converted.data, to_stride, part->width, part->height, channels};
    return RUNG_OK;
}

rung_status rungi_decoder_read(rungi_decoder *decoder, const rungi_rect *part, int channels,
                               rungi_pixels *pixels_out)
{
    rungi_rect stored = stored_part(decoder, part);
    rungi_pixels pixels;
    rung_image *image = &decoder->image;
    switch (decoder->info.kind) {
    case RUNGI_IMAGE_JPEG:
        RUNG_TRY(rungi_jpeg_read(decoder->jpeg, &stored, channels, &pixels));
        break;
    case RUNGI_IMAGE_PNG:
        RUNG_TRY(rungi_image_decode_png(decoder->data, decoder->size, decoder->name, image));
        break;
    case RUNGI_IMAGE_WEBP:
        RUNG_TRY(rungi_image_decode_webp(decoder->data, decoder->size, decoder->name, image));
        break;
    case RUNGI_IMAGE_PNM:
        RUNG_TRY(rungi_image_decode_pnm(decoder->data, decoder->size, decoder->name, image));
        break;
    }
    if (image->pixels)
        RUNG_TRY(cut_part(decoder, &stored, channels, &pixels));
    if (decoder->info.orientation > 1)
        RUNG_TRY(turn_pixels(decoder, &pixels));
    *pixels_out = pixels;
    return RUNG_OK;
}
