// SPDX-License-Identifier: Apache-2.0
// The fused pass over one sample.
#include <string.h>

#include "data/fused.h"
#include "data/sample.h"

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
    int step;              // from one of these to the next in the input, if always the same; else 0
    int filled_by;         // the move that fills the whole row, or -1
} row;

// Declares how columns are found, so that the compiler makes a loop for each way: neighbours first.
#define FOR_COLUMNS(r, from, body)                        \
    do {                                                  \
        const int first_ = (r)->columns[(r)->begin];      \
        if ((r)->step == 1)                               \
            for (int x = (r)->begin; x < (r)->end; x++) { \
                const int at = first_ + (x - (r)->begin); \
                body;                                     \
            }                                             \
        else                                              \
            for (int x = (r)->begin; x < (r)->end; x++) { \
                const int at = (r)->columns[x];           \
                body;                                     \
            }                                             \
    } while (0)

static void run_row(const rungi_fused *fused, int c, const row *r, const void *in, void *out)
{
    if (r->begin >= r->end)
        return;
    if (fused->out.dtype == RUNG_U8) {
        const uint8_t *restrict from = in;
        uint8_t *restrict to = out;
        FOR_COLUMNS(r, from, to[x] = from[at]);
    } else if (fused->in.dtype == RUNG_U8) {
        const float *restrict table = fused->table[c];
        const uint8_t *restrict from = in;
        float *restrict to = out;
        FOR_COLUMNS(r, from, to[x] = table[from[at]]);
    } else {
        const float *restrict from = in;
        float *restrict to = out;
        FOR_COLUMNS(r, from, to[x] = from[at]);
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

static row make_row(const int32_t *columns, int width)
{
    row r = {.columns = columns, .width = width, .end = width, .filled_by = -1};
    while (r.begin < width && columns[r.begin] < 0)
        r.begin++;
    while (r.end > r.begin && columns[r.end - 1] < 0)
        r.end--;
    if (r.end - r.begin > 1)
        r.step = columns[r.begin + 1] - columns[r.begin];
    for (int x = r.begin + 1; x < r.end; x++)
        if (columns[x] - columns[x - 1] != r.step)
            r.step = 0;
    return r;
}

// Interleaved bytes of three channels, next to each other in the result (in either direction), to
// floats: the way of pictures, done by pixels instead of by planes.
static bool takes_pixels(const rungi_fused *fused, const row *r)
{
    return fused->in.dtype == RUNG_U8 && fused->out.dtype == RUNG_F32 && fused->in_channels == 3 &&
           fused->pixel_stride == 3 && (r->step == 3 || r->step == -3);
}

static void run_pixels(const rungi_fused *fused, row *r, const int32_t *rows, const uint8_t *in,
                       float *out)
{
    size_t width = (size_t)r->width, plane = (size_t)fused->out_height * width;
    const float *restrict red = fused->table[0], *restrict green = fused->table[1],
                          *restrict blue = fused->table[2];
    for (int y = 0; y < fused->out_height; y++) {
        float *restrict to = out + (size_t)y * width;
        r->filled_by = rows[y] < 0 ? -1 - rows[y] : -1;
        for (int c = 0; c < 3; c++)
            if (r->filled_by >= 0) {
                fill_row(fused, c, r, 0, r->width, to + (size_t)c * plane);
            } else {
                fill_row(fused, c, r, 0, r->begin, to + (size_t)c * plane);
                fill_row(fused, c, r, r->end, r->width, to + (size_t)c * plane);
            }
        if (r->filled_by >= 0)
            continue;
        const uint8_t *restrict from =
            in + (size_t)rows[y] * fused->row_stride + (size_t)r->columns[r->begin];
        for (int x = r->begin; x < r->end; x++, from += r->step) {
            to[x] = red[from[0]];
            to[plane + (size_t)x] = green[from[1]];
            to[2 * plane + (size_t)x] = blue[from[2]];
        }
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

    row r = make_row(column_map, width);
    size_t in_size = rung_dtype_size(fused->in.dtype), out_size = rung_dtype_size(fused->out.dtype);
    size_t plane = (size_t)height * (size_t)width * out_size;
    if (takes_pixels(fused, &r)) {
        run_pixels(fused, &r, row_map, in, out);
        return;
    }
    for (int c = 0; c < fused->out_channels; c++) {
        char *to = (char *)out + (size_t)c * plane;
        if (fused->repeats_first[c]) {
            memcpy(to, out, plane);
            continue;
        }
        size_t channel = fused->in_channels == 1 ? 0 : (size_t)c * fused->channel_stride;
        for (int y = 0; y < height; y++, to += (size_t)width * out_size) {
            r.filled_by = row_map[y] < 0 ? -1 - row_map[y] : -1;
            if (r.filled_by >= 0) {
                fill_row(fused, c, &r, 0, width, to);
                continue;
            }
            size_t at = channel + (size_t)row_map[y] * fused->row_stride;
            fill_row(fused, c, &r, 0, r.begin, to);
            run_row(fused, c, &r, (const char *)in + at * in_size, to);
            fill_row(fused, c, &r, r.end, width, to);
        }
    }
}
