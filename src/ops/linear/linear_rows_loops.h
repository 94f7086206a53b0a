// SPDX-License-Identifier: Apache-2.0
// Compiled once per instruction set. A dot product has 32 sums, by i % 32, added in a fixed order,
// so all instruction sets give the same bits.
#include <string.h>

#include "ops/lanes.h"
#include "ops/linear/linear_rows.h"
#include "ops/simd.h"

enum {
    DOT_LANES = 32,
    DOT_VECTORS = DOT_LANES / RUNGI_LANES,
    DOT_ROWS = RUNGI_LANES < 8 ? 2 : 4, // of the weight at a time, which share what they load of x
};

// out[k] = a . b[k * stride] for the `count` rows of b; `count` is a constant where it is inlined.
static inline void linear_dots(const float *a, const float *b, int64_t stride, int64_t n,
                               const int count, float *out)
{
    rungi_vf sum[DOT_ROWS][DOT_VECTORS] = {{{0}}};
    int64_t i = 0;
    for (; i + DOT_LANES <= n; i += DOT_LANES)
        for (int v = 0; v < DOT_VECTORS; v++) {
            rungi_vf one = rungi_load(a + i + v * RUNGI_LANES);
            for (int k = 0; k < count; k++)
                sum[k][v] += one * rungi_load(b + k * stride + i + v * RUNGI_LANES);
        }
    RUNGI_UNROLL
    for (int v = 0; v < DOT_VECTORS; v++, i += RUNGI_LANES)
        for (int k = 0; k < count; k++) {
            const float *row = b + k * stride + i;
            if (n - i >= RUNGI_LANES)
                sum[k][v] += rungi_load(a + i) * rungi_load(row);
            else if (n > i)
                sum[k][v] += rungi_load_part(a + i, n - i) * rungi_load_part(row, n - i);
        }
    for (int k = 0; k < count; k++) {
        for (int width = DOT_VECTORS / 2; width; width /= 2)
            for (int v = 0; v < width; v++)
                sum[k][v] += sum[k][v + width];
        out[k] = rungi_halved_sum(sum[k][0]);
    }
}

static void linear_forward(const float *x, const float *w, const float *bias, float *y,
                           int64_t rows, int64_t in, int64_t out, int64_t begin, int64_t end)
{
    for (int64_t o = begin, count; o < end; o += count) {
        count = o + DOT_ROWS <= end ? DOT_ROWS : 1;
        for (int64_t r = 0; r < rows; r++) {
            float dots[DOT_ROWS];
            if (count == DOT_ROWS)
                linear_dots(x + r * in, w + o * in, in, in, DOT_ROWS, dots);
            else
                linear_dots(x + r * in, w + o * in, in, in, 1, dots);
            for (int64_t k = 0; k < count; k++)
                y[r * out + o + k] = dots[k] + (bias ? bias[o + k] : 0);
        }
    }
}

static void linear_weight_row(const float *x, const float *gy, float *gw, int64_t rows, int64_t in,
                              int64_t out, int64_t count)
{
    float g = gy[0];
    RUNGI_VECTORIZE
    for (int64_t i = 0; i < count; i++)
        gw[i] = g * x[i];
    for (int64_t r = 1; r < rows; r++) {
        const float *from = x + r * in;
        g = gy[r * out];
        RUNGI_VECTORIZE
        for (int64_t i = 0; i < count; i++)
            gw[i] += g * from[i];
    }
}

static void linear_weight(const float *x, const float *gy, float *gw, int64_t rows, int64_t in,
                          int64_t out, int64_t begin, int64_t end)
{
    for (int64_t o = begin; o < end; o++)
        linear_weight_row(x, gy + o, gw + o * in, rows, in, out, in);
}

enum {
    DATA_COLUMNS = 1024,
    DATA_ROWS = 4
}; // of w that are taken together: they fit the first cache

// to[i] += g[0] w[0, i] + ... + g[3] w[3, i], in this order
static inline void linear_add_rows(const float *g, const float *w, int64_t stride, float *to,
                                   int64_t count)
{
    const float *w1 = w + stride, *w2 = w1 + stride, *w3 = w2 + stride;
    RUNGI_VECTORIZE
    for (int64_t i = 0; i < count; i++)
        to[i] = to[i] + g[0] * w[i] + g[1] * w1[i] + g[2] * w2[i] + g[3] * w3[i];
}

static inline void linear_add_row(float g, const float *w, float *to, int64_t count)
{
    RUNGI_VECTORIZE
    for (int64_t i = 0; i < count; i++)
        to[i] += g * w[i];
}

static void linear_data_block(const float *gy, const float *w, float *gx, int64_t rows, int64_t in,
                              int64_t out, int64_t count)
{
    for (int64_t r = 0; r < rows; r++)
        memset(gx + r * in, 0, (size_t)count * sizeof *gx);
    int64_t o = 0;
    for (; o + DATA_ROWS <= out; o += DATA_ROWS)
        for (int64_t r = 0; r < rows; r++)
            linear_add_rows(gy + r * out + o, w + o * in, in, gx + r * in, count);
    for (; o < out; o++)
        for (int64_t r = 0; r < rows; r++)
            linear_add_row(gy[r * out + o], w + o * in, gx + r * in, count);
}

static void linear_data(const float *gy, const float *w, float *gx, int64_t rows, int64_t in,
                        int64_t out, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i += DATA_COLUMNS)
        linear_data_block(gy, w + i, gx + i, rows, in, out,
                          end - i < DATA_COLUMNS ? end - i : DATA_COLUMNS);
}

static float linear_largest(const float *x, int64_t count)
{
    int32_t most = 0; // magnitudes are ordered as their bits are, NaN above all
    float largest;
    for (int64_t i = 0; i < count; i++) {
        int32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    memcpy(&largest, &most, sizeof largest);
    return largest;
}

#define LINEAR_TABLE                                                                  \
    {                                                                                 \
        linear_forward, linear_weight, linear_weight_row, linear_data, linear_largest \
    }
