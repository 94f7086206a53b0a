// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>

#include "base/number.h"
#include "base/philox.h"

static void reals(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {
        {"0", 0},          {"-0", -0.0},
        {"1e-3", 1e-3},    {"1E-3", 1e-3},
        {".5", .5},        {"5.", 5},
        {"+2.5", 2.5},     {"1_000.5", 1000.5},
        {"-1e+2", -100},   {"1e-400", 0},
        {"007", 7},        {"0.1", 0.1},
        {"1_0e1_0", 1e11}, {"4.9406564584124654e-324", 0x1p-1074},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        double value = -1;
        assert_int_equal(rungi_number_f64(good[i].text, &value), RUNGI_NUMBER_OK);
        assert_memory_equal(&value, &good[i].value, sizeof value);
    }
    static const char *const bad[] = {"",     " 1",   "1 ",   "fast", "1e",  "e3",  ".",
                                      "1__0", "_1",   "1_",   "1._5", "1,5", "--1", "nan",
                                      "inf",  ".inf", "0x10", "1e_3", "1f",  "+",   "1.2.3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        double value = -1;
        assert_int_equal(rungi_number_f64(bad[i], &value), RUNGI_NUMBER_SYNTAX);
        assert_true(value == -1);
    }
    double value;
    assert_int_equal(rungi_number_f64("1e400", &value), RUNGI_NUMBER_RANGE);
    char longest[300];
    memset(longest, '1', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    assert_int_equal(rungi_number_f64(longest, &value), RUNGI_NUMBER_SYNTAX);
}

typedef struct whole {
    const char *text;
    rungi_number result;
    int64_t value;
} whole;

static void check_all(rungi_number (*parse)(const char *, int64_t *), const whole *cases,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t value = -77;
        rungi_number result = parse(cases[i].text, &value);
        int64_t expected = cases[i].result == RUNGI_NUMBER_OK ? cases[i].value : -77;
        if (result != cases[i].result || value != expected)
            fail_msg("'%s': got result %d, value %" PRId64, cases[i].text, result, value);
    }
}

#define CHECK_ALL(parse, cases) check_all(parse, cases, sizeof(cases) / sizeof *(cases))

static void integers(void **state)
{
    (void)state;
    static const whole cases[] = {
        {"0", RUNGI_NUMBER_OK, 0},
        {"-12", RUNGI_NUMBER_OK, -12},
        {"1_000_000", RUNGI_NUMBER_OK, 1000000},
        {"0xDEAD_beef", RUNGI_NUMBER_OK, 0xdeadbeef},
        {"-0x10", RUNGI_NUMBER_OK, -16},
        {"1e6", RUNGI_NUMBER_OK, 1000000},
        {"10.0", RUNGI_NUMBER_OK, 10},
        {"9223372036854775807", RUNGI_NUMBER_OK, INT64_MAX},
        {"-9223372036854775808", RUNGI_NUMBER_OK, INT64_MIN},
        {"9223372036854775808", RUNGI_NUMBER_RANGE, 0},
        {"0xffffffffffffffff", RUNGI_NUMBER_RANGE, 0},
        {"1e300", RUNGI_NUMBER_RANGE, 0},
        {"010", RUNGI_NUMBER_SYNTAX, 0},
        {"1e-3", RUNGI_NUMBER_SYNTAX, 0},
        {"2.5", RUNGI_NUMBER_SYNTAX, 0},
        {"0x", RUNGI_NUMBER_SYNTAX, 0},
        {"", RUNGI_NUMBER_SYNTAX, 0},
        {"ten", RUNGI_NUMBER_SYNTAX, 0},
    };
    CHECK_ALL(rungi_number_i64, cases);
}

static void sizes(void **state)
{
    (void)state;
    static const whole cases[] = {
        {"0", RUNGI_NUMBER_OK, 0},
        {"17B", RUNGI_NUMBER_OK, 17},
        {"2GiB", RUNGI_NUMBER_OK, (int64_t)2 << 30},
        {"1.5 KiB", RUNGI_NUMBER_OK, 1536},
        {"2kB", RUNGI_NUMBER_OK, 2000},
        {"2MB", RUNGI_NUMBER_OK, 2000000},
        {"7EiB", RUNGI_NUMBER_OK, (int64_t)7 << 60},
        {"8EiB", RUNGI_NUMBER_RANGE, 0},
        {"2G", RUNGI_NUMBER_SYNTAX, 0},
        {"2gib", RUNGI_NUMBER_SYNTAX, 0},
        {"GiB", RUNGI_NUMBER_SYNTAX, 0},
        {"2GiBx", RUNGI_NUMBER_SYNTAX, 0},
    };
    CHECK_ALL(rungi_number_bytes, cases);
    char text[RUNGI_NUMBER_TEXT];
    assert_string_equal(rungi_number_bytes_text((int64_t)3 << 29, text), "1536MiB");
    assert_string_equal(rungi_number_bytes_text(0, text), "0");
    assert_string_equal(rungi_number_bytes_text(1000, text), "1000");
}

static void durations(void **state)
{
    (void)state;
    static const whole cases[] = {
        {"60s", RUNGI_NUMBER_OK, 60000000000},
        {"60", RUNGI_NUMBER_OK, 60000000000},
        {"0", RUNGI_NUMBER_OK, 0},
        {"1h30m", RUNGI_NUMBER_OK, 5400000000000},
        {"1h 30min", RUNGI_NUMBER_OK, 5400000000000},
        {"1.5h", RUNGI_NUMBER_OK, 5400000000000},
        {"500 ms", RUNGI_NUMBER_OK, 500000000},
        {"10us", RUNGI_NUMBER_OK, 10000},
        {"7ns", RUNGI_NUMBER_OK, 7},
        {"-1s", RUNGI_NUMBER_OK, -1000000000},
        {"1e-3s", RUNGI_NUMBER_OK, 1000000},
        {"200000d", RUNGI_NUMBER_RANGE, 0},
        {"1h30", RUNGI_NUMBER_SYNTAX, 0},
        {"0s5", RUNGI_NUMBER_SYNTAX, 0},
        {"1h-30m", RUNGI_NUMBER_SYNTAX, 0},
        {"5 0s", RUNGI_NUMBER_SYNTAX, 0},
        {"60 sec", RUNGI_NUMBER_SYNTAX, 0},
        {"s", RUNGI_NUMBER_SYNTAX, 0},
        {"", RUNGI_NUMBER_SYNTAX, 0},
    };
    CHECK_ALL(rungi_number_duration, cases);
    char text[RUNGI_NUMBER_TEXT];
    assert_string_equal(rungi_number_duration_text(300000000000, text), "300s");
    assert_string_equal(rungi_number_duration_text(1500000000, text), "1500ms");
    assert_string_equal(rungi_number_duration_text(0, text), "0s");
}

static void shortest_texts(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0.0"},
        {-0.0, "-0.0"},
        {1, "1.0"},
        {0.1, "0.1"},
        {1e-3, "0.001"},
        {1e-7, "1.0e-07"},
        {3e-4, "0.0003"},
        {1e300, "1.0e+300"},
        {0x1p-1074, "5.0e-324"},
        {1.0 / 3, "0.3333333333333333"},
        {INFINITY, ".inf"},
        {-INFINITY, "-.inf"},
        {NAN, ".nan"},
        {123456789, "123456789.0"},
    };
    char text[RUNGI_NUMBER_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(rungi_number_f64_text(cases[i].value, text), cases[i].text);
    rungi_random random = rungi_random_make(1, RUNGI_PURPOSE_TEST, 0, 0, 0);
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t bits = rungi_random_u64(&random, i);
        double value, back;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        assert_int_equal(rungi_number_f64(rungi_number_f64_text(value, text), &back),
                         RUNGI_NUMBER_OK);
        assert_memory_equal(&back, &bits, sizeof back);
    }
}

// A program that embeds rung may have set a locale whose point is a comma. The test needs one to be
// installed; without, it passes over the C locale only.
static void other_locales(void **state)
{
    (void)state;
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C"};
    for (size_t i = 0; i < 4 && !setlocale(LC_NUMERIC, names[i]); i++) {
    }
    double value;
    char text[RUNGI_NUMBER_TEXT];
    assert_int_equal(rungi_number_f64("2.5", &value), RUNGI_NUMBER_OK);
    assert_true(value == 2.5);
    assert_string_equal(rungi_number_f64_text(value, text), "2.5");
    setlocale(LC_NUMERIC, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reals),          cmocka_unit_test(integers),
        cmocka_unit_test(sizes),          cmocka_unit_test(durations),
        cmocka_unit_test(shortest_texts), cmocka_unit_test(other_locales),
    };
    return RUN_TESTS(tests);
}
