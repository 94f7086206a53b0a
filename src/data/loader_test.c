// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// What the loader delivers: batches, epochs, places, parts of ranks.
#include "data/data_testing.h"

typedef struct fixture {
    test_log log;
    rung_context *context;
    test_source source;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->context = test_context(&f->log, NULL);
    test_source_init(&f->source, 10);
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

// Takes batches into `out` until `count` samples were had.
static void take(rung_loader *loader, int64_t count, int64_t *out)
{
    for (int64_t got = 0; got < count;) {
        rung_batch batch;
        assert_ok(rung_loader_next(loader, &batch));
        for (int64_t i = 0; i < batch.count; i++) {
            assert_int_equal(test_indices(&batch)[i], batch.samples[i]);
            out[got + i] = batch.samples[i];
        }
        got += batch.count;
        assert_true(got <= count);
        rung_loader_release(loader, &batch);
    }
}

static void batches_and_epochs(void **state)
{
    fixture *f = *state;
    for (int workers = 0; workers <= 2; workers += 2) {
        rung_loader *loader =
            make(f, &(rung_loader_options){.batch_size = 4, .num_workers = workers});
        rung_loader_info info;
        rung_loader_describe(loader, &info);
        assert_int_equal(info.samples_per_epoch, 10);
        assert_int_equal(info.batches_per_epoch, 3);
        assert_int_equal(info.last_batch, 2); // known ahead: case C12
        assert_int_equal(info.dropped, 0);
        assert_int_equal(info.slots, workers ? 5 : 2);
        assert_int_equal(info.slot_bytes, 128);
        assert_int_equal(info.field_count, 2);
        for (int b = 0; b < 9; b++) {
            rung_batch batch;
            assert_ok(rung_loader_next(loader, &batch));
            assert_int_equal(batch.epoch, b / 3);
            assert_int_equal(batch.position, b % 3 * 4);
            assert_int_equal(batch.count, b % 3 == 2 ? 2 : 4);
            assert_int_equal(batch.global_count, batch.count);
            assert_int_equal(batch.is_last_of_epoch, b % 3 == 2);
            assert_int_equal(batch.field_count, 2);
            assert_true(rung_shape_equal(&batch.fields[0].shape, &RUNG_SHAPE(batch.count)));
            assert_int_equal((uintptr_t)batch.fields[1].data % 64, 0);
            for (int i = 0; i < batch.count; i++) {
                assert_int_equal(batch.samples[i], b % 3 * 4 + i);
                assert_int_equal(test_indices(&batch)[i], b % 3 * 4 + i);
            }
            rung_loader_release(loader, &batch);
            assert_int_equal(batch.count, 0);
            rung_loader_release(loader, &batch); // zeroed: nothing happens
        }
        rung_loader_destroy(&loader);
        assert_null(loader);
        rung_loader_destroy(&loader);
    }
    assert_int_equal(f->source.opened, 3);
    assert_int_equal(f->source.closed, 3);
}

// Case C12, the loader's side: 1000 samples, batches of 3.
static void case_c12_drop_last(void **state)
{
    fixture *f = *state;
    rung_loader_info info;
    f->source.source.count = 1000;
    rung_loader *loader = make(f, &(rung_loader_options){.batch_size = 3});
    rung_loader_describe(loader, &info);
    assert_int_equal(info.batches_per_epoch, 334);
    assert_int_equal(info.last_batch, 1);
    rung_loader_destroy(&loader);
    loader = make(f, &(rung_loader_options){.batch_size = 3, .drop_last = true, .num_workers = 2});
    rung_loader_describe(loader, &info);
    assert_int_equal(info.batches_per_epoch, 333);
    assert_int_equal(info.last_batch, 3);
    assert_int_equal(info.samples_per_epoch, 999);
    assert_int_equal(info.dropped, 1);
    int last = 0;
    for (int b = 0; b < 666; b++) {
        rung_batch batch;
        assert_ok(rung_loader_next(loader, &batch));
        assert_int_equal(batch.count, 3);
        last += batch.is_last_of_epoch;
        rung_loader_release(loader, &batch);
    }
    assert_int_equal(last, 2);
    rung_loader_destroy(&loader);
    f->source.source.count = 2;
    assert_fails(RUNG_DATA, "data.batch_size 3 is larger than the data set of 2 samples",
                 rung_loader_create(f->context, &f->source.source,
                                    &(rung_loader_options){.batch_size = 3, .drop_last = true},
                                    &loader));
    loader = make(f, &(rung_loader_options){.batch_size = 3});
    rung_loader_describe(loader, &info);
    assert_int_equal(info.last_batch, 2);
    rung_loader_destroy(&loader);
}

// Case C56: stopped after 20 of 64 samples, the other 44 come in the original order, and no sample
// that is skipped is read.
static void case_c56_resume(void **state)
{
    fixture *f = *state;
    int64_t all[128], rest[108];
    f->source.source.count = 64;
    for (int workers = 0; workers <= 2; workers += 2)
        for (int way = 0; way < 2; way++) {
            rung_loader_options options = {
                .batch_size = 4, .shuffle = true, .seed = 9, .num_workers = workers};
            rung_loader *loader = make(f, &options);
            take(loader, 128, all);
            rung_loader_destroy(&loader);

            memset(f->source.seen, 0, sizeof f->source.seen);
            memset(f->source.by_epoch, 0, sizeof f->source.by_epoch);
            options.position = way ? 0 : 20;
            options.end_epoch = 2;
            loader = make(f, &options);
            if (way)
                assert_ok(rung_loader_seek(loader, 0, 20));
            take(loader, 108, rest);
            rung_loader_destroy(&loader);
            assert_memory_equal(rest, all + 20, sizeof rest);
            assert_int_equal(f->source.by_epoch[0], 44);
            assert_int_equal(f->source.by_epoch[1], 64);
            for (int i = 0; i < 64; i++) // each once in epoch 1; in epoch 0 only those left
                assert_true(f->source.seen[i] == 1 || f->source.seen[i] == 2);
        }
}

static void seek_anywhere(void **state)
{
    fixture *f = *state;
    for (int workers = 0; workers <= 2; workers += 2) {
        rung_loader *loader =
            make(f, &(rung_loader_options){.batch_size = 4, .num_workers = workers});
        rung_batch held, batch;
        assert_ok(rung_loader_next(loader, &held));
        assert_ok(rung_loader_seek(loader, 3, 8));
        assert_ok(rung_loader_next(loader, &batch));
        assert_int_equal(batch.epoch, 3);
        assert_int_equal(batch.position, 8);
        assert_int_equal(batch.count, 2);
        assert_int_equal(held.samples[3], 3); // untouched by the seek
        assert_int_equal(test_indices(&held)[3], 3);
        rung_loader_release(loader, &held);
        rung_loader_release(loader, &batch);
        assert_ok(rung_loader_seek(loader, 0, 3)); // in the middle of a batch
        assert_ok(rung_loader_next(loader, &batch));
        assert_int_equal(batch.position, 3);
        assert_int_equal(batch.count, 4);
        rung_loader_release(loader, &batch);
        assert_ok(rung_loader_seek(loader, 0, 10)); // an epoch's end is the next one's beginning
        assert_ok(rung_loader_next(loader, &batch));
        assert_int_equal(batch.epoch, 1);
        assert_int_equal(batch.position, 0);
        rung_loader_release(loader, &batch);
        assert_fails(RUNG_INVALID, "an epoch has 10", rung_loader_seek(loader, 0, 11));
        assert_fails(RUNG_INVALID, "no such place", rung_loader_seek(loader, -1, 0));
        rung_loader_destroy(&loader);
    }
}

static void ends_where_told(void **state)
{
    fixture *f = *state;
    int64_t list[20];
    for (int workers = 0; workers <= 2; workers += 2) {
        rung_batch batch;
        atomic_store(&f->source.reads, 0);
        rung_loader *loader = make(
            f, &(rung_loader_options){.batch_size = 4, .num_workers = workers, .end_epoch = 2});
        take(loader, 20, list);
        assert_fails(RUNG_INVALID, "ends before epoch 2", rung_loader_next(loader, &batch));
        assert_int_equal(f->source.reads, 20); // nothing was read ahead of the end
        assert_ok(rung_loader_seek(loader, 1, 8));
        take(loader, 2, list);
        assert_fails(RUNG_INVALID, "ends before epoch 2", rung_loader_next(loader, &batch));
        rung_loader_destroy(&loader);
    }
}

// Parts of ranks: disjoint, together the whole batch, whatever divides (cases C18 and C19).
static void ranks_share_each_batch(void **state)
{
    fixture *f = *state;
    f->source.source.count = 22;
    for (int world = 1; world <= 5; world++) {
        rung_loader *loaders[5];
        int64_t whole[66], place = 0;
        for (int r = 0; r < world; r++)
            loaders[r] = make(f, &(rung_loader_options){.batch_size = 4,
                                                        .shuffle = true,
                                                        .seed = 4,
                                                        .num_workers = r % 3,
                                                        .rank = r,
                                                        .world = world});
        rung_loader *alone =
            make(f, &(rung_loader_options){.batch_size = 4, .shuffle = true, .seed = 4});
        take(alone, 66, whole);
        rung_loader_destroy(&alone);
        for (int b = 0; b < 18; b++) {
            int64_t together = 0;
            for (int r = 0; r < world; r++) {
                rung_batch batch;
                assert_ok(rung_loader_next(loaders[r], &batch));
                assert_int_equal(batch.global_count, b % 6 == 5 ? 2 : 4);
                assert_int_equal(batch.position, b % 6 * 4);
                for (int64_t i = 0; i < batch.count; i++)
                    assert_int_equal(batch.samples[i], whole[place++]);
                together += batch.count;
                rung_loader_release(loaders[r], &batch);
            }
            assert_int_equal(together, b % 6 == 5 ? 2 : 4);
        }
        assert_int_equal(place, 66);
        for (int r = 0; r < world; r++)
            rung_loader_destroy(&loaders[r]);
    }
}

static void own_sampler_with_repeated_samples(void **state)
{
    fixture *f = *state;
    const int64_t list[] = {3, 3, 7};
    rung_sampler *sampler;
    assert_ok(rung_sampler_subset(list, 3, false, 0, &sampler));
    rung_loader *loader = make(f, &(rung_loader_options){.batch_size = 3, .sampler = sampler});
    rung_batch batch;
    assert_ok(rung_loader_next(loader, &batch));
    assert_int_equal(batch.samples[1], 3);
    assert_true(test_draws(&batch)[0] != test_draws(&batch)[1]); // its two places differ
    rung_loader_destroy(&loader);
    rung_sampler_destroy(&sampler);
    const int64_t beyond[] = {3, 10};
    assert_ok(rung_sampler_subset(beyond, 2, false, 0, &sampler));
    loader = make(f, &(rung_loader_options){.batch_size = 2, .sampler = sampler, .num_workers = 1});
    assert_fails(RUNG_DATA, "gave sample 10, the source test has 10",
                 rung_loader_next(loader, &batch));
    rung_loader_destroy(&loader);
    rung_sampler_destroy(&sampler);
}

static rung_status add_hundred(void *user, const rung_random *random, rung_batch *batch)
{
    int *calls = user;
    (void)random;
    ++*calls;
    for (int64_t i = 0; i < batch->count; i++)
        ((int64_t *)batch->fields[0].data)[i] = batch->samples[i] + 100;
    batch->fields[0].shape.dim[0] = 1;
    return RUNG_OK;
}

static void collate_changes_the_batch(void **state)
{
    fixture *f = *state;
    for (int workers = 0; workers <= 1; workers++) {
        int calls = 0;
        rung_loader *loader = make(f, &(rung_loader_options){.batch_size = 4,
                                                             .num_workers = workers,
                                                             .collate = add_hundred,
                                                             .collate_user = &calls});
        rung_batch batch;
        for (int b = 0; b < 3; b++) {
            assert_ok(rung_loader_next(loader, &batch));
            assert_int_equal(batch.fields[0].shape.dim[0], 1);
            assert_int_equal(batch.fields[1].shape.dim[0], batch.count);
            assert_int_equal(test_draws(&batch)[0], b * 4 + 100);
            rung_loader_release(loader, &batch);
        }
        rung_loader_destroy(&loader);
        assert_true(calls >= 3);
    }
}

// The ceiling of supply: each sample is read once, then batches come from memory, always the same.
static void preload(void **state)
{
    fixture *f = *state;
    for (int workers = 0; workers <= 2; workers += 2) {
        rung_loader_options options = {
            .batch_size = 4, .shuffle = true, .seed = 2, .num_workers = workers};
        rung_loader *real = make(f, &options);
        int64_t draws[10];
        for (int b = 0; b < 3; b++) {
            rung_batch batch;
            assert_ok(rung_loader_next(real, &batch));
            memcpy(draws + 4 * b, test_draws(&batch), (size_t)batch.count * sizeof *draws);
            rung_loader_release(real, &batch);
        }
        rung_loader_destroy(&real);
        options.preload = true;
        options.end_epoch = 3;
        atomic_store(&f->source.reads, 0);
        rung_loader *loader = make(f, &options);
        const void *memory[3] = {0};
        for (int b = 0; b < 9; b++) {
            rung_batch batch;
            assert_ok(rung_loader_next(loader, &batch));
            assert_int_equal(batch.epoch, b / 3);
            assert_int_equal(batch.position, b % 3 * 4);
            assert_int_equal(batch.is_last_of_epoch, b % 3 == 2);
            assert_memory_equal(test_draws(&batch), draws + b % 3 * 4,
                                (size_t)batch.count * sizeof *draws);
            assert_true(b < 3 || memory[b % 3] == batch.fields[0].data);
            memory[b % 3] = batch.fields[0].data;
            rung_loader_release(loader, &batch);
        }
        rung_batch batch;
        assert_fails(RUNG_INVALID, "ends before epoch 3", rung_loader_next(loader, &batch));
        assert_int_equal(f->source.reads, 10);
        assert_ok(rung_loader_seek(loader, 1, 8));
        assert_ok(rung_loader_next(loader, &batch));
        assert_int_equal(batch.position, 8);
        assert_ok(rung_loader_seek(loader, 1, 7));
        assert_fails(RUNG_INVALID, "position 7 is inside", rung_loader_next(loader, &batch));
        rung_loader_statistics statistics;
        rung_loader_measure(loader, &statistics);
        assert_int_equal(statistics.reads, 10);
        assert_int_equal(statistics.samples, 32);
        rung_loader_destroy(&loader);
    }
}

typedef struct counting_memory {
    int blocks;
    rung_loader_memory memory;
} counting_memory;

static rung_status count_up(void *user, size_t bytes, void **out)
{
    ((counting_memory *)user)->blocks++;
    *out = aligned_alloc(64, (bytes + 63) / 64 * 64);
    return RUNG_OK;
}

static void count_down(void *user, void *memory)
{
    ((counting_memory *)user)->blocks--;
    free(memory);
}

static void memory_of_ones_own(void **state)
{
    fixture *f = *state;
    counting_memory counter = {0};
    counter.memory = (rung_loader_memory){&counter, count_up, count_down};
    for (int preloaded = 0; preloaded < 2; preloaded++) {
        rung_batch batch;
        rung_loader *loader = make(f, &(rung_loader_options){.batch_size = 4,
                                                             .num_workers = 1,
                                                             .memory = &counter.memory,
                                                             .preload = preloaded});
        assert_ok(rung_loader_next(loader, &batch));
        assert_int_equal(counter.blocks, 3); // slots, or batches
        rung_loader_destroy(&loader);
        assert_int_equal(counter.blocks, 0);
    }
}

static void statistics(void **state)
{
    fixture *f = *state;
    test_clock clock;
    test_clock_init(&clock);
    rung_context *context = test_context(&f->log, &clock.clock);
    rung_source *slow;
    rung_loader *loader;
    rung_batch batch;
    assert_ok(rung_source_synthetic(
        context,
        &(rung_synthetic_options){
            .count = 10, .shape = RUNG_SHAPE(4), .dtype = RUNG_U8, .classes = 2, .delay = 0.1},
        &slow));
    assert_ok(rung_loader_create(context, slow, &(rung_loader_options){.batch_size = 4}, &loader));
    for (int b = 0; b < 3; b++) {
        assert_ok(rung_loader_next(loader, &batch));
        rung_loader_release(loader, &batch);
    }
    rung_loader_statistics s;
    rung_loader_measure(loader, &s);
    assert_int_equal(s.samples, 10);
    assert_int_equal(s.batches, 3);
    assert_int_equal(s.reads, 10);
    assert_true(s.busy_seconds > 0.999 && s.busy_seconds < 1.001);
    assert_true(s.wait_seconds > 0.999 && s.wait_seconds < 1.001);
    assert_int_equal(s.queue_depth, 0);
    rung_loader_destroy(&loader);
    rung_source_destroy(&slow);
    rung_context_destroy(&context);
}

static rung_status try_options(fixture *f, rung_loader_options options)
{
    rung_loader *loader = NULL;
    rung_status status = rung_loader_create(f->context, &f->source.source, &options, &loader);
    assert_true((loader != NULL) == (status == RUNG_OK));
    rung_loader_destroy(&loader);
    return status;
}

static void refused(void **state)
{
    fixture *f = *state;
    rung_sampler *sampler;
    rung_loader *loader = NULL;
    assert_ok(rung_sampler_sequential(10, &sampler));
    assert_fails(RUNG_INVALID, "data.batch_size is 0", try_options(f, (rung_loader_options){0}));
    assert_fails(RUNG_INVALID, "data.num_workers is -1",
                 try_options(f, (rung_loader_options){.batch_size = 1, .num_workers = -1}));
    assert_fails(RUNG_INVALID, "data.prefetch_factor is -2",
                 try_options(f, (rung_loader_options){.batch_size = 1, .prefetch_factor = -2}));
    assert_fails(RUNG_INVALID, "data.timeout is -1",
                 try_options(f, (rung_loader_options){.batch_size = 1, .timeout = -1}));
    assert_fails(RUNG_INVALID, "both shuffle and a sampler",
                 try_options(f, (rung_loader_options){
                                    .batch_size = 1, .shuffle = true, .sampler = sampler}));
    assert_fails(RUNG_INVALID, "rank 2 of 2",
                 try_options(f, (rung_loader_options){.batch_size = 1, .rank = 2, .world = 2}));
    assert_fails(RUNG_INVALID, "position 11",
                 try_options(f, (rung_loader_options){.batch_size = 1, .position = 11}));
    const rung_transform step = {.kind = RUNG_TRANSFORM_TO_FLOAT, .field = 2};
    assert_fails(RUNG_INVALID, "for field 2, the source test has 2",
                 try_options(f, (rung_loader_options){
                                    .batch_size = 1, .transforms = &step, .transform_count = 1}));
    assert_fails(RUNG_INVALID, "options",
                 rung_loader_create(f->context, &f->source.source, NULL, &loader));
    f->source.source.count = 0;
    assert_fails(RUNG_DATA, "test: holds no samples",
                 try_options(f, (rung_loader_options){.batch_size = 1}));
    f->source.source.count = -1;
    assert_fails(RUNG_UNSUPPORTED, "streams",
                 try_options(f, (rung_loader_options){.batch_size = 1}));
    rung_sampler_destroy(&sampler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(batches_and_epochs, setup, teardown),
        cmocka_unit_test_setup_teardown(case_c12_drop_last, setup, teardown),
        cmocka_unit_test_setup_teardown(case_c56_resume, setup, teardown),
        cmocka_unit_test_setup_teardown(seek_anywhere, setup, teardown),
        cmocka_unit_test_setup_teardown(ends_where_told, setup, teardown),
        cmocka_unit_test_setup_teardown(ranks_share_each_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(own_sampler_with_repeated_samples, setup, teardown),
        cmocka_unit_test_setup_teardown(collate_changes_the_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(preload, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_of_ones_own, setup, teardown),
        cmocka_unit_test_setup_teardown(statistics, setup, teardown),
        cmocka_unit_test_setup_teardown(refused, setup, teardown),
    };
    return RUN_TESTS(tests);
}
