// SPDX-License-Identifier: Apache-2.0
// Bodies of rungi_max_pool_loops (max_pool2d.h), compiled once per instruction set.
#include <math.h>

#include "ops/max_pool2d/max_pool2d.h"
#include "ops/pool_lanes.h"

// NaN wins over every number and then stays; of equal values the first does.
static inline bool pool_wins(float v, float best)
{
    return !(v <= best) && best == best;
}

// ---- channels side by side --------------------------------------------------------------------

static inline void best_vector(const float *x, const int64_t *offset, const int32_t *place,
                               const int taps, const bool relu, float *y, uint8_t *index)
{
    rungi_vf best = rungi_load(x + offset[0]);
    rungi_vi at = place[0] - (rungi_vi){0};
    for (int k = 1; k < taps; k++) {
        rungi_vf v = rungi_load(x + offset[k]);
        rungi_vi wins = ~(v <= best) & (best == best);
        best = rungi_select(wins, v, best);
        at = (wins & place[k]) | (~wins & at);
    }
    rungi_store(y, relu ? rungi_relu(best) : best);
    if (index)
        rungi_store_bytes(index, at);
}

static inline void best_scalar(const float *x, const int64_t *offset, const int32_t *place,
                               int taps, bool relu, float *y, uint8_t *index)
{
    float best = x[offset[0]];
    int32_t at = place[0];
    for (int k = 1; k < taps; k++) {
        float v = x[offset[k]];
        at = pool_wins(v, best) ? place[k] : at;
        best = pool_wins(v, best) ? v : best;
    }
    *y = relu && best < 0 ? 0 : best;
    if (index)
        *index = (uint8_t)at;
}

static inline void best_channels(const float *x, const int64_t *offset, const int32_t *place,
                                 const int taps, int64_t lanes, const bool relu, float *y,
                                 uint8_t *index)
{
    int64_t c = 0;
    for (; c + RUNGI_LANES <= lanes; c += RUNGI_LANES)
        best_vector(x + c, offset, place, taps, relu, y + c, index ? index + c : NULL);
    if (c < lanes && lanes >= RUNGI_LANES) { // the last vector again, moved to the end
        c = lanes - RUNGI_LANES;
        best_vector(x + c, offset, place, taps, relu, y + c, index ? index + c : NULL);
        return;
    }
    for (; c < lanes; c++)
        best_scalar(x + c, offset, place, taps, relu, y + c, index ? index + c : NULL);
}

static void pool_best(const float *x, int64_t step, int64_t count, const int64_t *offset,
                      const int32_t *place, int taps, int64_t lanes, bool relu, float *y,
                      uint8_t *index)
{
    for (int64_t j = 0; j < count; j++) {
        uint8_t *at = index ? index + j * lanes : NULL;
        if (taps == 4) // 2x2, the usual one
            best_channels(x + j * step, offset, place, 4, lanes, relu, y + j * lanes, at);
        else
            best_channels(x + j * step, offset, place, taps, lanes, relu, y + j * lanes, at);
    }
}

static inline rungi_vf given_vector(const float *gy, const uint8_t *index, int place)
{
    rungi_vi hit = rungi_load_bytes(index) == place - (rungi_vi){0};
    return (rungi_vf)((rungi_vi)rungi_load(gy) & hit);
}

static inline void give_channels(const float *gy, const uint8_t *index, int place, int64_t lanes,
                                 const bool add, float *gx)
{
    int64_t c = 0;
    for (; c + RUNGI_LANES <= lanes; c += RUNGI_LANES) {
        rungi_vf g = given_vector(gy + c, index + c, place);
        rungi_store(gx + c, add ? rungi_load(gx + c) + g : g);
    }
    for (; c < lanes; c++) {
        float g = index[c] == place ? gy[c] : 0;
        gx[c] = add ? gx[c] + g : g;
    }
}

static void pool_give(const float *gy, const uint8_t *index, int place, int64_t count,
                      int64_t lanes, int64_t step, bool add, float *gx)
{
    for (int64_t j = 0; j < count; j++, gy += lanes, index += lanes, gx += step)
        if (add)
            give_channels(gy, index, place, lanes, true, gx);
        else
            give_channels(gy, index, place, lanes, false, gx);
}

// ---- plain ------------------------------------------------------------------------------------

// A vector of windows side by side, all of whose columns lie in the image; x is the first window's
// first pixel.
static inline void best_windows(const float *x, int64_t width, int32_t rows, const int kernel_w,
                                const int64_t stride, int32_t place, bool relu, float *y,
                                uint8_t *index)
{
    rungi_vf best = rungi_splat(-INFINITY);
    rungi_vi at = place - (rungi_vi){0};
    for (int32_t r = 0; r < rows; r++)
        for (int q = 0; q < kernel_w; q++) {
            const float *tap = x + r * width + q;
            rungi_vf v = stride == 2 ? rungi_load_even(tap) : rungi_load(tap);
            rungi_vi wins = ~(v <= best) & (best == best);
            int32_t here = place + r * kernel_w + q;
            best = rungi_select(wins, v, best);
            at = (wins & here) | (~wins & at);
        }
    rungi_store(y, relu ? rungi_relu(best) : best);
    if (index)
        rungi_store_bytes(index, at);
}

static inline void best_window(const float *x, int64_t width, int32_t rows, int32_t cols,
                               int kernel_w, int32_t place, bool relu, float *y, uint8_t *index)
{
    float best = *x;
    int32_t at = place;
    for (int32_t r = 0; r < rows; r++)
        for (int32_t q = 0; q < cols; q++) {
            float v = x[r * width + q];
            at = pool_wins(v, best) ? place + r * kernel_w + q : at;
            best = pool_wins(v, best) ? v : best;
        }
    *y = relu && best < 0 ? 0 : best;
    if (index)
        *index = (uint8_t)at;
}

static void pool_best_row(const float *x, const rungi_pool_windows *w, int64_t row, bool relu,
                          float *y, uint8_t *index)
{
    const rungi_pool_axis *cols = &w->cols;
    int64_t width = cols->in, stride = cols->stride;
    int32_t rows = w->rows.end[row] - w->rows.begin[row], kernel_w = cols->kernel;
    int32_t first = w->rows.skip[row] * kernel_w;
    const float *top = x + w->rows.begin[row] * width;
    for (int64_t j = 0; j < cols->out;) {
        j = rungi_pool_at(w, row, j);
        const float *from = top + cols->begin[j];
        uint8_t *at = index ? index + j : NULL;
        bool whole = rungi_pool_whole(w, row, j);
        if (whole && stride == 2 && kernel_w == 2)
            best_windows(from, width, rows, 2, 2, first, relu, y + j, at);
        else if (whole && stride == 2 && kernel_w == 3)
            best_windows(from, width, rows, 3, 2, first, relu, y + j, at);
        else if (whole && stride == 2)
            best_windows(from, width, rows, kernel_w, 2, first, relu, y + j, at);
        else if (whole)
            best_windows(from, width, rows, kernel_w, 1, first, relu, y + j, at);
        else
            best_window(from, width, rows, cols->end[j] - cols->begin[j], kernel_w,
                        first + cols->skip[j], relu, y + j, at);
        j += whole ? RUNGI_LANES : 1;
    }
}

#define MAX_POOL_LOOPS                                                  \
    {                                                                   \
        .best = pool_best, .give = pool_give, .best_row = pool_best_row \
    }
