// SPDX-License-Identifier: Apache-2.0
#include "test_folder.h"

#include <math.h>

#include "base/json.h"
#include "base/philox.h"

static json_t *parse(const char *text)
{
    json_t *root = NULL;
    assert_ok(rungi_json_parse(text, strlen(text), "m.json", &root));
    return root;
}

static void members_of_every_type(void **state)
{
    (void)state;
    json_t *root = parse("{\"i\": 3, \"r\": 0.5, \"n\": null, \"b\": true, \"s\": \"x\","
                         " \"o\": {}, \"a\": [1]}");
    int64_t i;
    double r;
    bool b;
    const char *s;
    json_t *o, *a;
    assert_ok(rungi_json_i64(root, "m.json", "i", 0, 3, &i));
    assert_int_equal(i, 3);
    assert_ok(rungi_json_f64(root, "m.json", "r", &r));
    assert_true(r == 0.5);
    assert_ok(rungi_json_f64(root, "m.json", "i", &r));
    assert_true(r == 3);
    assert_ok(rungi_json_f64(root, "m.json", "n", &r));
    assert_true(isnan(r));
    assert_ok(rungi_json_bool(root, "m.json", "b", &b));
    assert_true(b);
    assert_ok(rungi_json_text(root, "m.json", "s", &s));
    assert_string_equal(s, "x");
    assert_ok(rungi_json_object(root, "m.json", "o", &o));
    assert_ok(rungi_json_array(root, "m.json", "a", &a));
    assert_int_equal(json_array_size(a), 1);

    assert_fails(RUNG_FORMAT, "m.json: member 'step' is missing",
                 rungi_json_i64(root, "m.json", "step", 0, 9, &i));
    assert_fails(RUNG_FORMAT, "m.json: member 'i' is 3, expected 4 to 9",
                 rungi_json_i64(root, "m.json", "i", 4, 9, &i));
    assert_fails(RUNG_FORMAT, "member 'r': expected a whole number, found a number",
                 rungi_json_i64(root, "m.json", "r", 0, 9, &i));
    assert_fails(RUNG_FORMAT, "member 's': expected a number, found a string",
                 rungi_json_f64(root, "m.json", "s", &r));
    assert_fails(RUNG_FORMAT, "member 'i': expected true or false",
                 rungi_json_bool(root, "m.json", "i", &b));
    assert_fails(RUNG_FORMAT, "member 'o': expected a string, found an object",
                 rungi_json_text(root, "m.json", "o", &s));
    assert_fails(RUNG_FORMAT, "member 'a': expected an object, found an array",
                 rungi_json_object(root, "m.json", "a", &o));
    assert_fails(RUNG_FORMAT, "member 'n': expected an array, found null",
                 rungi_json_array(root, "m.json", "n", &a));
    assert_fails(RUNG_FORMAT, "m.json: a: expected an object, found an array",
                 rungi_json_array(a, "m.json: a", "n", &a));
    json_decref(root);
}

static void bad_texts(void **state)
{
    (void)state;
    json_t *root = NULL;
    static const char *const texts[] = {
        "{",       "{\"a\": 1,\n \"a\": 2}", "[1,]", "{\"a\": nan}", "\xff", "{} x",
        "[1e999]", "{\"a\": \"\\u0000\"}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_fails(RUNG_FORMAT,
                     "m.json:", rungi_json_parse(texts[i], strlen(texts[i]), "m.json", &root));
    assert_fails(RUNG_FORMAT, "m.json:2: bad JSON: duplicate",
                 rungi_json_parse(texts[1], strlen(texts[1]), "m.json", &root));
    assert_fails(RUNG_FORMAT, "is empty", rungi_json_parse("", 0, "m.json", &root));
    char deep[5000];
    memset(deep, '[', sizeof deep);
    assert_fails(RUNG_FORMAT, "depth", rungi_json_parse(deep, sizeof deep, "m.json", &root));
    assert_null(root);
}

static void check_print(const char *text, bool pretty, const char *expected)
{
    rungi_string out = {0};
    json_t *root = parse(text);
    rungi_json_print(root, pretty, &out);
    assert_string_equal(rungi_string_text(&out), expected);
    json_decref(root);
    rungi_string_fini(&out);
}

static void printed_in_the_order_set(void **state)
{
    (void)state;
    const char *text =
        "{\"z\": [1, 2.5], \"a\": {\"x\": \"q\\\"\\\\\\n\\u0001\xc3\xa9\", \"e\": {}},"
        "\"l\": [[], [true]], \"n\": null}";
    check_print(text, false,
                "{\"z\":[1,2.5],\"a\":{\"x\":\"q\\\"\\\\\\n\\u0001\xc3\xa9\",\"e\":{}},"
                "\"l\":[[],[true]],\"n\":null}");
    check_print(text, true,
                "{\n  \"z\": [1, 2.5],\n  \"a\": {\n    \"x\": \"q\\\"\\\\\\n\\u0001\xc3\xa9\",\n"
                "    \"e\": {}\n  },\n  \"l\": [\n    [],\n    [true]\n  ],\n  \"n\": null\n}");
}

static void numbers_keep_their_bits(void **state)
{
    (void)state;
    json_t *array = json_array(), *back = NULL;
    double values[1000];
    rungi_random random = rungi_random_make(2, RUNGI_PURPOSE_TEST, 0, 0, 0);
    size_t count = 0;
    for (uint64_t i = 0; count < 1000; i++) {
        uint64_t bits = rungi_random_u64(&random, i);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        values[count++] = value;
        json_array_append_new(array, rungi_json_real(value));
    }
    json_array_append_new(array, rungi_json_real(NAN));
    json_array_append_new(array, rungi_json_real(-INFINITY));
    rungi_string text = {0};
    rungi_json_print(array, false, &text);
    assert_ok(rungi_json_parse(text.data, text.size, "m.json", &back));
    for (size_t i = 0; i < 1000; i++) {
        double value = json_real_value(json_array_get(back, i));
        assert_memory_equal(&value, &values[i], sizeof value);
    }
    assert_true(json_is_null(json_array_get(back, 1000)));
    assert_true(json_is_null(json_array_get(back, 1001)));
    json_decref(array);
    json_decref(back);
    rungi_string_fini(&text);
}

static void files(void **state)
{
    test_folder *folder = *state;
    const char *path = test_path(folder, "m.json");
    json_t *root = json_object(), *back = NULL;
    assert_int_equal(json_object_set_new(root, "path", rungi_json_string("caf\xe9\xc3\xa9")), 0);
    assert_int_equal(json_object_set_new(root, "loss", rungi_json_real(0.1)), 0);
    assert_ok(rungi_json_save(path, root));
    json_decref(root);
    char *data;
    size_t size;
    assert_ok(rungi_fs_read(path, 1000, &data, &size));
    assert_string_equal(data, "{\n  \"path\": \"caf\\\\xe9\xc3\xa9\",\n  \"loss\": 0.1\n}\n");
    free(data);
    assert_ok(rungi_json_load(path, 1000, &back));
    json_decref(back);
    assert_fails(RUNG_FORMAT, "larger than", rungi_json_load(path, 10, &back));
    test_write(path, "{\n\n]", 4);
    assert_fails(RUNG_FORMAT, "m.json:3: bad JSON", rungi_json_load(path, 10, &back));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_of_every_type),
        cmocka_unit_test(bad_texts),
        cmocka_unit_test(printed_in_the_order_set),
        cmocka_unit_test(numbers_keep_their_bits),
        IN_FOLDER(files),
    };
    return RUN_TESTS(tests);
}
