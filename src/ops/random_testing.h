// SPDX-License-Identifier: Apache-2.0
// For tests: cases of operators with shapes drawn at random, the same ones each time. Case tables
// have the corners that somebody thought of.
#ifndef RUNGI_OPS_RANDOM_TESTING_H
#define RUNGI_OPS_RANDOM_TESTING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/philox.h"
#include "ops/batch_norm/batch_norm.h"
#include "ops/conv2d/conv2d.h"
#include "ops/pool_window.h"

typedef struct random_case {
    rungi_case c;
    char name[128];
    rungi_conv2d_attr conv;
    rungi_pool_attr pool;
    rungi_batch_norm_attr norm;
    int64_t work; // multiplications of a pass, or what is like them
    // Draws so far.
    rungi_random random;
    uint64_t at;
} random_case;

// How many to look at: $RUNG_RANDOM_CASES, else `usual`.
static inline int random_cases(int usual)
{
    const char *text = getenv("RUNG_RANDOM_CASES");
    return text ? atoi(text) : usual;
}

// From `least` to `most`.
static inline int64_t random_between(random_case *r, int64_t least, int64_t most)
{
    return least + (int64_t)rungi_random_below(&r->random, (uint64_t)(most - least + 1), &r->at);
}

// From 1 to `most`; small ones and multiples of vectors come often.
static inline int64_t random_size(random_case *r, int64_t most)
{
    switch (random_between(r, 0, 3)) {
    case 0:
        return random_between(r, 1, 8);
    case 1:
        return random_between(r, 1, most / 8) * 8;
    default:
        return random_between(r, 1, most);
    }
}

// ---- each draws a case; false: it is none -------------------------------------------------------

// Rows or columns that a window leaves of an image; 0: none.
static inline int64_t random_left(int64_t in, int64_t kernel, int stride, int pad)
{
    return in + 2 * pad < kernel ? 0 : (in + 2 * pad - kernel) / stride + 1;
}

// winograd: 3x3, stride 1, padding up to 1.
static inline bool random_window(random_case *r, bool winograd)
{
    int64_t n = random_between(r, 1, 8), in = random_size(r, 160), out = random_size(r, 160);
    int64_t size[2], kernel[2], y[2], pad = random_between(r, 0, 1);
    r->conv = (rungi_conv2d_attr){{1, 1}, {0, 0}, {1, 1}, 1};
    for (int i = 0; i < 2; i++) {
        size[i] = random_between(r, 1, 40);
        kernel[i] = winograd ? 3 : random_between(r, 1, 7);
        r->conv.stride[i] = winograd ? 1 : (int)random_between(r, 1, 4);
        r->conv.pad[i] = (int)(winograd ? pad : random_between(r, 0, kernel[i] - 1));
        y[i] = random_left(size[i], kernel[i], r->conv.stride[i], r->conv.pad[i]);
    }
    r->c = (rungi_case){.in = {RUNGI_IN(n, in, size[0], size[1]),
                               RUNGI_IN(out, in, kernel[0], kernel[1]), RUNGI_IN(out)},
                        .n_in = 2 + (int)random_between(r, 0, 1),
                        .attr = &r->conv,
                        .tolerance = 3e-5};
    r->work = n * in * out * y[0] * y[1] * kernel[0] * kernel[1];
    snprintf(r->name, sizeof r->name, "%dx%dx%dx%d by %dx%dx%d, stride %dx%d, padding %dx%d",
             (int)n, (int)in, (int)size[0], (int)size[1], (int)out, (int)kernel[0], (int)kernel[1],
             r->conv.stride[0], r->conv.stride[1], r->conv.pad[0], r->conv.pad[1]);
    return r->work > 0;
}

static inline bool random_conv2d(random_case *r)
{
    return random_window(r, random_between(r, 0, 1));
}

static inline bool random_winograd(random_case *r)
{
    return random_window(r, true);
}

static inline bool random_linear(random_case *r)
{
    int64_t rows = random_size(r, 300), in = random_size(r, 700), out = random_size(r, 700);
    r->c = (rungi_case){.in = {RUNGI_IN(rows, in), RUNGI_IN(out, in), RUNGI_IN(out)},
                        .n_in = 2 + (int)random_between(r, 0, 1),
                        .tolerance = 3e-5};
    r->work = rows * in * out;
    snprintf(r->name, sizeof r->name, "%d rows, %d -> %d", (int)rows, (int)in, (int)out);
    return true;
}

static inline bool random_batch_norm(random_case *r)
{
    int64_t n = random_between(r, 1, 9), channels = random_size(r, 200);
    int64_t h = random_between(r, 1, 40), w = random_between(r, 1, 40);
    r->norm = (rungi_batch_norm_attr){1e-5, 0.1, false};
    r->c = (rungi_case){.in = {RUNGI_IN(n, channels, h, w), RUNGI_IN(channels), RUNGI_IN(channels)},
                        .n_in = (int)random_between(r, 1, 3),
                        .attr = &r->norm,
                        .tolerance = 2e-5};
    r->work = n * channels * h * w * 8;
    snprintf(r->name, sizeof r->name, "%dx%dx%dx%d", (int)n, (int)channels, (int)h, (int)w);
    // The variance of a few values may be next to nothing, and so may the largest of a few sums.
    return n * h * w >= 8 && channels > 2;
}

static inline bool random_pool(random_case *r, bool largest)
{
    int64_t n = random_between(r, 1, 6), channels = random_size(r, 100), size[2], left = 1;
    r->pool = (rungi_pool_attr){.ceil_mode = random_between(r, 0, 1),
                                .count_include_pad = random_between(r, 0, 1)};
    for (int i = 0; i < 2; i++) {
        size[i] = random_between(r, 1, 40);
        r->pool.kernel[i] = (int)random_between(r, 1, 5);
        r->pool.stride[i] = (int)random_between(r, 1, 5);
        r->pool.pad[i] = (int)random_between(r, 0, r->pool.kernel[i] / 2);
        left *= random_left(size[i], r->pool.kernel[i], 1, r->pool.pad[i]);
    }
    r->c = (rungi_case){.in = {{.shape = {4, {n, channels, size[0], size[1]}},
                                .fill = largest ? RUNGI_FILL_DISTINCT : RUNGI_FILL_NORMAL}},
                        .n_in = 1,
                        .attr = &r->pool};
    r->work = n * channels * size[0] * size[1] * r->pool.kernel[0] * r->pool.kernel[1];
    snprintf(r->name, sizeof r->name, "%dx%dx%dx%d by %dx%d, stride %dx%d, padding %dx%d%s", (int)n,
             (int)channels, (int)size[0], (int)size[1], r->pool.kernel[0], r->pool.kernel[1],
             r->pool.stride[0], r->pool.stride[1], r->pool.pad[0], r->pool.pad[1],
             r->pool.ceil_mode ? ", ceil_mode" : "");
    return left > 0;
}

static inline bool random_max_pool2d(random_case *r)
{
    return random_pool(r, true);
}

static inline bool random_avg_pool2d(random_case *r)
{
    return random_pool(r, false);
}

// Case `number` of an operator, with at most so much work. False: none is drawn of it. "winograd":
// a conv2d that it is for.
static inline bool random_case_of(const char *op, int number, int64_t most, random_case *r)
{
    static const struct {
        const char *name;
        bool (*draw)(random_case *r);
    } known[] = {{"conv2d", random_conv2d},         {"winograd", random_winograd},
                 {"linear", random_linear},         {"batch_norm", random_batch_norm},
                 {"max_pool2d", random_max_pool2d}, {"avg_pool2d", random_avg_pool2d}};
    size_t which = 0;
    while (which < RUNGI_COUNT(known) && strcmp(known[which].name, op) != 0)
        which++;
    if (which == RUNGI_COUNT(known))
        return false;
    r->random = rungi_random_make(7, RUNGI_PURPOSE_TEST, which, (uint64_t)number, 0);
    r->at = 0;
    while (!known[which].draw(r) || r->work > most)
        continue;
    r->c.name = r->name;
    return true;
}

#endif
