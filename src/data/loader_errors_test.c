// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// What is told when a worker fails, is stuck, or cannot begin (cases C04, C06, C14).
#include "data/data_testing.h"

#include "base/cores.h"

typedef struct fixture {
    test_log log;
    test_clock clock;
    rung_context *context;
    test_source source;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    test_clock_init(&f->clock);
    f->context = test_context(&f->log, &f->clock.clock);
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

// Takes batches until next() fails; gives how many came before.
static int take_until_failure(rung_loader *loader, rung_status *status)
{
    for (int b = 0;; b++) {
        rung_batch batch;
        *status = rung_loader_next(loader, &batch);
        if (*status != RUNG_OK)
            return b;
        rung_loader_release(loader, &batch);
    }
}

static const char *message(void)
{
    return rung_error_last()->message;
}

// Sample 37 fails: its text, index, file and worker are told, after the batches before it; the text
// is the same without workers.
static void case_c04_failing_sample(void **state)
{
    fixture *f = *state;
    char texts[3][1024];
    f->source.fail_at = 37;
    for (int workers = 0; workers <= 4; workers += 2) {
        rung_status status;
        rung_loader *loader =
            make(f, &(rung_loader_options){.batch_size = 4, .num_workers = workers});
        assert_int_equal(take_until_failure(loader, &status), 9);
        assert_int_equal(status, RUNG_DATA);
        assert_non_null(strstr(message(), "bad label 37"));
        assert_non_null(strstr(message(), "sample 37 (folder/file_37.bin)"));
        assert_non_null(strstr(message(), "epoch 0"));
        assert_non_null(strstr(message(), workers ? "worker " : "without workers"));
        strcpy(texts[workers / 2], strstr(message(), "bad label"));
        // It stays so until the place is changed.
        assert_int_equal(take_until_failure(loader, &status), 0);
        assert_non_null(strstr(message(), "sample 37"));
        assert_ok(rung_loader_seek(loader, 0, 40));
        rung_batch batch;
        assert_ok(rung_loader_next(loader, &batch));
        assert_int_equal(batch.samples[0], 40);
        rung_loader_destroy(&loader);
    }
    assert_string_equal(texts[0], texts[1]);
    assert_string_equal(texts[0], texts[2]);
}

// Two workers fail at once: both are told, the first in order first, on every run.
static void case_c04_two_at_once(void **state)
{
    fixture *f = *state;
    f->source.fail_at = 14; // far apart in one batch of 32: two workers
    f->source.fail_also = 18;
    f->source.meet = 2;
    for (int run = 0; run < 20; run++) {
        rung_status status;
        f->source.met = 0;
        rung_loader *loader = make(f, &(rung_loader_options){.batch_size = 32, .num_workers = 2});
        // Runs of 32 samples for two workers: 0-7, 8-13, 14-17, 18-20, ...
        assert_int_equal(take_until_failure(loader, &status), 0);
        const char *first = strstr(message(), "sample 14 (folder/file_14.bin)");
        const char *second = strstr(message(), "; also sample 18 (folder/file_18.bin)");
        assert_non_null(first);
        assert_non_null(second);
        assert_true(first == message() && first < second);
        assert_non_null(strstr(second, "bad label 18"));
        rung_loader_destroy(&loader);
    }
}

// Samples 0 and 1 of one batch fail in one worker or in several: it is always 0 that is told first.
static void the_first_in_order_is_told_first(void **state)
{
    fixture *f = *state;
    f->source.fail_at = 21;
    f->source.fail_also = 22;
    for (int run = 0; run < 100; run++) {
        rung_status status;
        rung_loader *loader = make(f, &(rung_loader_options){.batch_size = 8, .num_workers = 4});
        assert_int_equal(take_until_failure(loader, &status), 2);
        assert_true(strstr(message(), "sample 21 (") == message());
        rung_loader_destroy(&loader);
    }
}

// Of so many workers there is a warning on this machine.
static int too_many(int workers)
{
    return workers > rungi_core_count();
}

// Sample `stuck_at` is stuck, and from when it is so in that many workers the clock runs by itself.
static void stick(fixture *f, int64_t stuck_at, int workers)
{
    f->source.stuck_at = stuck_at;
    f->source.runs = &f->clock;
    f->source.runs_from = workers;
}

// Case C06.
static void case_c06_stuck_sample(void **state)
{
    fixture *f = *state;
    stick(f, 11, 1);
    rung_batch batch;
    rung_loader *loader =
        make(f, &(rung_loader_options){.batch_size = 4, .num_workers = 2, .timeout = 2});
    for (int b = 0; b < 2; b++) {
        assert_ok(rung_loader_next(loader, &batch));
        rung_loader_release(loader, &batch);
    }
    int64_t start = test_clock_now(&f->clock);
    assert_int_equal(rung_loader_next(loader, &batch), RUNG_TIMEOUT);
    int64_t seconds = (test_clock_now(&f->clock) - start) / 1000000000;
    assert_true(seconds >= 2 && seconds <= 4);
    assert_non_null(strstr(message(), "data.timeout (2 s): worker "));
    assert_non_null(strstr(message(), "has been reading sample 11 (folder/file_11.bin) for "));
    // A time-out is not the end: when the sample comes at last, so does the batch.
    atomic_store(&f->clock.step, 0);
    test_source_free(&f->source);
    assert_ok(rung_loader_next(loader, &batch));
    assert_int_equal(batch.position, 8);
    rung_loader_destroy(&loader);
    assert_int_equal(f->log.warnings, too_many(2));
}

// Every stuck worker is named.
static void all_stuck_workers_are_named(void **state)
{
    fixture *f = *state;
    const int64_t zeros[8] = {0};
    rung_sampler *sampler;
    rung_batch batch;
    stick(f, 0, 2);
    assert_ok(rung_sampler_subset(zeros, 8, false, 0, &sampler));
    rung_loader *loader =
        make(f, &(rung_loader_options){
                    .batch_size = 8, .num_workers = 2, .timeout = 2, .sampler = sampler});
    assert_int_equal(rung_loader_next(loader, &batch), RUNG_TIMEOUT);
    assert_non_null(strstr(message(), "worker 0 has been reading sample 0 (folder/file_0.bin)"));
    assert_non_null(strstr(message(), "worker 1 has been reading sample 0 (folder/file_0.bin)"));
    test_source_free(&f->source);
    rung_loader_destroy(&loader);
    rung_sampler_destroy(&sampler);
}

// A worker that never comes back does not keep the loader from stopping.
static void stuck_worker_is_left_behind(void **state)
{
    fixture *f = *state;
    int threads = test_threads();
    rung_status status;
    stick(f, 11, 1);
    rung_loader *loader = make(
        f,
        &(rung_loader_options){.batch_size = 4, .num_workers = 2, .shuffle = true, .timeout = 2});
    take_until_failure(loader, &status);
    assert_int_equal(status, RUNG_TIMEOUT);
    rung_loader_destroy(&loader);
    assert_null(loader);
    assert_int_equal(f->log.warnings, 1 + too_many(2));
    assert_non_null(strstr(f->log.text, "leaves 1 stuck worker behind: worker "));
    assert_non_null(strstr(f->log.text, "sample 11 (folder/file_11.bin)"));
    assert_int_equal(test_threads(), threads + 1);
    // Its source stays in memory, whatever destroys it.
    rung_source *source = &f->source.source;
    rung_source_destroy(&source);
    test_source_free(&f->source);
    test_wait_threads(threads); // and what was left ends by itself, freeing the rest
}

// A seek cannot wait for ever either, and after it has failed nothing from the old place comes.
static void seek_past_a_stuck_sample(void **state)
{
    fixture *f = *state;
    rung_batch batch;
    f->source.stuck_at = 0;
    rung_loader *loader =
        make(f, &(rung_loader_options){.batch_size = 1, .num_workers = 1, .timeout = 0.05});
    assert_ok(rung_loader_start(loader));
    for (int stuck = 0; stuck == 0; usleep(1000)) {
        pthread_mutex_lock(&f->source.lock);
        stuck = f->source.stuck;
        pthread_mutex_unlock(&f->source.lock);
    }
    assert_fails(RUNG_TIMEOUT, "worker 0 has been reading sample 0 (folder/file_0.bin)",
                 rung_loader_seek(loader, 0, 5));
    test_source_free(&f->source);
    assert_fails(RUNG_TIMEOUT, "cannot move to another place", rung_loader_next(loader, &batch));
    assert_ok(rung_loader_seek(loader, 0, 5));
    assert_ok(rung_loader_next(loader, &batch));
    assert_int_equal(batch.samples[0], 5);
    rung_loader_destroy(&loader);
}

static void timeout_without_workers_is_ignored(void **state)
{
    fixture *f = *state;
    rung_status status;
    f->source.stuck_at = 11;
    f->source.freed = true; // slow, not stuck
    f->source.clock = &f->clock;
    rung_loader *loader =
        make(f, &(rung_loader_options){.batch_size = 4, .timeout = 2, .end_epoch = 1});
    assert_int_equal(f->log.notices, 1);
    assert_non_null(
        strstr(f->log.text, "data.timeout (2 s) is ignored because data.num_workers is 0"));
    assert_int_equal(take_until_failure(loader, &status), 16);
    assert_int_equal(status, RUNG_INVALID); // the end
    rung_loader_destroy(&loader);
    assert_int_equal(f->log.notices, 1);
}

// Case C14.
static void case_c14_more_workers_than_cores(void **state)
{
    fixture *f = *state;
    char want[128];
    int cores = rungi_core_count();
    rung_loader *loader =
        make(f, &(rung_loader_options){.batch_size = 4, .num_workers = cores + 6});
    rung_batch batch;
    assert_ok(rung_loader_next(loader, &batch));
    rung_loader_destroy(&loader);
    assert_int_equal(f->log.warnings, 1);
    snprintf(want, sizeof want, "data.num_workers is %d (1 thread each) on %d core", cores + 6,
             cores);
    assert_non_null(strstr(f->log.text, want));
    loader = make(f, &(rung_loader_options){.batch_size = 4, .num_workers = cores});
    rung_loader_destroy(&loader);
    assert_int_equal(f->log.warnings, 1);
}

static void source_that_does_not_open(void **state)
{
    fixture *f = *state;
    rung_batch batch;
    for (int workers = 0; workers <= 2; workers += 2) {
        f->source.open_fails = 1;
        rung_loader *loader =
            make(f, &(rung_loader_options){.batch_size = 4, .num_workers = workers});
        assert_fails(RUNG_IO, "no such disk", rung_loader_next(loader, &batch));
        assert_non_null(strstr(message(), "opening the source test, w"));
        f->source.open_fails = 0;
        if (workers)
            assert_fails(RUNG_IO, "no such disk", rung_loader_seek(loader, 0, 4));
        else
            assert_ok(rung_loader_seek(loader, 0, 4));
        assert_int_equal(rung_loader_next(loader, &batch), workers ? RUNG_IO : RUNG_OK);
        rung_loader_destroy(&loader);
    }
    assert_int_equal(f->source.opened, f->source.closed);
}

static rung_status no_order(void *self, int64_t epoch, void **order_out)
{
    (void)self, (void)order_out;
    return epoch == 1 ? rung_hook_fail(RUNG_IO, "the list is gone") : RUNG_OK;
}

static void in_order(void *self, const void *order, int64_t position, rung_draw *draw_out)
{
    (void)self, (void)order;
    draw_out->sample = position;
}

static rung_status no_collate(void *user, const rung_random *random, rung_batch *batch)
{
    (void)user, (void)random;
    return batch->position == 8 ? RUNG_MISMATCH : RUNG_OK; // without a word
}

static void failing_hooks(void **state)
{
    fixture *f = *state;
    rung_status status;
    const rung_sampler sampler = {.name = "mine", .count = 8, .begin = no_order, .at = in_order};
    for (int workers = 0; workers <= 2; workers += 2) {
        rung_loader *loader = make(
            f,
            &(rung_loader_options){.batch_size = 4, .num_workers = workers, .sampler = &sampler});
        assert_int_equal(take_until_failure(loader, &status), 2);
        assert_int_equal(status, RUNG_IO);
        assert_string_equal(message(), "mine sampler, epoch 1: the list is gone");
        rung_loader_destroy(&loader);
        loader = make(f, &(rung_loader_options){
                             .batch_size = 4, .num_workers = workers, .collate = no_collate});
        assert_int_equal(take_until_failure(loader, &status), 2);
        assert_int_equal(status, RUNG_MISMATCH);
        assert_non_null(strstr(message(), "collating the batch at position 8 of epoch 0, w"));
        assert_non_null(strstr(message(), "shapes do not fit, no reason given"));
        rung_loader_destroy(&loader);
    }
}

// next() with every batch held: an error after a while, not a wait for ever.
static void all_batches_held(void **state)
{
    fixture *f = *state;
    for (int workers = 0; workers <= 2; workers += 2) {
        rung_batch held[5], batch;
        int slots = workers ? 5 : 2;
        rung_loader *loader =
            make(f, &(rung_loader_options){.batch_size = 4, .num_workers = workers, .timeout = 1});
        for (int i = 0; i < slots; i++)
            assert_ok(rung_loader_next(loader, &held[i]));
        atomic_store(&f->clock.step, 5000000);
        assert_fails(RUNG_INVALID, "batches of the loader are held",
                     rung_loader_next(loader, &batch));
        atomic_store(&f->clock.step, 0);
        rung_loader_release(loader, &held[1]); // in any order
        assert_ok(rung_loader_next(loader, &batch));
        assert_int_equal(batch.position, 4 * slots);
        rung_batch again = batch;
        rung_loader_release(loader, &batch);
        rung_loader_release(loader, &again);
        assert_non_null(strstr(f->log.text, "was released twice"));
        f->log.text[0] = '\0';
        rung_loader_destroy(&loader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(case_c04_failing_sample, setup, teardown),
        cmocka_unit_test_setup_teardown(case_c04_two_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(the_first_in_order_is_told_first, setup, teardown),
        cmocka_unit_test_setup_teardown(case_c06_stuck_sample, setup, teardown),
        cmocka_unit_test_setup_teardown(all_stuck_workers_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(stuck_worker_is_left_behind, setup, teardown),
        cmocka_unit_test_setup_teardown(seek_past_a_stuck_sample, setup, teardown),
        cmocka_unit_test_setup_teardown(timeout_without_workers_is_ignored, setup, teardown),
        cmocka_unit_test_setup_teardown(case_c14_more_workers_than_cores, setup, teardown),
        cmocka_unit_test_setup_teardown(source_that_does_not_open, setup, teardown),
        cmocka_unit_test_setup_teardown(failing_hooks, setup, teardown),
        cmocka_unit_test_setup_teardown(all_batches_held, setup, teardown),
    };
    return RUN_TESTS(tests);
}
