// SPDX-License-Identifier: Apache-2.0
// Winograd gradient of weight and bias. For the formulas and the matrices see conv2d_winograd.h.
//
// Few channels ("parts"): the tiles are cut into 2 to 8 parts, each with its own D. A thread goes
// through its parts a block of tiles at a time; then the parts are added in a tree. Where there are
// more threads than parts, several share one: each takes some of the 36 points.
//
//     x  -> [ V: 36 x block x inputs  ] --+
//     dy -> [ Z: 36 x block x outputs ] --+--> [ D of the part: 36 x inputs x outputs ] --+--> dg
//          |-- one thread, second-level cache --|                     the other parts --+
//
// Many channels ("shared"): V and Z of many tiles are made by all threads, in chunks of channels;
// then each thread takes its share of the pairs of chunks:
//
//     x  -> [ V: chunks x 36 x tiles x 64 ] --+
//     dy -> [ Z: chunks x 36 x tiles x 32 ] --+--> [ D: 36 x 64 x 32 ] -> dg, pair by pair
#include <stdlib.h>
#include <string.h>

#include "base/context.h"
#include "base/error.h"
#include "ops/conv2d/conv2d.h"
#include "ops/conv2d/conv2d_winograd.h"
#include "ops/parallel.h"

enum {
    POINTS = RUNGI_WINO_POINTS,
    PART_BYTES = 5 << 19,  // of D up to which each part has its own
    PARTS_BYTES = 5 << 20, // of all parts' D, where there are more than two
    PART_TILES = 256,      // at least, in each part: to add parts costs as much as some tiles
    BLOCK = 48,            // tiles of a block of a part
    GROUP = 16,            // tiles whose sums for the bias are added together, shared
    IN_CHUNK = 64,
    OUT_CHUNK = 32,
    DEPTH = 64,           // tiles of a product, shared
    SHARED = 24 << 20,    // bytes of V and Z up to which tiles are taken together
    ENOUGH_CHANNELS = 24, // to outrun kernels of bf16
    SMALL = 1 << 16,      // multiplications for which a second thread does not pay
};

typedef struct weight_plan {
    const rungi_wino_loops *loops;
    rungi_wino_image x, dy;
    int64_t tiles, block;
    int threads;
    int parts; // 0: shared
    int lines; // into how many groups of points a part is cut
    rungi_wino_rows v;
    rungi_wino_panels z;
    int64_t z_chunk, z_size; // outputs in a chunk of Z, floats from chunk to chunk
    int64_t in_chunks, out_chunks;
    int64_t d_width, d_plane;
    int64_t sums, sum_width; // rows of sums for the bias
} weight_plan;

static int64_t parts_of(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

// The part of n that falls to thread (or part) i.
static int64_t share(int64_t n, int64_t i, int64_t of)
{
    return n * i / of;
}

static void plan_parts(weight_plan *p, int64_t bytes)
{
    int64_t most = 0;
    p->parts = RUNGI_WINO_PARTS;
    while (p->parts > 1 &&
           (p->tiles < p->parts * PART_TILES || (p->parts > 2 && p->parts * bytes > PARTS_BYTES)))
        p->parts /= 2;
    p->lines = 1;
    while (p->lines < 6 && p->parts * p->lines < p->threads)
        p->lines = p->lines == 3 ? 6 : p->lines + 1;
    for (int i = 0; i < p->parts; i++)
        most =
            rungi_wino_most(most, share(p->tiles, i + 1, p->parts) - share(p->tiles, i, p->parts));
    p->block = parts_of(most, parts_of(most, BLOCK));
    p->sums = p->parts;
}

static void plan_shared(weight_plan *p, int64_t channels, int64_t outputs)
{
    p->v.chunk = rungi_wino_least(channels, IN_CHUNK);
    p->z_chunk = rungi_wino_least(outputs, OUT_CHUNK);
    int64_t most = rungi_wino_most(DEPTH, SHARED / (POINTS * 4 * (channels + outputs)));
    p->block = parts_of(parts_of(p->tiles, parts_of(p->tiles, most)), GROUP) * GROUP;
    p->sums = parts_of(p->tiles, GROUP);
}

static void plan_blocks(weight_plan *p)
{
    int lanes = p->loops->lanes;
    int64_t channels = parts_of(p->x.c, lanes) * lanes, outputs = parts_of(p->dy.c, lanes) * lanes;
    p->v.chunk = channels;
    p->z_chunk = outputs;
    int64_t bytes = POINTS * 4 * p->x.c * p->dy.c; // whatever the lanes: parts show in the bits
    if (bytes <= PART_BYTES)
        plan_parts(p, bytes);
    else
        plan_shared(p, channels, outputs);
    p->in_chunks = parts_of(channels, p->v.chunk);
    p->out_chunks = parts_of(outputs, p->z_chunk);
    p->v.width = rungi_wino_width(p->v.chunk, lanes);
    p->v.plane = rungi_wino_plane(p->block * p->v.width);
    p->z = rungi_wino_panels_of(p->loops, rungi_wino_least(p->dy.c, p->z_chunk), p->block);
    p->z_size = POINTS * p->z.plane;
    p->d_width = p->z_chunk;
    p->d_plane = rungi_wino_plane(rungi_wino_least(p->x.c, p->v.chunk) * p->d_width);
    p->sum_width = outputs;
}

typedef struct weight_space {
    float *zeros, *v, *z, *d, *sums;
    int64_t v_size, z_size, d_size;
} weight_space;

static weight_space take_space(const weight_plan *p, rungi_wino_space *space)
{
    weight_space s = {.v_size = p->in_chunks * POINTS * p->v.plane,
                      .z_size = p->out_chunks * p->z_size,
                      .d_size = POINTS * p->d_plane};
    int64_t each = p->parts ? p->threads : 1;
    int64_t pairs = p->in_chunks * p->out_chunks;
    s.zeros = rungi_wino_take(space, rungi_wino_most(p->x.c, p->dy.c));
    s.v = rungi_wino_take(space, s.v_size * each);
    s.z = rungi_wino_take(space, s.z_size * each);
    s.d = rungi_wino_take(space, s.d_size * (p->parts               ? p->parts
                                             : p->block >= p->tiles ? p->threads
                                                                    : pairs));
    s.sums = rungi_wino_take(space, p->sums * p->sum_width);
    return s;
}

typedef struct weight_work {
    const weight_plan *p;
    weight_space s;
    rungi_wino_source x, dy;
    float *dg, *db;
    bool adds;
} weight_work;

// ---- parts ------------------------------------------------------------------------------------

static void run_part(const weight_work *f, int part, rungi_wino_lines lines, int thread)
{
    const weight_plan *p = f->p;
    const rungi_wino_loops *loops = p->loops;
    float *v = f->s.v + thread * f->s.v_size, *z = f->s.z + thread * f->s.z_size;
    float *d = f->s.d + part * f->s.d_size;
    float *sums = lines.begin ? NULL : f->s.sums + part * p->sum_width;
    int64_t begin = share(p->tiles, part, p->parts), end = share(p->tiles, part + 1, p->parts);
    for (int64_t t = begin, n; t < end; t += n) {
        n = rungi_wino_least(p->block, end - t);
        loops->input(&p->x, &f->x, f->s.zeros, t, n, &p->v, lines, v);
        loops->gradient(&p->dy, &f->dy, f->s.zeros, t, n, &p->z, p->z_size, 0, lines, z, sums);
        for (int k = 6 * lines.begin; k < 6 * lines.end; k++)
            loops->multiply(&p->z, 0, n, p->x.c, v + k * p->v.plane, 1, p->v.width,
                            z + k * p->z.plane, d + k * p->d_plane, p->d_width, t > begin);
    }
}

static void run_parts(const weight_work *f)
{
    const weight_plan *p = f->p;
    const int64_t tasks = (int64_t)p->parts * p->lines;
    RUNGI_PARALLEL_TASKS(p->threads)
    for (int i = 0; i < p->threads; i++)
        for (int64_t task = share(tasks, i, p->threads); task < share(tasks, i + 1, p->threads);
             task++) {
            int line = (int)task % p->lines;
            rungi_wino_lines lines = {line * 6 / p->lines, (line + 1) * 6 / p->lines};
            run_part(f, (int)task / p->lines, lines, i);
        }
    RUNGI_PARALLEL_TASKS(p->threads)
    for (int i = 0; i < p->threads; i++)
        p->loops->finish(f->s.d, p->d_plane, p->d_width, p->parts, f->s.d_size, 0,
                         share(p->x.c, i, p->threads), share(p->x.c, i + 1, p->threads), 0, p->dy.c,
                         p->x.c, f->adds, f->dg);
}

// ---- shared -----------------------------------------------------------------------------------

static void transform_group(const weight_work *f, int64_t first, int64_t group)
{
    const weight_plan *p = f->p;
    int64_t t = group * GROUP, n = rungi_wino_least(GROUP, p->tiles - t);
    p->loops->input(&p->x, &f->x, f->s.zeros, t, n, &p->v, RUNGI_WINO_ALL,
                    f->s.v + (t - first) * p->v.width);
    p->loops->gradient(&p->dy, &f->dy, f->s.zeros, t, n, &p->z, p->z_size, t - first,
                       RUNGI_WINO_ALL, f->s.z, f->s.sums + group * p->sum_width);
}

// Tiles [first, first + n) for one pair of chunks.
static void run_pair(const weight_work *f, int64_t pair, int thread, int64_t first, int64_t n)
{
    const weight_plan *p = f->p;
    int64_t in = pair / p->out_chunks, out = pair % p->out_chunks;
    int64_t c = in * p->v.chunk, c_end = rungi_wino_least(p->x.c, c + p->v.chunk);
    int64_t o = out * p->z_chunk, o_end = rungi_wino_least(p->dy.c, o + p->z_chunk);
    float *d = f->s.d + (p->block >= p->tiles ? thread : pair) * f->s.d_size;
    const rungi_wino_panels z = rungi_wino_panels_cut(p->loops, &p->z, o_end - o);
    for (int k = 0; k < POINTS; k++)
        for (int64_t t = 0; t < n; t += DEPTH)
            p->loops->multiply(&z, t, rungi_wino_least(n, t + DEPTH), c_end - c,
                               f->s.v + (in * POINTS + k) * p->v.plane + t * p->v.width, 1,
                               p->v.width, f->s.z + out * p->z_size + k * z.plane,
                               d + k * p->d_plane, p->d_width, first + t > 0);
    if (first + n == p->tiles)
        p->loops->finish(d, p->d_plane, p->d_width, 1, 0, c, c, c_end, o, o_end, p->x.c, f->adds,
                         f->dg);
}

static void run_shared(const weight_work *f)
{
    const weight_plan *p = f->p;
    int64_t pairs = p->in_chunks * p->out_chunks;
    for (int64_t t = 0; t < p->tiles; t += p->block) {
        int64_t n = rungi_wino_least(p->block, p->tiles - t), groups = parts_of(n, GROUP);
        RUNGI_PARALLEL_TASKS(p->threads)
        for (int i = 0; i < p->threads; i++)
            for (int64_t g = share(groups, i, p->threads); g < share(groups, i + 1, p->threads);
                 g++)
                transform_group(f, t, t / GROUP + g);
        RUNGI_PARALLEL_TASKS(p->threads)
        for (int i = 0; i < p->threads; i++)
            for (int64_t k = share(pairs, i, p->threads); k < share(pairs, i + 1, p->threads); k++)
                run_pair(f, k, i, t, n);
    }
}

// ---- kernel -----------------------------------------------------------------------------------

static void sum_bias(const weight_work *f)
{
    const weight_plan *p = f->p;
    for (int64_t o = 0; o < p->dy.c; o++) {
        double sum = 0;
        for (int64_t i = 0; i < p->sums; i++)
            sum += (double)f->s.sums[i * p->sum_width + o];
        f->db[o] = f->adds ? f->db[o] + (float)sum : (float)sum;
    }
}

static bool can_run(const rungi_query *q, rungi_reason *why)
{
    if (q->gin[1].buffer < 0)
        return rungi_refuse(why, "the gradient of the bias alone is not offered");
    if (!rungi_wino_pools(q) && !rungi_fuses_relu(q, why))
        return false;
    return rungi_wino_takes_gradient(q, why) &&
           rungi_wino_can_run(q, &q->in[0], rungi_conv2d_output(q), why) && rungi_f32_only(q, why);
}

// A quarter of the multiplications in float32 beside all of them in bf16, which takes half the time
// for each. Measured on Zen 4, one thread, beside oneDNN's: 64x50->50@32 12.5 ms for 23.0,
// 64x100->100@16 9.8 for 17.8; all passes of six layers of 24 channels 72 for 82, of 16 the same.
// Where tiles of bf16 are multiplied (AMX), bf16 takes far less than half.
static bool outruns_halves(const rungi_query *q)
{
    const int64_t *w = q->in[1].shape.dim;
    return w[0] >= ENOUGH_CHANNELS && w[1] >= ENOUGH_CHANNELS && !rungi_cpu_multiplies_tiles();
}

static double flops(const rungi_query *q)
{
    return rungi_wino_flops(q, RUNGI_WINO_TILE);
}

static rung_status create(const rungi_query *q, rungi_setup *setup)
{
    const rungi_conv2d_attr *a = q->attr;
    weight_plan *p = calloc(1, sizeof *p);
    RUNG_CHECK(p, RUNG_NO_MEMORY, "no memory for a convolution");
    p->loops = rungi_wino_loops_for(q->isa);
    const rungi_operand *y = rungi_conv2d_output(q);
    p->x = rungi_wino_image_of(&q->in[0], y, RUNGI_WINO_TILE, a->pad[0]);
    p->dy = rungi_wino_image_of(y, y, RUNGI_WINO_TILE, 0);
    p->tiles = y->shape.dim[0] * p->dy.rows * p->dy.cols;
    p->threads = p->tiles * p->x.c * p->dy.c < SMALL ? 1 : q->threads;
    plan_blocks(p);
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
                     .x.data = rungi_ptr(c, &q->in[0]),
                     .dy = rungi_wino_gradient_of(c),
                     .dg = rungi_ptr(c, &q->gin[1]),
                     .db = q->n_in > 2 ? rungi_ptr(c, &q->gin[2]) : NULL,
                     .adds = q->adds};
    memset(f.s.zeros, 0, (size_t)rungi_wino_most(p->x.c, p->dy.c) * sizeof(float));
    memset(f.s.sums, 0, (size_t)(p->sums * p->sum_width) * sizeof(float));
    if (p->parts)
        run_parts(&f);
    else
        run_shared(&f);
    if (f.db)
        sum_bias(&f);
    return RUNG_OK;
}

const rungi_kernel rungi_conv2d_weight_winograd = {.name = "winograd",
                                                   .kind = RUNGI_OWN,
                                                   .can_run = can_run,
                                                   .prefers = rungi_wino_pays,
                                                   .outruns_halves = outruns_halves,
                                                   .flops = flops,
                                                   .fuses = true,
                                                   .adds = true,
                                                   .create = create,
                                                   .destroy = free,
                                                   .run = run};
