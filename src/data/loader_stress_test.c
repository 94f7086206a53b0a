// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// A loader's life in fast motion: reads of uneven length, failing samples, batches held and given
// back out of order by two threads, seeks and early ends. What comes is always predictable.
#include "data/data_testing.h"

#include <sched.h>

#include "base/philox.h"

enum { COUNT = 97, BATCH = 9, LIVES = 24, TURNS = 120 };

typedef struct uneven {
    rung_source source;
    uint64_t seed;
    atomic_llong reads;
} uneven;

// Every sample fails in every third epoch or so.
static bool fails(const uneven *u, int64_t epoch, int64_t sample)
{
    rungi_random random =
        rungi_random_make(u->seed, RUNGI_PURPOSE_TEST, (uint64_t)epoch, (uint64_t)sample, 1);
    return rungi_random_u64(&random, 0) % 40 == 0;
}

static rung_status read_uneven(void *self, void *state, const rung_sample *sample,
                               rung_view *fields)
{
    uneven *u = self;
    (void)state;
    rungi_random random = rungi_random_make(u->seed, RUNGI_PURPOSE_TEST, (uint64_t)sample->index,
                                            (uint64_t)atomic_fetch_add(&u->reads, 1), 2);
    uint64_t word = rungi_random_u64(&random, 0);
    for (uint64_t i = 0; i < word % 4; i++)
        sched_yield();
    if (word % 101 == 0)
        usleep(100);
    if (fails(u, sample->epoch, sample->index))
        return rung_hook_fail(RUNG_DATA, "<%d>", (int)sample->index);
    ((int64_t *)fields[0].data)[0] = sample->index;
    ((int64_t *)fields[0].data)[1] = sample->epoch;
    return RUNG_OK;
}

// ---- a second thread that releases

typedef struct releaser {
    rung_loader *loader;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    rung_batch waiting[3];
    int count;
    bool done;
} releaser;

static void *release_all(void *releaser_)
{
    releaser *r = releaser_;
    pthread_mutex_lock(&r->lock);
    while (!r->done || r->count > 0) {
        if (r->count == 0) {
            pthread_cond_wait(&r->changed, &r->lock);
            continue;
        }
        rung_batch batch = r->waiting[--r->count]; // the last first
        pthread_mutex_unlock(&r->lock);
        sched_yield();
        rung_loader_release(r->loader, &batch);
        pthread_mutex_lock(&r->lock);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static void hand_over(releaser *r, const rung_batch *batch)
{
    pthread_mutex_lock(&r->lock);
    if (r->count < 3) {
        r->waiting[r->count++] = *batch;
        pthread_cond_signal(&r->changed);
        pthread_mutex_unlock(&r->lock);
    } else {
        rung_batch mine = *batch;
        pthread_mutex_unlock(&r->lock);
        rung_loader_release(r->loader, &mine);
    }
}

// ---- what is expected

typedef struct place {
    const rung_sampler *sampler;
    void *order;
    int64_t epoch, position;
} place;

static void go_to(place *p, int64_t epoch, int64_t position)
{
    if (position == COUNT) {
        epoch++;
        position = 0;
    }
    if (!p->order || epoch != p->epoch) {
        if (p->order)
            p->sampler->end(p->sampler->self, p->order);
        assert_ok(p->sampler->begin(p->sampler->self, epoch, &p->order));
    }
    p->epoch = epoch;
    p->position = position;
}

static int64_t sample_at(const place *p, int64_t offset)
{
    rung_draw draw;
    p->sampler->at(p->sampler->self, p->order, p->position + offset, &draw);
    return draw.sample;
}

// Takes one batch and checks it, or the failure that must come instead.
static void take_one(uneven *u, place *p, releaser *r)
{
    rung_batch batch;
    int64_t left = COUNT - p->position, count = left < BATCH ? left : BATCH, bad = -1;
    for (int64_t i = count - 1; i >= 0; i--)
        if (fails(u, p->epoch, sample_at(p, i)))
            bad = sample_at(p, i);
    rung_status status = rung_loader_next(r->loader, &batch);
    if (bad >= 0) {
        char start[32], text[32];
        snprintf(start, sizeof start, "sample %d of uneven,", (int)bad);
        snprintf(text, sizeof text, "<%d>", (int)bad);
        assert_int_equal(status, RUNG_DATA);
        assert_true(strstr(rung_error_last()->message, start) == rung_error_last()->message);
        assert_non_null(strstr(rung_error_last()->message, text));
        go_to(p, p->epoch, p->position + count); // leave that batch out
        assert_ok(rung_loader_seek(r->loader, p->epoch, p->position));
        return;
    }
    assert_ok(status);
    assert_int_equal(batch.epoch, p->epoch);
    assert_int_equal(batch.position, p->position);
    assert_int_equal(batch.count, count);
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(batch.samples[i], sample_at(p, i));
        assert_int_equal(((int64_t *)batch.fields[0].data)[2 * i], sample_at(p, i));
        assert_int_equal(((int64_t *)batch.fields[0].data)[2 * i + 1], p->epoch);
    }
    go_to(p, p->epoch, p->position + count);
    hand_over(r, &batch);
}

static void live(rung_context *context, uint64_t life)
{
    uneven u = {.source = {.name = "uneven",
                           .count = COUNT,
                           .field_count = 1,
                           .fields = {{"pair", RUNG_I64, RUNG_SHAPE(2), RUNG_PIXELS_NONE}},
                           .read = read_uneven},
                .seed = life};
    u.source.self = &u;
    rungi_random random = rungi_random_make(life, RUNGI_PURPOSE_TEST, 0, 0, 0);
    uint64_t next = 0;
    rung_sampler *sampler;
    assert_ok(rung_sampler_random(COUNT, life, &sampler));
    releaser r = {.count = 0};
    assert_ok(rung_loader_create(context, &u.source,
                                 &(rung_loader_options){.batch_size = BATCH,
                                                        .sampler = sampler,
                                                        .num_workers = (int)(life % 5),
                                                        .prefetch_factor = (int)(life % 3) + 1,
                                                        .hold = (int)(life % 2) + 1},
                                 &r.loader));
    pthread_t thread;
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.changed, NULL);
    assert_int_equal(pthread_create(&thread, NULL, release_all, &r), 0);
    place p = {.sampler = sampler};
    go_to(&p, 0, 0);
    for (int turn = 0; turn < TURNS; turn++) {
        if (rungi_random_below(&random, 16, &next) == 0) {
            int64_t epoch = (int64_t)rungi_random_below(&random, 5, &next);
            go_to(&p, epoch, (int64_t)rungi_random_below(&random, COUNT + 1, &next));
            assert_ok(rung_loader_seek(r.loader, p.epoch, p.position));
        }
        take_one(&u, &p, &r);
    }
    pthread_mutex_lock(&r.lock);
    r.done = true;
    pthread_cond_signal(&r.changed);
    pthread_mutex_unlock(&r.lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    rung_loader_destroy(&r.loader);
    sampler->end(sampler->self, p.order);
    rung_sampler_destroy(&sampler);
    pthread_mutex_destroy(&r.lock);
    pthread_cond_destroy(&r.changed);
}

static void lives(void **state)
{
    (void)state;
    test_log log;
    rung_context *context = test_context(&log, NULL);
    for (uint64_t life = 0; life < LIVES; life++)
        live(context, life);
    assert_null(strstr(log.text, "twice"));
    assert_null(strstr(log.text, "behind"));
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lives)};
    return RUN_TESTS(tests);
}
