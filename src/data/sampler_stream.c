// SPDX-License-Identifier: Apache-2.0
// The order of archives that are read as streams: what a shuffle buffer would give, worked out on
// the samples' numbers. So it is known before anything is read, any place of it can be returned to,
// and it depends neither on how many workers read nor on how fast.
//
// The archives of a rank, in a random order, are dealt to lanes that are read in turn, a sample of
// each; of a buffer filled from there a random one comes next, and its place is filled again.
#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/philox.h"
#include "data/tar_stream.h"
#include "rung/data.h"

enum { LANES = 8, BUFFER = 1000 };

typedef struct stream {
    rung_sampler sampler; // first
    const rung_source *source;
    rung_stream_options o;
    bool *keep; // by sample; NULL: all
} stream;

// Where an epoch's reading stands.
typedef struct dealing {
    const stream *s;
    int *archives; // of this rank, in the epoch's order
    int count, dealt, lanes, turn;
    int64_t at[RUNG_STREAM_LANES], end[RUNG_STREAM_LANES];
} dealing;

static bool kept(const stream *s, int64_t sample)
{
    return !s->keep || s->keep[sample];
}

// The next sample of a lane; false when it has none and there is no archive left for it.
static bool next_of_lane(dealing *d, int lane, int64_t *sample)
{
    for (;;) {
        while (d->at[lane] < d->end[lane]) {
            *sample = d->at[lane]++;
            if (kept(d->s, *sample))
                return true;
        }
        if (d->dealt == d->count)
            return false;
        int archive = d->archives[d->dealt++];
        d->at[lane] = rungi_source_stream_begin(d->s->source, archive);
        d->end[lane] = rungi_source_stream_begin(d->s->source, archive + 1);
    }
}

// The next sample of all lanes, in turn.
static bool deal(dealing *d, int64_t *sample)
{
    for (int tried = 0; tried < d->lanes; tried++) {
        int lane = d->turn;
        d->turn = (d->turn + 1) % d->lanes;
        if (next_of_lane(d, lane, sample))
            return true;
    }
    return false;
}

static void shuffle_archives(dealing *d, const rungi_random *random, uint64_t *index)
{
    for (int i = d->count - 1; i > 0; i--) {
        int64_t other = (int64_t)rungi_random_below(random, (uint64_t)i + 1, index);
        int moved = d->archives[i];
        d->archives[i] = d->archives[other];
        d->archives[other] = moved;
    }
}

static void fill(dealing *d, int64_t *buffer, int64_t size, const rungi_random *random,
                 uint64_t *index, int64_t *order)
{
    int64_t filled = 0, count = 0, sample;
    while (filled < size && deal(d, &sample))
        buffer[filled++] = sample;
    while (filled > 0) {
        int64_t chosen =
            size > 1 ? (int64_t)rungi_random_below(random, (uint64_t)filled, index) : 0;
        order[count++] = buffer[chosen];
        if (deal(d, &sample))
            buffer[chosen] = sample;
        else
            buffer[chosen] = buffer[--filled];
    }
}

static rung_status begin(void *self, int64_t epoch, void **order_out)
{
    const stream *s = self;
    int archives = rungi_source_stream_archives(s->source);
    int64_t size = s->o.shuffle ? s->o.buffer : 1;
    rungi_random random = rungi_random_make(s->o.seed, RUNGI_PURPOSE_SHUFFLE, (uint64_t)epoch, 3,
                                            (uint64_t)s->o.rank);
    uint64_t index = 0;
    dealing d = {.s = s, .lanes = s->o.shuffle ? s->o.lanes : 1};
    int64_t *order = malloc((size_t)s->sampler.count * sizeof *order);
    int64_t *buffer = malloc((size_t)size * sizeof *buffer);
    d.archives = malloc((size_t)archives * sizeof *d.archives);
    rung_status status = RUNG_OK;
    if (!order || !buffer || !d.archives) {
        status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for the order of %" PRId64 " samples",
                           s->sampler.count);
    } else {
        for (int i = s->o.rank; i < archives; i += s->o.ranks)
            d.archives[d.count++] = i;
        if (s->o.shuffle)
            shuffle_archives(&d, &random, &index);
        fill(&d, buffer, size, &random, &index, order);
        status = rungi_source_stream_expect(s->source, epoch, order, s->sampler.count);
    }
    free(buffer);
    free(d.archives);
    if (status != RUNG_OK)
        free(order);
    else
        *order_out = order;
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
    *draw_out = (rung_draw){((const int64_t *)order)[position], 0};
}

static void destroy(rung_sampler *sampler)
{
    free(((stream *)sampler)->keep);
    free(sampler);
}

static rung_status check(const rung_source *source, const rung_stream_options *o, int archives)
{
    RUNG_CHECK(archives > 0, RUNG_INVALID,
               "stream sampler: the source %s does not read archives as streams",
               source->name ? source->name : "");
    RUNG_CHECK(o->buffer >= 0 && o->buffer <= INT32_MAX && o->lanes >= 0 &&
                   o->lanes <= RUNG_STREAM_LANES,
               RUNG_INVALID, "stream sampler: a buffer of %" PRId64 " and %d lanes (at most %d)",
               o->buffer, o->lanes, RUNG_STREAM_LANES);
    RUNG_CHECK(o->ranks >= 0 && o->rank >= 0 && o->rank < (o->ranks ? o->ranks : 1), RUNG_INVALID,
               "stream sampler: rank %d of %d: no such rank", o->rank, o->ranks);
    RUNG_CHECK(o->ranks <= archives, RUNG_DATA,
               "%d archives for %d ranks: each rank reads archives of its own: split them into "
               "more (rung convert --to tar --shard N)",
               archives, o->ranks);
    return RUNG_OK;
}

static int64_t count_samples(const stream *s, int archives)
{
    int64_t count = 0;
    for (int i = s->o.rank; i < archives; i += s->o.ranks)
        for (int64_t k = rungi_source_stream_begin(s->source, i);
             k < rungi_source_stream_begin(s->source, i + 1); k++)
            count += kept(s, k);
    return count;
}

rung_status rung_sampler_stream(const rung_source *source, const rung_stream_options *options,
                                rung_sampler **sampler_out)
{
    int archives = rungi_source_stream_archives(source);
    RUNG_TRY(check(source, options, archives));
    stream *s = calloc(1, sizeof *s);
    RUNG_CHECK(s, RUNG_NO_MEMORY, "no memory for a sampler");
    s->sampler = (rung_sampler){
        .name = "stream", .self = s, .begin = begin, .end = end, .at = at, .destroy = destroy};
    s->source = source;
    s->o = *options;
    s->o.buffer = s->o.buffer ? s->o.buffer : BUFFER;
    s->o.lanes = s->o.lanes ? s->o.lanes : LANES;
    s->o.ranks = s->o.ranks ? s->o.ranks : 1;
    rung_status status = RUNG_OK;
    if (options->keep) {
        s->keep = malloc((size_t)source->count * sizeof *s->keep);
        if (!s->keep)
            status = RUNG_FAIL(RUNG_NO_MEMORY, "no memory for a sampler");
        for (int64_t i = 0; s->keep && i < source->count; i++)
            s->keep[i] = options->keep[i];
    }
    if (status == RUNG_OK)
        s->sampler.count = count_samples(s, archives);
    if (status == RUNG_OK && s->sampler.count == 0)
        status = RUNG_FAIL(RUNG_DATA, "the archives of rank %d of %d hold no samples", s->o.rank,
                           s->o.ranks);
    if (status == RUNG_OK)
        *sampler_out = &s->sampler;
    else
        destroy(&s->sampler);
    return status;
}
