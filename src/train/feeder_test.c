// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// Copies of batches to a device (case C17), and transforms that run there.
#include "data/data_testing.h"

#include "train/feeder.h"

enum { BATCHES = 1000, SIZE = 64, BATCH = 4 };

// Every byte of a sample is its epoch, and its number is told.
static rung_status read_sample(void *self, void *state, const rung_sample *sample,
                               rung_view *fields)
{
    (void)self;
    (void)state;
    memset(fields[0].data, (int)(sample->epoch % 251), SIZE);
    *(int64_t *)fields[1].data = sample->index;
    return RUNG_OK;
}

static rung_source make_source(int64_t count)
{
    return (rung_source){.name = "bytes",
                         .count = count,
                         .field_count = 2,
                         .fields = {{"image", RUNG_U8, RUNG_SHAPE(SIZE), RUNG_PIXELS_NONE},
                                    {"label", RUNG_I64, RUNG_SCALAR, RUNG_PIXELS_NONE}},
                         .read = read_sample};
}

// Case C17: copies take 5 ms, the loader has two slots and is eager to fill them; batch k is full
// of k. The device finds no value of another batch.
static void case_c17(bool non_blocking, bool pinned, int workers)
{
    test_log log;
    test_clock clock;
    test_clock_init(&clock);
    rung_context *context = test_context(&log, &clock.clock);
    rung_source source = make_source(BATCH); // a batch an epoch
    rungi_pinned memory;
    rung_loader *loader;
    rungi_feeder *feeder;
    rung_loader_statistics s;
    int wrong = 0;
    rungi_pinned_init(&memory, context, 1 << 20);
    rung_loader_memory functions = rungi_pinned_memory(&memory);
    assert_ok(rung_loader_create(context, &source,
                                 &(rung_loader_options){.batch_size = BATCH,
                                                        .num_workers = workers,
                                                        .prefetch_factor = 1,
                                                        .hold = workers ? 1 : 2,
                                                        .memory = pinned ? &functions : NULL},
                                 &loader));
    assert_ok(rungi_feeder_create(context, loader,
                                  &(rungi_feeder_options){.device = "cpu:0",
                                                          .copy = true,
                                                          .copy_delay = 5000000,
                                                          .non_blocking = non_blocking,
                                                          .pinned = pinned ? &memory : NULL},
                                  &feeder));
    for (int k = 0; k < BATCHES; k++) {
        rung_batch batch;
        assert_ok(rungi_feeder_next(feeder, k, &batch));
        assert_int_equal(batch.epoch, k);
        assert_int_equal(batch.count, BATCH);
        for (int i = 0; i < BATCH * SIZE; i++)
            wrong += ((const unsigned char *)batch.fields[0].data)[i] != k % 251;
        for (int i = 0; i < BATCH; i++) {
            wrong += ((const int64_t *)batch.fields[1].data)[i] != i;
            wrong += batch.samples[i] != i || batch.draws[i].sample != i;
        }
        rungi_feeder_release(feeder, &batch);
    }
    assert_int_equal(wrong, 0);
    rung_loader_measure(loader, &s);
    int64_t bytes = BATCH * (SIZE + 8);
    assert_true(s.copy_bytes == BATCHES * bytes);
    // Two fields; one more batch may be under way.
    assert_float_equal(s.seconds[RUNG_STAGE_COPY], BATCHES * 2 * 0.005, 1e-6);
    rungi_feeder_destroy(&feeder);
    rung_loader_destroy(&loader);
    rungi_pinned_fini(&memory);
    rung_context_destroy(&context);
}

static void case_c17_non_blocking(void **state)
{
    (void)state;
    case_c17(true, true, 1);
    case_c17(true, true, 0);
}

static void case_c17_blocking(void **state)
{
    (void)state;
    case_c17(false, true, 1);
    case_c17(true, false, 1); // from pageable memory there is only waiting
}

// A failing sample is told when its batch is wanted, not before; after a seek it goes on.
static void failures_come_in_their_turn(void **state)
{
    test_log log;
    test_source s;
    rung_batch batch;
    rung_loader *loader;
    rungi_feeder *feeder;
    rungi_pinned memory;
    rung_context *context = test_context(&log, NULL);
    (void)state;
    test_source_init(&s, 64);
    s.fail_at = 9;
    rungi_pinned_init(&memory, context, 1 << 20);
    rung_loader_memory functions = rungi_pinned_memory(&memory);
    assert_ok(rung_loader_create(
        context, &s.source,
        &(rung_loader_options){.batch_size = 4, .num_workers = 2, .memory = &functions}, &loader));
    assert_ok(rungi_feeder_create(
        context, loader,
        &(rungi_feeder_options){
            .device = "cpu:0", .copy = true, .non_blocking = true, .pinned = &memory},
        &feeder));
    for (int b = 0; b < 2; b++) {
        assert_ok(rungi_feeder_next(feeder, b, &batch));
        assert_int_equal(batch.position, 4 * b);
        rungi_feeder_release(feeder, &batch);
    }
    assert_fails(RUNG_DATA, "bad label 9", rungi_feeder_next(feeder, 2, &batch));
    assert_ok(rungi_feeder_seek(feeder, 0, 12));
    assert_ok(rungi_feeder_next(feeder, 3, &batch));
    assert_int_equal(batch.position, 12);
    rungi_feeder_release(feeder, &batch);
    // A copy is under way: it is forgotten.
    assert_ok(rungi_feeder_seek(feeder, 1, 0));
    assert_ok(rungi_feeder_next(feeder, 4, &batch));
    assert_int_equal(batch.epoch, 1);
    assert_int_equal(batch.position, 0);
    rungi_feeder_release(feeder, &batch);
    rungi_feeder_destroy(&feeder);
    rung_loader_destroy(&loader);
    rungi_pinned_fini(&memory);
    test_source_fini(&s);
    rung_context_destroy(&context);
}

// ---- transforms on the device

static rung_status read_image(void *self, void *state, const rung_sample *sample, rung_view *fields)
{
    const rung_source *source = self;
    (void)state;
    int64_t n = source->fields[0].shape.dim[0] * source->fields[0].shape.dim[1] *
                source->fields[0].shape.dim[2];
    for (int64_t i = 0; i < n; i++)
        ((unsigned char *)fields[0].data)[i] = (unsigned char)(sample->index * 31 + i * i % 253);
    *(int64_t *)fields[1].data = sample->index;
    return RUNG_OK;
}

static void same_bits(rung_context *context, bool hwc, const rung_transform *steps, int count,
                      int threads)
{
    rung_source source = {
        .name = "images",
        .count = 20,
        .field_count = 2,
        .fields = {{"image", RUNG_U8, hwc ? RUNG_SHAPE(12, 10, 3) : RUNG_SHAPE(3, 12, 10),
                    hwc ? RUNG_PIXELS_HWC : RUNG_PIXELS_CHW},
                   {"label", RUNG_I64, RUNG_SCALAR, RUNG_PIXELS_NONE}},
        .self = &source,
        .read = read_image};
    rung_loader_options o = {.batch_size = 8,
                             .shuffle = true,
                             .seed = 5,
                             .num_workers = 1,
                             .transforms = steps,
                             .transform_count = count};
    rung_loader *plain, *deferred;
    rung_loader_info info;
    rungi_finish *finish;
    rungi_feeder *feeder;
    assert_ok(rung_loader_create(context, &source, &o, &plain));
    o.defer = true;
    assert_ok(rung_loader_create(context, &source, &o, &deferred));
    rung_loader_describe(deferred, &info);
    assert_int_equal(info.fields[0].dtype, RUNG_U8);
    assert_ok(rungi_finish_create(context, &source.fields[0], &info.fields[0], steps, count, 5,
                                  threads, &finish));
    assert_ok(rungi_feeder_create(
        context, deferred, &(rungi_feeder_options){.device = "cpu:0", .finish = finish}, &feeder));
    rung_loader_describe(plain, &info);
    for (int b = 0; b < 6; b++) {
        rung_batch a, c;
        int64_t values = 0;
        assert_ok(rung_loader_next(plain, &a));
        assert_ok(rungi_feeder_next(feeder, b, &c));
        assert_true(rung_shape_equal(&a.fields[0].shape, &c.fields[0].shape));
        assert_ok(rung_shape_count(&a.fields[0].shape, &values));
        assert_memory_equal(a.fields[0].data, c.fields[0].data, (size_t)values * sizeof(float));
        assert_memory_equal(a.fields[1].data, c.fields[1].data, (size_t)a.count * sizeof(int64_t));
        rung_loader_release(plain, &a);
        rungi_feeder_release(feeder, &c);
    }
    rungi_feeder_destroy(&feeder);
    rung_loader_destroy(&plain);
    rung_loader_destroy(&deferred);
}

static void device_transforms_give_the_same_bits(void **state)
{
    test_log log;
    rung_context *context = test_context(&log, NULL);
    (void)state;
    const rung_transform moves[] = {
        {.kind = RUNG_TRANSFORM_RANDOM_CROP, .height = 9, .width = 8, .padding = 3},
        {.kind = RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP},
        {.kind = RUNG_TRANSFORM_TO_FLOAT},
        {.kind = RUNG_TRANSFORM_NORMALIZE, .mean = {0.4f, 0.5f, 0.6f}, .std = {0.2f, 0.3f, 0.4f}},
        {.kind = RUNG_TRANSFORM_RANDOM_ERASING},
    };
    const rung_transform pictures[] = {
        {.kind = RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP}, // in the worker, as a resize follows
        {.kind = RUNG_TRANSFORM_RANDOM_RESIZED_CROP, .height = 7, .width = 7},
        {.kind = RUNG_TRANSFORM_RANDOM_HORIZONTAL_FLIP},
        {.kind = RUNG_TRANSFORM_TO_FLOAT},
        {.kind = RUNG_TRANSFORM_NORMALIZE, .mean = {0.4f, 0.5f, 0.6f}, .std = {0.2f, 0.3f, 0.4f}},
    };
    for (int hwc = 0; hwc < 2; hwc++)
        for (int threads = 1; threads <= 3; threads++) {
            same_bits(context, hwc, moves, 5, threads);
            same_bits(context, hwc, pictures, 5, threads);
        }
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_c17_non_blocking),
        cmocka_unit_test(case_c17_blocking),
        cmocka_unit_test(failures_come_in_their_turn),
        cmocka_unit_test(device_transforms_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
