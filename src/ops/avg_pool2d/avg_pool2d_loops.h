// SPDX-License-Identifier: Apache-2.0
// Bodies of rungi_avg_pool_loops (avg_pool2d.h), compiled once per instruction set. A window's rows
// are summed one by one in float32, then added.
#include "ops/avg_pool2d/avg_pool2d.h"
#include "ops/pool_lanes.h"

// ---- channels side by side --------------------------------------------------------------------

static inline void mean_vectors(const float *x, int64_t row_stride, int64_t col_stride,
                                int64_t rows, int64_t cols, float share, float *y,
                                const int vectors)
{
    rungi_vf total[4] = {{0}};
    for (int64_t r = 0; r < rows; r++) {
        rungi_vf sum[4];
        for (int v = 0; v < vectors; v++)
            sum[v] = rungi_load(x + r * row_stride + v * RUNGI_LANES);
        for (int64_t q = 1; q < cols; q++)
            for (int v = 0; v < vectors; v++)
                sum[v] += rungi_load(x + r * row_stride + q * col_stride + v * RUNGI_LANES);
        for (int v = 0; v < vectors; v++)
            total[v] += sum[v];
    }
    for (int v = 0; v < vectors; v++)
        rungi_store(y + v * RUNGI_LANES, total[v] * share);
}

static inline float mean_scalar(const float *x, int64_t row_stride, int64_t col_stride,
                                int64_t rows, int64_t cols, float share)
{
    float total = 0;
    for (int64_t r = 0; r < rows; r++) {
        float sum = x[r * row_stride];
        for (int64_t q = 1; q < cols; q++)
            sum += x[r * row_stride + q * col_stride];
        total += sum;
    }
    return total * share;
}

static inline void mean_channels(const float *x, int64_t row_stride, int64_t col_stride,
                                 int64_t rows, int64_t cols, int64_t lanes, float share, float *y)
{
    int64_t c = 0;
    for (; c + 4 * RUNGI_LANES <= lanes; c += 4 * RUNGI_LANES)
        mean_vectors(x + c, row_stride, col_stride, rows, cols, share, y + c, 4);
    for (; c + RUNGI_LANES <= lanes; c += RUNGI_LANES)
        mean_vectors(x + c, row_stride, col_stride, rows, cols, share, y + c, 1);
    if (c < lanes && lanes >= RUNGI_LANES) { // the last vector again, moved to the end
        c = lanes - RUNGI_LANES;
        mean_vectors(x + c, row_stride, col_stride, rows, cols, share, y + c, 1);
        return;
    }
    for (; c < lanes; c++)
        y[c] = mean_scalar(x + c, row_stride, col_stride, rows, cols, share);
}

static void pool_mean(const float *x, int64_t step, int64_t count, int64_t row_stride,
                      int64_t col_stride, int64_t rows, int64_t cols, int64_t lanes, float share,
                      float *y)
{
    for (int64_t j = 0; j < count; j++)
        mean_channels(x + j * step, row_stride, col_stride, rows, cols, lanes, share,
                      y + j * lanes);
}

static inline void add_channels(const float *gy, float share, int64_t lanes, bool add, float *gx)
{
    int64_t c = 0;
    for (; c + RUNGI_LANES <= lanes; c += RUNGI_LANES) {
        rungi_vf g = rungi_load(gy + c) * share;
        rungi_store(gx + c, add ? rungi_load(gx + c) + g : g);
    }
    for (; c < lanes; c++)
        gx[c] = add ? gx[c] + gy[c] * share : gy[c] * share;
}

// By windows where none overlap, else by inputs.
static void spread_one(const float *gy, const rungi_pool_axis *cols, float share, bool add,
                       float *gx)
{
    if (!cols->disjoint || add) {
        for (int64_t s = 0; s < cols->in; s++) {
            float sum = add ? gx[s] : 0;
            for (int32_t j = cols->first[s]; j < cols->last[s]; j++)
                sum += gy[j] * (share * cols->share[j]);
            gx[s] = sum;
        }
        return;
    }
    if (!cols->full)
        memset(gx, 0, (size_t)cols->in * sizeof *gx);
    for (int64_t j = 0; j < cols->out; j++) {
        float g = gy[j] * (share * cols->share[j]), *to = gx + cols->begin[j];
        int32_t n = cols->end[j] - cols->begin[j];
        if (n == 2)
            to[0] = to[1] = g;
        else
            for (int32_t s = 0; s < n; s++)
                to[s] = g;
    }
}

static void pool_spread(const float *gy, const rungi_pool_axis *cols, float share, int64_t lanes,
                        bool add, float *gx)
{
    if (lanes == 1) {
        spread_one(gy, cols, share, add, gx);
        return;
    }
    for (int64_t s = 0; s < cols->in; s++, gx += lanes) {
        if (!add && cols->first[s] == cols->last[s])
            memset(gx, 0, (size_t)lanes * sizeof *gx);
        for (int32_t j = cols->first[s]; j < cols->last[s]; j++)
            add_channels(gy + j * lanes, share * cols->share[j], lanes, add || j > cols->first[s],
                         gx);
    }
}

// ---- plain ------------------------------------------------------------------------------------

// A vector of windows side by side; x is the first window's first pixel.
static inline void mean_windows(const float *x, int64_t width, int32_t rows, const int kernel_w,
                                const int64_t stride, rungi_vf share, float *y)
{
    rungi_vf total = {0};
    for (int32_t r = 0; r < rows; r++) {
        const float *row = x + r * width;
        rungi_vf sum = stride == 2 ? rungi_load_even(row) : rungi_load(row);
        for (int q = 1; q < kernel_w; q++)
            sum += stride == 2 ? rungi_load_even(row + q) : rungi_load(row + q);
        total += sum;
    }
    rungi_store(y, total * share);
}

enum { POOL_WIDE = 16 };

static float mean_window(const float *x, int64_t width, int32_t rows, int32_t cols, float share)
{
    double total = 0;
    if (cols < POOL_WIDE && cols < width)
        return mean_scalar(x, width, 1, rows, cols, share);
    if (cols == width) // the rows are one run
        return (float)(rungi_sum(x, rows * width) * share);
    for (int32_t r = 0; r < rows; r++)
        total += rungi_sum(x + r * width, cols);
    return (float)(total * share);
}

static void pool_mean_row(const float *x, const rungi_pool_windows *w, int64_t row, float *y)
{
    const rungi_pool_axis *cols = &w->cols;
    const float *top = x + w->rows.begin[row] * cols->in;
    int32_t rows = w->rows.end[row] - w->rows.begin[row];
    float share = w->rows.share[row];
    for (int64_t j = 0; j < cols->out;) {
        j = rungi_pool_at(w, row, j);
        const float *from = top + cols->begin[j];
        if (!rungi_pool_whole(w, row, j)) {
            y[j] = mean_window(from, cols->in, rows, cols->end[j] - cols->begin[j],
                               share * cols->share[j]);
            j++;
            continue;
        }
        rungi_vf shares = rungi_load(cols->share + j) * share;
        if (cols->stride == 2 && cols->kernel == 2)
            mean_windows(from, cols->in, rows, 2, 2, shares, y + j);
        else if (cols->stride == 2)
            mean_windows(from, cols->in, rows, cols->kernel, 2, shares, y + j);
        else
            mean_windows(from, cols->in, rows, cols->kernel, 1, shares, y + j);
        j += RUNGI_LANES;
    }
}

#define AVG_POOL_LOOPS                                                      \
    {                                                                       \
        .mean = pool_mean, .mean_row = pool_mean_row, .spread = pool_spread \
    }
