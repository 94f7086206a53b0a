// SPDX-License-Identifier: Apache-2.0
// Own kernels: two sweeps over the data, the first for sums, the second for the result. Where
// channels lie apart a thread does both for one tile of channels after the other, which it then
// finds in its cache; where they lie side by side, and where ranks meet between the sweeps, each
// sweep is shared by all threads, and the second goes backwards, from what was read last. Where
// whoever made x left its sums, forward has no first sweep.
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "ops/batch_norm/batch_norm_loops.h"
#include "ops/batch_norm/batch_norm_work.h"
#include "ops/channel_sums.h"
#include "ops/parallel.h"

enum { COSTLY = 8 }; // elements' worth of work that the merging of a chunk's sums is, by channel

const rungi_bn_loops rungi_bn_loops_cpu = BN_LOOPS;

// One pass over one batch.
typedef struct work work;

struct work {
    const rungi_call *call;
    const rungi_bn_loops *loops;
    rungi_bn_cut cut;
    rungi_bn_scratch s;
    rungi_bn_array x, res, y, gy, gx;
    const float *weight, *bias, *mean, *var;
    float *gweight, *gbias;
    double eps;
    rungi_bn_gates gates;
    rungi_bn_left left; // forward
    bool of_batch, relu, sums;
    double count;              // values per channel: of all ranks, once they have met
    const double *sum1, *sum2; // backward: the sums of all ranks
    // The first sweep of a chunk of a tile, its sums put together for channels [begin, end), what
    // follows from them, and the second sweep. In between ranks meet. `first` NULL: the sums are
    // there.
    void (*first)(const work *w, int64_t chunk, int64_t tile);
    void (*merge)(const work *w, int64_t begin, int64_t end);
    rung_status (*meet)(work *w);
    void (*numbers)(const work *w, int64_t begin, int64_t end);
    void (*second)(const work *w, int64_t chunk, int64_t tile);
};

static const float *given(const rungi_call *c, int input)
{
    return c->q->n_in > input ? rungi_ptr(c, &c->q->in[input]) : NULL;
}

static float *wanted(const rungi_call *c, int input)
{
    return c->q->n_in > input ? rungi_ptr(c, &c->q->gin[input]) : NULL;
}

static work work_of(const rungi_call *c, const rungi_bn_loops *loops)
{
    const rungi_batch_norm_attr *a = c->q->attr;
    work w = {.call = c, .loops = loops, .eps = a->eps, .cut = rungi_bn_cut_of(&c->q->in[0])};
    w.s = rungi_bn_scratch_of(&w.cut, c->workspace);
    w.of_batch = rungi_batch_norm_of_batch(c->q);
    w.count = (double)w.cut.total;
    w.x = rungi_bn_array_of(c, &c->q->in[RUNGI_BN_X]);
    w.weight = given(c, RUNGI_BN_WEIGHT);
    return w;
}

static void tile_by_tile(const work *w)
{
    int threads = w->call->q->threads;
    RUNGI_PARALLEL_FOR(threads, rungi_operand_count(&w->call->q->in[0]))
    for (int64_t tile = 0; tile < w->cut.tiles; tile++) {
        int64_t begin, end;
        rungi_bn_channels_of(&w->cut, tile, &begin, &end);
        for (int64_t chunk = 0; w->sums && w->first && chunk < w->cut.chunks; chunk++)
            w->first(w, chunk, tile);
        if (w->sums)
            w->merge(w, begin, end);
        w->numbers(w, begin, end);
        for (int64_t chunk = w->cut.chunks; w->second && chunk-- > 0;)
            w->second(w, chunk, tile);
    }
}

static void merge_by_channels(const work *w)
{
    int threads = w->call->q->threads;
    int64_t channels = rungi_bn_channels(&w->cut.form);
    RUNGI_PARALLEL_FOR(threads, channels * (w->left.data ? w->left.parts : w->cut.chunks) * COSTLY)
    for (int i = 0; i < threads; i++)
        w->merge(w, channels * i / threads, channels * (i + 1) / threads);
}

static rung_status sweep_by_sweep(work *w)
{
    int threads = w->call->q->threads;
    int64_t tasks = w->cut.chunks * w->cut.tiles, count = rungi_operand_count(&w->call->q->in[0]);
    if (w->sums && w->first) {
        RUNGI_PARALLEL_FOR(threads, count)
        for (int64_t task = 0; task < tasks; task++)
            w->first(w, task / w->cut.tiles, task % w->cut.tiles);
    }
    if (w->sums)
        merge_by_channels(w);
    if (w->meet)
        RUNG_TRY(w->meet(w));
    w->numbers(w, 0, rungi_bn_channels(&w->cut.form));
    if (!w->second)
        return RUNG_OK;
    // The same share of the tasks for each thread as above.
    RUNGI_PARALLEL_FOR(threads, count)
    for (int share = 0; share < threads; share++)
        for (int64_t task = tasks * (share + 1) / threads; task-- > tasks * share / threads;)
            w->second(w, task / w->cut.tiles, task % w->cut.tiles);
    return RUNG_OK;
}

static rung_status run(work *w)
{
    int threads = w->call->q->threads;
    bool tiles = w->cut.tiles >= 2 * threads || (w->cut.tiles > 1 && w->cut.tiles % threads == 0);
    if (!tiles || w->meet)
        return sweep_by_sweep(w);
    tile_by_tile(w);
    return RUNG_OK;
}

// Do ranks meet in this call?
static bool meets(const rungi_call *c)
{
    return c->q->synchronized && c->rt->group && rungi_bn_meets(c->q);
}

// ---- forward ----------------------------------------------------------------------------------

static float scale_of(const work *w, int64_t channel, float var)
{
    return (float)((w->weight ? w->weight[channel] : 1) / sqrt(var + w->eps));
}

static void forward_first(const work *w, int64_t chunk, int64_t tile)
{
    rungi_bn_take_moments(&w->cut, &w->s, w->loops, &w->x, chunk, tile);
}

static void forward_merge(const work *w, int64_t begin, int64_t end)
{
    if (w->left.data)
        rungi_bn_merge_left(&w->cut, &w->s, &w->left, begin, end);
    else
        rungi_bn_merge_moments(&w->cut, &w->s, begin, end);
}

static rung_status forward_meet(work *w)
{
    w->s.numbers[RUNGI_BN_COUNT] = w->count;
    return rungi_bn_meet_moments(w->call, w->s.numbers);
}

// number[0..2]: mean, scale and bias of each channel; keeps what backward needs.
static void forward_numbers(const work *w, int64_t begin, int64_t end)
{
    const rungi_call *c = w->call;
    float *mean_out = rungi_ptr(c, &c->q->out[RUNGI_BN_MEAN]);
    float *var_out = rungi_ptr(c, &c->q->out[RUNGI_BN_VAR]);
    for (int64_t k = begin; k < end; k++) {
        // As backward reads them, so that it finds the same signs.
        float mean = w->sums ? (float)w->s.mean[k] : w->mean[k];
        float var = w->sums ? (float)w->s.var[k] : w->var[k];
        w->s.number[0][k] = mean;
        w->s.number[1][k] = scale_of(w, k, var);
        w->s.number[2][k] = w->bias ? w->bias[k] : 0;
        if (mean_out)
            mean_out[k] = mean;
        if (var_out)
            var_out[k] = var;
    }
}

static void forward_second(const work *w, int64_t chunk, int64_t tile)
{
    rungi_bn_walk walk = rungi_bn_walk_of(&w->cut, chunk, tile);
    int64_t lanes = w->cut.form.lanes;
    float room[3][RUNGI_BN_ROOM];
    for (rungi_bn_piece p; rungi_bn_next(&walk, &p);) {
        int64_t block = rungi_bn_block(&w->x, p.rows, lanes, false);
        for (int64_t r = 0; r < p.rows; r += block) {
            int64_t rows = p.rows - r < block ? p.rows - r : block;
            int64_t at = p.at + r * lanes, n = rows * lanes;
            float *y = rungi_bn_target(&w->y, at, room[2]);
            w->loops->normalize(rungi_bn_read(&w->x, at, n, room[0]),
                                rungi_bn_read(&w->res, at, n, room[1]), y, rows, lanes,
                                w->s.number[0] + p.channel, w->s.number[1] + p.channel,
                                w->s.number[2] + p.channel, w->relu);
            rungi_bn_write(&w->y, at, n, y);
        }
    }
}

static rung_status forward(const rungi_call *c, const rungi_bn_loops *loops)
{
    const rungi_query *q = c->q;
    work w = work_of(c, loops);
    w.bias = given(c, RUNGI_BN_BIAS);
    w.mean = given(c, RUNGI_BN_RUNNING_MEAN);
    w.var = given(c, RUNGI_BN_RUNNING_VAR);
    if (rungi_bn_has_moments(q)) {
        w.mean = rungi_ptr(c, &q->out[RUNGI_BN_MEAN]);
        w.var = rungi_ptr(c, &q->out[RUNGI_BN_VAR]);
    }
    w.y = rungi_bn_array_of(c, &q->out[0]);
    if (q->n_fused && q->fused[0].n_in == 2)
        w.res = rungi_bn_array_of(c, &q->fused[0].in[1]);
    w.relu = q->n_fused > (w.res.data ? 1 : 0);
    w.sums = w.of_batch && !rungi_bn_has_moments(q);
    if (q->sums_in)
        w.left = (rungi_bn_left){rungi_ptr(c, q->sums_in),
                                 rungi_channel_sums_parts(rungi_operand_count(q->sums_in),
                                                          rungi_bn_channels(&w.cut.form))};
    w.first = w.left.data ? NULL : forward_first;
    w.merge = forward_merge;
    w.meet = meets(c) ? forward_meet : NULL;
    w.numbers = forward_numbers;
    w.second = forward_second;
    return run(&w);
}

// ---- backward ---------------------------------------------------------------------------------

static void backward_first(const work *w, int64_t chunk, int64_t tile)
{
    rungi_bn_take_gradients(&w->cut, &w->s, w->loops, &w->x, &w->gy, &w->gates, w->mean, chunk,
                            tile);
}

static void backward_merge(const work *w, int64_t begin, int64_t end)
{
    rungi_bn_merge_gradients(&w->cut, &w->s, begin, end);
}

// The sums of all ranks beside the own ones, which the gradients of weight and bias are.
static rung_status backward_meet(work *w)
{
    size_t bytes = (size_t)rungi_bn_channels(&w->cut.form) * sizeof(double);
    w->s.numbers[RUNGI_BN_COUNT] = w->count;
    memcpy(w->s.mean, w->s.s1, bytes);
    memcpy(w->s.var, w->s.s2, bytes);
    RUNG_TRY(rungi_bn_meet_sums(w->call, w->s.numbers));
    w->count = w->s.numbers[RUNGI_BN_COUNT];
    w->sum1 = w->s.mean;
    w->sum2 = w->s.var;
    return RUNG_OK;
}

// With S1 = sum gy, S2 = sum gy * (x - mean), n values and scale = weight / std:
//   gbias = S1, gweight = S2 / std,
//   gx = scale * (gy - S1 / n - (x - mean) * S2 / (n (var + eps)))
// and gx = scale * gy where the statistics are not the batch's. number[0..2]: a, b, c of `grad`.
static void backward_numbers(const work *w, int64_t begin, int64_t end)
{
    double n = w->count;
    for (int64_t k = begin; k < end; k++) {
        double spread = w->var[k] + w->eps, rstd = 1 / sqrt(spread);
        double scale = (w->weight ? w->weight[k] : 1) * rstd;
        if (w->gweight)
            w->gweight[k] = (float)(w->s.s2[k] * rstd);
        if (w->gbias)
            w->gbias[k] = (float)w->s.s1[k];
        w->s.number[0][k] = (float)scale;
        w->s.number[1][k] = w->of_batch ? (float)(-scale * w->sum2[k] / (n * spread)) : 0;
        w->s.number[2][k] = w->of_batch ? (float)(-scale * w->sum1[k] / n) : 0;
    }
}

static void backward_second(const work *w, int64_t chunk, int64_t tile)
{
    rungi_bn_walk walk = rungi_bn_walk_of(&w->cut, chunk, tile);
    int64_t lanes = w->cut.form.lanes;
    float room[4][RUNGI_BN_ROOM];
    for (rungi_bn_piece p; rungi_bn_next(&walk, &p);) {
        int64_t block = rungi_bn_block(&w->x, p.rows, lanes, false);
        for (int64_t r = 0; r < p.rows; r += block) {
            int64_t rows = p.rows - r < block ? p.rows - r : block;
            int64_t at = p.at + r * lanes, n = rows * lanes;
            rungi_bn_gate gate = rungi_bn_gate_at(&w->gates, &p, at, n, room[0]);
            float *gx = rungi_bn_target(&w->gx, at, room[3]);
            w->loops->grad(rungi_bn_read(&w->x, at, n, room[1]),
                           rungi_bn_read(&w->gy, at, n, room[2]), &gate, gx, rows, lanes,
                           w->mean + p.channel, w->s.number[0] + p.channel,
                           w->s.number[1] + p.channel, w->s.number[2] + p.channel, !w->of_batch);
            rungi_bn_write(&w->gx, at, n, gx);
        }
    }
}

// The gate of a ReLU that follows: by its output, or where that is not given, by what forward made
// of x: both have the same signs.
static void set_gate(work *w)
{
    const rungi_query *q = w->call->q;
    if (!q->n_fused)
        return;
    w->gates.y = rungi_bn_array_of(w->call, q->fused[0].out);
    if (w->gates.y.data)
        return;
    const float *bias = given(w->call, RUNGI_BN_BIAS);
    for (int64_t k = 0; k < rungi_bn_channels(&w->cut.form); k++) {
        w->s.number[3][k] = scale_of(w, k, w->var[k]);
        w->s.number[4][k] = bias ? bias[k] : 0;
    }
    w->gates.gate.scale = w->s.number[3];
    w->gates.gate.bias = w->s.number[4];
}

static rung_status backward(const rungi_call *c, const rungi_bn_loops *loops)
{
    const rungi_query *q = c->q;
    work w = work_of(c, loops);
    w.mean = rungi_ptr(c, &q->out[RUNGI_BN_MEAN]);
    w.var = rungi_ptr(c, &q->out[RUNGI_BN_VAR]);
    w.gy = rungi_bn_array_of(c, &q->gout[0]);
    w.gx = rungi_bn_array_of(c, &q->gin[RUNGI_BN_X]);
    w.gweight = wanted(c, RUNGI_BN_WEIGHT);
    w.gbias = wanted(c, RUNGI_BN_BIAS);
    set_gate(&w);
    w.sums = w.of_batch || w.gweight || w.gbias;
    w.sum1 = w.s.s1;
    w.sum2 = w.s.s2;
    w.first = backward_first;
    w.merge = backward_merge;
    w.meet = meets(c) ? backward_meet : NULL;
    w.numbers = backward_numbers;
    w.second = w.gx.data ? backward_second : NULL;
    return run(&w);
}

// ---- kernels ----------------------------------------------------------------------------------

// Applied on top: a residual of the same shape is added, then a ReLU; either alone.
static bool can_fuse(const rungi_query *q, rungi_reason *why)
{
    bool add = q->n_fused && strcmp(q->fused[0].op->name, "add") == 0 &&
               rung_shape_equal(&q->fused[0].in[1].shape, &q->out[0].shape) &&
               q->fused[0].in[1].layout == q->out[0].layout;
    int rest = q->n_fused - add;
    if (rest > 1 || (rest == 1 && strcmp(q->fused[add].op->name, "relu") != 0))
        return rungi_refuse(why, "cannot apply %s", q->fused[q->n_fused - 1].op->name);
    return true;
}

// float32 images, or of 16 bits all of them; numbers by channel are float32.
static bool takes(const rungi_query *q, rungi_reason *why)
{
    const rungi_operand *x = &q->in[RUNGI_BN_X], *images[] = {&q->out[0], NULL, NULL, NULL};
    if (!rungi_query_has_halves(q))
        return rungi_f32_only(q, why);
    if (q->pass != RUNGI_FORWARD)
        images[0] = &q->gout[0], images[1] = &q->gin[RUNGI_BN_X];
    if (q->n_fused)
        images[2] = q->pass != RUNGI_FORWARD ? q->fused[0].out
                    : q->fused[0].n_in == 2  ? &q->fused[0].in[1]
                                             : NULL;
    for (int i = 0; i < 3; i++)
        if (images[i] && images[i]->buffer >= 0 && images[i]->dtype != x->dtype)
            return rungi_refuse(why, "images of several dtypes");
    rungi_bn_form form = rungi_bn_form_of(x);
    if (form.lanes > RUNGI_BN_ROOM)
        return rungi_refuse(why, "more than %d channels of 16 bits side by side", RUNGI_BN_ROOM);
    return true;
}

static bool can_run(const rungi_query *q, rungi_reason *why)
{
    return can_fuse(q, why) && takes(q, why);
}

static bool back_can_run(const rungi_query *q, rungi_reason *why)
{
    return rungi_fuses_relu(q, why) && takes(q, why);
}

static bool with_avx2(const rungi_query *q, rungi_reason *why)
{
    return q->isa >= RUNG_ISA_AVX2 || rungi_refuse(why, "needs AVX2");
}

static bool back_avx2_can_run(const rungi_query *q, rungi_reason *why)
{
    return with_avx2(q, why) && back_can_run(q, why);
}

static bool avx2_can_run(const rungi_query *q, rungi_reason *why)
{
    return with_avx2(q, why) && can_run(q, why);
}

static rung_status create(const rungi_query *q, rungi_setup *setup)
{
    rungi_bn_cut cut = rungi_bn_cut_of(&q->in[0]);
    setup->workspace = rungi_bn_scratch_bytes(&cut);
    return RUNG_OK;
}

static rung_status forward_cpu(const rungi_call *c)
{
    return forward(c, &rungi_bn_loops_cpu);
}

static rung_status forward_avx2(const rungi_call *c)
{
    return forward(c, rungi_bn_loops_avx2);
}

static rung_status backward_cpu(const rungi_call *c)
{
    return backward(c, &rungi_bn_loops_cpu);
}

static rung_status backward_avx2(const rungi_call *c)
{
    return backward(c, rungi_bn_loops_avx2);
}

static const rungi_kernel sweeps_avx2 = {.name = "sweeps_avx2",
                                         .kind = RUNGI_OWN,
                                         .halves = true,
                                         .can_run = avx2_can_run,
                                         .fuses = true,
                                         .takes_sums = rungi_batch_norm_of_batch,
                                         .create = create,
                                         .run = forward_avx2};
static const rungi_kernel sweeps = {.name = "sweeps",
                                    .kind = RUNGI_OWN,
                                    .halves = true,
                                    .can_run = can_run,
                                    .fuses = true,
                                    .takes_sums = rungi_batch_norm_of_batch,
                                    .create = create,
                                    .run = forward_cpu};
static const rungi_kernel sweeps_back_avx2 = {.name = "sweeps_avx2",
                                              .kind = RUNGI_OWN,
                                              .halves = true,
                                              .can_run = back_avx2_can_run,
                                              .fuses = true,
                                              .create = create,
                                              .run = backward_avx2};
static const rungi_kernel sweeps_back = {.name = "sweeps",
                                         .kind = RUNGI_OWN,
                                         .halves = true,
                                         .can_run = back_can_run,
                                         .fuses = true,
                                         .create = create,
                                         .run = backward_cpu};

const rungi_kernel *const rungi_batch_norm_forward_cpu[] = {
    &sweeps_avx2, &sweeps, &rungi_batch_norm_forward_onednn, &rungi_batch_norm_forward_reference,
    NULL};
const rungi_kernel *const rungi_batch_norm_backward_cpu[] = {
    &sweeps_back_avx2, &sweeps_back, &rungi_batch_norm_backward_onednn,
    &rungi_batch_norm_backward_reference, NULL};
