// SPDX-License-Identifier: Apache-2.0
// The transforms that the configuration asks for, in their order.
#include <math.h>

#include "base/error.h"
#include "train/session.h"

typedef struct list {
    rung_transform *steps;
    int count;
    int height, width; // so far; 0: pictures differ
} list;

static rung_transform *add(list *l, rung_transform step)
{
    l->steps[l->count] = step;
    return &l->steps[l->count++];
}

static int first_of(const rungi_ints *size)
{
    return (int)size->data[0];
}

static int last_of(const rungi_ints *size)
{
    return (int)size->data[size->count - 1];
}

// A step that makes the size [S] or [H, W].
static void add_sized(list *l, rung_transform step, const rungi_ints *size)
{
    step.height = l->height = first_of(size);
    step.width = l->width = last_of(size);
    add(l, step);
}

static void add_resize(list *l, const rungi_data_config *d, const rungi_ints *size)
{
    rung_transform step = {.kind = RUNG_TRANSFORM_RESIZE, .filter = d->interpolation};
    if (size->count == 2) {
        add_sized(l, step, size);
        return;
    }
    step.height = first_of(size);
    add(l, step);
    if (l->height) {
        int64_t shorter = l->height < l->width ? l->height : l->width;
        l->height = (int)((int64_t)step.height * l->height / shorter);
        l->width = (int)((int64_t)step.height * l->width / shorter);
    }
}

// torchvision's recipe: 224 is cut out of 256.
static void add_recipe(list *l, const rungi_data_config *d)
{
    const rungi_ints *size = &d->random_resized_size;
    int64_t larger = first_of(size) > last_of(size) ? first_of(size) : last_of(size);
    int64_t side = llround((double)larger * 8 / 7);
    add_resize(l, d, &(rungi_ints){&side, 1});
    add_sized(l, (rung_transform){.kind = RUNG_TRANSFORM_CENTER_CROP}, size);
}

static void add_random_resized(list *l, const rungi_data_config *d)
{
    rung_transform step = {
        .kind = RUNG_TRANSFORM_RANDOM_RESIZED_CROP,
        .filter = d->interpolation,
        .scale = {d->random_resized_scale.data[0], d->random_resized_scale.data[1]},
        .ratio = {d->random_resized_ratio.data[0], d->random_resized_ratio.data[1]}};
    add_sized(l, step, &d->random_resized_size);
}

static rung_status add_random_crop(list *l, const rungi_data_config *d)
{
    rung_transform step = {.kind = RUNG_TRANSFORM_RANDOM_CROP,
                           .height = l->height,
                           .width = l->width,
                           .padding = (int)d->random_crop_padding,
                           .padding_mode = d->random_crop_mode};
    if (d->random_crop_size.count) {
        add_sized(l, step, &d->random_crop_size);
        return RUNG_OK;
    }
    RUNG_CHECK(l->height, RUNG_CONFIG,
               "data.random_crop.size: is not set: the pictures differ in size, so what is cut of "
               "them must be told");
    add(l, step);
    return RUNG_OK;
}

// Everything that moves pixels.
static rung_status add_moves(list *l, const rungi_data_config *d, bool training)
{
    bool resized = d->random_resized_size.count, crop = d->random_crop_size.count;
    if (resized && training) {
        add_random_resized(l, d);
    } else if (resized && !d->resize.count && !d->center_crop.count) {
        add_recipe(l, d);
    } else {
        if (d->resize.count)
            add_resize(l, d, &d->resize);
        if (d->center_crop.count && !(training && crop))
            add_sized(l, (rung_transform){.kind = RUNG_TRANSFORM_CENTER_CROP}, &d->center_crop);
        else if (crop && !training)
            add_sized(l, (rung_transform){.kind = RUNG_TRANSFORM_CENTER_CROP},
                      &d->random_crop_size);
    }
    if (d->pad.count)
        add_sized(l, (rung_transform){.kind = RUNG_TRANSFORM_PAD}, &d->pad);
    if (training && (crop || d->random_crop_padding))
        RUNG_TRY(add_random_crop(l, d));
    return RUNG_OK;
}

static void add_colours(list *l, const rungi_data_config *d)
{
    if (d->jitter_brightness > 0 || d->jitter_contrast > 0 || d->jitter_saturation > 0 ||
        d->jitter_hue > 0)
        add(l, (rung_transform){.kind = RUNG_TRANSFORM_COLOR_JITTER,
                                .brightness = (float)d->jitter_brightness,
                                .contrast = (float)d->jitter_contrast,
                                .saturation = (float)d->jitter_saturation,
                                .hue = (float)d->jitter_hue});
    if (d->random_grayscale > 0)
        add(l, (rung_transform){.kind = RUNG_TRANSFORM_RANDOM_GRAYSCALE,
                                .probability = (float)d->random_grayscale});
}

// `channels` of the pictures that come to it; 0: as each file has them.
static rung_status add_normalize(list *l, const rungi_data_config *d, int channels)
{
    RUNG_CHECK(!channels || d->mean.count == (size_t)channels, RUNG_CONFIG,
               "data.normalize.mean: has %zu numbers, but the pictures have %d channel%s",
               d->mean.count, channels, channels == 1 ? "" : "s");
    rung_transform *t = add(l, (rung_transform){.kind = RUNG_TRANSFORM_NORMALIZE});
    for (size_t i = 0; i < d->mean.count && i < RUNG_MAX_IMAGE_CHANNELS; i++) {
        t->mean[i] = (float)d->mean.data[i];
        t->std[i] = (float)d->std.data[i];
    }
    return RUNG_OK;
}

rung_status rungi_session_transforms(const rungi_session *s, bool training, const rung_field *image,
                                     rung_transform *steps, int *count_out)
{
    const rungi_data_config *d = &s->c->data;
    bool files = image->pixels == RUNG_PIXELS_FILE, planes = image->pixels == RUNG_PIXELS_CHW;
    list l = {.steps = steps};
    int channels = (int)d->channels;
    *count_out = 0;
    if (image->pixels == RUNG_PIXELS_NONE)
        return RUNG_OK; // no pictures
    if (files) {
        add(&l, (rung_transform){.kind = RUNG_TRANSFORM_DECODE,
                                 .channels = (int)d->channels,
                                 .keep_orientation = !d->exif_rotation});
    } else {
        l.height = (int)image->shape.dim[planes ? 1 : 0];
        l.width = (int)image->shape.dim[planes ? 2 : 1];
        channels = (int)image->shape.dim[planes ? 0 : 2];
    }
    RUNG_TRY(add_moves(&l, d, training));
    RUNG_CHECK(l.height, RUNG_CONFIG,
               "data.resize: the pictures differ in size, so one must be set: data.resize [H, W], "
               "data.center_crop, data.random_crop.size or data.random_resized_crop.size");
    if (training && d->random_flip > 0)
        add(&l, (rung_transform){.kind = RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP,
                                 .probability = (float)d->random_flip});
    if (training)
        add_colours(&l, d);
    if (d->repeat_channels) {
        channels = (int)d->repeat_channels;
        add(&l, (rung_transform){.kind = RUNG_TRANSFORM_REPEAT_CHANNELS, .channels = channels});
    }
    add(&l, (rung_transform){.kind = RUNG_TRANSFORM_TO_FLOAT});
    if (d->mean.count)
        RUNG_TRY(add_normalize(&l, d, channels));
    if (training && d->random_erasing > 0)
        add(&l, (rung_transform){.kind = RUNG_TRANSFORM_RANDOM_ERASING,
                                 .probability = (float)d->random_erasing});
    *count_out = l.count;
    return RUNG_OK;
}
