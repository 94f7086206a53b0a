// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include <ctype.h>
#include <stdio.h>

#include <jansson.h>

#include "base/philox.h"
#include "formats/json_scan.h"

// One byte a read, so that every token crosses a window.
static rung_status read_byte(void *user, char *buffer, size_t size, size_t *got_out)
{
    (void)size;
    return rungi_json_read_memory(user, buffer, 1, got_out);
}

static rung_status scan_all(rungi_json_read_fn read, const char *text, size_t size)
{
    rungi_json_memory memory = {text, size};
    static rungi_json_scan scan;
    scan = (rungi_json_scan){.read = read, .user = &memory, .what = "text"};
    rungi_json_token token = RUNGI_JSON_NULL;
    rung_status status = RUNG_OK;
    while (status == RUNG_OK && token != RUNGI_JSON_END)
        status = rungi_json_next(&scan, &token);
    rungi_json_scan_fini(&scan);
    return status;
}

static void tokens(void **state)
{
    (void)state;
    static const char text[] = " {\"a\\u00e9\\ud83d\\ude00\": [1, -2.5e+3, \"x\\n\", true, false,"
                               "null, {}, []], \"\": 0} \n";
    static const struct {
        rungi_json_token token;
        const char *text;
    } wanted[] = {
        {RUNGI_JSON_OBJECT_BEGIN, NULL},
        {RUNGI_JSON_KEY, "a\xc3\xa9\xf0\x9f\x98\x80"},
        {RUNGI_JSON_ARRAY_BEGIN, NULL},
        {RUNGI_JSON_NUMBER, "1"},
        {RUNGI_JSON_NUMBER, "-2.5e+3"},
        {RUNGI_JSON_STRING, "x\n"},
        {RUNGI_JSON_TRUE, NULL},
        {RUNGI_JSON_FALSE, NULL},
        {RUNGI_JSON_NULL, NULL},
        {RUNGI_JSON_OBJECT_BEGIN, NULL},
        {RUNGI_JSON_OBJECT_END, NULL},
        {RUNGI_JSON_ARRAY_BEGIN, NULL},
        {RUNGI_JSON_ARRAY_END, NULL},
        {RUNGI_JSON_ARRAY_END, NULL},
        {RUNGI_JSON_KEY, ""},
        {RUNGI_JSON_NUMBER, "0"},
        {RUNGI_JSON_OBJECT_END, NULL},
        {RUNGI_JSON_END, NULL},
    };
    rungi_json_read_fn reads[] = {rungi_json_read_memory, read_byte};
    for (int r = 0; r < 2; r++) {
        rungi_json_memory memory = {text, sizeof text - 1};
        static rungi_json_scan scan;
        scan = (rungi_json_scan){.read = reads[r], .user = &memory, .what = "text"};
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
            rungi_json_token token;
            assert_ok(rungi_json_next(&scan, &token));
            assert_int_equal(token, wanted[i].token);
            if (wanted[i].text)
                assert_string_equal(scan.text, wanted[i].text);
        }
        rungi_json_scan_fini(&scan);
    }
}

static void skipping(void **state)
{
    (void)state;
    static const char text[] = "{\"a\": {\"b\": [1, {}, []]}, \"c\": 5}";
    rungi_json_memory memory = {text, sizeof text - 1};
    static rungi_json_scan scan;
    scan = (rungi_json_scan){.read = rungi_json_read_memory, .user = &memory, .what = "text"};
    rungi_json_token token;
    assert_ok(rungi_json_next(&scan, &token));
    assert_ok(rungi_json_next(&scan, &token));
    assert_ok(rungi_json_skip(&scan));
    assert_ok(rungi_json_next(&scan, &token));
    assert_int_equal(token, RUNGI_JSON_KEY);
    assert_string_equal(scan.text, "c");
    assert_ok(rungi_json_skip(&scan));
    assert_ok(rungi_json_next(&scan, &token));
    assert_int_equal(token, RUNGI_JSON_OBJECT_END);
    rungi_json_scan_fini(&scan);
}

static void refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reason;
    } bad[] = {
        {"", "ends inside"},
        {"{", "ends inside"},
        {"{\"a\":1,}", "no member name"},
        {"[1,]", "not a JSON value"},
        {"[1 2]", "no comma"},
        {"{\"a\" 1}", "no colon"},
        {"[01]", "not a JSON value"},
        {"[+1]", "not a JSON value"},
        {"[.5]", "not a JSON value"},
        {"[1.]", "not a JSON value"},
        {"[NaN]", "not a JSON value"},
        {"[True]", "not a JSON value"},
        {"{} x", "something follows"},
        {"\"\\x\"", "unknown escape"},
        {"\"\\ud800x\"", "surrogate"},
        {"\"\\udc00\"", "surrogate"},
        {"\"\\u12g4\"", "hexadecimal"},
        {"\"\n\"", "control character"},
        {"\"\xff\"", "not UTF-8"},
        {"\"\xc0\x80\"", "not UTF-8"},
        {"\"\xed\xa0\x80\"", "not UTF-8"},
        {"\"\xe4\xb8\"", "not UTF-8"},
        {"[}", "not a JSON value"},
        {"\xef\xbb\xbf{}", "not a JSON value"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t size = strlen(bad[i].text);
        assert_fails(RUNG_FORMAT, bad[i].reason,
                     scan_all(rungi_json_read_memory, bad[i].text, size));
        assert_fails(RUNG_FORMAT, bad[i].reason, scan_all(read_byte, bad[i].text, size));
    }
    char deep[200];
    memset(deep, '[', sizeof deep);
    assert_fails(RUNG_FORMAT, "nested too deep",
                 scan_all(rungi_json_read_memory, deep, sizeof deep));
}

// jansson refuses numbers beyond its types and NULs in strings, which are legal JSON.
static bool jansson_differs(const char *text)
{
    size_t digits = 0;
    for (const char *c = text; *c; c++) {
        digits = isdigit((unsigned char)*c) ? digits + 1 : 0;
        if (digits > 15)
            return true;
        if (*c != 'e' && *c != 'E')
            continue;
        const char *exponent = c + 1 + (c[1] == '+' || c[1] == '-');
        if (strspn(exponent, "0123456789") > 2)
            return true;
    }
    return strstr(text, "\\u0000") != NULL;
}

// Random changes of a text are taken or refused exactly as jansson takes or refuses them.
static void same_verdicts_as_jansson(void **state)
{
    (void)state;
    static const char good[] =
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},\"\\u00e9\\ud83d"
        "\\ude00\xe4\xb8\x96\":[true,false,null,-0.5,1e2,\"\\\\\\\"\\n\"]}";
    static const char alphabet[] = "{}[]\",:\\u0189-.eE+ \n\x01\xc3\xa9tfnd";
    rungi_random random = rungi_random_make(1, RUNGI_PURPOSE_TEST, 0, 0, 0);
    uint64_t at = 0;
    int accepted = 0;
    for (int trial = 0; trial < 20000; trial++) {
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        int changes = 1 + (int)rungi_random_below(&random, 2, &at);
        for (int i = 0; i < changes; i++)
            text[rungi_random_below(&random, sizeof good - 1, &at)] =
                alphabet[rungi_random_below(&random, sizeof alphabet - 1, &at)];
        if (jansson_differs(text))
            continue;
        json_t *tree = json_loads(text, JSON_DECODE_ANY, NULL);
        rung_status status = scan_all(rungi_json_read_memory, text, sizeof text - 1);
        if ((tree != NULL) != (status == RUNG_OK))
            fail_msg("jansson %s, we say %s: %s", tree ? "takes it" : "refuses it",
                     status ? rung_error_last()->message : "good", text);
        accepted += tree != NULL;
        json_decref(tree);
    }
    assert_true(accepted > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens),
        cmocka_unit_test(skipping),
        cmocka_unit_test(refusals),
        cmocka_unit_test(same_verdicts_as_jansson),
    };
    return RUN_TESTS(tests);
}
