// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/philox.h"
#include "rung/data.h"

void rung_sampler_destroy(rung_sampler **sampler)
{
    if (!sampler || !*sampler)
        return;
    if ((*sampler)->destroy)
        (*sampler)->destroy(*sampler);
    *sampler = NULL;
}

typedef struct builtin {
    rung_sampler sampler;
    uint64_t seed;
    int64_t *list;        // of a subset: samples, else NULL
    int64_t *occurrences; // of a list with repetitions, else NULL
} builtin;

static void destroy(rung_sampler *sampler)
{
    builtin *b = (builtin *)sampler;
    free(b->list);
    free(b->occurrences);
    free(b);
}

static rung_status create(const char *name, int64_t count, uint64_t seed, builtin **out)
{
    RUNG_CHECK(count > 0, RUNG_DATA, "%s sampler: %" PRId64 " samples to order", name, count);
    builtin *b = calloc(1, sizeof *b);
    RUNG_CHECK(b, RUNG_NO_MEMORY, "no memory for a sampler");
    b->seed = seed;
    b->sampler.name = name;
    b->sampler.count = count;
    b->sampler.self = b;
    b->sampler.destroy = destroy;
    *out = b;
    return RUNG_OK;
}

// An order is a plain index array: of a million samples, 4 MB.
static bool is_wide(const builtin *b)
{
    return b->sampler.count > INT32_MAX;
}

// Uniform numbers below n from the 32-bit words of the generator in turn (Lemire's method, without
// bias): a quarter of the cost of a block for each.
typedef struct words {
    rungi_random random;
    rungi_philox4 block;
    uint64_t next;
} words;

static inline uint32_t word(words *w)
{
    if (w->next % 4 == 0)
        w->block = rungi_random_block(&w->random, w->next / 4);
    return w->block.v[w->next++ % 4];
}

static inline uint32_t below(words *w, uint32_t n)
{
    uint64_t product = (uint64_t)word(w) * n;
    if ((uint32_t)product < n) {
        uint32_t reject = -n % n;
        while ((uint32_t)product < reject)
            product = (uint64_t)word(w) * n;
    }
    return (uint32_t)(product >> 32);
}

// Partners are drawn some swaps ahead, so that the memory that they lie in is on its way.
static void shuffle_narrow(uint32_t *at, uint32_t count, rungi_random random)
{
    enum { AHEAD = 32 };
    words w = {.random = random};
    uint32_t partners[AHEAD];
    for (uint32_t i = 0; i < count; i++)
        at[i] = i;
    for (uint32_t i = count - 1; i > 0;) {
        uint32_t n = i < AHEAD ? i : AHEAD;
        for (uint32_t k = 0; k < n; k++) {
            partners[k] = below(&w, i - k + 1);
            __builtin_prefetch(&at[partners[k]], 1);
        }
        for (uint32_t k = 0; k < n; k++, i--) {
            uint32_t kept = at[i];
            at[i] = at[partners[k]];
            at[partners[k]] = kept;
        }
    }
}

static void shuffle_wide(uint64_t *at, uint64_t count, rungi_random random)
{
    uint64_t next = 0;
    for (uint64_t i = 0; i < count; i++)
        at[i] = i;
    for (uint64_t i = count - 1; i > 0; i--) {
        uint64_t j = rungi_random_below(&random, i + 1, &next), kept = at[i];
        at[i] = at[j];
        at[j] = kept;
    }
}

static rung_status shuffle(void *self, int64_t epoch, void **order_out)
{
    const builtin *b = self;
    uint64_t count = (uint64_t)b->sampler.count;
    size_t bytes = 0;
    RUNG_CHECK(rungi_size_mul(count, is_wide(b) ? 8 : 4, &bytes), RUNG_INVALID,
               "shuffling %" PRIu64 " samples needs more than memory can be", count);
    void *indices = malloc(bytes);
    RUNG_CHECK(indices, RUNG_NO_MEMORY,
               "no memory for the order of %" PRIu64 " samples (%zu bytes)", count, bytes);
    rungi_random random = rungi_random_make(b->seed, RUNGI_PURPOSE_SHUFFLE, (uint64_t)epoch, 0, 0);
    if (is_wide(b))
        shuffle_wide(indices, count, random);
    else
        shuffle_narrow(indices, (uint32_t)count, random);
    *order_out = indices;
    return RUNG_OK;
}

static void drop(void *self, void *order)
{
    (void)self;
    free(order);
}

static void look_up(void *self, const void *order, int64_t position, rung_draw *draw_out)
{
    const builtin *b = self;
    int64_t place = position;
    if (order && is_wide(b))
        place = (int64_t)((const uint64_t *)order)[position];
    else if (order)
        place = (int64_t)((const uint32_t *)order)[position];
    draw_out->sample = b->list ? b->list[place] : place;
    draw_out->occurrence = b->occurrences ? b->occurrences[place] : 0;
}

static void set_shuffle(builtin *b)
{
    b->sampler.begin = shuffle;
    b->sampler.end = drop;
}

rung_status rung_sampler_sequential(int64_t count, rung_sampler **sampler_out)
{
    builtin *b = NULL;
    RUNG_TRY(create("sequential", count, 0, &b));
    b->sampler.at = look_up;
    *sampler_out = &b->sampler;
    return RUNG_OK;
}

rung_status rung_sampler_random(int64_t count, uint64_t seed, rung_sampler **sampler_out)
{
    builtin *b = NULL;
    RUNG_TRY(create("random", count, seed, &b));
    b->sampler.at = look_up;
    set_shuffle(b);
    *sampler_out = &b->sampler;
    return RUNG_OK;
}

static int by_sample_then_place(const void *a_, const void *b_)
{
    const rung_draw *a = a_, *b = b_;
    if (a->sample != b->sample)
        return a->sample < b->sample ? -1 : 1;
    return a->occurrence < b->occurrence ? -1 : a->occurrence > b->occurrence;
}

// Numbers the occurrences of samples that stand in the list more than once.
static rung_status number_occurrences(builtin *b)
{
    size_t count = (size_t)b->sampler.count;
    bool repeated = false;
    rung_draw *draws = calloc(count, sizeof *draws);
    RUNG_CHECK(draws, RUNG_NO_MEMORY, "no memory for a list of %zu samples", count);
    for (size_t i = 0; i < count; i++)
        draws[i] = (rung_draw){b->list[i], (int64_t)i};
    qsort(draws, count, sizeof *draws, by_sample_then_place);
    for (size_t i = 1; i < count; i++)
        repeated |= draws[i].sample == draws[i - 1].sample;
    if (repeated)
        b->occurrences = calloc(count, sizeof *b->occurrences);
    if (b->occurrences)
        for (size_t i = 1; i < count; i++)
            if (draws[i].sample == draws[i - 1].sample)
                b->occurrences[draws[i].occurrence] = b->occurrences[draws[i - 1].occurrence] + 1;
    free(draws);
    RUNG_CHECK(!repeated || b->occurrences, RUNG_NO_MEMORY, "no memory for a list of %zu samples",
               count);
    return RUNG_OK;
}

rung_status rung_sampler_subset(const int64_t *samples, int64_t count, bool shuffled, uint64_t seed,
                                rung_sampler **sampler_out)
{
    rung_status status;
    builtin *b = NULL;
    RUNG_TRY(create("subset", count, seed, &b));
    b->sampler.at = look_up;
    if (shuffled)
        set_shuffle(b);
    b->list = calloc((size_t)count, sizeof *b->list);
    if (!b->list) {
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a list of %" PRId64 " samples", count);
        goto destroy_sampler;
    }
    memcpy(b->list, samples, (size_t)count * sizeof *samples);
    RUNG_TRY_GOTO(destroy_sampler, number_occurrences(b));
    *sampler_out = &b->sampler;
    return RUNG_OK;
destroy_sampler:
    destroy(&b->sampler);
    return status;
}
