// SPDX-License-Identifier: Apache-2.0
// Few rows: the weight is read once from memory, and that is all the time there is. Products of
// matrices pay for packing it; these loops do not. Any number of threads gives the same bits.
#include <math.h>

#include "ops/linear/linear.h"
#include "ops/linear/linear_rows_loops.h"
#include "ops/parallel.h"
#include "ops/unary.h"

enum { MOST_ROWS = 8, PIECES = 64, SMALL = 1 << 16 };

const rungi_linear_loops rungi_linear_loops_plain = LINEAR_TABLE;

static const rungi_linear_loops *loops(const rungi_query *q)
{
#if defined(__x86_64__)
    if (q->isa >= RUNG_ISA_AVX512)
        return &rungi_linear_loops_avx512;
#endif
    return RUNGI_LOOPS_FOR(q->isa, rungi_linear_loops);
}

static bool few_rows(const rungi_query *q, rungi_reason *why)
{
    if (rungi_linear_sizes_of(q).rows > MOST_ROWS)
        return rungi_refuse(why, "for up to %d rows", MOST_ROWS);
    return rungi_f32_only(q, why);
}

static bool forward_can_run(const rungi_query *q, rungi_reason *why)
{
    return rungi_linear_can_fuse(q, why) && few_rows(q, why);
}

// Where it can run it is the fastest.
static bool always(const rungi_query *q)
{
    (void)q;
    return true;
}

// Threads for this much work, and where piece k of n elements begins: pieces end at cache lines.
static int threads_for(const rungi_query *q, rungi_linear_sizes s)
{
    return s.rows * s.in * s.out < SMALL ? 1 : q->threads;
}

static int64_t piece_begin(int64_t n, int k)
{
    int64_t at = (n * k / PIECES + 15) / 16 * 16;
    return k == PIECES || at > n ? n : at;
}

static rung_status forward_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    rungi_linear_sizes s = rungi_linear_sizes_of(q);
    const float *x = rungi_ptr(c, &q->in[0]), *w = rungi_ptr(c, &q->in[1]);
    const float *bias = q->n_in > 2 ? rungi_ptr(c, &q->in[2]) : NULL;
    float *y = rungi_ptr(c, &q->out[0]);
    int threads = threads_for(q, s);
    RUNGI_PARALLEL_TASKS(threads)
    for (int t = 0; t < threads; t++)
        loops(q)->forward(x, w, bias, y, s.rows, s.in, s.out,
                          piece_begin(s.out, PIECES * t / threads),
                          piece_begin(s.out, PIECES * (t + 1) / threads));
    for (int i = 0; i < q->n_fused; i++)
        rungi_unary_apply(rungi_unary_find(q->fused[i].op), q->fused[i].attr, q->isa, y, y,
                          s.rows * s.out);
    return RUNG_OK;
}

enum { CHUNK = 1024 };

// What one row of the weight's gradient is made of.
typedef struct row_update {
    const rungi_linear_loops *loops;
    const rungi_update *to;
    const float *x, *gy;
    rungi_linear_sizes s;
    float largest; // magnitude of x
    bool skips;    // rows whose gradients of y are all zero: so are the gradients of the row
} row_update;

static bool is_zero(const row_update *u, int64_t o)
{
    for (int64_t r = 0; r < u->s.rows; r++)
        if (u->gy[r * u->s.out + o] != 0)
            return false;
    return true;
}

static void update_row(const row_update *u, int64_t o)
{
    if (u->skips && is_zero(u, o))
        return;
    if (u->s.rows == 1 && u->to->apply_scaled) {
        u->to->apply_scaled(u->to->self, o * u->s.in, u->gy[o], u->x, u->largest, u->s.in);
        return;
    }
    for (int64_t i = 0; i < u->s.in; i += CHUNK) {
        _Alignas(64) float grad[CHUNK];
        int64_t count = u->s.in - i < CHUNK ? u->s.in - i : CHUNK;
        u->loops->weight_row(u->x + i, u->gy + o, grad, u->s.rows, u->s.in, u->s.out, count);
        u->to->apply(u->to->self, o * u->s.in + i, grad, count);
    }
}

// The weight's gradient row by row, for an update to take. Each thread has the rows that it has in
// forward and goes through them from the end: what it read or wrote last it finds in its cache.
static void weight_update(const rungi_query *q, row_update *u)
{
    int threads = threads_for(q, u->s);
    u->loops = loops(q);
    // NaN and infinity times zero are not zero.
    u->largest = u->loops->largest(u->x, u->s.rows * u->s.in);
    u->skips = u->to->zero_is_nothing && isfinite(u->largest);
    RUNGI_PARALLEL_TASKS(threads)
    for (int t = 0; t < threads; t++) {
        int64_t begin = piece_begin(u->s.out, PIECES * t / threads);
        for (int64_t o = piece_begin(u->s.out, PIECES * (t + 1) / threads); o-- > begin;)
            update_row(u, o);
    }
}

static void add_piece(void *self, int64_t at, const float *grad, int64_t count)
{
    float *to = (float *)self + at;
    for (int64_t i = 0; i < count; i++)
        to[i] += grad[i];
}

// gb += the sum of the rows of gy.
static void add_rows(const float *gy, float *gb, int64_t rows, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        float sum = 0;
        for (int64_t r = 0; r < rows; r++)
            sum += gy[r * n + j];
        gb[j] += sum;
    }
}

static rung_status weight_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    rungi_linear_sizes s = rungi_linear_sizes_of(q);
    const float *x = rungi_ptr(c, &q->in[0]), *gy = rungi_ptr(c, &q->gout[0]);
    float *gw = rungi_ptr(c, &q->gin[1]);
    float *gb = q->n_in > 2 ? rungi_ptr(c, &q->gin[2]) : NULL;
    if (gb)
        (q->adds ? add_rows : rungi_linear_sum_rows)(gy, gb, s.rows, s.out);
    if (!gw)
        return RUNG_OK;
    const rungi_update adding = {.apply = add_piece, .self = gw};
    const rungi_update *update = q->adds ? &adding : rungi_update_of(c, &q->gin[1]);
    if (update) {
        weight_update(q, &(row_update){.to = update, .x = x, .gy = gy, .s = s});
        return RUNG_OK;
    }
    RUNGI_PARALLEL_TASKS(threads_for(q, s))
    for (int k = 0; k < PIECES; k++)
        loops(q)->weight(x, gy, gw, s.rows, s.in, s.out, piece_begin(s.out, k),
                         piece_begin(s.out, k + 1));
    return RUNG_OK;
}

static rung_status data_run(const rungi_call *c)
{
    const rungi_query *q = c->q;
    rungi_linear_sizes s = rungi_linear_sizes_of(q);
    const float *gy = rungi_ptr(c, &q->gout[0]), *w = rungi_ptr(c, &q->in[1]);
    float *gx = rungi_ptr(c, &q->gin[0]);
    int threads = threads_for(q, s);
    RUNGI_PARALLEL_TASKS(threads)
    for (int t = 0; t < threads; t++)
        loops(q)->data(gy, w, gx, s.rows, s.in, s.out, piece_begin(s.in, PIECES * t / threads),
                       piece_begin(s.in, PIECES * (t + 1) / threads));
    return RUNG_OK;
}

const rungi_kernel rungi_linear_forward_rows = {.name = "rows",
                                                .kind = RUNGI_OWN,
                                                .can_run = forward_can_run,
                                                .prefers = always,
                                                .fuses = true,
                                                .run = forward_run};
const rungi_kernel rungi_linear_weight_rows = {.name = "rows",
                                               .kind = RUNGI_OWN,
                                               .can_run = few_rows,
                                               .prefers = always,
                                               .updates = true,
                                               .adds = true,
                                               .run = weight_run};
const rungi_kernel rungi_linear_data_rows = {
    .name = "rows", .kind = RUNGI_OWN, .can_run = few_rows, .prefers = always, .run = data_run};
