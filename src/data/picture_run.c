// SPDX-License-Identifier: Apache-2.0
// The steps of a picture, on one sample.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "data/colour.h"
#include "data/fused.h"
#include "data/picture.h"
#include "data/sample.h"

// What the steps so far come to: of the source `rect`, maybe mirrored; that resized to width x
// height; of that `window`, maybe mirrored.
typedef struct look {
    const rungi_picture *picture;
    rungi_picture_worker *worker;
    bool in_file; // the source is the file in the decoder, else `memory`
    rungi_pixels memory;
    int block; // of the worker, which `memory` lies in, or -1
    rungi_rect rect;
    bool mirror_from;
    bool resized;
    rung_filter filter;
    int width, height;
    rungi_rect window;
    bool mirror;
} look;

rung_status rungi_picture_worker_init(rungi_picture_worker *worker, rung_isa isa)
{
    *worker = (rungi_picture_worker){.resample.kernels = rungi_resample_kernels_for(isa)};
    return rungi_decoder_create(&worker->decoder);
}

void rungi_picture_worker_fini(rungi_picture_worker *worker)
{
    rungi_decoder_destroy(&worker->decoder);
    rungi_resample_fini(&worker->resample);
    for (int i = 0; i < 3; i++)
        free(worker->blocks[i].data);
    *worker = (rungi_picture_worker){0};
}

static int width_of(const look *l)
{
    return l->resized ? l->window.width : l->rect.width;
}

static int height_of(const look *l)
{
    return l->resized ? l->window.height : l->rect.height;
}

static void crop(look *l, int x, int y, int width, int height)
{
    rungi_rect *r = l->resized ? &l->window : &l->rect;
    bool mirrored = l->resized ? l->mirror : l->mirror_from;
    r->x += mirrored ? r->width - x - width : x;
    r->y += y;
    r->width = width;
    r->height = height;
}

// ---- pixels

static int64_t clock_of(const rungi_picture_worker *worker)
{
    return worker->clock ? worker->clock->now(worker->clock->user) : 0;
}

static rung_status decode(look *l, const rungi_rect *part, rungi_pixels *pixels)
{
    int64_t begin = clock_of(l->worker);
    rung_status status = rungi_decoder_read(l->worker->decoder, part, l->picture->channels, pixels);
    l->worker->decoding += clock_of(l->worker) - begin;
    return status;
}

static rung_status fetch(look *l, const rungi_rect *part, rungi_pixels *pixels)
{
    if (l->in_file)
        return decode(l, part, pixels);
    *pixels = l->memory;
    pixels->at += (size_t)part->y * pixels->stride + (size_t)part->x * (size_t)pixels->channels;
    pixels->width = part->width;
    pixels->height = part->height;
    return RUNG_OK;
}

static void copy_row(const uint8_t *from, int width, size_t channels, bool mirror, uint8_t *to)
{
    if (!mirror) {
        memcpy(to, from, (size_t)width * channels);
        return;
    }
    for (int x = 0; x < width; x++)
        memcpy(to + (size_t)x * channels, from + (size_t)(width - 1 - x) * channels, channels);
}

// Writes what is looked at.
static rung_status write_pixels(look *l, uint8_t *to, size_t stride)
{
    rungi_pixels pixels;
    if (!l->resized) {
        RUNG_TRY(fetch(l, &l->rect, &pixels));
        for (int y = 0; y < l->rect.height; y++)
            copy_row(pixels.at + (size_t)y * pixels.stride, l->rect.width, (size_t)pixels.channels,
                     l->mirror_from, to + (size_t)y * stride);
        return RUNG_OK;
    }
    rungi_rect need;
    rungi_resample_spec spec = {.filter = l->filter,
                                .from_width = l->rect.width,
                                .from_height = l->rect.height,
                                .width = l->width,
                                .height = l->height,
                                .window = l->window,
                                .mirror_from = l->mirror_from,
                                .mirror = l->mirror};
    RUNG_TRY(rungi_resample_plan(&l->worker->resample, &spec, &need));
    need.x += l->rect.x;
    need.y += l->rect.y;
    RUNG_TRY(fetch(l, &need, &pixels));
    return rungi_resample_run(&l->worker->resample, &pixels, to, stride);
}

static void look_at(look *l, const uint8_t *data, int width, int height, int block)
{
    int channels = l->picture->channels;
    *l = (look){.picture = l->picture,
                .worker = l->worker,
                .memory = {data, (size_t)width * (size_t)channels, width, height, channels},
                .block = block,
                .rect = {0, 0, width, height}};
}

static rung_status reserve(look *l, int block, int width, int height)
{
    size_t bytes = (size_t)width * (size_t)height * (size_t)l->picture->channels;
    RUNG_CHECK(rungi_block_reserve(&l->worker->blocks[block], bytes + RUNGI_PIXELS_SLACK),
               RUNG_NO_MEMORY, "no memory for a picture of %d x %d", width, height);
    return RUNG_OK;
}

// Column x of a row that begins `left` columns before column 0.
static void fill_pixel(uint8_t *row, int left, int x, int mirrored, size_t c, bool reflect)
{
    uint8_t *pixel = row + (size_t)(left + x) * c;
    if (reflect)
        memcpy(pixel, row + (size_t)(left + mirrored) * c, c);
    else
        memset(pixel, 0, c);
}

// Works out what is looked at, with `padding` pixels around it: left, top, right, bottom.
static rung_status settle(look *l, const int padding[4], bool reflect)
{
    int w = width_of(l), h = height_of(l), block = l->block == 0 ? 1 : 0;
    size_t c = (size_t)l->picture->channels;
    int64_t wide = (int64_t)w + padding[0] + padding[2],
            high = (int64_t)h + padding[1] + padding[3];
    RUNG_CHECK(wide * high <= RUNG_IMAGE_PIXELS_MAX, RUNG_UNSUPPORTED,
               "a picture of %" PRId64 " x %" PRId64 " is above %d pixels", wide, high,
               RUNG_IMAGE_PIXELS_MAX);
    RUNG_TRY(reserve(l, block, (int)wide, (int)high));
    uint8_t *data = l->worker->blocks[block].data;
    size_t stride = (size_t)wide * c;
    uint8_t *inner = data + (size_t)padding[1] * stride + (size_t)padding[0] * c;
    // Some bytes too many are written behind each row, the padding comes after that.
    RUNG_TRY(write_pixels(l, inner, stride));
    for (int y = 0; y < high; y++) {
        int from = y - padding[1];
        if (reflect)
            from = from < 0 ? -from : from >= h ? 2 * (h - 1) - from : from;
        uint8_t *row = data + (size_t)y * stride;
        if (from < 0 || from >= h) {
            memset(row, 0, stride);
            continue;
        }
        if (from != y - padding[1])
            memcpy(row + (size_t)padding[0] * c, inner + (size_t)from * stride, (size_t)w * c);
        for (int x = -padding[0]; x < 0; x++)
            fill_pixel(row, padding[0], x, -x, c, reflect);
        for (int x = w; x < w + padding[2]; x++)
            fill_pixel(row, padding[0], x, 2 * (w - 1) - x, c, reflect);
    }
    look_at(l, data, (int)wide, (int)high, block);
    return RUNG_OK;
}

static const int no_padding[4];

// ---- steps

static rung_status resize(look *l, rung_filter filter, int width, int height)
{
    if (l->resized)
        RUNG_TRY(settle(l, no_padding, false));
    if (width == l->rect.width && height == l->rect.height)
        return RUNG_OK;
    l->resized = true;
    l->filter = filter;
    l->width = width;
    l->height = height;
    l->window = (rungi_rect){0, 0, width, height};
    return RUNG_OK;
}

static rung_status run_resize(look *l, const rung_transform *step)
{
    int64_t w = width_of(l), h = height_of(l);
    if (step->width)
        return resize(l, step->filter, step->width, step->height);
    int64_t longer = step->height * (w > h ? w : h) / (w > h ? h : w);
    RUNG_CHECK(longer <= RUNGI_MAX_SIDE, RUNG_DATA,
               "resize: a picture of %" PRId64 " x %" PRId64 " becomes %" PRId64
               " long, above %d: resize to two sizes",
               w, h, longer, RUNGI_MAX_SIDE);
    return resize(l, step->filter, w > h ? (int)longer : step->height,
                  w > h ? step->height : (int)longer);
}

static rung_status run_center_crop(look *l, const rung_transform *step)
{
    int w = width_of(l), h = height_of(l), cw = step->width, ch = step->height;
    if (cw > w || ch > h) {
        int x = cw > w ? cw - w : 0, y = ch > h ? ch - h : 0;
        RUNG_TRY(settle(l, (int[]){x / 2, y / 2, (x + 1) / 2, (y + 1) / 2}, false));
        w = width_of(l);
        h = height_of(l);
    }
    // Python's round() goes to the even one.
    crop(l, (int)nearbyint((w - cw) / 2.0), (int)nearbyint((h - ch) / 2.0), cw, ch);
    return RUNG_OK;
}

static rung_status run_random_crop(look *l, const rung_transform *step, const rung_random *random)
{
    int p = step->padding, w = width_of(l), h = height_of(l);
    bool reflect = step->padding_mode == RUNG_CROP_PADDING_REFLECT;
    RUNG_CHECK(step->width <= w + 2 * p && step->height <= h + 2 * p, RUNG_DATA,
               "random_crop: the picture is %d x %d, too small to cut %d x %d with a padding of "
               "%d: resize first",
               w, h, step->width, step->height, p);
    RUNG_CHECK(!reflect || (p < w && p < h), RUNG_DATA,
               "random_crop: the picture is %d x %d, too small to reflect %d pixels", w, h, p);
    uint64_t next = 0;
    int y = (int)rung_random_below(random, h + 2 * p - step->height + 1, &next);
    int x = (int)rung_random_below(random, w + 2 * p - step->width + 1, &next);
    if (p > 0)
        RUNG_TRY(settle(l, (int[]){p, p, p, p}, reflect));
    crop(l, x, y, step->width, step->height);
    return RUNG_OK;
}

// torchvision's RandomResizedCrop.get_params.
static rungi_rect choose_part(const rung_transform *step, const rung_random *random, int w, int h)
{
    enum { TRIES = 10 };
    double area = (double)w * h, low = log(step->ratio[0]), high = log(step->ratio[1]);
    for (uint64_t i = 0; i < TRIES; i++) {
        double share = rung_random_uniform(random, 2 * i);
        double target = area * (step->scale[0] + (step->scale[1] - step->scale[0]) * share);
        double ratio = exp(low + (high - low) * rung_random_uniform(random, 2 * i + 1));
        double width = nearbyint(sqrt(target * ratio)), height = nearbyint(sqrt(target / ratio));
        if (width < 1 || width > w || height < 1 || height > h)
            continue;
        rungi_rect part = {0, 0, (int)width, (int)height};
        uint64_t next = 2 * TRIES;
        part.y = (int)rung_random_below(random, h - part.height + 1, &next);
        part.x = (int)rung_random_below(random, w - part.width + 1, &next);
        return part;
    }
    rungi_rect part = {0, 0, w, h};
    if ((double)w / h < step->ratio[0])
        part.height = (int)nearbyint(w / step->ratio[0]);
    else if ((double)w / h > step->ratio[1])
        part.width = (int)nearbyint(h * step->ratio[1]);
    part.height = part.height < 1 ? 1 : part.height > h ? h : part.height;
    part.width = part.width < 1 ? 1 : part.width > w ? w : part.width;
    part.y = (h - part.height) / 2;
    part.x = (w - part.width) / 2;
    return part;
}

// From 1 - amount, but not below 0, to 1 + amount.
static float draw_factor(const rung_random *random, uint64_t index, float amount)
{
    double low = amount < 1 ? 1 - (double)amount : 0, high = 1 + (double)amount;
    return (float)(low + (high - low) * rung_random_uniform(random, index));
}

static rung_status run_jitter(look *l, const rung_transform *step, const rung_random *random)
{
    RUNG_TRY(settle(l, no_padding, false));
    uint8_t *pixels = l->worker->blocks[l->block].data;
    size_t count = (size_t)l->rect.width * (size_t)l->rect.height;
    int channels = l->picture->channels, order[4] = {0, 1, 2, 3};
    uint64_t next = 4; // 0 to 3 are the factors
    for (int i = 3; i > 0; i--) {
        int other = (int)rung_random_below(random, i + 1, &next), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (int i = 0; i < 4; i++) {
        if (order[i] == 0 && step->brightness > 0)
            rungi_colour_brightness(pixels, count, channels,
                                    draw_factor(random, 0, step->brightness));
        else if (order[i] == 1 && step->contrast > 0)
            rungi_colour_contrast(pixels, count, channels, draw_factor(random, 1, step->contrast));
        else if (order[i] == 2 && step->saturation > 0)
            rungi_colour_saturation(pixels, count, channels,
                                    draw_factor(random, 2, step->saturation));
        else if (order[i] == 3 && step->hue > 0)
            rungi_colour_hue(pixels, count, channels,
                             (double)step->hue * (2 * rung_random_uniform(random, 3) - 1));
    }
    return RUNG_OK;
}

static rung_status run_grayscale(look *l, const rung_transform *step, const rung_random *random)
{
    double probability = step->probability == 0 ? 0.1 : (double)step->probability;
    if (rung_random_uniform(random, 0) >= probability)
        return RUNG_OK;
    RUNG_TRY(settle(l, no_padding, false));
    rungi_colour_grey(l->worker->blocks[l->block].data,
                      (size_t)l->rect.width * (size_t)l->rect.height, l->picture->channels);
    return RUNG_OK;
}

static rung_status run_step(look *l, const rungi_picture_step *s, const rung_sample *sample)
{
    rung_random random = rungi_random_stream(&sample->random, s->stream);
    const rung_transform *step = &s->step;
    switch (step->kind) {
    case RUNG_TRANSFORM_RESIZE:
        return run_resize(l, step);
    case RUNG_TRANSFORM_CENTER_CROP:
        return run_center_crop(l, step);
    case RUNG_TRANSFORM_RANDOM_CROP:
        return run_random_crop(l, step, &random);
    case RUNG_TRANSFORM_COLOR_JITTER:
        return run_jitter(l, step, &random);
    case RUNG_TRANSFORM_RANDOM_GRAYSCALE:
        return run_grayscale(l, step, &random);
    case RUNG_TRANSFORM_RANDOM_RESIZED_CROP: {
        rungi_rect part = choose_part(step, &random, width_of(l), height_of(l));
        crop(l, part.x, part.y, part.width, part.height);
        return resize(l, step->filter, step->width, step->height);
    }
    default: { // random_horizontal_flip
        double probability = step->probability == 0 ? 0.5 : (double)step->probability;
        bool *mirror = l->resized ? &l->mirror : &l->mirror_from;
        *mirror ^= rung_random_uniform(&random, 0) < probability;
        return RUNG_OK;
    }
    }
}

// ---- a sample

static rung_status open_file(look *l, const rung_view *in)
{
    rungi_image_info info;
    int64_t begin = clock_of(l->worker);
    rung_status status =
        rungi_decoder_begin(l->worker->decoder, in->data, (size_t)in->shape.dim[0],
                            l->picture->in.name, !l->picture->keep_orientation, &info);
    l->worker->decoding += clock_of(l->worker) - begin;
    RUNG_TRY(status);
    RUNG_CHECK(info.width <= UINT16_MAX && info.height <= UINT16_MAX, RUNG_UNSUPPORTED,
               "%s: picture of %d x %d: a side is above %d", l->picture->in.name, info.width,
               info.height, UINT16_MAX);
    l->in_file = true;
    l->block = -1;
    l->rect = (rungi_rect){0, 0, info.width, info.height};
    return RUNG_OK;
}

static rung_status open_planes(look *l, const rung_view *in)
{
    bool hwc = l->picture->in.pixels == RUNG_PIXELS_HWC;
    int height = (int)in->shape.dim[hwc ? 0 : 1], width = (int)in->shape.dim[hwc ? 1 : 2];
    size_t c = (size_t)l->picture->channels, plane = (size_t)height * (size_t)width;
    RUNG_TRY(reserve(l, 2, width, height));
    uint8_t *to = l->worker->blocks[2].data;
    const uint8_t *from = in->data;
    if (hwc || c == 1)
        memcpy(to, from, plane * c);
    else
        for (size_t i = 0; i < plane; i++)
            for (size_t k = 0; k < c; k++)
                to[i * c + k] = from[k * plane + i];
    look_at(l, to, width, height, 2);
    return RUNG_OK;
}

rung_status rungi_picture_apply(const rungi_picture *picture, rungi_picture_worker *worker,
                                const rung_sample *sample, const rung_view *in, uint8_t *out)
{
    look l = {.picture = picture, .worker = worker};
    RUNG_TRY(picture->in.pixels == RUNG_PIXELS_FILE ? open_file(&l, in) : open_planes(&l, in));
    for (int i = 0; i < picture->count; i++)
        RUNG_TRY(run_step(&l, &picture->steps[i], sample));
    return write_pixels(&l, out, (size_t)picture->width * (size_t)picture->channels);
}
