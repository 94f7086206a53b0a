// SPDX-License-Identifier: Apache-2.0
// Weighted draws, with replacement and without.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/philox.h"
#include "rung/data.h"

typedef struct weighted {
    rung_sampler sampler;
    uint64_t seed;
    int64_t samples;
    bool replacement;
    double *weights; // with replacement: their sums up to each
} weighted;

static void destroy(rung_sampler *sampler)
{
    weighted *w = (weighted *)sampler;
    free(w->weights);
    free(w);
}

// The first sample whose sum is above `at`.
static int64_t find(const weighted *w, double at)
{
    int64_t low = 0, high = w->samples - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (w->weights[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    // Rounding may lead past the last sample that has a weight.
    while (low > 0 && w->weights[low] == w->weights[low - 1])
        low--;
    return low;
}

static rung_status draw_again(const weighted *w, const rungi_random *random, rung_draw *draws)
{
    int64_t *times = calloc((size_t)w->samples, sizeof *times);
    RUNG_CHECK(times, RUNG_NO_MEMORY, "no memory to draw from %" PRId64 " samples", w->samples);
    for (int64_t i = 0; i < w->sampler.count; i++) {
        double unit = rungi_unit_f64(rungi_random_u64(random, (uint64_t)i));
        int64_t sample = find(w, unit * w->weights[w->samples - 1]);
        draws[i] = (rung_draw){sample, times[sample]++};
    }
    free(times);
    return RUNG_OK;
}

typedef struct arrival {
    double time;
    int64_t sample;
} arrival;

static int by_time(const void *a, const void *b)
{
    const arrival *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->sample < y->sample ? -1 : x->sample > y->sample;
}

// A race: sample i arrives after an exponential time of rate w[i]; the order of arrival is that of
// drawing one by one from those that are left (Efraimidis and Spirakis, 2006).
static rung_status draw_once(const weighted *w, const rungi_random *random, rung_draw *draws)
{
    arrival *arrivals = malloc((size_t)w->samples * sizeof *arrivals);
    int64_t running = 0;
    RUNG_CHECK(arrivals, RUNG_NO_MEMORY, "no memory to draw from %" PRId64 " samples", w->samples);
    for (int64_t i = 0; i < w->samples; i++) {
        double unit = 1 - rungi_unit_f64(rungi_random_u64(random, (uint64_t)i)); // (0, 1]
        if (w->weights[i] > 0)
            arrivals[running++] = (arrival){-log(unit) / w->weights[i], i};
    }
    qsort(arrivals, (size_t)running, sizeof *arrivals, by_time);
    for (int64_t i = 0; i < w->sampler.count; i++)
        draws[i] = (rung_draw){arrivals[i].sample, 0};
    free(arrivals);
    return RUNG_OK;
}

static rung_status begin(void *self, int64_t epoch, void **order_out)
{
    const weighted *w = self;
    rungi_random random = rungi_random_make(w->seed, RUNGI_PURPOSE_SHUFFLE, (uint64_t)epoch, 1, 0);
    rung_draw *draws = malloc((size_t)w->sampler.count * sizeof *draws);
    RUNG_CHECK(draws, RUNG_NO_MEMORY, "no memory for %" PRId64 " draws", w->sampler.count);
    rung_status status =
        w->replacement ? draw_again(w, &random, draws) : draw_once(w, &random, draws);
    if (status != RUNG_OK)
        free(draws);
    else
        *order_out = draws;
    return status;
}

static void end(void *self, void *order)
{
    (void)self;
    free(order);
}

static void at(void *self, const void *order, int64_t position, rung_draw *draw_out)
{
    (void)self;
    *draw_out = ((const rung_draw *)order)[position];
}

// Copies the weights; with replacement adds them up.
static rung_status take_weights(weighted *w, const double *weights)
{
    double sum = 0;
    int64_t positive = 0;
    for (int64_t i = 0; i < w->samples; i++) {
        RUNG_CHECK(isfinite(weights[i]) && weights[i] >= 0, RUNG_DATA,
                   "weighted sampler: the weight of sample %" PRId64
                   " is %g: weights are 0 or more",
                   i, weights[i]);
        sum += weights[i];
        positive += weights[i] > 0;
        w->weights[i] = w->replacement ? sum : weights[i];
    }
    RUNG_CHECK(sum > 0 && isfinite(sum), RUNG_DATA, "weighted sampler: the weights add up to %g",
               sum);
    RUNG_CHECK(w->replacement || positive >= w->sampler.count, RUNG_DATA,
               "weighted sampler: %" PRId64 " draws without replacement, but only %" PRId64
               " samples have a weight",
               w->sampler.count, positive);
    return RUNG_OK;
}

rung_status rung_sampler_weighted(const double *weights, int64_t count, int64_t draws,
                                  bool replacement, uint64_t seed, rung_sampler **sampler_out)
{
    RUNG_CHECK(count > 0 && draws > 0, RUNG_DATA,
               "weighted sampler: %" PRId64 " draws from %" PRId64 " samples", draws, count);
    weighted *w = calloc(1, sizeof *w);
    RUNG_CHECK(w, RUNG_NO_MEMORY, "no memory for a sampler");
    w->sampler = (rung_sampler){.name = "weighted",
                                .count = draws,
                                .self = w,
                                .begin = begin,
                                .end = end,
                                .at = at,
                                .destroy = destroy};
    w->seed = seed;
    w->samples = count;
    w->replacement = replacement;
    w->weights = malloc((size_t)count * sizeof *w->weights);
    rung_status status =
        w->weights ? take_weights(w, weights)
                   : RUNG_FAIL(RUNG_NO_MEMORY, "no memory for %" PRId64 " weights", count);
    if (status != RUNG_OK)
        destroy(&w->sampler);
    else
        *sampler_out = &w->sampler;
    return status;
}
