// SPDX-License-Identifier: Apache-2.0
// Samplers that change another's number of positions, or group samples by length.
#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/philox.h"
#include "rung/data.h"

// ---- a multiple of the ranks

typedef struct evened {
    rung_sampler sampler;
    const rung_sampler *inner;
} evened;

static rung_status begin_inner(void *self, int64_t epoch, void **order_out)
{
    const rung_sampler *inner = ((evened *)self)->inner;
    return inner->begin(inner->self, epoch, order_out);
}

static void end_inner(void *self, void *order)
{
    const rung_sampler *inner = ((evened *)self)->inner;
    inner->end(inner->self, order);
}

// Positions past the end begin again: the same samples, as another occurrence of each.
static void evened_at(void *self, const void *order, int64_t position, rung_draw *draw_out)
{
    const rung_sampler *inner = ((evened *)self)->inner;
    inner->at(inner->self, order, position % inner->count, draw_out);
    draw_out->occurrence += position / inner->count;
}

static void free_sampler(rung_sampler *sampler)
{
    free(sampler);
}

rung_status rung_sampler_even(const rung_sampler *sampler, int64_t multiple, bool drop,
                              rung_sampler **sampler_out)
{
    int64_t rest = multiple > 0 ? sampler->count % multiple : 0;
    int64_t count = sampler->count + (rest == 0 ? 0 : drop ? -rest : multiple - rest);
    RUNG_CHECK(multiple > 0, RUNG_INVALID, "even sampler: a multiple of %" PRId64, multiple);
    RUNG_CHECK(count > 0, RUNG_DATA,
               "even sampler: dropping leaves nothing of %" PRId64 " samples for %" PRId64 " ranks",
               sampler->count, multiple);
    evened *e = calloc(1, sizeof *e);
    RUNG_CHECK(e, RUNG_NO_MEMORY, "no memory for a sampler");
    e->inner = sampler;
    e->sampler = (rung_sampler){.name = "even",
                                .count = count,
                                .self = e,
                                .begin = sampler->begin ? begin_inner : NULL,
                                .end = sampler->end ? end_inner : NULL,
                                .at = evened_at,
                                .destroy = free_sampler};
    *sampler_out = &e->sampler;
    return RUNG_OK;
}

// ---- batches of equal length

enum { POOL_BATCHES = 100 }; // samples of so many batches are sorted at a time

typedef struct by_length {
    rung_sampler sampler;
    uint64_t seed;
    int64_t batch;
    bool shuffle;
    int64_t *lengths;
} by_length;

typedef struct entry {
    int64_t length, sample;
    int64_t place; // before sorting: keeps it stable
} entry;

static int shorter(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static void destroy_by_length(rung_sampler *sampler)
{
    free(((by_length *)sampler)->lengths);
    free(sampler);
}

static void swap_batches(entry *entries, int64_t a, int64_t b, int64_t batch)
{
    for (int64_t i = 0; i < batch && a != b; i++) {
        entry kept = entries[a * batch + i];
        entries[a * batch + i] = entries[b * batch + i];
        entries[b * batch + i] = kept;
    }
}

static rung_status begin_by_length(void *self, int64_t epoch, void **order_out)
{
    const by_length *l = self;
    int64_t count = l->sampler.count, whole = count / l->batch, pool = POOL_BATCHES * l->batch;
    entry *entries = malloc((size_t)count * sizeof *entries);
    RUNG_CHECK(entries, RUNG_NO_MEMORY, "no memory for the order of %" PRId64 " samples", count);
    rungi_random random = rungi_random_make(l->seed, RUNGI_PURPOSE_SHUFFLE, (uint64_t)epoch, 2, 0);
    uint64_t index = 0;
    for (int64_t i = 0; i < count; i++)
        entries[i] = (entry){l->lengths[i], i, 0};
    for (int64_t i = count - 1; i > 0 && l->shuffle; i--) {
        int64_t other = (int64_t)rungi_random_below(&random, (uint64_t)i + 1, &index);
        entry kept = entries[i];
        entries[i] = entries[other];
        entries[other] = kept;
    }
    for (int64_t i = 0; i < count; i++)
        entries[i].place = i;
    // Without shuffling all is one pool. The short last batch stays last.
    int64_t step = l->shuffle ? pool : count;
    for (int64_t i = 0; i < count; i += step)
        qsort(entries + i, (size_t)(i + step < count ? step : count - i), sizeof *entries, shorter);
    for (int64_t i = whole - 1; i > 0 && l->shuffle; i--)
        swap_batches(entries, i, (int64_t)rungi_random_below(&random, (uint64_t)i + 1, &index),
                     l->batch);
    *order_out = entries;
    return RUNG_OK;
}

static void end_by_length(void *self, void *order)
{
    (void)self;
    free(order);
}

static void by_length_at(void *self, const void *order, int64_t position, rung_draw *draw_out)
{
    (void)self;
    *draw_out = (rung_draw){((const entry *)order)[position].sample, 0};
}

rung_status rung_sampler_by_length(const int64_t *lengths, int64_t count, int64_t batch,
                                   bool shuffle, uint64_t seed, rung_sampler **sampler_out)
{
    RUNG_CHECK(count > 0 && batch > 0 && batch < INT64_MAX / POOL_BATCHES, RUNG_DATA,
               "by_length sampler: %" PRId64 " samples in batches of %" PRId64, count, batch);
    by_length *l = calloc(1, sizeof *l);
    RUNG_CHECK(l, RUNG_NO_MEMORY, "no memory for a sampler");
    l->lengths = malloc((size_t)count * sizeof *l->lengths);
    if (!l->lengths) {
        free(l);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for %" PRId64 " lengths", count);
    }
    for (int64_t i = 0; i < count; i++)
        l->lengths[i] = lengths[i];
    l->seed = seed;
    l->batch = batch;
    l->shuffle = shuffle;
    l->sampler = (rung_sampler){.name = "by_length",
                                .count = count,
                                .self = l,
                                .begin = begin_by_length,
                                .end = end_by_length,
                                .at = by_length_at,
                                .destroy = destroy_by_length};
    *sampler_out = &l->sampler;
    return RUNG_OK;
}
