// SPDX-License-Identifier: Apache-2.0
#include "data/resample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { BITS = 22 };

// ---- weights

static double bilinear(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

// Keys 1981 with a = -1/2.
static double bicubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2)
        return (((x - 5) * x + 8) * x - 4) * a;
    return 0;
}

static bool reserve(rungi_weights *w, int count, int taps)
{
    size_t wanted = (size_t)count * (2 * sizeof(int) + (size_t)taps * sizeof(int32_t));
    if (w->size < wanted) {
        void *memory = malloc(wanted);
        if (!memory)
            return false;
        free(w->memory);
        w->memory = memory;
        w->size = wanted;
    }
    w->count = count;
    w->taps = taps;
    w->first = w->memory;
    w->length = w->first + count;
    w->weights = (int32_t *)(w->length + count);
    return true;
}

// Weights of result `at`; returns how many and sets *first.
static int weigh(double (*filter)(double), double support, int size, int result_size, int at,
                 int32_t *out, double *work, int *first)
{
    double scale = (double)size / result_size, stretch = scale < 1 ? 1 : scale;
    double center = (at + 0.5) * scale, sum = 0, inverse = 1 / stretch;
    support *= stretch;
    int begin = (int)(center - support + 0.5), end = (int)(center + support + 0.5);
    begin = begin < 0 ? 0 : begin;
    end = end > size ? size : end;
    int count = end - begin;
    for (int k = 0; k < count; k++)
        sum += work[k] = filter((k + begin - center + 0.5) * inverse);
    for (int k = 0; k < count; k++) {
        double w = (sum != 0 ? work[k] / sum : work[k]) * (1 << BITS);
        out[k] = (int32_t)(w < 0 ? -0.5 + w : 0.5 + w);
    }
    *first = begin;
    return count;
}

static void reverse(int32_t *weights, int count)
{
    for (int i = 0; i < count / 2; i++) {
        int32_t kept = weights[i];
        weights[i] = weights[count - 1 - i];
        weights[count - 1 - i] = kept;
    }
}

// Weights of the results window ... window + count - 1.
static rung_status make_weights(rungi_weights *w, rung_filter kind, int size, int result_size,
                                int window, int count, bool mirror_from, bool mirror)
{
    double (*filter)(double) = kind == RUNG_FILTER_BICUBIC ? bicubic : bilinear;
    double support = kind == RUNG_FILTER_BICUBIC ? 2 : 1, scale = (double)size / result_size;
    int most = (int)ceil(support * (scale < 1 ? 1 : scale)) * 2 + 1;
    double *work = malloc((size_t)most * sizeof *work);
    bool reserved = work && reserve(w, count, (most + 3) / 4 * 4);
    if (!reserved) {
        free(work);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory to resize a picture");
    }
    w->begin = size;
    w->end = w->longest = 0;
    for (int i = 0; i < count; i++) {
        int at = window + (mirror ? count - 1 - i : i);
        int32_t *weights = w->weights + (size_t)i * (size_t)w->taps;
        int length = weigh(filter, support, size, result_size, at, weights, work, &w->first[i]);
        memset(weights + length, 0, (size_t)(w->taps - length) * sizeof *weights);
        if (mirror_from) {
            w->first[i] = size - w->first[i] - length;
            reverse(weights, length);
        }
        w->length[i] = length;
        w->longest = length > w->longest ? length : w->longest;
        w->begin = w->first[i] < w->begin ? w->first[i] : w->begin;
        w->end = w->first[i] + length > w->end ? w->first[i] + length : w->end;
    }
    free(work);
    return RUNG_OK;
}

// ---- the plain loops

static uint8_t to_byte(uint32_t sum)
{
    int32_t value = (int32_t)sum >> BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void columns(const rungi_weights *x, int channels, const uint8_t *from, uint8_t *to)
{
    for (int i = 0; i < x->count; i++) {
        const int32_t *weights = x->weights + (size_t)i * (size_t)x->taps;
        const uint8_t *at = from + (size_t)(x->first[i] - x->begin) * (size_t)channels;
        for (int c = 0; c < channels; c++) {
            uint32_t sum = 1u << (BITS - 1);
            for (int k = 0; k < x->length[i]; k++)
                sum += (uint32_t)weights[k] * at[k * channels + c];
            *to++ = to_byte(sum);
        }
    }
}

static void columns3_plain(const rungi_weights *x, const void *table, const uint8_t *from,
                           uint8_t *to)
{
    (void)table;
    columns(x, 3, from, to);
}

static void rows_plain(const int32_t *weights, int taps, const uint8_t *from, size_t stride,
                       size_t bytes, uint8_t *to)
{
    for (size_t i = 0; i < bytes; i++) {
        uint32_t sum = 1u << (BITS - 1);
        for (int k = 0; k < taps; k++)
            sum += (uint32_t)weights[k] * from[(size_t)k * stride + i];
        to[i] = to_byte(sum);
    }
}

const rungi_resample_kernels rungi_resample_plain = {.columns3 = columns3_plain,
                                                     .rows = rows_plain};

const rungi_resample_kernels *rungi_resample_kernels_for(rung_isa isa)
{
#if defined(__x86_64__)
    if (isa >= RUNG_ISA_AVX2)
        return &rungi_resample_avx2;
#endif
    (void)isa;
    return &rungi_resample_plain;
}

// ---- a picture

void rungi_resample_fini(rungi_resample *r)
{
    free(r->x.memory);
    free(r->y.memory);
    free(r->table.data);
    free(r->middle.data);
    *r = (rungi_resample){.kernels = r->kernels};
}

rung_status rungi_resample_plan(rungi_resample *r, const rungi_resample_spec *s,
                                rungi_rect *need_out)
{
    RUNG_TRY(make_weights(&r->x, s->filter, s->from_width, s->width, s->window.x, s->window.width,
                          s->mirror_from, s->mirror));
    RUNG_TRY(make_weights(&r->y, s->filter, s->from_height, s->height, s->window.y,
                          s->window.height, false, false));
    *need_out = (rungi_rect){r->x.begin, r->y.begin, r->x.end - r->x.begin, r->y.end - r->y.begin};
    return RUNG_OK;
}

rung_status rungi_resample_run(rungi_resample *r, const rungi_pixels *from, uint8_t *to,
                               size_t stride)
{
    const rungi_resample_kernels *kernels = r->kernels;
    size_t bytes = (size_t)r->x.count * (size_t)from->channels;
    size_t middle = (bytes + 2 * RUNGI_PIXELS_SLACK - 1) / RUNGI_PIXELS_SLACK * RUNGI_PIXELS_SLACK;
    bool special = from->channels == 3 && kernels->table_size;
    RUNG_CHECK(rungi_block_reserve(&r->middle, middle * (size_t)(from->height + 1)) &&
                   (!special || rungi_block_reserve(&r->table, kernels->table_size(&r->x))),
               RUNG_NO_MEMORY, "no memory to resize a picture");
    if (special)
        kernels->prepare(&r->x, r->table.data);
    for (int y = 0; y < from->height; y++) {
        const uint8_t *row = from->at + (size_t)y * from->stride;
        uint8_t *out = r->middle.data + (size_t)y * middle;
        if (from->channels == 3)
            kernels->columns3(&r->x, r->table.data, row, out);
        else
            columns(&r->x, from->channels, row, out);
    }
    for (int y = 0; y < r->y.count; y++)
        kernels->rows(r->y.weights + (size_t)y * (size_t)r->y.taps, r->y.length[y],
                      r->middle.data + (size_t)(r->y.first[y] - r->y.begin) * middle, middle, bytes,
                      to + (size_t)y * stride);
    return RUNG_OK;
}
