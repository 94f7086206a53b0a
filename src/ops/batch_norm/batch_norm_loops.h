// SPDX-License-Identifier: Apache-2.0
// Bodies of rungi_bn_loops (batch_norm.h), compiled once per instruction set with equal bits.
#include "ops/batch_norm/batch_norm.h"
#include "ops/lanes.h"

enum {
    BN_ROWS = 32,   // rows whose sums are taken in float32
    BN_RUN = 512,   // the same for values of one channel that lie in a row
    BN_SPREAD = 16, // partial sums of such a run: element i belongs to sum i % 16
    BN_PARTS = BN_SPREAD / RUNGI_LANES,
};

// ---- sums over rows of channels ---------------------------------------------------------------

static inline void block_row(rungi_vf x, rungi_vf gy, rungi_vf k, bool grad, rungi_vf *a,
                             rungi_vf *b)
{
    rungi_vf d = x - k, g = grad ? gy : d;
    *a += g;
    *b += g * d;
}

// Sums of one block of rows for `vectors` neighbouring vectors of channels. With gy NULL those of
// x - shift and its square, else those of gy and gy * (x - shift). Even and odd rows have sums of
// their own, which do not wait for each other. Meanwhile the next block is fetched in the order in
// which it lies in memory: x + ahead is this part's share of it.
static inline void block_sums(const float *x, const float *gy, int64_t rows, int64_t stride,
                              int64_t ahead, const float *shift, double *s1, double *s2,
                              const int vectors)
{
    rungi_vf k[2], a[2][2], b[2][2], g = {0};
    for (int v = 0; v < vectors; v++) {
        k[v] = rungi_load(shift + v * RUNGI_LANES);
        a[0][v] = a[1][v] = b[0][v] = b[1][v] = (rungi_vf){0};
    }
    for (int64_t r = 0; r + 2 <= rows; r += 2)
        for (int odd = 0; odd < 2; odd++) {
            __builtin_prefetch(x + ahead + (r + odd) * vectors * RUNGI_LANES);
            if (gy)
                __builtin_prefetch(gy + ahead + (r + odd) * vectors * RUNGI_LANES);
            for (int v = 0; v < vectors; v++) {
                int64_t at = (r + odd) * stride + v * RUNGI_LANES;
                g = gy ? rungi_load(gy + at) : g;
                block_row(rungi_load(x + at), g, k[v], gy, &a[odd][v], &b[odd][v]);
            }
        }
    for (int v = 0; v < vectors && rows % 2; v++) {
        int64_t at = (rows - 1) * stride + v * RUNGI_LANES;
        g = gy ? rungi_load(gy + at) : g;
        block_row(rungi_load(x + at), g, k[v], gy, &a[0][v], &b[0][v]);
    }
    for (int v = 0; v < vectors; v++) {
        rungi_add_to(s1 + v * RUNGI_LANES, a[0][v] + a[1][v], RUNGI_LANES);
        rungi_add_to(s2 + v * RUNGI_LANES, b[0][v] + b[1][v], RUNGI_LANES);
    }
}

// The same for the last n channels, less than a vector. Beyond them lie the next row's first ones,
// which are read too but not used; only the last row must not be overrun.
static inline void block_sums_rest(const float *x, const float *gy, int64_t rows, int64_t stride,
                                   const float *shift, double *s1, double *s2, int64_t n)
{
    rungi_vf k = rungi_load_part(shift, n), a[2] = {{0}}, b[2] = {{0}}, g = {0};
    int64_t whole = stride >= RUNGI_LANES ? rows - 1 : 0;
    for (int64_t r = 0; r < whole; r++) {
        g = gy ? rungi_load(gy + r * stride) : g;
        block_row(rungi_load(x + r * stride), g, k, gy, &a[r % 2], &b[r % 2]);
    }
    for (int64_t r = whole; r < rows; r++) {
        g = gy ? rungi_load_part(gy + r * stride, n) : g;
        block_row(rungi_load_part(x + r * stride, n), g, k, gy, &a[r % 2], &b[r % 2]);
    }
    rungi_add_to(s1, a[0] + a[1], n);
    rungi_add_to(s2, b[0] + b[1], n);
}

static inline void rows_sums(const float *x, const float *gy, int64_t rows, int64_t lanes,
                             const float *shift, double *s1, double *s2)
{
    for (int64_t r = 0; r < rows; r += BN_ROWS) {
        int64_t n = rows - r < BN_ROWS ? rows - r : BN_ROWS, c = 0;
        const float *at = x + r * lanes, *gat = gy ? gy + r * lanes : NULL;
        // Part c of this block takes as many values as c * n of the next one are before its share.
        for (; c + 2 * RUNGI_LANES <= lanes; c += 2 * RUNGI_LANES)
            block_sums(at + c, gat ? gat + c : NULL, n, lanes, n * lanes + c * n - c, shift + c,
                       s1 + c, s2 + c, 2);
        for (; c + RUNGI_LANES <= lanes; c += RUNGI_LANES)
            block_sums(at + c, gat ? gat + c : NULL, n, lanes, n * lanes + c * n - c, shift + c,
                       s1 + c, s2 + c, 1);
        if (c < lanes)
            block_sums_rest(at + c, gat ? gat + c : NULL, n, lanes, shift + c, s1 + c, s2 + c,
                            lanes - c);
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

static inline void run_sums(const float *x, const float *gy, int64_t count, float shift, double *s1,
                            double *s2)
{
    rungi_vf k = rungi_splat(shift);
    for (int64_t begin = 0; begin < count; begin += BN_RUN) {
        int64_t end = count - begin < BN_RUN ? count : begin + BN_RUN, i = begin;
        rungi_vf a[BN_PARTS] = {{0}}, b[BN_PARTS] = {{0}};
        float ra[BN_SPREAD] = {0}, rb[BN_SPREAD] = {0}; // of what is left after the last 16
        for (; i + BN_SPREAD <= end; i += BN_SPREAD) {
            __builtin_prefetch(x + i + BN_RUN); // what the sum at the end would wait for
            if (gy)
                __builtin_prefetch(gy + i + BN_RUN);
            for (int p = 0; p < BN_PARTS; p++) {
                rungi_vf d = rungi_load(x + i + p * RUNGI_LANES) - k;
                rungi_vf g = gy ? rungi_load(gy + i + p * RUNGI_LANES) : d;
                a[p] += g;
                b[p] += g * d;
            }
        }
        for (int j = 0; i + j < end; j++) {
            float d = x[i + j] - shift, g = gy ? gy[i + j] : d;
            ra[j] = g;
            rb[j] = g * d;
        }
        *s1 += spread_sum(a, ra);
        *s2 += spread_sum(b, rb);
    }
}

static void bn_sums(const float *x, int64_t rows, int64_t lanes, const float *shift, double *s1,
                    double *s2)
{
    if (lanes == 1)
        run_sums(x, NULL, rows, *shift, s1, s2);
    else
        rows_sums(x, NULL, rows, lanes, shift, s1, s2);
}

static void bn_grad_sums(const float *x, const float *gy, int64_t rows, int64_t lanes,
                         const float *mean, double *s1, double *s2)
{
    if (lanes == 1)
        run_sums(x, gy, rows, *mean, s1, s2);
    else
        rows_sums(x, gy, rows, lanes, mean, s1, s2);
}

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

static inline void run_grad(const float *x, const float *gy, float *gx, int64_t count, float mean,
                            float a, float b, float c)
{
    rungi_vf vm = rungi_splat(mean), va = rungi_splat(a), vb = rungi_splat(b), vc = rungi_splat(c);
    int64_t i = 0;
    for (; i + RUNGI_LANES <= count; i += RUNGI_LANES) {
        rungi_vf g = va * rungi_load(gy + i);
        g = x ? g + (vb * (rungi_load(x + i) - vm) + vc) : g;
        rungi_store(gx + i, g);
    }
    for (; i < count; i++) {
        float g = a * gy[i];
        gx[i] = x ? g + (b * (x[i] - mean) + c) : g;
    }
}

static inline void column_grad(const float *x, const float *gy, float *gx, int64_t rows,
                               int64_t stride, const float *mean, const float *a, const float *b,
                               const float *c)
{
    rungi_vf vm = rungi_load(mean), va = rungi_load(a), vb = rungi_load(b), vc = rungi_load(c);
    for (int64_t r = 0; r < rows; r++) {
        rungi_vf g = va * rungi_load(gy + r * stride);
        g = x ? g + (vb * (rungi_load(x + r * stride) - vm) + vc) : g;
        rungi_store(gx + r * stride, g);
    }
}

static inline void grad_any(const float *x, const float *gy, float *gx, int64_t rows, int64_t lanes,
                            const float *mean, const float *a, const float *b, const float *c)
{
    if (lanes == 1) {
        run_grad(x, gy, gx, rows, *mean, *a, *b, *c);
        return;
    }
    int64_t block = lanes > 2 * RUNGI_LANES ? 1 : BN_ROWS;
    for (int64_t r = 0; r < rows; r += block) {
        int64_t n = rows - r < block ? rows - r : block, i = 0;
        for (; i + RUNGI_LANES <= lanes; i += RUNGI_LANES) {
            int64_t at = r * lanes + i;
            column_grad(x ? x + at : NULL, gy + at, gx + at, n, lanes, mean + i, a + i, b + i,
                        c + i);
        }
        for (int64_t k = r; i < lanes && k < r + n; k++)
            for (int64_t j = i; j < lanes; j++) {
                float g = a[j] * gy[k * lanes + j];
                gx[k * lanes + j] = x ? g + (b[j] * (x[k * lanes + j] - mean[j]) + c[j]) : g;
            }
    }
}

static void bn_grad(const float *x, const float *gy, float *gx, int64_t rows, int64_t lanes,
                    const float *mean, const float *a, const float *b, const float *c)
{
    if (x)
        grad_any(x, gy, gx, rows, lanes, mean, a, b, c);
    else
        grad_any(NULL, gy, gx, rows, lanes, mean, a, b, c);
}

#define BN_LOOPS                                                                               \
    {                                                                                          \
        .sums = bn_sums, .grad_sums = bn_grad_sums, .normalize = bn_normalize, .grad = bn_grad \
    }
