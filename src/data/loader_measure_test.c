// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// Where a worker's time went, on a clock that moves only when it is told to.
#include "data/data_testing.h"

#define MS INT64_C(1000000)

typedef struct fixture {
    test_log log;
    test_clock clock;
    rung_context *context;
    rung_source source;
    unsigned char row[4];
} fixture;

// Reading takes 3 ms; what is read is borrowed.
static rung_status read_row(void *self, void *state, const rung_sample *sample, rung_view *fields)
{
    fixture *f = self;
    (void)state;
    (void)sample;
    test_clock_sleep(&f->clock, 3 * MS);
    fields[0].data = f->row;
    return RUNG_OK;
}

// 2 ms.
static rung_status transform(void *user, const rung_sample *sample, const rung_random *random,
                             const rung_view *in, rung_view *out)
{
    (void)sample;
    (void)random;
    test_clock_sleep(user, 2 * MS);
    memcpy(out->data, in->data, 4);
    return RUNG_OK;
}

// 5 ms.
static rung_status collate(void *user, const rung_random *random, rung_batch *batch)
{
    (void)random;
    (void)batch;
    test_clock_sleep(user, 5 * MS);
    return RUNG_OK;
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    test_clock_init(&f->clock);
    f->context = test_context(&f->log, &f->clock.clock);
    f->source = (rung_source){.name = "slow",
                              .count = 1000,
                              .field_count = 1,
                              .fields = {{"x", RUNG_U8, RUNG_SHAPE(4), RUNG_PIXELS_NONE}},
                              .self = f,
                              .read = read_row};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    rung_context_destroy(&f->context);
    free(f);
    return 0;
}

static rung_loader *make(fixture *f, int workers)
{
    rung_loader *loader = NULL;
    const rung_transform step = {
        .kind = RUNG_TRANSFORM_CUSTOM, .apply = transform, .user = &f->clock};
    assert_ok(rung_loader_create(f->context, &f->source,
                                 &(rung_loader_options){.batch_size = 4,
                                                        .num_workers = workers,
                                                        .collate = collate,
                                                        .collate_user = &f->clock,
                                                        .transforms = &step,
                                                        .transform_count = 1},
                                 &loader));
    return loader;
}

static void assert_seconds(const double seconds[RUNG_STAGES], int batches)
{
    assert_float_equal(seconds[RUNG_STAGE_READ], batches * 4 * 0.003, 1e-9);
    assert_float_equal(seconds[RUNG_STAGE_TRANSFORM], batches * 4 * 0.002, 1e-9);
    assert_float_equal(seconds[RUNG_STAGE_COLLATE], batches * 0.005, 1e-9);
    assert_float_equal(seconds[RUNG_STAGE_DECODE], 0, 0);
}

static void without_workers(void **state)
{
    fixture *f = *state;
    rung_loader *loader = make(f, 0);
    rung_loader_statistics s;
    rung_worker_statistics w;
    rung_batch batch;
    for (int i = 0; i < 3; i++) {
        assert_ok(rung_loader_next(loader, &batch));
        rung_loader_release(loader, &batch);
    }
    test_clock_sleep(&f->clock, 25 * MS); // the consumer's own work
    rung_loader_measure(loader, &s);
    assert_seconds(s.seconds, 3);
    assert_float_equal(s.wait_seconds, 0.075, 1e-9);
    assert_float_equal(s.worker_seconds, 0.1, 1e-9);
    assert_int_equal(s.read_bytes, 3 * 16);
    assert_int_equal(s.batch_bytes, 3 * 16);
    assert_true(rung_loader_measure_worker(loader, 0, &w));
    assert_seconds(w.seconds, 3);
    assert_float_equal(w.busy_share, 0.75, 1e-9);
    assert_int_equal(w.reads, 12);
    assert_false(rung_loader_measure_worker(loader, 1, &w));
    assert_false(rung_loader_measure_worker(loader, -1, &w));
    rung_loader_destroy(&loader);
}

// A worker that has filled all slots waits for one; that is told while it waits, too.
static void waiting_for_a_slot(void **state)
{
    fixture *f = *state;
    rung_loader *loader = make(f, 1);
    rung_loader_statistics s;
    rung_batch batch;
    assert_ok(rung_loader_start(loader));
    do
        rung_loader_measure(loader, &s);
    while (s.queue_depth < 3); // 2 ahead and 1 to hold
    assert_seconds(s.seconds, 3);
    test_clock_sleep(&f->clock, 125 * MS);
    rung_loader_measure(loader, &s);
    assert_float_equal(s.seconds[RUNG_STAGE_SLOT], 0.125, 1e-9);
    assert_float_equal(s.seconds[RUNG_STAGE_IDLE], 0, 0);
    assert_float_equal(s.worker_seconds, 0.2, 1e-9);
    assert_float_equal(s.busy_seconds, 0.075, 1e-9);
    assert_ok(rung_loader_next(loader, &batch));
    rung_loader_release(loader, &batch);
    do
        rung_loader_measure(loader, &s);
    while (s.queue_depth < 3);
    assert_seconds(s.seconds, 4);
    assert_float_equal(s.seconds[RUNG_STAGE_SLOT], 0.125, 1e-9);
    rung_loader_destroy(&loader);
}

static void copies_are_added(void **state)
{
    fixture *f = *state;
    rung_loader *loader = make(f, 0);
    rung_loader_statistics s;
    rung_loader_count_copy(loader, 0.5, 1000);
    rung_loader_count_copy(loader, 0.25, 24);
    rung_loader_measure(loader, &s);
    assert_float_equal(s.seconds[RUNG_STAGE_COPY], 0.75, 0);
    assert_int_equal(s.copy_bytes, 1024);
    rung_loader_destroy(&loader);
}

static void stages_have_names(void **state)
{
    (void)state;
    assert_string_equal(rung_loader_stage_name(RUNG_STAGE_READ), "read");
    assert_string_equal(rung_loader_stage_name(RUNG_STAGE_COPY), "copy");
    assert_null(rung_loader_stage_name(RUNG_STAGES));
    assert_null(rung_loader_stage_name(-1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_workers, setup, teardown),
        cmocka_unit_test_setup_teardown(waiting_for_a_slot, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_are_added, setup, teardown),
        cmocka_unit_test(stages_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
