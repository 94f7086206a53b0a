// SPDX-License-Identifier: Apache-2.0
// metrics.jsonl and CSV.
#include "scratch.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <unistd.h>

#include "formats/csv.h"
#include "formats/jsonl.h"

static char folder[RUNGI_PATH_MAX], path[RUNGI_PATH_MAX], csv_path[RUNGI_PATH_MAX];

static int set_up(void **state)
{
    (void)state;
    scratch_make(folder);
    assert_ok(rungi_path_format(path, "%s/metrics.jsonl", folder));
    assert_ok(rungi_path_format(csv_path, "%s/metrics.csv", folder));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_remove(folder);
    return 0;
}

static rung_status append(rungi_jsonl *log, const char *event, int step, double loss)
{
    json_t *line = json_pack("{s:s, s:i, s:o, s:{s:f, s:f}}", "event", event, "step", step, "loss",
                             rungi_jsonl_number(loss), "ms", "wait", 0.25, "copy", 0.1);
    rung_status status = rungi_jsonl_append(log, line);
    json_decref(line);
    return status;
}

static void expect_file(const char *file, const char *wanted)
{
    size_t size;
    char *text = scratch_read(file, &size);
    assert_string_equal(text, wanted);
    free(text);
}

#define LINE(event, step, loss)                                                                    \
    "{\"event\":\"" event "\",\"step\":" step ",\"loss\":" loss ",\"ms\":{\"wait\":0.25,\"copy\":" \
    "0.1}}\n"

static void appends_and_resumes(void **state)
{
    (void)state;
    rungi_jsonl *log;
    size_t dropped;
    assert_ok(rungi_jsonl_create(path, NULL, &log));
    assert_ok(append(log, "step", 1, 0.5));
    assert_ok(append(log, "step", 2, NAN));
    assert_ok(append(log, "eval", 2, 0.125));
    assert_ok(append(log, "step", 3, 0.1));
    assert_ok(append(log, "end", 3, 0));
    assert_ok(rungi_jsonl_sync(log));
    rungi_jsonl_close(&log);
    assert_null(log);
    expect_file(path, LINE("step", "1", "0.5") LINE("step", "2", "null") LINE("eval", "2", "0.125")
                          LINE("step", "3", "0.1") LINE("end", "3", "0.0"));
    assert_fails(RUNG_IO, "cannot create", rungi_jsonl_create(path, NULL, &log));
    // The run goes on where it ended: only its end is taken back.
    assert_ok(rungi_jsonl_resume(path, 3, NULL, &dropped, &log));
    assert_int_equal(dropped, 1);
    assert_ok(append(log, "step", 4, 1));
    rungi_jsonl_close(&log);
    // It goes on from an earlier checkpoint.
    assert_ok(rungi_jsonl_resume(path, 2, NULL, &dropped, &log));
    assert_int_equal(dropped, 2);
    assert_ok(append(log, "step", 3, 2));
    rungi_jsonl_close(&log);
    expect_file(path, LINE("step", "1", "0.5") LINE("step", "2", "null") LINE("eval", "2", "0.125")
                          LINE("step", "3", "2.0"));
    assert_ok(rungi_jsonl_resume(path, -1, NULL, &dropped, &log));
    assert_int_equal(dropped, 4);
    rungi_jsonl_close(&log);
    expect_file(path, "");
    assert_int_equal(unlink(path), 0);
    assert_ok(rungi_jsonl_resume(path, 5, NULL, &dropped, &log));
    assert_int_equal(dropped, 0);
    assert_ok(append(log, "step", 6, 1));
    rungi_jsonl_close(&log);
    expect_file(path, LINE("step", "6", "1.0"));
}

// A file cut at any byte: the whole lines stay, the torn one goes.
static void torn_lines(void **state)
{
    (void)state;
    static const char text[] =
        LINE("step", "1", "0.5") LINE("step", "2", "0.25") LINE("step", "10", "1.0");
    for (size_t cut = 0; cut < sizeof text; cut++) {
        scratch_write(path, text, cut);
        rungi_jsonl *log;
        size_t dropped, size;
        assert_ok(rungi_jsonl_resume(path, 100, NULL, &dropped, &log));
        rungi_jsonl_close(&log);
        size_t whole = cut;
        while (whole && text[whole - 1] != '\n')
            whole--;
        char *left = scratch_read(path, &size);
        assert_int_equal(size, whole);
        assert_memory_equal(left, text, size);
        assert_int_equal(dropped, whole < cut);
        free(left);
    }
    // Damage in the middle costs its line only (blocks of zeros after a power failure).
    static const char damaged[] = LINE("step", "1", "0.5") "\0\0\0\n{\"step\": \n[1]\n" LINE(
        "step", "2", "0.25") "{\"note\":\"no step\"}\n";
    scratch_write(path, damaged, sizeof damaged - 1);
    rungi_jsonl *log;
    size_t dropped;
    assert_ok(rungi_jsonl_resume(path, 2, NULL, &dropped, &log));
    assert_int_equal(dropped, 3);
    rungi_jsonl_close(&log);
    expect_file(path,
                LINE("step", "1", "0.5") LINE("step", "2", "0.25") "{\"note\":\"no step\"}\n");
}

static int fail_third_write(void *user, const char *call, const char *file)
{
    (void)file;
    return strcmp(call, "write") == 0 && ++*(int *)user == 3 ? ENOSPC : 0;
}

// A line of which the disk took a part is taken back.
static void full_disk(void **state)
{
    (void)state;
    int writes = 0;
    rungi_io_hook hook = {&writes, fail_third_write};
    rungi_jsonl *log;
    assert_ok(rungi_jsonl_create(path, &hook, &log));
    assert_ok(append(log, "step", 1, 0.5));
    char *large = calloc(1, 10000);
    memset(large, 'x', 9999);
    json_t *line = json_pack("{s:s}", "text", large);
    assert_fails(RUNG_IO, "metrics.jsonl: disk full", rungi_jsonl_append(log, line));
    expect_file(path, LINE("step", "1", "0.5"));
    assert_ok(append(log, "step", 2, 0.5));
    expect_file(path, LINE("step", "1", "0.5") LINE("step", "2", "0.5"));
    json_decref(line);
    free(large);
    rungi_jsonl_close(&log);
}

static void csv_fields(void **state)
{
    (void)state;
    rungi_string out = {0};
    rungi_csv_text(&out, "plain");
    rungi_csv_text(&out, "a,b");
    rungi_csv_text(&out, "say \"hi\"");
    rungi_csv_text(&out, "two\nlines");
    rungi_csv_text(&out, "");
    rungi_csv_integer(&out, -5);
    rungi_csv_number(&out, 0.1);
    rungi_csv_number(&out, NAN);
    rungi_csv_number(&out, 1e-300);
    rungi_csv_end(&out);
    rungi_csv_text(&out, "");
    rungi_csv_text(&out, "x");
    rungi_csv_end(&out);
    assert_string_equal(out.data,
                        "plain,\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\",,-5,0.1,,1e-300\n"
                        "\"\",x\n");
    rungi_string_fini(&out);
}

// Numbers have a dot in every locale that writes a comma.
static void other_locale(void **state)
{
    (void)state;
    static const char *const locales[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8",
                                          "ru_RU.UTF-8"};
    bool found = false;
    for (int i = 0; i < 4 && !found; i++)
        found = setlocale(LC_NUMERIC, locales[i]) != NULL;
    if (!found)
        skip();
    rungi_string out = {0};
    rungi_csv_number(&out, 0.5);
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(out.data, "0.5");
    rungi_string_fini(&out);
}

static void table_from_lines(void **state)
{
    (void)state;
    static const char text[] =
        LINE("step", "1", "0.5") "{\"event\":\"eval\",\"step\":1,\"top1\":0.75,"
                                 "\"best\":true,\"matrix\":[1,2]}\n" LINE(
                                     "step", "2", "null") "{\"event\":\"end\",\"sta";
    scratch_write(path, text, sizeof text - 1);
    assert_ok(rungi_jsonl_to_csv(path, csv_path));
    expect_file(csv_path, "event,step,loss,ms.wait,ms.copy,top1,best,matrix\n"
                          "step,1,0.5,0.25,0.1,,,\n"
                          "eval,1,,,,0.75,true,\"[1,2]\"\n"
                          "step,2,,0.25,0.1,,,\n");
    scratch_write(path, "", 0);
    assert_ok(rungi_jsonl_to_csv(path, csv_path));
    expect_file(csv_path, "");
    assert_fails(RUNG_NOT_FOUND, "cannot open", rungi_jsonl_to_csv("/nonexistent", csv_path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(appends_and_resumes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(torn_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(full_disk, set_up, tear_down),
        cmocka_unit_test(csv_fields),
        cmocka_unit_test(other_locale),
        cmocka_unit_test_setup_teardown(table_from_lines, set_up, tear_down),
    };
    return RUN_TESTS(tests);
}
