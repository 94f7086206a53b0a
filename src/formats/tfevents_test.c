// SPDX-License-Identifier: Apache-2.0
// Case C85. The files that this test writes were read by TensorBoard's own readers
// (tools/fixtures/formats.py --events); here they must come out with the same bytes, and what
// TensorBoard made of them must be what was meant.
//
//   tfevents_test --write DIR    writes the files for that script
#include "scratch.h"

#include <math.h>
#include <unistd.h>

#include <jansson.h>

#include "formats/crc32c.h"
#include "formats/tfevents.h"

static int64_t test_time;

static int64_t test_now(void *user)
{
    (void)user;
    return test_time += 10000000; // 10 ms a call
}

static const rung_clock test_clock = {NULL, test_now, NULL};

static double loss(int session, int step)
{
    return 10.0 / step + session;
}

static rungi_tfevents *start(const char *folder, int64_t first_step, double wall, const char *host)
{
    rungi_tfevents *events;
    rungi_tfevents_options options = {.first_step = first_step,
                                      .clock = &test_clock,
                                      .wall_time = wall,
                                      .host = host,
                                      .process = 42};
    assert_ok(rungi_tfevents_create(folder, &options, &events));
    return events;
}

static void steps(rungi_tfevents *events, int session, int first, int last)
{
    static const char *const tags[] = {"train/loss", "train/lr"};
    for (int step = first; step <= last; step++) {
        double values[] = {loss(session, step), 0.125};
        assert_ok(rungi_tfevents_scalars(events, step, 2, tags, values));
    }
}

static const char *const names[] = {"events.out.tfevents.1700000000.node_7.42.0",
                                    "events.out.tfevents.1700000001.abc.42.0",
                                    "events.out.tfevents.1700000002.abc.42.0"};

// A session of steps 1 to 15, killed while it wrote; resumed at 10 in the same second and on a host
// whose name sorts before; run to 20; resumed at 15 with a clock an hour back; run to 25.
static void write_sessions(const char *folder)
{
    char path[RUNGI_PATH_MAX];
    struct stat st;
    test_time = 0;
    rungi_tfevents *events = start(folder, 0, 1700000000.25, "node 7");
    assert_ok(rungi_tfevents_text(events, 0, "config", "lr: 0.125\n\u00e9"));
    steps(events, 1, 1, 15);
    assert_ok(rungi_tfevents_path(events) ? RUNG_OK : RUNG_INTERNAL);
    assert_ok(rungi_tfevents_close(&events));
    assert_ok(rungi_path_format(path, "%s/%s", folder, names[0]));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 5), 0);
    events = start(folder, 11, 1700000000.5, "abc");
    assert_ok(rungi_tfevents_text(events, 11, "note", "resumed"));
    steps(events, 2, 11, 20);
    assert_ok(rungi_tfevents_scalar(events, 20, "validation/accuracy", 0.5));
    assert_ok(rungi_tfevents_close(&events));
    events = start(folder, 16, 1699996400, "abc");
    steps(events, 3, 16, 25);
    assert_ok(rungi_tfevents_scalar(events, 25, "validation/accuracy", 0.75));
    assert_ok(rungi_tfevents_close(&events));
    assert_null(events);
}

static void same_bytes_as_decoded(void **state)
{
    (void)state;
    char folder[RUNGI_PATH_MAX], path[RUNGI_PATH_MAX];
    scratch_make(folder);
    write_sessions(folder);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t size, wanted_size;
        assert_ok(rungi_path_format(path, "%s/%s", folder, names[i]));
        char *data = scratch_read(path, &size);
        assert_ok(rungi_path_format(path, "%s/%s", FORMATS_FIXTURE(""), names[i]));
        char *wanted = scratch_read(path, &wanted_size);
        assert_int_equal(size, wanted_size);
        assert_memory_equal(data, wanted, size);
        free(data);
        free(wanted);
    }
    scratch_remove(folder);
}

static int session_of(int step)
{
    return step <= 10 ? 1 : step <= 15 ? 2 : 3;
}

// Each step once per tag, rising, with the values of the session that went on.
static void check_series(const json_t *series, int first, bool is_loss)
{
    size_t i;
    json_t *point;
    assert_int_equal(json_array_size(series), 25);
    json_array_foreach(series, i, point)
    {
        int step = (int)json_integer_value(json_array_get(point, 0));
        double value = json_number_value(json_array_get(point, 1));
        assert_int_equal(step, first + (int)i);
        assert_true(value == (is_loss ? (float)loss(session_of(step), step) : 0.125f));
    }
}

static void as_tensorboard_reads_it(void **state)
{
    (void)state;
    json_error_t error;
    json_t *decoded = json_load_file(FORMATS_FIXTURE("tfevents.json"), 0, &error);
    assert_non_null(decoded);
    static const char *const readers[] = {"scalars", "tensors"};
    for (int i = 0; i < 2; i++) {
        json_t *series = json_object_get(decoded, readers[i]);
        check_series(json_object_get(series, "train/loss"), 1, true);
        check_series(json_object_get(series, "train/lr"), 1, false);
        // The value at step 20 was superseded by the third session.
        json_t *accuracy = json_object_get(series, "validation/accuracy");
        assert_int_equal(json_array_size(accuracy), 1);
        json_t *point = json_array_get(accuracy, 0);
        assert_int_equal(json_integer_value(json_array_get(point, 0)), 25);
        assert_true(json_number_value(json_array_get(point, 1)) == 0.75);
    }
    json_t *texts = json_object_get(decoded, "texts");
    json_t *config = json_array_get(json_object_get(texts, "config"), 0);
    assert_string_equal(json_string_value(json_array_get(config, 1)), "lr: 0.125\n\u00e9");
    json_t *note = json_array_get(json_object_get(texts, "note"), 0);
    assert_int_equal(json_integer_value(json_array_get(note, 0)), 11);
    // Wall times never run backwards inside a file.
    const char *name;
    json_t *times;
    json_object_foreach(json_object_get(decoded, "wall_times"), name, times)
    {
        assert_true(json_array_size(times) > 10);
        for (size_t i = 1; i < json_array_size(times); i++)
            assert_true(json_number_value(json_array_get(times, i)) >
                        json_number_value(json_array_get(times, i - 1)));
    }
    json_decref(decoded);
}

// A resume cuts the older files: what stays is the same bytes up to a record.
static void cuts_older_files(void **state)
{
    (void)state;
    char folder[RUNGI_PATH_MAX], path[RUNGI_PATH_MAX];
    size_t before[3], after[3];
    char *whole[3];
    scratch_make(folder);
    write_sessions(folder);
    for (int i = 0; i < 3; i++) {
        assert_ok(rungi_path_format(path, "%s/%s", folder, names[i]));
        whole[i] = scratch_read(path, &before[i]);
    }
    rungi_tfevents *events;
    rungi_tfevents_options options = {.first_step = 13, .resumed = true, .clock = &test_clock};
    assert_ok(rungi_tfevents_create(folder, &options, &events));
    assert_ok(rungi_tfevents_close(&events));
    // The first loses its steps 13 and 14 and its torn end, the second 13 to 20, the third all.
    for (int i = 0; i < 2; i++) {
        assert_ok(rungi_path_format(path, "%s/%s", folder, names[i]));
        char *rest = scratch_read(path, &after[i]);
        assert_true(after[i] < before[i]);
        assert_memory_equal(rest, whole[i], after[i]);
        free(rest);
    }
    size_t record = before[2] / 12; // of about equal size
    assert_true(before[0] - after[0] > 2 * record && before[0] - after[0] < 4 * record);
    assert_true(before[1] - after[1] > 7 * record && before[1] - after[1] < 10 * record);
    assert_ok(rungi_path_format(path, "%s/%s", folder, names[2]));
    assert_int_equal(access(path, F_OK), -1);
    // Cut again at a later step: nothing changes.
    assert_ok(rungi_tfevents_cut(folder, 13));
    assert_ok(rungi_path_format(path, "%s/%s", folder, names[0]));
    char *rest = scratch_read(path, &before[0]);
    assert_int_equal(before[0], after[0]);
    free(rest);
    // Not an event file inside: left alone.
    scratch_write(path, "something else", 14);
    assert_ok(rungi_tfevents_cut(folder, 0));
    rest = scratch_read(path, &before[0]);
    assert_string_equal(rest, "something else");
    free(rest);
    for (int i = 0; i < 3; i++)
        free(whole[i]);
    scratch_remove(folder);
}

static void refuses(void **state)
{
    (void)state;
    char folder[RUNGI_PATH_MAX];
    scratch_make(folder);
    rungi_tfevents *events = start(folder, 11, 1700000000, "h");
    assert_fails(RUNG_INVALID, "step 10 is before the first of this session, 11",
                 rungi_tfevents_scalar(events, 10, "x", 1));
    assert_fails(RUNG_INVALID, "step 0 is before", rungi_tfevents_text(events, 0, "x", "y"));
    assert_fails(RUNG_INVALID, "not UTF-8", rungi_tfevents_scalar(events, 11, "\xff", 1));
    assert_fails(RUNG_INVALID, "not UTF-8", rungi_tfevents_text(events, 11, "x", "\xff"));
    assert_ok(rungi_tfevents_scalar(events, 11, "not a number", NAN));
    assert_ok(rungi_tfevents_close(&events));
    assert_ok(rungi_tfevents_close(&events));
    rungi_tfevents_options options = {.first_step = -1};
    assert_fails(RUNG_INVALID, "cannot begin at step -1",
                 rungi_tfevents_create(folder, &options, &events));
    assert_fails(RUNG_NOT_FOUND, "/nonexistent",
                 rungi_tfevents_create("/nonexistent", NULL, &events));
    // Two with the time of day, in the same second: two files.
    rungi_tfevents *second;
    assert_ok(rungi_tfevents_create(folder, NULL, &events));
    assert_ok(rungi_tfevents_create(folder, NULL, &second));
    assert_true(strcmp(rungi_tfevents_path(events), rungi_tfevents_path(second)) < 0);
    assert_ok(rungi_tfevents_close(&events));
    assert_ok(rungi_tfevents_close(&second));
    scratch_remove(folder);
}

// Long tags and many records; every record's frame is right to the end of the file.
static void frames(void **state)
{
    (void)state;
    char folder[RUNGI_PATH_MAX], path[RUNGI_PATH_MAX], tag[400];
    scratch_make(folder);
    rungi_tfevents *events = start(folder, 0, 1700000000, "h");
    memset(tag, 't', sizeof tag - 1);
    for (int step = 0; step < 3000; step++) {
        tag[step % (sizeof tag - 1) + 1] = 0;
        assert_ok(rungi_tfevents_scalar(events, step, tag, step));
        tag[step % (sizeof tag - 1) + 1] = 't';
    }
    assert_ok(rungi_path_format(path, "%s", rungi_tfevents_path(events)));
    assert_ok(rungi_tfevents_close(&events));
    size_t size, at = 0;
    int records = 0;
    char *data = scratch_read(path, &size);
    while (at < size) {
        uint64_t length;
        uint32_t stored, crc;
        assert_true(size - at > 16);
        memcpy(&length, data + at, 8);
        memcpy(&stored, data + at + 8, 4);
        crc = rungi_crc32c(0, data + at, 8);
        assert_int_equal(stored, ((crc >> 15) | (crc << 17)) + 0xA282EAD8u);
        assert_true(length <= size - at - 16);
        memcpy(&stored, data + at + 12 + length, 4);
        crc = rungi_crc32c(0, data + at + 12, length);
        assert_int_equal(stored, ((crc >> 15) | (crc << 17)) + 0xA282EAD8u);
        at += length + 16;
        records++;
    }
    assert_int_equal(records, 3002);
    free(data);
    scratch_remove(folder);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        write_sessions(argv[2]);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bytes_as_decoded),
        cmocka_unit_test(as_tensorboard_reads_it),
        cmocka_unit_test(cuts_older_files),
        cmocka_unit_test(refuses),
        cmocka_unit_test(frames),
    };
    return RUN_TESTS(tests);
}
