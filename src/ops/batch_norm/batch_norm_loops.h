// SPDX-License-Identifier: Apache-2.0
// Bodies of rungi_bn_loops (batch_norm.h), compiled once per instruction set with equal bits.
#include "ops/batch_norm/batch_norm_sums.h"

// ---- normalization ----------------------------------------------------------------------------

static inline void run_normalize(const float *x, const float *res, float *y, int64_t count,
                                 float mean, float scale, float bias, const bool relu)
{
    rungi_vf m = rungi_splat(mean), s = rungi_splat(scale), b = rungi_splat(bias);
    int64_t i = 0;
    for (; i + RUNGI_LANES <= count; i += RUNGI_LANES) {
        rungi_vf v = (rungi_load(x + i) - m) * s + b;
        v = res ? v + rungi_load(res + i) : v;
        rungi_store(y + i, relu ? rungi_relu(v) : v);
    }
    for (; i < count; i++) {
        float v = (x[i] - mean) * scale + bias;
        v = res ? v + res[i] : v;
        y[i] = relu && v < 0 ? 0 : v;
    }
}

// A vector of channels over some rows, so that the channels' numbers stay in registers.
static inline void column_normalize(const float *x, const float *res, float *y, int64_t rows,
                                    int64_t stride, const float *mean, const float *scale,
                                    const float *bias, const bool relu)
{
    rungi_vf m = rungi_load(mean), s = rungi_load(scale), b = rungi_load(bias);
    for (int64_t r = 0; r < rows; r++) {
        rungi_vf v = (rungi_load(x + r * stride) - m) * s + b;
        v = res ? v + rungi_load(res + r * stride) : v;
        rungi_store(y + r * stride, relu ? rungi_relu(v) : v);
    }
}

static inline void normalize_any(const float *x, const float *res, float *y, int64_t rows,
                                 int64_t lanes, const float *mean, const float *scale,
                                 const float *bias, const bool relu)
{
    if (lanes == 1) {
        run_normalize(x, res, y, rows, *mean, *scale, *bias, relu);
        return;
    }
    int64_t block = lanes > 2 * RUNGI_LANES ? 1 : BN_ROWS;
    for (int64_t r = 0; r < rows; r += block) {
        int64_t n = rows - r < block ? rows - r : block, c = 0;
        for (; c + RUNGI_LANES <= lanes; c += RUNGI_LANES) {
            int64_t at = r * lanes + c;
            column_normalize(x + at, res ? res + at : NULL, y + at, n, lanes, mean + c, scale + c,
                             bias + c, relu);
        }
        for (int64_t k = r; c < lanes && k < r + n; k++)
            for (int64_t i = c; i < lanes; i++) {
                float v = (x[k * lanes + i] - mean[i]) * scale[i] + bias[i];
                v = res ? v + res[k * lanes + i] : v;
                y[k * lanes + i] = relu && v < 0 ? 0 : v;
            }
    }
}

static void bn_normalize(const float *x, const float *res, float *y, int64_t rows, int64_t lanes,
                         const float *mean, const float *scale, const float *bias, bool relu)
{
    if (res && relu)
        normalize_any(x, res, y, rows, lanes, mean, scale, bias, true);
    else if (res)
        normalize_any(x, res, y, rows, lanes, mean, scale, bias, false);
    else if (relu)
        normalize_any(x, NULL, y, rows, lanes, mean, scale, bias, true);
    else
        normalize_any(x, NULL, y, rows, lanes, mean, scale, bias, false);
}

// ---- gradient of x ----------------------------------------------------------------------------

// gx = a * gy + b * (x - mean) + c of one channel's values in a row, or, where `scaled` is set,
// a * gy.
static inline void run_grad(const int kind, const bool scaled, const bn_source *s, float *gx,
                            int64_t count, float a, float b, float c)
{
    const float mean = *s->shift, scale = kind == BN_BY_INPUT ? *s->scale : 0;
    const float bias = kind == BN_BY_INPUT ? *s->bias : 0;
    const bool reads_x = !scaled || kind == BN_BY_INPUT;
    rungi_vf vm = rungi_splat(mean), va = rungi_splat(a), vb = rungi_splat(b), vc = rungi_splat(c);
    rungi_vf vscale = rungi_splat(scale), vbias = rungi_splat(bias), zero = {0};
    int64_t i = 0;
    for (; i + RUNGI_LANES <= count; i += RUNGI_LANES) {
        rungi_vf d = reads_x ? rungi_load(s->x + i) - vm : zero;
        rungi_vf y = kind == BN_BY_OUTPUT ? rungi_load(s->y + i) : zero;
        rungi_vf g = va * bn_pass(kind, rungi_load(s->gy + i), y, d, vscale, vbias);
        rungi_store(gx + i, scaled ? g : g + (vb * d + vc));
    }
    for (; i < count; i++) {
        float d = reads_x ? s->x[i] - mean : 0, y = kind == BN_BY_OUTPUT ? s->y[i] : 0;
        float g = a * bn_pass_one(kind, s->gy[i], y, d, scale, bias);
        gx[i] = scaled ? g : g + (b * d + c);
    }
}

// A vector of channels over some rows, so that the channels' numbers stay in registers.
static inline void column_grad(const int kind, const bool scaled, const bn_source *s, float *gx,
                               int64_t rows, int64_t stride, const float *a, const float *b,
                               const float *c)
{
    const bool reads_x = !scaled || kind == BN_BY_INPUT;
    rungi_vf vm = rungi_load(s->shift), va = rungi_load(a), vb = rungi_load(b), vc = rungi_load(c);
    rungi_vf zero = {0}, scale = kind == BN_BY_INPUT ? rungi_load(s->scale) : zero;
    rungi_vf bias = kind == BN_BY_INPUT ? rungi_load(s->bias) : zero;
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = r * stride;
        rungi_vf d = reads_x ? rungi_load(s->x + at) - vm : zero;
        rungi_vf y = kind == BN_BY_OUTPUT ? rungi_load(s->y + at) : zero;
        rungi_vf g = va * bn_pass(kind, rungi_load(s->gy + at), y, d, scale, bias);
        rungi_store(gx + at, scaled ? g : g + (vb * d + vc));
    }
}

static inline void rows_grad(const int kind, const bool scaled, const bn_source *s, float *gx,
                             int64_t rows, int64_t lanes, const float *a, const float *b,
                             const float *c)
{
    int64_t block = lanes > 2 * RUNGI_LANES ? 1 : BN_ROWS;
    for (int64_t r = 0; r < rows; r += block) {
        int64_t n = rows - r < block ? rows - r : block, i = 0;
        for (; i + RUNGI_LANES <= lanes; i += RUNGI_LANES) {
            bn_source at = bn_source_at(s, r * lanes + i, i);
            column_grad(kind, scaled, &at, gx + r * lanes + i, n, lanes, a + i, b + i, c + i);
        }
        for (int64_t k = r; i < lanes && k < r + n; k++)
            for (int64_t j = i; j < lanes; j++) {
                bn_source at = bn_source_at(s, k * lanes + j, j);
                run_grad(kind, scaled, &at, gx + k * lanes + j, 1, a[j], b[j], c[j]);
            }
    }
}

static inline void any_grad(const int kind, const bool scaled, const bn_source *s, float *gx,
                            int64_t rows, int64_t lanes, const float *a, const float *b,
                            const float *c)
{
    if (lanes == 1)
        run_grad(kind, scaled, s, gx, rows, *a, *b, *c);
    else
        rows_grad(kind, scaled, s, gx, rows, lanes, a, b, c);
}

static inline void gated_grad(const int kind, bool scaled, const bn_source *s, float *gx,
                              int64_t rows, int64_t lanes, const float *a, const float *b,
                              const float *c)
{
    if (scaled)
        any_grad(kind, true, s, gx, rows, lanes, a, b, c);
    else
        any_grad(kind, false, s, gx, rows, lanes, a, b, c);
}

static void bn_grad(const float *x, const float *gy, const rungi_bn_gate *gate, float *gx,
                    int64_t rows, int64_t lanes, const float *mean, const float *a, const float *b,
                    const float *c, bool scaled)
{
    const bn_source s = {x, gy, gate->y, mean, gate->scale, gate->bias};
    switch (bn_kind(gate)) {
    case BN_BY_OUTPUT:
        gated_grad(BN_BY_OUTPUT, scaled, &s, gx, rows, lanes, a, b, c);
        return;
    case BN_BY_INPUT:
        gated_grad(BN_BY_INPUT, scaled, &s, gx, rows, lanes, a, b, c);
        return;
    default:
        gated_grad(BN_OPEN, scaled, &s, gx, rows, lanes, a, b, c);
    }
}

#define BN_LOOPS                                                                               \
    {                                                                                          \
        .sums = bn_sums, .grad_sums = bn_grad_sums, .normalize = bn_normalize, .grad = bn_grad \
    }
