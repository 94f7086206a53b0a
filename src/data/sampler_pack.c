// SPDX-License-Identifier: Apache-2.0
// The order of packs: groups of neighbouring samples in a random order, and the samples of some
// groups in a row shuffled among each other. What is read together lies together, and an epoch
// still has each sample once. Such an order is called quasi-random by FFCV (Leclerc et al., 2023).
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/philox.h"
#include "data/source_pack.h"
#include "rung/pack.h"

enum { GROUP_BYTES = 1 << 20, WINDOW = 64 };

typedef struct groups {
    rung_sampler sampler; // first
    uint64_t seed;
    int64_t group, window; // samples, groups
} groups;

static void swap(int64_t *order, int64_t i, int64_t j)
{
    int64_t kept = order[i];
    order[i] = order[j];
    order[j] = kept;
}

static void shuffle(int64_t *order, int64_t count, const rungi_random *random, uint64_t *next)
{
    for (int64_t i = count - 1; i > 0; i--)
        swap(order, i, (int64_t)rungi_random_below(random, (uint64_t)i + 1, next));
}

static rung_status begin(void *self, int64_t epoch, void **order_out)
{
    const groups *g = self;
    int64_t count = g->sampler.count, in_order = (count + g->group - 1) / g->group, filled = 0;
    rungi_random random =
        rungi_random_make(g->seed, RUNGI_PURPOSE_SHUFFLE, (uint64_t)epoch, UINT64_MAX, 0);
    uint64_t next = 0;
    int64_t *order = calloc((size_t)count, sizeof *order);
    int64_t *which = calloc((size_t)in_order, sizeof *which);
    if (!order || !which) {
        free(order);
        free(which);
        return RUNG_FAIL(RUNG_NO_MEMORY, "no memory for the order of %" PRId64 " samples", count);
    }
    for (int64_t i = 0; i < in_order; i++)
        which[i] = i;
    shuffle(which, in_order, &random, &next);
    for (int64_t w = 0; w < in_order; w += g->window) {
        int64_t first = filled;
        for (int64_t i = w; i < in_order && i < w + g->window; i++) {
            int64_t at = which[i] * g->group, end = at + g->group < count ? at + g->group : count;
            for (; at < end; at++)
                order[filled++] = at;
        }
        shuffle(order + first, filled - first, &random, &next);
    }
    free(which);
    *order_out = order;
    return RUNG_OK;
}

static void end(void *self, void *order)
{
    (void)self;
    free(order);
}

static void at(void *self, const void *order, int64_t position, rung_draw *draw_out)
{
    (void)self;
    *draw_out = (rung_draw){((const int64_t *)order)[position], 0};
}

static void destroy(rung_sampler *sampler)
{
    free(sampler);
}

rung_status rung_sampler_pack(const rung_source *source, int64_t group, int64_t window,
                              uint64_t seed, rung_sampler **sampler_out)
{
    RUNG_CHECK(rungi_source_is_pack(source), RUNG_INVALID,
               "pack sampler: the source is %s, not a "
               "pack",
               source && source->name ? source->name : "none");
    RUNG_CHECK(group >= 0 && window >= 0, RUNG_INVALID,
               "pack sampler: groups of %" PRId64 " bytes, %" PRId64 " at a time: must not be "
               "negative",
               group, window);
    groups *g = calloc(1, sizeof *g);
    RUNG_CHECK(g, RUNG_NO_MEMORY, "no memory for a sampler");
    int64_t samples = (group ? group : GROUP_BYTES) / (int64_t)rungi_source_pack_bytes(source);
    g->seed = seed;
    g->window = window ? window : WINDOW;
    g->window = g->window < source->count ? g->window : source->count;
    g->group = samples < 1 ? 1 : samples < source->count ? samples : source->count;
    g->sampler = (rung_sampler){.name = "pack",
                                .count = source->count,
                                .self = g,
                                .begin = begin,
                                .end = end,
                                .at = at,
                                .destroy = destroy};
    *sampler_out = &g->sampler;
    return RUNG_OK;
}
