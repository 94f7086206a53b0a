// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include "base/error.h"

static void statuses(void **state)
{
    (void)state;
    assert_int_equal(rung_status_exit(RUNG_OK), 0);
    assert_int_equal(rung_status_exit(RUNG_IO), 1);
    assert_int_equal(rung_status_exit(RUNG_CONFIG), 2);
    assert_int_equal(rung_status_exit(RUNG_GATE), 3);
    assert_int_equal(rung_status_exit(RUNG_DIVERGED), 4);
    assert_int_equal(rung_status_exit(RUNG_NO_MEMORY), 5);
    assert_int_equal(rung_status_exit((rung_status)999), 1);
    assert_string_equal(rung_status_text(RUNG_CONFIG), "bad configuration");
    assert_string_equal(rung_status_text((rung_status)-1), "unknown status");
}

static void records(void **state)
{
    (void)state;
    assert_int_equal(RUNG_FAIL(RUNG_DATA, "sample %d", 7), RUNG_DATA);
    const rung_error *error = rung_error_last();
    assert_int_equal(error->status, RUNG_DATA);
    assert_string_equal(error->message, "sample 7");
    assert_non_null(strstr(error->file, "error_test.c"));
    assert_true(error->line > 0);
    assert_int_equal(rungi_fail_prefix("layer %s", "conv1"), RUNG_DATA);
    assert_string_equal(error->message, "layer conv1: sample 7");
    rung_error kept = *error;
    rung_error_clear();
    assert_int_equal(error->status, RUNG_OK);
    assert_string_equal(error->message, "");
    assert_int_equal(rungi_fail_adopt(&kept), RUNG_DATA);
    assert_string_equal(error->message, "layer conv1: sample 7");
}

static void records_of_programs(void **state)
{
    (void)state;
    assert_int_equal(rung_error_set(RUNG_INVALID, "no \xff\n%s", "file"), RUNG_INVALID);
    assert_int_equal(rung_error_last()->status, RUNG_INVALID);
    assert_string_equal(rung_error_last()->message, "no \\xff\\x0afile");
    assert_null(rung_error_last()->file);
    assert_int_equal(rung_error_last()->line, 0);
}

static void long_messages_are_cut(void **state)
{
    (void)state;
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    assert_int_equal(RUNG_FAIL(RUNG_IO, "%s", text), RUNG_IO);
    assert_int_equal(strlen(rung_error_last()->message), sizeof rung_error_last()->message - 1);
    assert_int_equal(rungi_fail_prefix("%s", text), RUNG_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses),
        cmocka_unit_test(records),
        cmocka_unit_test(records_of_programs),
        cmocka_unit_test(long_messages_are_cut),
    };
    return RUN_TESTS(tests);
}
