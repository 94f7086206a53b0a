// SPDX-License-Identifier: Apache-2.0
// The sums of rungi_bn_loops (batch_norm.h), and what they share with the gradient of x: gates, and
// where the operands lie. Included by batch_norm_loops.h.
#include "ops/batch_norm/batch_norm.h"
#include "ops/lanes.h"

enum {
    BN_ROWS = 32,   // rows whose sums are taken in float32
    BN_RUN = 512,   // the same for values of one channel that lie in a row
    BN_SPREAD = 16, // partial sums of such a run: element i belongs to sum i % 16
    BN_PARTS = BN_SPREAD / RUNGI_LANES,
};

// What a sum, or a gradient, is taken of: x itself, or gy where a gate lets it through.
enum { BN_OF_X, BN_OPEN, BN_BY_OUTPUT, BN_BY_INPUT };

static inline int bn_kind(const rungi_bn_gate *gate)
{
    return gate->y ? BN_BY_OUTPUT : gate->scale ? BN_BY_INPUT : BN_OPEN;
}

// gy where the gate is open, with d = x - mean, else 0.
static inline rungi_vf bn_pass(const int kind, rungi_vf gy, rungi_vf y, rungi_vf d, rungi_vf scale,
                               rungi_vf bias)
{
    rungi_vf zero = {0};
    if (kind == BN_BY_OUTPUT)
        return (rungi_vf)((rungi_vi)gy & (y > zero));
    if (kind == BN_BY_INPUT)
        return (rungi_vf)((rungi_vi)gy & (d * scale + bias > zero));
    return gy;
}

static inline float bn_pass_one(const int kind, float gy, float y, float d, float scale, float bias)
{
    if (kind == BN_BY_OUTPUT)
        return y > 0 ? gy : 0;
    if (kind == BN_BY_INPUT)
        return d * scale + bias > 0 ? gy : 0;
    return gy;
}

// The operands of the sums of some rows, from their first element on; what is not used is NULL.
typedef struct bn_source {
    const float *x, *gy, *y, *shift, *scale, *bias;
} bn_source;

static inline const float *bn_from(const float *base, int64_t at)
{
    return base ? base + at : NULL;
}

// From element `at` and channel c on.
static inline bn_source bn_source_at(const bn_source *s, int64_t at, int64_t c)
{
    return (bn_source){s->x + at,    bn_from(s->gy, at),   bn_from(s->y, at),
                       s->shift + c, bn_from(s->scale, c), bn_from(s->bias, c)};
}

// ---- sums over rows of channels ---------------------------------------------------------------

// Sums of one block of rows for `vectors` neighbouring vectors of channels: those of x - shift and
// its square, or those of gy and gy * (x - shift). Even and odd rows have sums of their own, which
// do not wait for each other. Meanwhile the next block is fetched in the order in which it lies in
// memory: x + ahead is this part's share of it.
static inline void block_sums(const int kind, const bn_source *s, int64_t rows, int64_t stride,
                              int64_t ahead, double *s1, double *s2, const int vectors)
{
    rungi_vf k[2], scale[2], bias[2], a[2][2], b[2][2];
    for (int v = 0; v < vectors; v++) {
        k[v] = rungi_load(s->shift + v * RUNGI_LANES);
        scale[v] = bias[v] = (rungi_vf){0};
        if (kind == BN_BY_INPUT) {
            scale[v] = rungi_load(s->scale + v * RUNGI_LANES);
            bias[v] = rungi_load(s->bias + v * RUNGI_LANES);
        }
        a[0][v] = a[1][v] = b[0][v] = b[1][v] = (rungi_vf){0};
    }
    for (int64_t r = 0; r < rows; r += 2)
        for (int odd = 0; odd < 2 && r + odd < rows; odd++) {
            int64_t next = ahead + (r + odd) * vectors * RUNGI_LANES;
            __builtin_prefetch(s->x + next);
            if (kind != BN_OF_X)
                __builtin_prefetch(s->gy + next);
            if (kind == BN_BY_OUTPUT)
                __builtin_prefetch(s->y + next);
            for (int v = 0; v < vectors; v++) {
                int64_t at = (r + odd) * stride + v * RUNGI_LANES;
                rungi_vf d = rungi_load(s->x + at) - k[v], g = d, y = d;
                if (kind == BN_BY_OUTPUT)
                    y = rungi_load(s->y + at);
                if (kind != BN_OF_X)
                    g = bn_pass(kind, rungi_load(s->gy + at), y, d, scale[v], bias[v]);
                a[odd][v] += g;
                b[odd][v] += g * d;
            }
        }
    for (int v = 0; v < vectors; v++) {
        rungi_add_to(s1 + v * RUNGI_LANES, a[0][v] + a[1][v], RUNGI_LANES);
        rungi_add_to(s2 + v * RUNGI_LANES, b[0][v] + b[1][v], RUNGI_LANES);
    }
}

// The same for the last n channels, less than a vector. Beyond them lie the next row's first ones,
// which are read too but not used; only the last row must not be overrun.
static inline void block_sums_rest(const int kind, const bn_source *s, int64_t rows, int64_t stride,
                                   double *s1, double *s2, int64_t n)
{
    rungi_vf k = rungi_load_part(s->shift, n), a[2] = {{0}}, b[2] = {{0}}, scale = {0}, bias = {0};
    int64_t whole = stride >= RUNGI_LANES ? rows - 1 : 0;
    if (kind == BN_BY_INPUT) {
        scale = rungi_load_part(s->scale, n);
        bias = rungi_load_part(s->bias, n);
    }
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = r * stride;
        rungi_vf d = (r < whole ? rungi_load(s->x + at) : rungi_load_part(s->x + at, n)) - k;
        rungi_vf g = d, y = d;
        if (kind == BN_BY_OUTPUT)
            y = r < whole ? rungi_load(s->y + at) : rungi_load_part(s->y + at, n);
        if (kind != BN_OF_X)
            g = bn_pass(kind, r < whole ? rungi_load(s->gy + at) : rungi_load_part(s->gy + at, n),
                        y, d, scale, bias);
        a[r % 2] += g;
        b[r % 2] += g * d;
    }
    rungi_add_to(s1, a[0] + a[1], n);
    rungi_add_to(s2, b[0] + b[1], n);
}

static inline void rows_sums(const int kind, const bn_source *s, int64_t rows, int64_t lanes,
                             double *s1, double *s2)
{
    for (int64_t r = 0; r < rows; r += BN_ROWS) {
        int64_t n = rows - r < BN_ROWS ? rows - r : BN_ROWS, c = 0;
        // The part from channel c on fetches the next block from its value c * n on.
        for (int vectors = 2; vectors >= 1; vectors--)
            for (; c + vectors * RUNGI_LANES <= lanes; c += vectors * RUNGI_LANES) {
                bn_source at = bn_source_at(s, r * lanes + c, c);
                int64_t ahead = n * lanes + c * n - c;
                if (vectors == 2)
                    block_sums(kind, &at, n, lanes, ahead, s1 + c, s2 + c, 2);
                else
                    block_sums(kind, &at, n, lanes, ahead, s1 + c, s2 + c, 1);
            }
        if (c < lanes) {
            bn_source at = bn_source_at(s, r * lanes + c, c);
            block_sums_rest(kind, &at, n, lanes, s1 + c, s2 + c, lanes - c);
        }
    }
}

// ---- sums over one channel's values in a row --------------------------------------------------

static inline double spread_sum(const rungi_vf *parts, const float *rest)
{
    float s[BN_SPREAD];
    memcpy(s, parts, sizeof s);
    double sum = 0;
    for (int i = 0; i < BN_SPREAD; i++)
        sum += (double)s[i] + (double)rest[i];
    return sum;
}

static inline void run_sums(const int kind, const bn_source *s, int64_t count, double *s1,
                            double *s2)
{
    const float scale = kind == BN_BY_INPUT ? *s->scale : 0;
    const float bias = kind == BN_BY_INPUT ? *s->bias : 0;
    rungi_vf k = rungi_splat(*s->shift), vscale = rungi_splat(scale), vbias = rungi_splat(bias);
    for (int64_t begin = 0; begin < count; begin += BN_RUN) {
        int64_t end = count - begin < BN_RUN ? count : begin + BN_RUN, i = begin;
        rungi_vf a[BN_PARTS] = {{0}}, b[BN_PARTS] = {{0}};
        float ra[BN_SPREAD] = {0}, rb[BN_SPREAD] = {0}; // of what is left after the last 16
        for (; i + BN_SPREAD <= end; i += BN_SPREAD) {
            __builtin_prefetch(s->x + i + BN_RUN); // what the sum at the end would wait for
            if (kind != BN_OF_X)
                __builtin_prefetch(s->gy + i + BN_RUN);
            for (int p = 0; p < BN_PARTS; p++) {
                int64_t at = i + p * RUNGI_LANES;
                rungi_vf d = rungi_load(s->x + at) - k, g = d, y = d;
                if (kind == BN_BY_OUTPUT)
                    y = rungi_load(s->y + at);
                if (kind != BN_OF_X)
                    g = bn_pass(kind, rungi_load(s->gy + at), y, d, vscale, vbias);
                a[p] += g;
                b[p] += g * d;
            }
        }
        for (int j = 0; i + j < end; j++) {
            float d = s->x[i + j] - *s->shift, g = d;
            if (kind != BN_OF_X)
                g = bn_pass_one(kind, s->gy[i + j], kind == BN_BY_OUTPUT ? s->y[i + j] : 0, d,
                                scale, bias);
            ra[j] = g;
            rb[j] = g * d;
        }
        *s1 += spread_sum(a, ra);
        *s2 += spread_sum(b, rb);
    }
}

static inline void any_sums(const int kind, const bn_source *s, int64_t rows, int64_t lanes,
                            double *s1, double *s2)
{
    if (lanes == 1)
        run_sums(kind, s, rows, s1, s2);
    else
        rows_sums(kind, s, rows, lanes, s1, s2);
}

static void bn_sums(const float *x, int64_t rows, int64_t lanes, const float *shift, double *s1,
                    double *s2)
{
    const bn_source s = {.x = x, .shift = shift};
    any_sums(BN_OF_X, &s, rows, lanes, s1, s2);
}

static void bn_grad_sums(const float *x, const float *gy, const rungi_bn_gate *gate, int64_t rows,
                         int64_t lanes, const float *mean, double *s1, double *s2)
{
    const bn_source s = {x, gy, gate->y, mean, gate->scale, gate->bias};
    switch (bn_kind(gate)) {
    case BN_BY_OUTPUT:
        any_sums(BN_BY_OUTPUT, &s, rows, lanes, s1, s2);
        return;
    case BN_BY_INPUT:
        any_sums(BN_BY_INPUT, &s, rows, lanes, s1, s2);
        return;
    default:
        any_sums(BN_OPEN, &s, rows, lanes, s1, s2);
    }
}
