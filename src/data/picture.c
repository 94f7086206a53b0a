// SPDX-License-Identifier: Apache-2.0
// Which steps a picture goes through: checked and compiled.
#include "data/picture.h"

#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "data/fused.h"

bool rungi_picture_only(const rung_transform *step)
{
    return step->kind == RUNG_TRANSFORM_DECODE || step->kind == RUNG_TRANSFORM_RESIZE ||
           step->kind == RUNG_TRANSFORM_CENTER_CROP ||
           step->kind == RUNG_TRANSFORM_RANDOM_RESIZED_CROP ||
           step->kind == RUNG_TRANSFORM_COLOR_JITTER ||
           step->kind == RUNG_TRANSFORM_RANDOM_GRAYSCALE;
}

bool rungi_picture_takes(const rung_transform *step)
{
    return rungi_picture_only(step) || step->kind == RUNG_TRANSFORM_RANDOM_CROP ||
           step->kind == RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP;
}

rung_status rungi_picture_begin(rungi_picture *picture, const rung_field *in)
{
    *picture = (rungi_picture){.in = *in, .channels = 3};
    if (in->pixels == RUNG_PIXELS_FILE)
        return RUNG_OK;
    RUNG_CHECK(in->pixels != RUNG_PIXELS_NONE && in->shape.rank == 3, RUNG_MISMATCH,
               "transforms: field %s is not declared an image", in->name);
    RUNG_CHECK(in->dtype == RUNG_U8, RUNG_MISMATCH,
               "transforms: field %s is %s here, resizing and cropping take u8: put them before "
               "to_float",
               in->name, rung_dtype_name(in->dtype));
    bool hwc = in->pixels == RUNG_PIXELS_HWC;
    int64_t channels = in->shape.dim[hwc ? 2 : 0];
    int64_t height = in->shape.dim[hwc ? 0 : 1], width = in->shape.dim[hwc ? 1 : 2];
    RUNG_CHECK(channels <= RUNG_MAX_IMAGE_CHANNELS, RUNG_MISMATCH,
               "transforms: field %s has %" PRId64 " channels, they take at most %d", in->name,
               channels, RUNG_MAX_IMAGE_CHANNELS);
    RUNG_CHECK(height <= RUNGI_MAX_SIDE && width <= RUNGI_MAX_SIDE, RUNG_MISMATCH,
               "transforms: field %s is larger than %d pixels a side", in->name, RUNGI_MAX_SIDE);
    picture->channels = (int)channels;
    picture->height = (int)height;
    picture->width = (int)width;
    return RUNG_OK;
}

static rung_status check_size(const rung_transform *step)
{
    RUNG_CHECK(step->height > 0 && step->width > 0 && step->height <= RUNGI_MAX_SIDE &&
                   step->width <= RUNGI_MAX_SIDE,
               RUNG_INVALID, "%s: cannot make %d x %d pixels, must be 1 to %d a side",
               rungi_transform_name(step), step->height, step->width, RUNGI_MAX_SIDE);
    return RUNG_OK;
}

static rung_status check_range(const char *name, const double range[2], double least)
{
    RUNG_CHECK(isfinite(range[0]) && isfinite(range[1]) && range[0] > least &&
                   range[1] >= range[0] && range[1] < 1e6,
               RUNG_INVALID, "random_resized_crop: %s is %g to %g, must rise from above %g", name,
               range[0], range[1], least);
    return RUNG_OK;
}

static rung_status add_random_resized(rungi_picture *picture, rung_transform *step)
{
    if (step->scale[0] == 0 && step->scale[1] == 0) {
        step->scale[0] = 0.08;
        step->scale[1] = 1;
    }
    if (step->ratio[0] == 0 && step->ratio[1] == 0) {
        step->ratio[0] = 3.0 / 4;
        step->ratio[1] = 4.0 / 3;
    }
    RUNG_TRY(check_range("scale", step->scale, 0));
    RUNG_TRY(check_range("ratio", step->ratio, 0));
    RUNG_TRY(check_size(step));
    picture->height = step->height;
    picture->width = step->width;
    return RUNG_OK;
}

static rung_status add_random_crop(rungi_picture *picture, const rung_transform *step)
{
    int padding = step->padding;
    RUNG_CHECK(padding >= 0 && padding <= RUNGI_MAX_SIDE, RUNG_INVALID,
               "random_crop: padding is %d", padding);
    RUNG_TRY(check_size(step));
    if (picture->height) {
        RUNG_CHECK(step->height <= picture->height + 2 * padding &&
                       step->width <= picture->width + 2 * padding,
                   RUNG_MISMATCH, "random_crop: cannot cut %d x %d from %d x %d padded by %d",
                   step->height, step->width, picture->height, picture->width, padding);
        RUNG_CHECK(step->padding_mode != RUNG_CROP_PADDING_REFLECT ||
                       (padding < picture->height && padding < picture->width),
                   RUNG_MISMATCH,
                   "random_crop: a padding of %d cannot be reflected from %d x %d, must be smaller",
                   padding, picture->height, picture->width);
    }
    picture->height = step->height;
    picture->width = step->width;
    return RUNG_OK;
}

static rung_status add_resize(rungi_picture *picture, const rung_transform *step)
{
    if (step->width)
        RUNG_TRY(check_size(step));
    RUNG_CHECK(step->height > 0 && step->height <= RUNGI_MAX_SIDE, RUNG_INVALID,
               "resize: the size is %d, must be 1 to %d", step->height, RUNGI_MAX_SIDE);
    RUNG_CHECK(step->filter == RUNG_FILTER_BILINEAR || step->filter == RUNG_FILTER_BICUBIC,
               RUNG_INVALID, "resize: no filter has the number %d", (int)step->filter);
    if (step->width) {
        picture->height = step->height;
        picture->width = step->width;
    } else if (picture->height) {
        int h = picture->height, w = picture->width;
        int64_t longer = (int64_t)step->height * (h > w ? h : w) / (h > w ? w : h);
        RUNG_CHECK(longer <= RUNGI_MAX_SIDE, RUNG_MISMATCH, "resize: %d x %d becomes too large", h,
                   w);
        picture->height = h > w ? (int)longer : step->height;
        picture->width = h > w ? step->height : (int)longer;
    }
    return RUNG_OK;
}

static rung_status add_decode(rungi_picture *picture, const rung_transform *step)
{
    RUNG_CHECK(picture->in.pixels == RUNG_PIXELS_FILE && picture->count == 0, RUNG_MISMATCH,
               "decode: must be the first step, of a field of pictures as files");
    RUNG_CHECK(step->channels == 0 || step->channels == 1 || step->channels == 3, RUNG_INVALID,
               "decode: channels is %d, must be 1 or 3", step->channels);
    picture->channels = step->channels ? step->channels : 3;
    picture->keep_orientation = step->keep_orientation;
    return RUNG_OK;
}

static rung_status check_colour(const rungi_picture *picture, const rung_transform *step)
{
    const float amounts[] = {step->brightness, step->contrast, step->saturation, step->hue};
    RUNG_CHECK(picture->channels == 1 || picture->channels == 3, RUNG_MISMATCH,
               "%s: field %s has %d channels, must have 1 or 3", rungi_transform_name(step),
               picture->in.name, picture->channels);
    for (int i = 0; i < 4; i++)
        RUNG_CHECK(amounts[i] >= 0 && amounts[i] <= (i == 3 ? 0.5f : 1e6f), RUNG_INVALID,
                   "color_jitter: %s is %g, must be 0 %s",
                   (const char *[]){"brightness", "contrast", "saturation", "hue"}[i],
                   (double)amounts[i], i == 3 ? "to 0.5" : "or more");
    RUNG_CHECK(step->probability <= 1, RUNG_INVALID, "%s: probability is %g, must be at most 1",
               rungi_transform_name(step), (double)step->probability);
    return RUNG_OK;
}

rung_status rungi_picture_add(rungi_picture *picture, const rung_transform *step, uint32_t stream)
{
    rung_transform kept = *step;
    switch (step->kind) {
    case RUNG_TRANSFORM_DECODE:
        return add_decode(picture, step);
    case RUNG_TRANSFORM_RESIZE:
        RUNG_TRY(add_resize(picture, step));
        break;
    case RUNG_TRANSFORM_CENTER_CROP:
        RUNG_TRY(check_size(step));
        picture->height = step->height;
        picture->width = step->width;
        break;
    case RUNG_TRANSFORM_RANDOM_RESIZED_CROP:
        RUNG_TRY(add_random_resized(picture, &kept));
        break;
    case RUNG_TRANSFORM_RANDOM_CROP:
        RUNG_TRY(add_random_crop(picture, step));
        break;
    case RUNG_TRANSFORM_COLOR_JITTER:
    case RUNG_TRANSFORM_RANDOM_GRAYSCALE:
        RUNG_TRY(check_colour(picture, step));
        break;
    case RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP:
        RUNG_CHECK(step->probability <= 1, RUNG_INVALID,
                   "random_horizontal_flip: probability is %g, must be at most 1",
                   (double)step->probability);
        break;
    default:
        return RUNG_FAIL(RUNG_INTERNAL, "transforms: %s is no step of pictures",
                         rungi_transform_name(step));
    }
    RUNG_CHECK(picture->count < RUNGI_MAX_PICTURE_STEPS, RUNG_INVALID,
               "transforms: more than %d steps move pixels", RUNGI_MAX_PICTURE_STEPS);
    picture->steps[picture->count++] = (rungi_picture_step){kept, stream};
    return RUNG_OK;
}

rung_status rungi_picture_finish(rungi_picture *picture)
{
    RUNG_CHECK(picture->height, RUNG_MISMATCH,
               "transforms: the pictures of field %s differ in size: random_resized_crop, "
               "random_crop, center_crop or resize to two sizes must come first",
               picture->in.name);
    picture->out = (rung_field){picture->in.name, RUNG_U8,
                                RUNG_SHAPE(picture->height, picture->width, picture->channels),
                                RUNG_PIXELS_HWC};
    return RUNG_OK;
}
