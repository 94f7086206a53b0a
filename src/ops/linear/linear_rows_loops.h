// SPDX-License-Identifier: Apache-2.0
// Compiled once per instruction set. A dot product has 32 sums, by i % 32, added in a fixed order,
// so all instruction sets give the same bits.
#include <string.h>

#include "ops/lanes.h"
#include "ops/linear/linear_rows.h"
#include "ops/simd.h"

enum { DOT_LANES = 32, DOT_VECTORS = DOT_LANES / RUNGI_LANES };

static float linear_dot(const float *a, const float *b, int64_t n)
{
    rungi_vf sum[DOT_VECTORS] = {{0}};
    float lane[RUNGI_LANES];
    int64_t i = 0;
    for (; i + DOT_LANES <= n; i += DOT_LANES)
        for (int v = 0; v < DOT_VECTORS; v++)
            sum[v] += rungi_load(a + i + v * RUNGI_LANES) * rungi_load(b + i + v * RUNGI_LANES);
    RUNGI_UNROLL
    for (int v = 0; v < DOT_VECTORS; v++, i += RUNGI_LANES) {
        if (n - i >= RUNGI_LANES)
            sum[v] += rungi_load(a + i) * rungi_load(b + i);
        else if (n > i)
            sum[v] += rungi_load_part(a + i, n - i) * rungi_load_part(b + i, n - i);
    }
    for (int width = DOT_VECTORS / 2; width; width /= 2)
        for (int v = 0; v < width; v++)
            sum[v] += sum[v + width];
    memcpy(lane, sum, sizeof lane);
    for (int width = RUNGI_LANES / 2; width; width /= 2)
        for (int k = 0; k < width; k++)
            lane[k] += lane[k + width];
    return lane[0];
}

static void linear_forward(const float *x, const float *w, const float *bias, float *y,
                           int64_t rows, int64_t in, int64_t out, int64_t begin, int64_t end)
{
    for (int64_t o = begin; o < end; o++)
        for (int64_t r = 0; r < rows; r++)
            y[r * out + o] = linear_dot(x + r * in, w + o * in, in) + (bias ? bias[o] : 0);
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

static void linear_data(const float *gy, const float *w, float *gx, int64_t rows, int64_t in,
                        int64_t out, int64_t begin, int64_t end)
{
    for (int64_t r = 0; r < rows; r++) {
        float *to = gx + r * in;
        memset(to + begin, 0, (size_t)(end - begin) * sizeof *to);
        for (int64_t o = 0; o < out; o++) {
            const float *from = w + o * in;
            float g = gy[r * out + o];
            RUNGI_VECTORIZE
            for (int64_t i = begin; i < end; i++)
                to[i] += g * from[i];
        }
    }
}

#define LINEAR_TABLE                                                  \
    {                                                                 \
        linear_forward, linear_weight, linear_weight_row, linear_data \
    }
