// SPDX-License-Identifier: Apache-2.0
// Loops over one row, compiled once per instruction set (see ops/simd.h).
#include "ops/row_lanes.h"
#include "ops/rows.h"
#include "ops/simd.h"
#include "ops/vector_math.h"

enum { ROW_PIECE = 1024 };

static int64_t row_piece(int64_t n, int64_t begin)
{
    return n - begin < ROW_PIECE ? n - begin : ROW_PIECE;
}

static double row_sum(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i += ROW_PIECE)
        sum += (double)rungi_lanes_sum(x + i, row_piece(n, i));
    return sum;
}

static double row_dot(const float *a, const float *b, int64_t n)
{
    float buffer[ROW_PIECE];
    double sum = 0;
    for (int64_t i = 0; i < n; i += ROW_PIECE) {
        int64_t m = row_piece(n, i);
        const float *p = a + i, *q = b + i;
        RUNGI_VECTORIZE
        for (int64_t j = 0; j < m; j++)
            buffer[j] = p[j] * q[j];
        sum += (double)rungi_lanes_sum(buffer, m);
    }
    return sum;
}

static void row_exp(const float *x, float shift, float factor, float *y, int64_t n)
{
    RUNGI_VECTORIZE
    for (int64_t i = 0; i < n; i++)
        y[i] = factor * rungi_exp(x[i] - shift);
}

static double row_exp_sum(const float *x, float shift, float *y, int64_t n)
{
    float buffer[ROW_PIECE];
    double sum = 0;
    for (int64_t i = 0; i < n; i += ROW_PIECE) {
        int64_t m = row_piece(n, i);
        float *to = y ? y + i : buffer;
        const float *from = x + i;
        RUNGI_VECTORIZE
        for (int64_t j = 0; j < m; j++)
            to[j] = rungi_exp(from[j] - shift);
        sum += (double)rungi_lanes_sum(to, m);
    }
    return sum;
}

static void row_scale(const float *x, float factor, float *y, int64_t n)
{
    RUNGI_VECTORIZE
    for (int64_t i = 0; i < n; i++)
        y[i] = factor * x[i];
}

static void row_subtract(const float *x, float shift, float *y, int64_t n)
{
    RUNGI_VECTORIZE
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] - shift;
}

static void row_softmax(const float *y, const float *g, float s, float *gx, int64_t n)
{
    RUNGI_VECTORIZE
    for (int64_t i = 0; i < n; i++)
        gx[i] = y[i] * (g[i] - s);
}

static void row_log_softmax(const float *y, const float *g, float s, float *gx, int64_t n)
{
    RUNGI_VECTORIZE
    for (int64_t i = 0; i < n; i++)
        gx[i] = g[i] - s * rungi_exp(y[i]);
}

#define ROW_TABLE                                                                             \
    {                                                                                         \
        .max = rungi_lanes_max, .exp_sum = row_exp_sum, .sum = row_sum, .dot = row_dot,       \
        .scale = row_scale, .subtract = row_subtract, .exp = row_exp, .softmax = row_softmax, \
        .log_softmax = row_log_softmax,                                                       \
    }
