// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// What must not depend on workers, and what they must stand: cases C01, C02, C07, C17.
#include "data/data_testing.h"

#include <malloc.h>
#include <sys/resource.h>

#include "base/philox.h"

typedef struct fixture {
    test_log log;
    rung_context *context;
    test_source source;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->context = test_context(&f->log, NULL);
    test_source_init(&f->source, 64);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    test_source_fini(&f->source);
    rung_context_destroy(&f->context);
    free(f);
    return 0;
}

static rung_loader *make(fixture *f, const rung_loader_options *options)
{
    rung_loader *loader = NULL;
    assert_ok(rung_loader_create(f->context, &f->source.source, options, &loader));
    return loader;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

// draws[epoch][sample]; asserts that each epoch has each sample once.
static void collect(fixture *f, int workers, uint64_t seed, int64_t draws[3][64])
{
    bool seen[3][64] = {{false}};
    rung_loader *loader =
        make(f, &(rung_loader_options){
                    .batch_size = 4, .shuffle = true, .seed = seed, .num_workers = workers});
    for (int b = 0; b < 48; b++) {
        rung_batch batch;
        assert_ok(rung_loader_next(loader, &batch));
        assert_int_equal(batch.epoch, b / 16);
        for (int i = 0; i < 4; i++) {
            int64_t sample = test_indices(&batch)[i];
            assert_false(seen[batch.epoch][sample]);
            seen[batch.epoch][sample] = true;
            draws[batch.epoch][sample] = test_draws(&batch)[i];
        }
        rung_loader_release(loader, &batch);
    }
    rung_loader_destroy(&loader);
}

static void case_c01_and_c02_draws(void **state)
{
    fixture *f = *state;
    static int64_t base[3][64], other[3][64], sorted[3 * 64];
    collect(f, 0, 1, base);
    for (int workers = 1; workers <= 4; workers++) {
        collect(f, workers, 1, other);
        assert_memory_equal(other, base, sizeof base);
    }
    // 192 different values: no two samples share one, no sample has one twice.
    memcpy(sorted, base, sizeof base);
    qsort(sorted, 3 * 64, sizeof *sorted, by_value);
    for (int i = 1; i < 3 * 64; i++)
        assert_true(sorted[i] != sorted[i - 1]);
    collect(f, 2, 2, other);
    int different = 0;
    for (int i = 0; i < 64; i++)
        different += other[0][i] != base[0][i];
    assert_true(different >= 63);
}

// Hashes of three epochs of augmented images, batch by batch.
static uint64_t hash_epochs(fixture *f, rung_source *images, int workers, uint64_t seed)
{
    const rung_transform steps[] = {
        {.kind = RUNG_TRANSFORM_TO_FLOAT},
        {.kind = RUNG_TRANSFORM_RANDOM_CROP, .height = 12, .width = 12, .padding = 2},
        {.kind = RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP},
        {.kind = RUNG_TRANSFORM_NORMALIZE, .mean = {0.4f, 0.5f, 0.6f}, .std = {0.2f, 0.3f, 0.4f}},
    };
    rung_loader *loader;
    assert_ok(rung_loader_create(f->context, images,
                                 &(rung_loader_options){.batch_size = 7,
                                                        .shuffle = true,
                                                        .seed = seed,
                                                        .num_workers = workers,
                                                        .transforms = steps,
                                                        .transform_count = 4},
                                 &loader));
    uint64_t hash = 14695981039346656037u; // FNV-1a
    for (int64_t epoch = 0; epoch < 3;) {
        rung_batch batch;
        assert_ok(rung_loader_next(loader, &batch));
        const unsigned char *bytes = batch.fields[0].data;
        for (int64_t i = 0; i < batch.count * 3 * 12 * 12 * 4; i++)
            hash = (hash ^ bytes[i]) * 1099511628211u;
        for (int64_t i = 0; i < batch.count; i++)
            hash = (hash ^ (uint64_t)((const int64_t *)batch.fields[1].data)[i]) * 1099511628211u;
        epoch += batch.is_last_of_epoch;
        rung_loader_release(loader, &batch);
    }
    rung_loader_destroy(&loader);
    return hash;
}

static void case_c02_same_bits_with_augmentation(void **state)
{
    fixture *f = *state;
    rung_source *images;
    assert_ok(rung_source_synthetic(
        f->context,
        &(rung_synthetic_options){
            .count = 100, .shape = RUNG_SHAPE(3, 12, 12), .dtype = RUNG_U8, .classes = 10},
        &images));
    uint64_t base = hash_epochs(f, images, 0, 1);
    for (int workers = 1; workers <= 4; workers++)
        assert_true(hash_epochs(f, images, workers, 1) == base);
    assert_true(hash_epochs(f, images, 2, 2) != base);
    rung_source_destroy(&images);
}

// While the last batch of an epoch is held, workers read the next epoch.
static void prefetch_goes_on_into_the_next_epoch(void **state)
{
    fixture *f = *state;
    f->source.source.count = 8;
    rung_loader *loader = make(f, &(rung_loader_options){.batch_size = 8, .num_workers = 2});
    rung_batch batch;
    assert_ok(rung_loader_next(loader, &batch));
    assert_true(batch.is_last_of_epoch);
    // 2 workers times 2 batches ahead: epochs 1 to 4, and no more
    while (atomic_load(&f->source.reads) < 40)
        usleep(100);
    usleep(20000);
    assert_int_equal(f->source.reads, 40);
    assert_int_equal(f->source.by_epoch[4], 8);
    assert_int_equal(test_indices(&batch)[7], 7);
    rung_loader_statistics statistics;
    do { // the last sample is read a moment before its batch is ready
        rung_loader_measure(loader, &statistics);
    } while (statistics.queue_depth < 4);
    assert_int_equal(statistics.queue_depth, 4);
    assert_int_equal(statistics.reads, 40);
    assert_int_equal(statistics.samples, 8);
    rung_loader_destroy(&loader);
}

// Case C17, the loader's side: a copying thread takes batches late and gives them back when it has
// read them, in an order of its own; every value is still right.
typedef struct copier {
    rung_loader *loader;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    rung_batch waiting[2];
    int count;
    bool done;
    int64_t wrong, seen;
} copier;

static void *copy_late(void *copier_)
{
    copier *c = copier_;
    uint64_t turn = 0;
    pthread_mutex_lock(&c->lock);
    while (!c->done || c->count > 0) {
        if (c->count == 0) {
            pthread_cond_wait(&c->changed, &c->lock);
            continue;
        }
        int i = c->count == 2 ? (int)(turn++ % 2) : 0;
        rung_batch batch = c->waiting[i];
        pthread_mutex_unlock(&c->lock);
        for (int64_t s = 0; s < batch.count; s++)
            c->wrong += test_indices(&batch)[s] != batch.samples[s] ||
                        batch.samples[s] != batch.position + s;
        c->seen += batch.count;
        rung_loader_release(c->loader, &batch);
        pthread_mutex_lock(&c->lock);
        if (i == 0)
            c->waiting[0] = c->waiting[1];
        c->count--;
        pthread_cond_signal(&c->changed);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static void case_c17_released_late_from_another_thread(void **state)
{
    fixture *f = *state;
    for (int workers = 0; workers <= 3; workers++) {
        copier c = {.loader = make(f, &(rung_loader_options){.batch_size = 4,
                                                             .num_workers = workers,
                                                             .prefetch_factor = 1,
                                                             .hold = 2})};
        pthread_t thread;
        pthread_mutex_init(&c.lock, NULL);
        pthread_cond_init(&c.changed, NULL);
        assert_int_equal(pthread_create(&thread, NULL, copy_late, &c), 0);
        for (int b = 0; b < 1000; b++) {
            rung_batch batch;
            assert_ok(rung_loader_next(c.loader, &batch));
            pthread_mutex_lock(&c.lock);
            while (c.count == 2)
                pthread_cond_wait(&c.changed, &c.lock);
            c.waiting[c.count++] = batch;
            pthread_cond_signal(&c.changed);
            pthread_mutex_unlock(&c.lock);
        }
        pthread_mutex_lock(&c.lock);
        c.done = true;
        pthread_cond_signal(&c.changed);
        pthread_mutex_unlock(&c.lock);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(c.wrong, 0);
        assert_int_equal(c.seen, 4000);
        rung_loader_destroy(&c.loader);
        pthread_mutex_destroy(&c.lock);
        pthread_cond_destroy(&c.changed);
    }
}

// Destroyed at any moment, even during reads that would take a minute, no thread is left.
static void destroyed_at_any_moment(void **state)
{
    fixture *f = *state;
    rung_source *slow;
    int threads = test_threads();
    assert_ok(rung_source_synthetic(
        f->context,
        &(rung_synthetic_options){
            .count = 100, .shape = RUNG_SHAPE(4), .dtype = RUNG_U8, .classes = 10, .delay = 60},
        &slow));
    for (int i = 0; i < 3; i++) {
        rung_loader *loader;
        assert_ok(rung_loader_create(
            f->context, slow, &(rung_loader_options){.batch_size = 4, .num_workers = 2}, &loader));
        if (i > 0)
            assert_ok(rung_loader_start(loader));
        if (i > 1)
            usleep(5000);
        rung_loader_destroy(&loader);
        test_wait_threads(threads);
    }
    rung_source_destroy(&slow);
    for (int i = 0; i < 100; i++) {
        rung_loader *loader = make(f, &(rung_loader_options){.batch_size = 4, .num_workers = 3});
        assert_ok(rung_loader_start(loader));
        for (int b = 0; b < i % 5; b++) {
            rung_batch batch;
            assert_ok(rung_loader_next(loader, &batch));
            if (b % 2)
                rung_loader_release(loader, &batch);
        }
        rung_loader_destroy(&loader);
    }
    test_wait_threads(threads);
    assert_int_equal(f->source.opened, f->source.closed);
}

// Seeks to pseudo-random places while workers read: what comes is always what belongs there.
static void seeks_while_reading(void **state)
{
    fixture *f = *state;
    static int64_t order[4][64];
    rung_loader_options options = {.batch_size = 6, .shuffle = true, .seed = 3};
    rung_loader *plain = make(f, &options);
    for (int b = 0; b < 44; b++) {
        rung_batch batch;
        assert_ok(rung_loader_next(plain, &batch));
        memcpy(order[batch.epoch] + batch.position, batch.samples,
               (size_t)batch.count * sizeof *batch.samples);
        rung_loader_release(plain, &batch);
    }
    rung_loader_destroy(&plain);
    options.num_workers = 3;
    rung_loader *loader = make(f, &options);
    rungi_random random = rungi_random_make(1, RUNGI_PURPOSE_TEST, 0, 0, 0);
    uint64_t next = 0;
    for (int i = 0; i < 400; i++) {
        int64_t epoch = (int64_t)rungi_random_below(&random, 3, &next);
        int64_t position = (int64_t)rungi_random_below(&random, 64, &next);
        assert_ok(rung_loader_seek(loader, epoch, position));
        int takes = (int)rungi_random_below(&random, 4, &next);
        for (int b = 0; b < takes; b++) {
            rung_batch batch;
            assert_ok(rung_loader_next(loader, &batch));
            assert_int_equal(batch.epoch, epoch);
            assert_int_equal(batch.position, position);
            assert_memory_equal(batch.samples, order[epoch] + position,
                                (size_t)batch.count * sizeof *batch.samples);
            assert_memory_equal(test_indices(&batch), batch.samples,
                                (size_t)batch.count * sizeof *batch.samples);
            position += batch.count;
            if (batch.is_last_of_epoch) {
                epoch++;
                position = 0;
            }
            rung_loader_release(loader, &batch);
        }
    }
    rung_loader_destroy(&loader);
}

// Case C07: memory does not grow with epochs, and an index is not multiplied by workers.
static void case_c07_memory_is_flat(void **state)
{
    fixture *f = *state;
    enum { COUNT = 20000 };
    f->source.source.count = COUNT;
    f->source.source.describe = NULL;
    size_t after2 = 0;
    rung_loader *loader =
        make(f, &(rung_loader_options){
                    .batch_size = 1000, .shuffle = true, .num_workers = 2, .end_epoch = 10});
    for (int b = 0; b < 10 * COUNT / 1000; b++) {
        rung_batch batch;
        assert_ok(rung_loader_next(loader, &batch));
        if (batch.is_last_of_epoch && batch.epoch == 1)
            after2 = mallinfo2().uordblks;
        if (batch.is_last_of_epoch && batch.epoch == 9)
            assert_true(mallinfo2().uordblks <= after2 + 4096);
        rung_loader_release(loader, &batch);
    }
    rung_loader_destroy(&loader);
}

// A sampler that counts how many of its orders live.
typedef struct counting_sampler {
    rung_sampler sampler;
    int begun, live, most;
} counting_sampler;

static rung_status begin_order(void *self, int64_t epoch, void **order_out)
{
    counting_sampler *c = self;
    (void)epoch;
    c->begun++;
    c->live++;
    c->most = c->live > c->most ? c->live : c->most;
    *order_out = self;
    return RUNG_OK;
}

static void end_order(void *self, void *order)
{
    assert_ptr_equal(self, order);
    ((counting_sampler *)self)->live--;
}

static void in_order(void *self, const void *order, int64_t position, rung_draw *draw_out)
{
    (void)self, (void)order;
    draw_out->sample = position;
}

static void case_c07_one_index_for_all_workers(void **state)
{
    fixture *f = *state;
    counting_sampler c = {.sampler = {"counting", 64, &c, begin_order, end_order, in_order, NULL}};
    rung_loader *loader =
        make(f, &(rung_loader_options){
                    .batch_size = 4, .num_workers = 4, .sampler = &c.sampler, .end_epoch = 10});
    for (int b = 0; b < 160; b++) {
        rung_batch batch;
        assert_ok(rung_loader_next(loader, &batch));
        rung_loader_release(loader, &batch);
    }
    rung_loader_destroy(&loader);
    assert_int_equal(c.begun, 10);
    assert_int_equal(c.most, 1);
    assert_int_equal(c.live, 0);
}

// Says how nice the reading thread is.
static rung_status read_nice(void *self, void *state, const rung_sample *sample, rung_view *fields)
{
    rung_status status = test_source_read(self, state, sample, fields);
    *(int64_t *)fields[0].data = getpriority(PRIO_PROCESS, 0);
    return status;
}

static void workers_are_nicer(void **state)
{
    fixture *f = *state;
    f->source.source.read = read_nice;
    int own = getpriority(PRIO_PROCESS, 0);
    for (int workers = 0; workers <= 2; workers += 2) {
        for (int nice = 0; nice <= 7; nice += 7) {
            rung_loader *loader =
                make(f, &(rung_loader_options){
                            .batch_size = 64, .num_workers = workers, .worker_nice = nice});
            rung_batch batch;
            int wanted = workers ? own + nice : own;
            assert_ok(rung_loader_next(loader, &batch));
            for (int64_t i = 0; i < batch.count; i++)
                assert_int_equal(((int64_t *)batch.fields[0].data)[i], wanted < 19 ? wanted : 19);
            rung_loader_release(loader, &batch);
            rung_loader_destroy(&loader);
        }
    }
    assert_int_equal(getpriority(PRIO_PROCESS, 0), own);
    assert_fails(RUNG_INVALID, "data.worker_nice is 20, must be 0 to 19",
                 rung_loader_create(f->context, &f->source.source,
                                    &(rung_loader_options){.batch_size = 4, .worker_nice = 20},
                                    &(rung_loader *){NULL}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(case_c01_and_c02_draws, setup, teardown),
        cmocka_unit_test_setup_teardown(case_c02_same_bits_with_augmentation, setup, teardown),
        cmocka_unit_test_setup_teardown(prefetch_goes_on_into_the_next_epoch, setup, teardown),
        cmocka_unit_test_setup_teardown(case_c17_released_late_from_another_thread, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(destroyed_at_any_moment, setup, teardown),
        cmocka_unit_test_setup_teardown(seeks_while_reading, setup, teardown),
        cmocka_unit_test_setup_teardown(case_c07_memory_is_flat, setup, teardown),
        cmocka_unit_test_setup_teardown(case_c07_one_index_for_all_workers, setup, teardown),
        cmocka_unit_test_setup_teardown(workers_are_nicer, setup, teardown),
    };
    return RUN_TESTS(tests);
}
