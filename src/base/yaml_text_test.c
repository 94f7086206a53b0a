// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include <yaml.h>

#include "base/philox.h"
#include "base/yaml_text.h"

static void words(void **state)
{
    (void)state;
    static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes", "on", "ON"};
    static const char *const no[] = {"false", "FALSE", "no", "No", "off", "Off"};
    static const char *const neither[] = {"tRUE", "1", "0", "y", "n", "", "truee", "oN"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        assert_int_equal(rungi_yaml_boolean(yes[i]), 1);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        assert_int_equal(rungi_yaml_boolean(no[i]), 0);
    for (size_t i = 0; i < sizeof neither / sizeof *neither; i++)
        assert_int_equal(rungi_yaml_boolean(neither[i]), -1);
    assert_true(rungi_yaml_is_null("") && rungi_yaml_is_null("~") && rungi_yaml_is_null("Null"));
    assert_false(rungi_yaml_is_null("none") || rungi_yaml_is_null("nULL"));
}

static void check_text(const char *text, const char *expected)
{
    rungi_string out = {0};
    rungi_yaml_add_text(text, &out);
    assert_string_equal(rungi_string_text(&out), expected);
    rungi_string_fini(&out);
}

static void quoted_only_where_needed(void **state)
{
    (void)state;
    check_text("sgd", "sgd");
    check_text("/data/fashion-mnist_2", "/data/fashion-mnist_2");
    check_text("../x.yaml", "../x.yaml");
    check_text("layer1.*.weight", "layer1.*.weight");
    check_text("", "\"\"");
    check_text("*.bias", "\"*.bias\"");
    check_text("yes", "\"yes\"");
    check_text("N", "\"N\"");
    check_text("null", "\"null\"");
    check_text("~", "\"~\"");
    check_text("12", "\"12\"");
    check_text(".5", "\".5\"");
    check_text("1e-3", "\"1e-3\"");
    check_text("-x", "\"-x\"");
    check_text("a b", "\"a b\"");
    check_text("a: b", "\"a: b\"");
    check_text("a#b", "\"a#b\"");
    check_text("a\"b\\c\n", "\"a\\\"b\\\\c\\x0a\"");
    check_text("caf\xc3\xa9", "\"caf\xc3\xa9\"");
    check_text("\xc2\x85\xe2\x80\xa8\xef\xbb\xbf", "\"\\x85\\u2028\\ufeff\"");
    check_text("caf\xe9", "!!binary \"Y2Fm6Q==\"");
    check_text("\xff\xff\xff", "!!binary \"////\"");
    check_text("\xed\xa0\x80", "!!binary \"7aCA\"");
}

// libyaml is the independent reader: it must give back the same bytes, and decoding those of
// !!binary too.
static void read_back(const char *text)
{
    rungi_string out = {0};
    yaml_parser_t parser;
    yaml_event_t event;
    rungi_string_add(&out, "[");
    rungi_yaml_add_text(text, &out);
    rungi_string_add(&out, "]");
    assert_int_equal(yaml_parser_initialize(&parser), 1);
    yaml_parser_set_input_string(&parser, (const unsigned char *)out.data, out.size);
    bool seen = false;
    for (bool end = false; !end; yaml_event_delete(&event)) {
        if (!yaml_parser_parse(&parser, &event))
            fail_msg("%s: %s", out.data, parser.problem);
        end = event.type == YAML_STREAM_END_EVENT;
        if (event.type != YAML_SCALAR_EVENT)
            continue;
        seen = true;
        const char *value = (const char *)event.data.scalar.value;
        char *decoded = event.data.scalar.tag ? rungi_yaml_decode_binary(value) : NULL;
        assert_string_equal(decoded ? decoded : value, text);
        free(decoded);
    }
    assert_true(seen);
    yaml_parser_delete(&parser);
    rungi_string_fini(&out);
}

static void any_bytes_come_back(void **state)
{
    (void)state;
    rungi_random random = rungi_random_make(3, RUNGI_PURPOSE_TEST, 0, 0, 0);
    static const char *const pieces[] = {"a",
                                         "Z",
                                         "0",
                                         " ",
                                         "\n",
                                         "\t",
                                         "\"",
                                         "'",
                                         "\\",
                                         ":",
                                         "#",
                                         "-",
                                         "[",
                                         "]",
                                         "{",
                                         ",",
                                         "&",
                                         "*",
                                         "!",
                                         "\xc3\xa9",
                                         "\xe4\xb8\xad",
                                         "\x7f",
                                         "\xe2\x80\xa9",
                                         "\xf0\x9f\x98\x80",
                                         "\xff",
                                         "\xc2\x80"};
    uint64_t index = 0;
    for (int round = 0; round < 3000; round++) {
        char text[128] = "";
        int count = (int)rungi_random_below(&random, 12, &index);
        for (int i = 0; i < count; i++)
            strcat(text, pieces[rungi_random_below(&random, 26, &index)]);
        read_back(text);
    }
}

static void malformed_base64(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "A", "AB", "ABC", "AB=C", "A===", "====", "AB==CDEF", "AAAA", "ab-_", "AB=="};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_null(rungi_yaml_decode_binary(bad[i]));
    char *decoded = rungi_yaml_decode_binary("Y2 Fm\n6Q==");
    assert_string_equal(decoded, "caf\xe9");
    free(decoded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(quoted_only_where_needed),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(malformed_base64),
    };
    return RUN_TESTS(tests);
}
