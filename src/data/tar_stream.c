// SPDX-License-Identifier: Apache-2.0
#include "data/tar_stream.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "formats/forward.h"

enum {
    PASSES = 2,   // epochs that are under way at a time
    BEHIND = 512, // places before the first that was asked for that may still be: a worker may
                  // overtake another
    STALE = 4096, // places behind the last that was asked for, of what nobody will ask for: of
                  // another rank, or passed over by a seek
    SWEEP = 512,  // calls of fetch between two looks for that
};

// An archive of an epoch.
typedef struct shard {
    pthread_mutex_t lock;
    int64_t begin, end; // its samples
    rungi_forward *file;
    int64_t next;      // the sample that is read next
    rungi_block *kept; // by sample, from `begin` on; NULL: none yet
    rung_error error;  // why it cannot be read on
} shard;

// An epoch that is under way.
typedef struct pass {
    int64_t epoch;      // -1: none
    int users;          // calls of fetch
    int64_t *place;     // by sample: its place in the order, -1: never asked for; NULL: not known
    atomic_llong first; // the least place that is asked for
    atomic_llong last;  // the largest
    atomic_llong calls; // of fetch
    atomic_llong kept;  // bytes
    shard *shards;
} pass;

struct rungi_tar_streams {
    const rungi_picture_source *ps;
    int count;            // archives
    pthread_mutex_t lock; // of passes: epoch, users, place
    pthread_cond_t idle;  // a pass has lost its last user
    pass passes[PASSES];
};

// ---- passes

static void clear_shard(shard *s)
{
    rungi_forward_close(&s->file);
    for (int64_t k = 0; s->kept && k < s->end - s->begin; k++)
        free(s->kept[k].data);
    free(s->kept);
    s->kept = NULL;
    s->next = s->begin;
    s->error.status = RUNG_OK;
}

static void clear_pass(const rungi_tar_streams *t, pass *p)
{
    for (int i = 0; p->shards && i < t->count; i++)
        clear_shard(&p->shards[i]);
    free(p->place);
    p->place = NULL;
    p->epoch = -1;
    atomic_store(&p->first, INT64_MAX);
    atomic_store(&p->last, 0);
    atomic_store(&p->kept, 0);
}

// The pass of an epoch; the oldest makes room for a new one. `lock` is held.
static pass *find_pass(rungi_tar_streams *t, int64_t epoch)
{
    for (;;) {
        pass *oldest = NULL;
        for (int i = 0; i < PASSES; i++) {
            pass *p = &t->passes[i];
            if (p->epoch == epoch)
                return p;
            if (p->users == 0 && (!oldest || p->epoch < oldest->epoch))
                oldest = p;
        }
        if (oldest) {
            clear_pass(t, oldest);
            oldest->epoch = epoch;
            return oldest;
        }
        pthread_cond_wait(&t->idle, &t->lock); // all of them are being read from
    }
}

static pass *enter(rungi_tar_streams *t, int64_t epoch)
{
    pthread_mutex_lock(&t->lock);
    pass *p = find_pass(t, epoch);
    p->users++;
    pthread_mutex_unlock(&t->lock);
    return p;
}

static void leave(rungi_tar_streams *t, pass *p)
{
    pthread_mutex_lock(&t->lock);
    if (--p->users == 0)
        pthread_cond_broadcast(&t->idle);
    pthread_mutex_unlock(&t->lock);
}

rung_status rungi_tar_streams_expect(rungi_tar_streams *t, int64_t epoch, const int64_t *order,
                                     int64_t count)
{
    int64_t samples = t->ps->source.count;
    int64_t *place = malloc((size_t)samples * sizeof *place);
    RUNG_CHECK(place, RUNG_NO_MEMORY, "no memory for the order of %" PRId64 " samples", samples);
    for (int64_t i = 0; i < samples; i++)
        place[i] = -1;
    for (int64_t i = 0; i < count; i++)
        place[order[i]] = i;
    pthread_mutex_lock(&t->lock);
    pass *p = find_pass(t, epoch);
    if (p->users > 0) { // in use without an order: it stays so
        free(place);
    } else {
        clear_pass(t, p);
        p->epoch = epoch;
        p->place = place;
    }
    pthread_mutex_unlock(&t->lock);
    return RUNG_OK;
}

// ---- an archive

static int64_t size_of(const rungi_tar_streams *t, int64_t sample)
{
    return t->ps->places.data[sample].size;
}

// Reads the sample that comes next.
static rung_status read_next(const rungi_tar_streams *t, shard *s, rungi_block *block)
{
    const rungi_picture_place *place = &t->ps->places.data[s->next];
    const char *path = t->ps->archives.data[place->archive].path;
    size_t size = (size_t)place->size;
    RUNG_CHECK(place->size <= RUNGI_PICTURE_BYTES_MAX, RUNG_UNSUPPORTED,
               "%s: a picture of %" PRId64 " bytes, at most %d are read", path, place->size,
               RUNGI_PICTURE_BYTES_MAX);
    if (!s->file)
        RUNG_TRY(rungi_forward_open(path, &s->file));
    RUNG_CHECK(rungi_block_reserve(block, size + RUNGI_PIXELS_SLACK), RUNG_NO_MEMORY,
               "%s: no memory to read its %zu bytes", path, size);
    RUNG_TRY(rungi_forward_read(s->file, (uint64_t)place->begin, block->data, size));
    memset(block->data + size, 0, RUNGI_PIXELS_SLACK);
    return RUNG_OK;
}

// Will the sample that comes next be asked for?
static bool is_wanted(const rungi_tar_streams *t, pass *p, const shard *s)
{
    if (s->kept && s->kept[s->next - s->begin].data)
        return false; // it lies there
    if (!p->place)
        return atomic_load(&p->kept) + size_of(t, s->next) <= RUNGI_STREAM_KEPT_MAX;
    return p->place[s->next] >= 0 && p->place[s->next] >= atomic_load(&p->first);
}

static rung_status keep_next(const rungi_tar_streams *t, pass *p, shard *s)
{
    if (!s->kept)
        s->kept = calloc((size_t)(s->end - s->begin), sizeof *s->kept);
    RUNG_CHECK(s->kept, RUNG_NO_MEMORY, "no memory for the samples of an archive");
    RUNG_TRY(read_next(t, s, &s->kept[s->next - s->begin]));
    atomic_fetch_add(&p->kept, size_of(t, s->next));
    return RUNG_OK;
}

// A sample that has been read and kept goes to who asks for it.
static bool take_kept(const rungi_tar_streams *t, pass *p, shard *s, int64_t index,
                      rungi_block *block)
{
    rungi_block *kept = s->kept ? &s->kept[index - s->begin] : NULL;
    if (!kept || !kept->data)
        return false;
    free(block->data);
    *block = *kept;
    *kept = (rungi_block){0};
    atomic_fetch_sub(&p->kept, size_of(t, index));
    return true;
}

// Reads on to a sample. The shard's lock is held.
static rung_status read_to(const rungi_tar_streams *t, pass *p, shard *s, const rung_sample *sample,
                           rungi_block *block)
{
    int64_t index = sample->index;
    if (take_kept(t, p, s, index, block))
        return RUNG_OK;
    if (index < s->next) { // passed over: from the beginning again
        rungi_forward_close(&s->file);
        s->next = s->begin;
        s->error.status = RUNG_OK;
    }
    if (s->error.status != RUNG_OK)
        return rungi_fail_adopt(&s->error);
    rung_status status = RUNG_OK;
    for (; status == RUNG_OK && s->next <= index; s->next += status == RUNG_OK) {
        if (rung_sample_cancelled(sample))
            return RUNG_FAIL(RUNG_CANCELLED, "reading was stopped");
        if (s->next == index)
            status = read_next(t, s, block);
        else if (is_wanted(t, p, s))
            status = keep_next(t, p, s);
    }
    if (status != RUNG_OK)
        s->error = *rung_error_last();
    if (status != RUNG_OK || s->next == s->end)
        rungi_forward_close(&s->file);
    return status;
}

static void note_place(pass *p, int64_t index)
{
    if (!p->place || p->place[index] < 0)
        return;
    long long place = p->place[index], first = place > BEHIND ? place - BEHIND : 0,
              seen = atomic_load(&p->first);
    while (first < seen && !atomic_compare_exchange_weak(&p->first, &seen, first)) {
    }
    seen = atomic_load(&p->last);
    while (place > seen && !atomic_compare_exchange_weak(&p->last, &seen, place)) {
    }
}

// Gives up what was kept and is stale. Should it be asked for all the same, its archive is begun
// again.
static void sweep(const rungi_tar_streams *t, pass *p)
{
    if (!p->place || atomic_fetch_add(&p->calls, 1) % SWEEP != SWEEP - 1)
        return;
    for (int i = 0; i < t->count; i++) {
        shard *s = &p->shards[i];
        if (pthread_mutex_trylock(&s->lock) != 0)
            continue;
        for (int64_t k = s->begin; s->kept && k < s->end; k++) {
            rungi_block *kept = &s->kept[k - s->begin];
            if (!kept->data || p->place[k] >= atomic_load(&p->last) - STALE)
                continue;
            free(kept->data);
            *kept = (rungi_block){0};
            atomic_fetch_sub(&p->kept, size_of(t, k));
        }
        pthread_mutex_unlock(&s->lock);
    }
}

rung_status rungi_tar_streams_fetch(rungi_tar_streams *t, const rung_sample *sample,
                                    rungi_block *block, int64_t *size_out)
{
    pass *p = enter(t, sample->epoch);
    shard *s = &p->shards[t->ps->places.data[sample->index].archive];
    note_place(p, sample->index);
    pthread_mutex_lock(&s->lock);
    rung_status status = read_to(t, p, s, sample, block);
    pthread_mutex_unlock(&s->lock);
    sweep(t, p);
    leave(t, p);
    *size_out = size_of(t, sample->index);
    return status;
}

int64_t rungi_tar_streams_kept(rungi_tar_streams *t)
{
    int64_t bytes = 0;
    for (int i = 0; i < PASSES; i++)
        bytes += atomic_load(&t->passes[i].kept);
    return bytes;
}

// ---- life

static rung_status make_shards(rungi_tar_streams *t, pass *p)
{
    const rungi_picture_source *ps = t->ps;
    p->shards = calloc((size_t)t->count, sizeof *p->shards);
    RUNG_CHECK(p->shards, RUNG_NO_MEMORY, "no memory for %d archives", t->count);
    int64_t at = 0, count = (int64_t)ps->places.count;
    for (int i = 0; i < t->count; i++) {
        shard *s = &p->shards[i];
        pthread_mutex_init(&s->lock, NULL);
        s->begin = s->next = at;
        while (at < count && ps->places.data[at].archive == i)
            at++;
        s->end = at;
    }
    return RUNG_OK;
}

rung_status rungi_tar_streams_create(const rungi_picture_source *ps, rungi_tar_streams **out)
{
    rungi_tar_streams *t = calloc(1, sizeof *t);
    RUNG_CHECK(t, RUNG_NO_MEMORY, "no memory for a data source");
    t->ps = ps;
    t->count = (int)ps->archives.count;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->idle, NULL);
    rung_status status = RUNG_OK;
    for (int i = 0; i < PASSES; i++) {
        if (status == RUNG_OK)
            status = make_shards(t, &t->passes[i]);
        clear_pass(t, &t->passes[i]);
    }
    if (status != RUNG_OK)
        rungi_tar_streams_destroy(&t);
    else
        *out = t;
    return status;
}

void rungi_tar_streams_destroy(rungi_tar_streams **streams)
{
    rungi_tar_streams *t = *streams;
    *streams = NULL;
    if (!t)
        return;
    for (int i = 0; i < PASSES; i++) {
        pass *p = &t->passes[i];
        clear_pass(t, p);
        for (int k = 0; p->shards && k < t->count; k++)
            pthread_mutex_destroy(&p->shards[k].lock);
        free(p->shards);
    }
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->idle);
    free(t);
}

// ---- of a source

static const rungi_picture_source *streamed(const rung_source *source)
{
    const rungi_picture_source *ps = rungi_picture_source_of(source);
    return ps && ps->streams ? ps : NULL;
}

int rungi_source_stream_archives(const rung_source *source)
{
    const rungi_picture_source *ps = streamed(source);
    return ps ? ps->streams->count : 0;
}

int64_t rungi_source_stream_begin(const rung_source *source, int i)
{
    const rungi_tar_streams *t = streamed(source)->streams;
    return i < t->count ? t->passes[0].shards[i].begin : source->count;
}

rung_status rungi_source_stream_expect(const rung_source *source, int64_t epoch,
                                       const int64_t *order, int64_t count)
{
    return rungi_tar_streams_expect(streamed(source)->streams, epoch, order, count);
}

static rung_status copy_index(const rungi_picture_source *from, rungi_picture_source *to)
{
    for (size_t i = 0; i < from->archives.count; i++)
        RUNG_TRY(rungi_picture_source_adopt(to, from->archives.data[i].path, -1));
    for (size_t i = 0; i < from->classes.count; i++)
        RUNG_TRY(rungi_picture_source_class(to, from->classes.data[i]));
    for (size_t i = 0; i < from->places.count; i++)
        RUNG_TRY(rungi_picture_source_add(to, from->names.data + from->places.data[i].name,
                                          from->places.data[i]));
    to->source.class_count = from->source.class_count;
    RUNG_TRY(rungi_picture_source_finish(to, from->source.name));
    return rungi_tar_streams_create(to, &to->streams);
}

rung_status rungi_source_stream_again(const rung_source *source, rung_source **source_out)
{
    rungi_picture_source *ps;
    RUNG_TRY(rungi_picture_source_create(source->name, "", &ps));
    rung_status status = copy_index(streamed(source), ps);
    rung_source *again = &ps->source;
    if (status == RUNG_OK)
        *source_out = again;
    else
        rung_source_destroy(&again);
    return status;
}
