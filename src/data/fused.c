// SPDX-License-Identifier: Apache-2.0
#include "data/fused.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "data/sample.h"

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
    case RUNG_TRANSFORM_CUSTOM:
        return step->name ? step->name : "custom";
    }
    return "unknown";
}

// ---- compiling

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
    }
}

// ---- running

// What a move does to one axis: result index i comes from i * step + start of its input.
typedef struct axis {
    int start, step;
    int size; // of the input
    bool reflect;
} axis;

static void draw_axes(const rungi_move *move, const rung_sample *sample, axis *rows, axis *columns)
{
    const rung_transform *step = &move->step;
    rung_random random = rungi_random_stream(&sample->random, move->stream);
    *rows = (axis){.step = 1, .size = move->height};
    *columns = (axis){.step = 1, .size = move->width};
    if (step->kind == RUNG_TRANSFORM_RANDOM_CROP) {
        uint64_t next = 0;
        int padding = step->padding;
        rows->start = (int)rung_random_below(
                          &random, move->height + 2 * padding - move->out_height + 1, &next) -
                      padding;
        columns->start = (int)rung_random_below(
                             &random, move->width + 2 * padding - move->out_width + 1, &next) -
                         padding;
        rows->reflect = columns->reflect = step->padding_mode == RUNG_CROP_PADDING_REFLECT;
    } else if (step->kind == RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP) {
        double probability = step->probability == 0 ? 0.5 : (double)step->probability;
        if (rung_random_uniform(&random, 0) < probability) {
            columns->start = move->width - 1;
            columns->step = -1;
        }
    } else { // pad
        rows->start = -((move->out_height - move->height) / 2);
        columns->start = -((move->out_width - move->width) / 2);
    }
}

// map[i] is where index i of the result comes from, times `stride`, or -1 - m when move m fills it.
// Moves are followed back from the last to the first.
static void map_axis(const axis *axes, int move_count, int count, size_t stride, int32_t *map)
{
    for (int i = 0; i < count; i++) {
        int at = i;
        int m = move_count - 1;
        for (; m >= 0; m--) {
            const axis *a = &axes[m];
            at = at * a->step + a->start;
            if (a->reflect && at < 0)
                at = -at;
            else if (a->reflect && at >= a->size)
                at = 2 * (a->size - 1) - at;
            if (at < 0 || at >= a->size)
                break;
        }
        map[i] = m < 0 ? at * (int32_t)stride : -1 - m;
    }
}

// One row of the result. Filled columns stand at its two ends only: no move makes them elsewhere.
typedef struct row {
    const int32_t *columns;
    int begin, end, width; // columns from begin to end - 1 come from the image
    int filled_by;         // the move that fills the whole row, or -1
} row;

static void run_row(const rungi_fused *fused, int c, const row *r, const void *in, void *out)
{
    const float *table = fused->table[c];
    const int32_t *columns = r->columns;
    if (fused->out.dtype == RUNG_U8) {
        const uint8_t *from = in;
        for (int x = r->begin; x < r->end; x++)
            ((uint8_t *)out)[x] = from[columns[x]];
    } else if (fused->in.dtype == RUNG_U8) {
        const uint8_t *from = in;
        float *to = out;
        for (int x = r->begin; x < r->end; x++)
            to[x] = table[from[columns[x]]];
    } else {
        const float *from = in;
        float *to = out;
        for (int x = r->begin; x < r->end; x++)
            to[x] = from[columns[x]];
        for (int i = 0; i < fused->value_count; i++) {
            const float mean = fused->values[i].mean[c], std = fused->values[i].std[c];
            for (int x = r->begin; x < r->end; x++)
                to[x] = (to[x] - mean) / std;
        }
    }
}

static void fill_row(const rungi_fused *fused, int c, const row *r, int begin, int end, void *out)
{
    for (int x = begin; x < end; x++) {
        // Where a row and a column are both filled, the later step's fill lies on top.
        int by = r->columns[x] < 0 ? -1 - r->columns[x] : -1;
        by = by > r->filled_by ? by : r->filled_by;
        if (fused->out.dtype == RUNG_U8)
            ((uint8_t *)out)[x] = (uint8_t)fused->fill[by][c];
        else
            ((float *)out)[x] = fused->fill[by][c];
    }
}

size_t rungi_fused_scratch(const rungi_fused *fused)
{
    return (size_t)(fused->out_height + fused->out_width) * sizeof(int32_t);
}

void rungi_fused_apply(const rungi_fused *fused, const rung_sample *sample, const void *in,
                       void *scratch, void *out)
{
    axis rows[RUNGI_MAX_FUSED], columns[RUNGI_MAX_FUSED];
    int32_t *row_map = scratch, *column_map = row_map + fused->out_height;
    int height = fused->out_height, width = fused->out_width, moves = fused->move_count;
    for (int m = 0; m < moves; m++)
        draw_axes(&fused->moves[m], sample, &rows[m], &columns[m]);
    map_axis(rows, moves, height, 1, row_map);
    map_axis(columns, moves, width, fused->pixel_stride, column_map);

    row r = {.columns = column_map, .width = width, .end = width};
    while (r.begin < width && column_map[r.begin] < 0)
        r.begin++;
    while (r.end > r.begin && column_map[r.end - 1] < 0)
        r.end--;
    size_t in_size = rung_dtype_size(fused->in.dtype), out_size = rung_dtype_size(fused->out.dtype);
    for (int c = 0; c < fused->out_channels; c++) {
        size_t channel = fused->in_channels == 1 ? 0 : (size_t)c * fused->channel_stride;
        for (int y = 0; y < height; y++) {
            void *to =
                (char *)out + ((size_t)c * (size_t)height + (size_t)y) * (size_t)width * out_size;
            r.filled_by = row_map[y] < 0 ? -1 - row_map[y] : -1;
            if (r.filled_by >= 0) {
                fill_row(fused, c, &r, 0, width, to);
                continue;
            }
            const char *from =
                (const char *)in + (channel + (size_t)row_map[y] * fused->row_stride) * in_size;
            fill_row(fused, c, &r, 0, r.begin, to);
            run_row(fused, c, &r, from, to);
            fill_row(fused, c, &r, r.end, width, to);
        }
    }
}
