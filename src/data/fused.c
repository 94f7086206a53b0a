// SPDX-License-Identifier: Apache-2.0
#include "data/fused.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"

const char *rungi_transform_name(const rung_transform *step)
{
    switch (step->kind) {
    case RUNG_TRANSFORM_TO_FLOAT:
        return "to_float";
    case RUNG_TRANSFORM_NORMALIZE:
        return "normalize";
    case RUNG_TRANSFORM_RANDOM_CROP:
        return "random_crop";
    case RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP:
        return "random_horizontal_flip";
    case RUNG_TRANSFORM_PAD:
        return "pad";
    case RUNG_TRANSFORM_REPEAT_CHANNELS:
        return "repeat_channels";
    case RUNG_TRANSFORM_DECODE:
        return "decode";
    case RUNG_TRANSFORM_RESIZE:
        return "resize";
    case RUNG_TRANSFORM_CENTER_CROP:
        return "center_crop";
    case RUNG_TRANSFORM_RANDOM_RESIZED_CROP:
        return "random_resized_crop";
    case RUNG_TRANSFORM_COLOR_JITTER:
        return "color_jitter";
    case RUNG_TRANSFORM_RANDOM_GRAYSCALE:
        return "random_grayscale";
    case RUNG_TRANSFORM_RANDOM_ERASING:
        return "random_erasing";
    case RUNG_TRANSFORM_CUSTOM:
        return step->name ? step->name : "custom";
    }
    return "unknown";
}

rung_status rungi_fused_begin(rungi_fused *fused, const rung_field *in)
{
    char text[RUNG_SHAPE_TEXT];
    bool hwc = in->pixels == RUNG_PIXELS_HWC;
    RUNG_CHECK(in->pixels != RUNG_PIXELS_NONE && in->shape.rank == 3, RUNG_MISMATCH,
               "transforms: field %s of shape %s is not declared an image", in->name,
               rung_shape_text(&in->shape, text, sizeof text));
    RUNG_CHECK(in->dtype == RUNG_U8 || in->dtype == RUNG_F32, RUNG_MISMATCH,
               "transforms: field %s is %s, they take u8 and f32", in->name,
               rung_dtype_name(in->dtype));
    int64_t channels = in->shape.dim[hwc ? 2 : 0];
    int64_t height = in->shape.dim[hwc ? 0 : 1], width = in->shape.dim[hwc ? 1 : 2];
    RUNG_CHECK(channels <= RUNG_MAX_IMAGE_CHANNELS, RUNG_MISMATCH,
               "transforms: field %s has %" PRId64 " channels, they take at most %d", in->name,
               channels, RUNG_MAX_IMAGE_CHANNELS);
    RUNG_CHECK(height <= RUNGI_MAX_SIDE && width <= RUNGI_MAX_SIDE, RUNG_MISMATCH,
               "transforms: field %s of shape %s is larger than %d pixels a side", in->name,
               rung_shape_text(&in->shape, text, sizeof text), RUNGI_MAX_SIDE);
    *fused = (rungi_fused){.in = *in, .out = *in};
    fused->in_channels = fused->out_channels = (int)channels;
    fused->height = fused->out_height = (int)height;
    fused->width = fused->out_width = (int)width;
    fused->pixel_stride = hwc ? (size_t)channels : 1;
    fused->row_stride = (size_t)width * fused->pixel_stride;
    fused->channel_stride = hwc ? 1 : (size_t)(height * width);
    return RUNG_OK;
}

static rung_status add_move(rungi_fused *fused, const rung_transform *step, uint32_t stream,
                            int height, int width)
{
    RUNG_CHECK(fused->move_count < RUNGI_MAX_FUSED, RUNG_INVALID,
               "transforms: more than %d steps move pixels", RUNGI_MAX_FUSED);
    fused->moves[fused->move_count++] = (rungi_move){.step = *step,
                                                     .stream = stream,
                                                     .values_before = fused->value_count,
                                                     .height = fused->out_height,
                                                     .width = fused->out_width,
                                                     .out_height = height,
                                                     .out_width = width};
    fused->out_height = height;
    fused->out_width = width;
    return RUNG_OK;
}

static rung_status add_crop(rungi_fused *fused, const rung_transform *step, uint32_t stream)
{
    int height = fused->out_height, width = fused->out_width, padding = step->padding;
    RUNG_CHECK(padding >= 0 && padding <= RUNGI_MAX_SIDE, RUNG_INVALID,
               "random_crop: padding is %d", padding);
    RUNG_CHECK(step->height > 0 && step->width > 0 && step->height <= height + 2 * padding &&
                   step->width <= width + 2 * padding,
               RUNG_MISMATCH, "random_crop: cannot cut %d x %d from %d x %d padded by %d",
               step->height, step->width, height, width, padding);
    RUNG_CHECK(step->padding_mode != RUNG_CROP_PADDING_REFLECT ||
                   (padding < height && padding < width),
               RUNG_MISMATCH,
               "random_crop: a padding of %d cannot be reflected from %d x %d, must be smaller",
               padding, height, width);
    return add_move(fused, step, stream, step->height, step->width);
}

static rung_status add_value(rungi_fused *fused, const rungi_value *value)
{
    RUNG_CHECK(fused->value_count < RUNGI_MAX_FUSED, RUNG_INVALID,
               "transforms: more than %d steps change values", RUNGI_MAX_FUSED);
    fused->values[fused->value_count++] = *value;
    return RUNG_OK;
}

static rung_status add_normalize(rungi_fused *fused, const rung_transform *step)
{
    rungi_value value = {0};
    RUNG_CHECK(fused->out.dtype == RUNG_F32, RUNG_INVALID,
               "normalize: field %s is still %s, put to_float before it", fused->in.name,
               rung_dtype_name(fused->out.dtype));
    for (int c = 0; c < fused->out_channels; c++) {
        RUNG_CHECK(isfinite(step->mean[c]) && isfinite(step->std[c]) && step->std[c] > 0,
                   RUNG_INVALID,
                   "normalize: channel %d has mean %g and std %g, std must be above 0", c,
                   (double)step->mean[c], (double)step->std[c]);
        value.mean[c] = step->mean[c];
        value.std[c] = step->std[c];
    }
    return add_value(fused, &value);
}

static rung_status add_repeat(rungi_fused *fused, const rung_transform *step)
{
    RUNG_CHECK(fused->out_channels == 1, RUNG_MISMATCH,
               "repeat_channels: field %s has %d channels, must have 1", fused->in.name,
               fused->out_channels);
    RUNG_CHECK(step->channels >= 1 && step->channels <= RUNG_MAX_IMAGE_CHANNELS, RUNG_INVALID,
               "repeat_channels: channels is %d, must be 1 to %d", step->channels,
               RUNG_MAX_IMAGE_CHANNELS);
    fused->out_channels = step->channels;
    for (int i = 0; i < fused->value_count; i++)
        for (int c = 1; c < step->channels; c++) {
            fused->values[i].mean[c] = fused->values[i].mean[0];
            fused->values[i].std[c] = fused->values[i].std[0];
        }
    return RUNG_OK;
}

rung_status rungi_fused_add(rungi_fused *fused, const rung_transform *step, uint32_t stream)
{
    int height = fused->out_height, width = fused->out_width;
    switch (step->kind) {
    case RUNG_TRANSFORM_TO_FLOAT:
        if (fused->out.dtype == RUNG_F32)
            return RUNG_OK;
        fused->out.dtype = RUNG_F32;
        return add_value(fused, &(rungi_value){.divide_255 = true});
    case RUNG_TRANSFORM_NORMALIZE:
        return add_normalize(fused, step);
    case RUNG_TRANSFORM_RANDOM_CROP:
        return add_crop(fused, step, stream);
    case RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP:
        RUNG_CHECK(step->probability <= 1, RUNG_INVALID,
                   "random_horizontal_flip: probability is %g, must be at most 1",
                   (double)step->probability);
        return add_move(fused, step, stream, height, width);
    case RUNG_TRANSFORM_PAD:
        RUNG_CHECK(step->height >= height && step->width >= width &&
                       step->height <= RUNGI_MAX_SIDE && step->width <= RUNGI_MAX_SIDE,
                   RUNG_MISMATCH, "pad: cannot pad %d x %d to %d x %d", height, width, step->height,
                   step->width);
        return add_move(fused, step, stream, step->height, step->width);
    case RUNG_TRANSFORM_REPEAT_CHANNELS:
        return add_repeat(fused, step);
    default:
        return RUNG_FAIL(RUNG_INVALID, "transforms: no step has the number %d", (int)step->kind);
    }
}

static float change(const rungi_value *value, int channel, float x)
{
    return value->divide_255 ? x / 255.0f : (x - value->mean[channel]) / value->std[channel];
}

// Is channel `c` of the result the same as the first, whatever the image is?
static bool repeats_first(const rungi_fused *fused, int c)
{
    bool same = c > 0 && fused->in_channels == 1;
    for (int i = 0; i < fused->value_count && same; i++)
        same = fused->values[i].mean[c] == fused->values[i].mean[0] &&
               fused->values[i].std[c] == fused->values[i].std[0];
    return same;
}

void rungi_fused_finish(rungi_fused *fused)
{
    fused->out.pixels = RUNG_PIXELS_CHW;
    fused->out.shape = RUNG_SHAPE(fused->out_channels, fused->out_height, fused->out_width);
    for (int c = 0; c < fused->out_channels; c++) {
        for (int byte = 0; byte < 256; byte++) {
            float x = (float)byte;
            for (int i = 0; i < fused->value_count; i++)
                x = change(&fused->values[i], c, x);
            fused->table[c][byte] = x;
        }
        for (int m = 0; m < fused->move_count; m++) {
            float x = 0;
            for (int i = fused->moves[m].values_before; i < fused->value_count; i++)
                x = change(&fused->values[i], c, x);
            fused->fill[m][c] = x;
        }
        fused->repeats_first[c] = repeats_first(fused, c);
    }
}
