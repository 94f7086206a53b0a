// SPDX-License-Identifier: Apache-2.0
// ctest-labels: threads
// What an inspection finds in a source that it is known what is wrong with.
#include "data/data_testing.h"

#include "data/inspect.h"

enum { COUNT = 300, CLASSES = 4 };

// Sample i is a grey image of 5 x 6 full of i, but: 30 and 200 are as 3, 77 and 150 fail, 9 has
// label 4, 10 label -1.
static rung_status read_sample(void *self, void *state, const rung_sample *sample,
                               rung_view *fields)
{
    int64_t i = sample->index, shown = i == 30 || i == 200 ? 3 : i;
    (void)self;
    (void)state;
    if (i == 77 || i == 150)
        return rung_hook_fail(RUNG_CORRUPT, "cut after %d bytes", (int)i);
    memset(fields[0].data, (int)(shown % 256), 30);
    ((unsigned char *)fields[0].data)[0] = (unsigned char)(shown / 256);
    *(int64_t *)fields[1].data = i == 9 ? 4 : i == 10 ? -1 : i % CLASSES;
    return RUNG_OK;
}

static void describe(void *self, int64_t index, char *out, size_t size)
{
    (void)self;
    snprintf(out, size, "file_%d", (int)index);
}

static rung_source make_source(void)
{
    return (rung_source){.name = "known",
                         .count = COUNT,
                         .field_count = 2,
                         .class_count = CLASSES,
                         .fields = {{"image", RUNG_U8, RUNG_SHAPE(1, 6, 5), RUNG_PIXELS_CHW},
                                    {"label", RUNG_I64, RUNG_SCALAR, RUNG_PIXELS_NONE}},
                         .read = read_sample,
                         .describe = describe};
}

typedef struct progress {
    int64_t last, total;
    int calls;
} progress;

static void keep_progress(void *user, int64_t done, int64_t total, const char *what)
{
    progress *p = user;
    assert_true(done >= p->last);
    assert_string_equal(what, "known");
    *p = (progress){done, total, p->calls + 1};
}

static void finds_what_is_wrong(void **state)
{
    test_log log;
    rung_context *context = test_context(&log, NULL);
    rung_source source = make_source();
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        rungi_inspection in;
        rungi_duplicates d;
        assert_ok(
            rungi_inspect(context, &source, &(rungi_inspect_options){.threads = threads}, &in));
        assert_int_equal(in.damaged.count, 2);
        assert_string_equal(in.damaged.data[0].message, "sample 77 (file_77): cut after 77 bytes");
        assert_string_equal(in.damaged.data[1].message,
                            "sample 150 (file_150): cut after 150 bytes");
        assert_int_equal(in.bad_labels.count, 2);
        assert_string_equal(in.bad_labels.data[0].message,
                            "sample 9 (file_9): label 4 is not in 0 ... 3");
        assert_string_equal(in.bad_labels.data[1].message,
                            "sample 10 (file_10): label -1 is not in 0 ... 3");
        // 75 of each, but 9 and 10 are of none, and 77 and 150 are damaged.
        assert_int_equal(in.classes[0], 75);
        assert_int_equal(in.classes[1], 73);
        assert_int_equal(in.classes[2], 73);
        assert_int_equal(in.classes[3], 75);
        assert_int_equal(in.pictures.seen, 298);
        assert_int_equal(in.pictures.colours[RUNGI_COLOUR_GREY], 298);
        assert_int_equal(in.width[0], 5);
        assert_int_equal(in.width[1], 5);
        assert_int_equal(in.height[1], 6);
        assert_float_equal(in.pixels, 298 * 30, 0);
        assert_int_equal(in.bytes, 298 * 30);
        assert_ok(rungi_inspect_duplicates(&in, 1, &d));
        assert_int_equal(d.count, 2);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(d.data[i].sample[0], 3);
            assert_int_equal(d.data[i].sample[1], i ? 200 : 30);
            assert_true(d.data[i].labels_differ); // 3, 2, 0
        }
        rungi_array_fini(&d);
        rungi_inspection_fini(&in);
    }
    rung_context_destroy(&context);
}

static void finds_duplicates_between_sets(void **state)
{
    test_log log;
    rung_context *context = test_context(&log, NULL);
    rung_source all = make_source(), some = make_source();
    rungi_inspection in[2];
    rungi_duplicates d;
    (void)state;
    some.count = 5; // 0 ... 4 of the other
    assert_ok(rungi_inspect(context, &all, &(rungi_inspect_options){.threads = 2}, &in[0]));
    assert_ok(rungi_inspect(context, &some, &(rungi_inspect_options){.threads = 2}, &in[1]));
    assert_ok(rungi_inspect_duplicates(in, 2, &d));
    assert_int_equal(d.count, 7); // five, and the two within
    int between = 0;
    for (size_t i = 0; i < d.count; i++) {
        between += d.data[i].set[1] == 1;
        if (d.data[i].set[1] == 1) {
            assert_int_equal(d.data[i].set[0], 0);
            assert_int_equal(d.data[i].sample[0], d.data[i].sample[1]);
            assert_false(d.data[i].labels_differ);
        }
    }
    assert_int_equal(between, 5);
    rungi_array_fini(&d);
    rungi_inspection_fini(&in[0]);
    rungi_inspection_fini(&in[1]);
    rung_context_destroy(&context);
}

// The clock moves 60 ms at each look: progress comes at every second sample of the caller.
static void tells_progress(void **state)
{
    test_log log;
    test_clock clock;
    progress p = {0};
    rungi_inspection in;
    rung_source source = make_source();
    (void)state;
    test_clock_init(&clock);
    atomic_store(&clock.step, 60000000);
    rung_context *context = test_context(&log, &clock.clock);
    assert_ok(
        rungi_inspect(context, &source,
                      &(rungi_inspect_options){
                          .threads = 1, .progress = keep_progress, .user = &p, .what = "known"},
                      &in));
    assert_true(p.calls >= COUNT / 2 && p.calls <= COUNT);
    assert_int_equal(p.total, COUNT);
    assert_true(p.last >= COUNT - 2);
    rungi_inspection_fini(&in);
    rung_context_destroy(&context);
}

// A source that cannot be opened is an error, not a finding.
static void a_source_that_does_not_open(void **state)
{
    test_log log;
    test_source s;
    rungi_inspection in;
    rung_context *context = test_context(&log, NULL);
    (void)state;
    test_source_init(&s, 8);
    atomic_store(&s.open_fails, 1);
    assert_int_equal(rungi_inspect(context, &s.source, &(rungi_inspect_options){.threads = 2}, &in),
                     RUNG_IO);
    test_source_fini(&s);
    rung_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_is_wrong),
        cmocka_unit_test(finds_duplicates_between_sets),
        cmocka_unit_test(tells_progress),
        cmocka_unit_test(a_source_that_does_not_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
