// SPDX-License-Identifier: Apache-2.0
// PGM and PPM, plain (P2, P3) and raw (P5, P6). The first picture of a file counts.
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "formats/image_file.h"

typedef struct reader {
    const unsigned char *at, *end;
    const char *name;
} reader;

static bool is_space(int c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

// White space and comments (from # to the end of the line).
static void skip_blank(reader *r)
{
    bool comment = false;
    for (; r->at < r->end; r->at++) {
        if (*r->at == '#')
            comment = true;
        else if (*r->at == '\n' || *r->at == '\r')
            comment = false;
        else if (!comment && !is_space(*r->at))
            break;
    }
}

static rung_status take_number(reader *r, const char *what, uint32_t *out)
{
    skip_blank(r);
    RUNG_CHECK(r->at < r->end, RUNG_CORRUPT, "%s: cut: ends before its %s", r->name, what);
    uint32_t value = 0;
    const unsigned char *begin = r->at;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9' && value < 100000000; r->at++)
        value = value * 10 + (uint32_t)(*r->at - '0');
    RUNG_CHECK(r->at > begin && (r->at == r->end || is_space(*r->at) || *r->at == '#'), RUNG_FORMAT,
               "%s: its %s is not a number", r->name, what);
    *out = value;
    return RUNG_OK;
}

// Scaled as Pillow does, rounding halves to even.
static uint8_t scale(uint32_t value, uint32_t maxval)
{
    return maxval == 255 ? (uint8_t)value
                         : (uint8_t)nearbyint((double)value / (double)maxval * 255);
}

static rung_status read_raster(reader *r, bool plain, uint32_t maxval, rung_image *image)
{
    size_t count = (size_t)image->width * (size_t)image->height * (size_t)image->channels;
    for (size_t i = 0; i < count; i++) {
        uint32_t value;
        if (plain) {
            RUNG_TRY(take_number(r, "pixels", &value));
        } else if (maxval > 255) {
            value = (uint32_t)(r->at[0] << 8 | r->at[1]);
            r->at += 2;
        } else {
            value = *r->at++;
        }
        RUNG_CHECK(value <= maxval, RUNG_FORMAT, "%s: sample %u is above the largest, %u", r->name,
                   value, maxval);
        image->pixels[i] = scale(value, maxval);
    }
    return RUNG_OK;
}

typedef struct header {
    uint32_t width, height, maxval;
    int channels;
    bool plain;
} header;

static rung_status read_header(reader *r, const unsigned char *data, header *h)
{
    h->plain = data[1] <= '3';
    h->channels = data[1] == '3' || data[1] == '6' ? 3 : 1;
    RUNG_TRY(take_number(r, "width", &h->width));
    RUNG_TRY(take_number(r, "height", &h->height));
    RUNG_TRY(take_number(r, "largest value", &h->maxval));
    RUNG_CHECK(h->maxval >= 1 && h->maxval <= 65535, RUNG_FORMAT,
               "%s: the largest value of a sample is %u; 1 to 65535 are possible", r->name,
               h->maxval);
    RUNG_CHECK(r->at < r->end && is_space(*r->at), RUNG_CORRUPT, "%s: cut: ends before its pixels",
               r->name);
    r->at++;
    // Before anything is allocated: each sample takes its bytes, or a digit and a space.
    uint64_t samples = (uint64_t)h->width * h->height * (uint64_t)h->channels;
    uint64_t least = h->plain ? 2 * samples - 1 : samples * (h->maxval > 255 ? 2 : 1);
    RUNG_CHECK(samples > 0, RUNG_FORMAT, "%s: picture of no size", r->name);
    RUNG_CHECK(least <= (uint64_t)(r->end - r->at), RUNG_CORRUPT,
               "%s: cut: expected %llu bytes, found %zu", r->name,
               (unsigned long long)(least + (uint64_t)(r->at - data)), (size_t)(r->end - data));
    return rungi_image_check_size(r->name, h->width, h->height);
}

rung_status rungi_image_probe_pnm(const unsigned char *data, size_t size, const char *name,
                                  rungi_image_info *info)
{
    reader r = {data + 2, data + size, name};
    header h;
    RUNG_TRY(read_header(&r, data, &h));
    info->width = (int)h.width;
    info->height = (int)h.height;
    info->channels = h.channels;
    info->colour = h.channels == 1 ? RUNGI_COLOUR_GREY : RUNGI_COLOUR_RGB;
    info->deep = h.maxval > 255;
    info->orientation = 1;
    return RUNG_OK;
}

rung_status rungi_image_decode_pnm(const unsigned char *data, size_t size, const char *name,
                                   rung_image *image_out)
{
    reader r = {data + 2, data + size, name};
    header h;
    rung_image image = {0};
    RUNG_TRY(read_header(&r, data, &h));
    RUNG_TRY(rungi_image_allocate(&image, name, h.width, h.height, h.channels));
    rung_status status = read_raster(&r, h.plain, h.maxval, &image);
    if (status == RUNG_OK)
        *image_out = image;
    else
        rung_image_fini(&image);
    return status;
}
