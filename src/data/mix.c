// SPDX-License-Identifier: Apache-2.0
#include "data/mix.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "data/sample.h"

// ---- what is drawn

static double gamma_number(const rung_random *random, double alpha, uint64_t *index)
{
    double d = alpha - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = rung_random_normal(random, (*index)++), v = 1 + c * x;
        if (v <= 0)
            continue;
        v = v * v * v;
        double u = rung_random_uniform(random, (*index)++);
        if (u > 0 && log(u) < 0.5 * x * x + d - d * v + d * log(v))
            return d * v;
    }
}

double rungi_beta(const rung_random *random, double alpha, uint64_t *index)
{
    if (alpha >= 1) {
        double a = gamma_number(random, alpha, index), b = gamma_number(random, alpha, index);
        return a / (a + b);
    }
    for (;;) {
        double u = rung_random_uniform(random, (*index)++);
        double v = rung_random_uniform(random, (*index)++);
        double x = pow(u, 1 / alpha), y = pow(v, 1 / alpha);
        if (x + y > 1 || u == 0 || v == 0)
            continue;
        if (x + y > 0)
            return x / (x + y);
        // Both are too small for a double: the same with logarithms.
        double a = log(u) / alpha, b = log(v) / alpha, top = a > b ? a : b;
        return exp(a - top - log(exp(a - top) + exp(b - top)));
    }
}

static void choose_box(rungi_mix_draw *draw, const rung_random *random, uint64_t *index, int height,
                       int width)
{
    int x = (int)rung_random_below(random, width, index);
    int y = (int)rung_random_below(random, height, index);
    double r = 0.5 * sqrt(1 - draw->lambda);
    int half_width = (int)(r * width), half_height = (int)(r * height);
    draw->x0 = x > half_width ? x - half_width : 0;
    draw->y0 = y > half_height ? y - half_height : 0;
    draw->x1 = x + half_width < width ? x + half_width : width;
    draw->y1 = y + half_height < height ? y + half_height : height;
    double area = (double)(draw->x1 - draw->x0) * (draw->y1 - draw->y0);
    draw->lambda = 1 - area / ((double)width * height);
}

rungi_mix_draw rungi_mix_choose(const rung_mix *mix, const rung_random *random, int height,
                                int width)
{
    rung_random own = rungi_random_stream(random, 1); // others are a collate's of one's own
    rungi_mix_draw draw = {.lambda = 1};
    uint64_t index = 1;
    bool both = mix->mixup_alpha > 0 && mix->cutmix_alpha > 0;
    bool second = both && rung_random_uniform(&own, 0) >= 0.5;
    draw.mixup = mix->mixup_alpha > 0 && !second;
    draw.cutmix = mix->cutmix_alpha > 0 && !draw.mixup;
    if (!draw.mixup && !draw.cutmix)
        return draw;
    draw.lambda = rungi_beta(&own, draw.mixup ? mix->mixup_alpha : mix->cutmix_alpha, &index);
    if (draw.cutmix)
        choose_box(&draw, &own, &index, height, width);
    return draw;
}

// ---- what is done

static void mix_image(const rungi_mix_draw *draw, float *x, const float *other,
                      const int64_t shape[3])
{
    int64_t height = shape[1], width = shape[2], all = shape[0] * height * width;
    float own_share = (float)draw->lambda, other_share = (float)(1 - draw->lambda);
    if (draw->mixup) {
        for (int64_t i = 0; i < all; i++)
            x[i] = other[i] * other_share + x[i] * own_share;
        return;
    }
    size_t row = (size_t)(draw->x1 - draw->x0) * sizeof *x;
    for (int64_t c = 0; c < shape[0] && row > 0; c++)
        for (int64_t y = draw->y0; y < draw->y1; y++) {
            int64_t at = (c * height + y) * width + draw->x0;
            memcpy(x + at, other + at, row);
        }
}

rung_status rungi_mix_apply(const rungi_mix_draw *draw, float *images, int64_t count,
                            const int64_t shape[3], const int64_t *labels, int classes,
                            float *targets, float *spare)
{
    int64_t size = shape[0] * shape[1] * shape[2];
    float own_share = (float)draw->lambda, other_share = (float)(1 - draw->lambda);
    bool mixes = draw->mixup || draw->cutmix;
    memset(targets, 0, (size_t)(count * classes) * sizeof *targets);
    for (int64_t i = 0; i < count; i++) {
        RUNG_CHECK(labels[i] >= 0 && labels[i] < classes, RUNG_DATA,
                   "label %" PRId64 " of sample %" PRId64
                   " in the batch is out of range for %d classes",
                   labels[i], i, classes);
        targets[i * classes + labels[i]] += mixes ? own_share : 1;
    }
    if (!mixes || count == 0)
        return RUNG_OK;
    for (int64_t i = 0; i < count; i++)
        targets[i * classes + labels[i ? i - 1 : count - 1]] += other_share;
    memcpy(spare, images + (count - 1) * size, (size_t)size * sizeof *images);
    for (int64_t i = count - 1; i >= 0; i--)
        mix_image(draw, images + i * size, i ? images + (i - 1) * size : spare, shape);
    return RUNG_OK;
}
