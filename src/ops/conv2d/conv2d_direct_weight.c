// SPDX-License-Identifier: Apache-2.0
// Direct gradient of weight and bias: a product over the pixels of dy.
//
//     dw[o, c, u, v] = sum over n, i, j of x[n, i*s + u - p, j*s + v - p, c] * dy[n, i, j, o]
//
// Bands of x as in conv2d_direct.h, of several images where these are small. For each row u of the
// window and panel of outputs, 6 of the KW*C columns by 2 vectors stay in registers while the
// band's pixels run; then they are added to D:
//
//     band of x, columns (v, c)      dy, packed       D, for each u
//     pixel 0  |cccccc|....          |oooooooo|       (v, c) 0  o o o o o o o o
//     pixel 1  |cccccc|....          |oooooooo|       (v, c) 1  o o o o o o o o
//     ...                            panel            ...
//
// The images are cut into up to 4 parts, by the shapes alone, each with its own D; these are added
// in a tree. Threads share the parts, and the panels where there are more threads than parts.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ops/conv2d/conv2d.h"
#include "ops/conv2d/conv2d_direct.h"
#include "ops/conv2d/conv2d_winograd.h"
#include "ops/parallel.h"

enum {
    MOST_PARTS = 4,
    PARTS_BYTES = 6 << 20, // of all parts' D
    PIXELS = 96,           // of a band at least, if there are so many
    MOST_LANES = 64,       // of a panel
    OUTPUTS = 16,          // finished together
};

typedef struct weight_plan {
    const rungi_direct_loops *loops;
    rungi_direct_band band; // of one image
    rungi_direct_panels panels;
    int64_t step[2], row_step; // as in conv2d_direct.c
    int64_t images, group;     // all, of a band
    int64_t h, w;              // of dy
    int64_t block;             // rows of dy in a band
    int runs, window;
    int threads, parts, slices; // slices: of the panels
    int64_t width, d_size;
} weight_plan;

static int64_t band_rows(const weight_plan *p, int64_t rows)
{
    return (rows - 1) * p->step[0] + p->runs;
}

static int64_t band_floats(const weight_plan *p, int64_t rows)
{
    return band_rows(p, rows) * p->band.cols * p->band.c;
}

// Rows and images of a band: as many as its memory allows.
static void plan_bands(weight_plan *p)
{
    int64_t most = 1, images = 1;
    while (most < p->h && (most + 1) * p->w <= RUNGI_DIRECT_PIXELS &&
           band_floats(p, most + 1) * 4 <= RUNGI_DIRECT_BAND)
        most++;
    p->block = rungi_direct_parts(p->h, rungi_direct_parts(p->h, most));
    while (p->block == p->h && images < p->images && images * p->h * p->w < PIXELS &&
           (images + 1) * p->h * p->w <= RUNGI_DIRECT_PIXELS)
        images++;
    p->group = images;
}

static void plan_parts(weight_plan *p)
{
    int64_t groups = rungi_direct_parts(p->images, p->group);
    int64_t bytes = 4 * p->runs * p->window * p->band.c * p->panels.outputs;
    p->parts = MOST_PARTS; // whatever the lanes: they show in the bits
    while (p->parts > 1 && (p->parts > groups || p->parts * bytes > PARTS_BYTES))
        p->parts /= 2;
    p->slices = (int)rungi_direct_parts(p->threads, p->parts);
    p->slices = p->slices < p->panels.count ? p->slices : p->panels.count;
}

typedef struct weight_space {
    float *d, *band, *z;
    double *sums; // [parts][outputs]
    int64_t band_size, z_size;
} weight_space;

static weight_space take_space(const weight_plan *p, rungi_wino_space *space)
{
    weight_space s = {.band_size = p->group * band_floats(p, p->block),
                      .z_size = RUNGI_DIRECT_PIXELS * MOST_LANES};
    s.d = rungi_wino_take(space, p->parts * p->d_size);
    s.band = rungi_wino_take(space, p->threads * s.band_size);
    s.z = rungi_wino_take(space, p->threads * s.z_size);
    s.sums = (double *)(void *)rungi_wino_take(space, 2 * p->parts * p->panels.outputs);
    return s;
}

typedef struct weight_work {
    const weight_plan *p;
    weight_space s;
    const float *x, *dy;
    float *dw, *db;
} weight_work;

// A band's images [first, last), rows [begin, end) of dy.
typedef struct extent {
    int64_t first, last, begin, end;
} extent;

static void copy_band(const weight_work *f, const extent *e, float *to)
{
    const weight_plan *p = f->p;
    rungi_direct_band band = p->band;
    band.row += e->begin * p->row_step;
    band.rows = band_rows(p, p->block);
    for (int64_t n = e->first; n < e->last; n++, to += band_floats(p, p->block))
        p->loops->band(&band, f->x + n * band.h * band.w * band.c, to);
}

// The band's pixels in pieces: where their windows begin, and where they lie in dy.
static int64_t find_pixels(const weight_plan *p, const extent *e, int64_t at, int32_t *from,
                           int64_t *in_dy)
{
    int64_t per_image = (e->end - e->begin) * p->w, count = (e->last - e->first) * per_image - at;
    count = count < RUNGI_DIRECT_PIXELS ? count : RUNGI_DIRECT_PIXELS;
    for (int64_t k = 0; k < count; k++) {
        int64_t n = (at + k) / per_image, i = (at + k) % per_image / p->w, j = (at + k) % p->w;
        from[k] = (int32_t)(n * band_floats(p, p->block) +
                            (i * p->step[0] * p->band.cols + j * p->step[1]) * p->band.c);
        in_dy[k] = (((e->first + n) * p->h + e->begin + i) * p->w + j) * p->panels.outputs;
    }
    for (int k = 0; k < RUNGI_DIRECT_AHEAD; k++)
        from[count + k] = 0;
    return count;
}

static void run_pixels(const weight_work *f, int part, int slice, int thread,
                       const rungi_direct_product *product, const int64_t *in_dy, bool add)
{
    const weight_plan *p = f->p;
    float *z = f->s.z + thread * f->s.z_size, *d = f->s.d + part * p->d_size;
    double *sums = f->db ? f->s.sums + part * p->panels.outputs : NULL;
    for (int i = p->panels.count * slice / p->slices; i < p->panels.count * (slice + 1) / p->slices;
         i++) {
        p->loops->gradient(f->dy, in_dy, product->pixels, &p->panels, i, z, sums);
        p->loops->weight(product, &p->panels, i, z,
                         d + (int64_t)rungi_direct_panel_begin(&p->panels, i) * p->panels.lanes,
                         p->width, add);
    }
}

static void run_task(const weight_work *f, int part, int slice, int thread)
{
    const weight_plan *p = f->p;
    int32_t from[RUNGI_DIRECT_PIXELS + RUNGI_DIRECT_AHEAD];
    int64_t in_dy[RUNGI_DIRECT_PIXELS], groups = rungi_direct_parts(p->images, p->group);
    float *band = f->s.band + thread * f->s.band_size;
    rungi_direct_product product = {.band = band,
                                    .from = from,
                                    .row = p->band.cols * p->band.c,
                                    .k = (int64_t)p->window * p->band.c,
                                    .runs = p->runs};
    bool add = false;
    for (int64_t g = groups * part / p->parts; g < groups * (part + 1) / p->parts; g++)
        for (int64_t row = 0; row < p->h; row += p->block) {
            extent e = {g * p->group, (g + 1) * p->group, row, row + p->block};
            e.last = e.last < p->images ? e.last : p->images;
            e.end = e.end < p->h ? e.end : p->h;
            int64_t all = (e.last - e.first) * (e.end - e.begin) * p->w;
            copy_band(f, &e, band);
            for (int64_t at = 0; at < all; at += product.pixels) {
                product.pixels = find_pixels(p, &e, at, from, in_dy);
                run_pixels(f, part, slice, thread, &product, in_dy, add);
                add = true;
            }
        }
}

// ((0 + 1) + (2 + 3)), or what there is of it.
static float sum_parts(const float *d, int parts, int64_t size)
{
    float sum = parts > 1 ? d[0] + d[size] : d[0];
    return parts > 2 ? sum + (d[2 * size] + d[3 * size]) : sum;
}

// dw of outputs [begin, end).
static void finish(const weight_work *f, int64_t begin, int64_t end)
{
    const weight_plan *p = f->p;
    int64_t taps = p->runs * p->window;
    for (int64_t first = begin, last; first < end; first = last) {
        last = first + OUTPUTS < end ? first + OUTPUTS : end;
        for (int64_t k = 0; k < p->band.c * taps; k++) { // k = (c, tap)
            const float *from = f->s.d + (k % taps * p->band.c + k / taps) * p->width;
            float *to = f->dw + k;
            for (int64_t o = first; o < last; o++)
                to[o * p->band.c * taps] = sum_parts(from + o, p->parts, p->d_size);
        }
    }
    for (int64_t o = begin; f->db && o < end; o++) {
        double sum = 0;
        for (int i = 0; i < p->parts; i++)
            sum += f->s.sums[i * p->panels.outputs + o];
        f->db[o] = (float)sum;
    }
}

// ---- kernel -------------------------------------------------------------------------------------

static bool can_run(const rungi_query *q, rungi_reason *why)
{
    if (q->gin[1].buffer < 0)
        return rungi_refuse(why, "the gradient of the bias alone is not offered");
    return rungi_direct_can_run(q, &q->in[0], &q->gout[0], why);
}

static rung_status create(const rungi_query *q, rungi_setup *setup)
{
    const rungi_conv2d_attr *a = q->attr;
    const int64_t *x = q->in[0].shape.dim, *y = q->gout[0].shape.dim, *w = q->gin[1].shape.dim;
    bool point = w[2] == 1 && w[3] == 1 && a->stride[0] == a->stride[1];
    weight_plan *p = calloc(1, sizeof *p);
    RUNG_CHECK(p, RUNG_NO_MEMORY, "no memory for a convolution");
    p->loops = rungi_direct_loops_for(q->isa);
    p->images = x[0];
    p->h = y[2];
    p->w = y[3];
    p->runs = (int)w[2];
    p->window = (int)w[3];
    p->row_step = a->stride[0];
    for (int d = 0; d < 2; d++)
        p->step[d] = point ? 1 : a->stride[d];
    p->band = (rungi_direct_band){.h = x[2], .w = x[3], .c = x[1]};
    p->band.row = -a->pad[0];
    p->band.col = -a->pad[1];
    p->band.step = point ? a->stride[0] : 1; // pixels between are not copied
    p->band.cols = (p->w - 1) * p->step[1] + p->window;
    p->panels = rungi_direct_panels_of(p->loops, y[1], 0);
    p->width = (int64_t)p->panels.vectors * p->panels.lanes;
    p->d_size = w[2] * w[3] * x[1] * p->width;
    p->threads =
        rungi_operand_count(&q->gout[0]) * w[1] * w[2] * w[3] < RUNGI_DIRECT_SMALL ? 1 : q->threads;
    plan_bands(p);
    plan_parts(p);
    rungi_wino_space space = {0};
    take_space(p, &space);
    return rungi_wino_created(setup, p, &space);
}

static rung_status run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    const weight_plan *p = c->state;
    rungi_wino_space space = {.at = c->workspace};
    weight_work f = {.p = p,
                     .s = take_space(p, &space),
                     .x = rungi_ptr(c, &q->in[0]),
                     .dy = rungi_ptr(c, &q->gout[0]),
                     .dw = rungi_ptr(c, &q->gin[1]),
                     .db = q->n_in > 2 ? rungi_ptr(c, &q->gin[2]) : NULL};
    memset(f.s.sums, 0, sizeof(double) * (size_t)(p->parts * p->panels.outputs));
    int tasks = p->parts * p->slices;
    RUNGI_PARALLEL_TASKS(p->threads)
    for (int i = 0; i < p->threads; i++)
        for (int t = tasks * i / p->threads; t < tasks * (i + 1) / p->threads; t++)
            run_task(&f, t / p->slices, t % p->slices, i);
    int64_t outputs = p->panels.outputs;
    RUNGI_PARALLEL_TASKS(p->threads)
    for (int i = 0; i < p->threads; i++)
        finish(&f, outputs * i / p->threads, outputs * (i + 1) / p->threads);
    return RUNG_OK;
}

const rungi_kernel rungi_conv2d_weight_direct = {.name = "direct",
                                                 .kind = RUNGI_OWN,
                                                 .can_run = can_run,
                                                 .prefers = rungi_direct_pays,
                                                 .create = create,
                                                 .destroy = free,
                                                 .run = run};
