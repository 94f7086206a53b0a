// SPDX-License-Identifier: Apache-2.0
#include "testing.h"

#include "base/text.h"

static void check_escape(const char *in, size_t size, const char *expected)
{
    char out[64];
    rungi_text_escape(in, out, size);
    assert_string_equal(out, expected);
}

static void escapes(void **state)
{
    (void)state;
    check_escape("caf\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80", 64,
                 "caf\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x98\x80");
    check_escape("a\nb\x7f\xff", 64, "a\\x0ab\\x7f\\xff");
    check_escape("\xc0\xaf", 64, "\\xc0\\xaf");                   // overlong
    check_escape("\xed\xa0\x80", 64, "\\xed\\xa0\\x80");          // surrogate
    check_escape("\xf4\x90\x80\x80", 64, "\\xf4\\x90\\x80\\x80"); // beyond the last code point
    check_escape("\xe4\xb8", 64, "\\xe4\\xb8");                   // cut
    check_escape("abcdef", 4, "abc");
    check_escape("ab\xc3\xa9", 4, "ab"); // a sequence is never cut in two
    check_escape("ab\n", 5, "ab");
}

static void strings_grow(void **state)
{
    (void)state;
    rungi_string s = {0};
    assert_string_equal(rungi_string_text(&s), "");
    for (int i = 0; i < 1000; i++)
        rungi_string_add(&s, "%d,", i);
    assert_int_equal(s.size, 10 * 2 + 90 * 3 + 900 * 4);
    assert_int_equal(strlen(s.data), s.size);
    assert_string_equal(s.data + s.size - 8, "998,999,");
    assert_false(s.failed);
    rungi_string_fini(&s);
    assert_null(s.data);
}

static void distances(void **state)
{
    (void)state;
    assert_int_equal(rungi_text_distance("optim.lr", "optim.lr", 9), 0);
    assert_int_equal(rungi_text_distance("optim.lrr", "optim.lr", 9), 1);
    assert_int_equal(rungi_text_distance("trian", "train", 9), 1); // swapped neighbours
    assert_int_equal(rungi_text_distance("kitten", "sitting", 9), 3);
    assert_int_equal(rungi_text_distance("", "abc", 9), 3);
    assert_int_equal(rungi_text_distance("abcdef", "uvwxyz", 4), 4);
    static const char *const names[] = {"train", "eval", "predict"};
    assert_string_equal(rungi_text_nearest("trian", names, 3), "train");
    assert_string_equal(rungi_text_nearest("prdict", names, 3), "predict");
    assert_null(rungi_text_nearest("ladder", names, 3));
    assert_null(rungi_text_nearest("x", names, 0));
}

static void sizes(void **state)
{
    (void)state;
    char text[32];
    assert_string_equal(rungi_text_bytes(17, text, sizeof text), "17 B");
    assert_string_equal(rungi_text_bytes(12288, text, sizeof text), "12.0 KiB");
    assert_string_equal(rungi_text_bytes(1048575, text, sizeof text), "1.0 MiB");
    assert_string_equal(rungi_text_bytes(UINT64_MAX, text, sizeof text), "16.0 EiB");
}

static void patterns(void **state)
{
    (void)state;
    assert_true(rungi_text_match("layer1.*.weight", "layer1.0.conv1.weight"));
    assert_true(rungi_text_match("*", ""));
    assert_true(rungi_text_match("fc?", "fc1"));
    assert_true(rungi_text_match("*a*b*", "xxaxxbxx"));
    assert_false(rungi_text_match("fc?", "fc"));
    assert_false(rungi_text_match("fc", "fc1"));
    assert_false(rungi_text_match("*.bias", "conv1.weight"));
}

static void ends_in(void **state)
{
    (void)state;
    static const char *const ends[] = {".jpg", ".tar.gz"};
    assert_true(rungi_text_ends_in("a.b.JPG", ends, 2) && rungi_text_ends_in(".tar.gz", ends, 2));
    assert_false(rungi_text_ends_in("a.jpg.txt", ends, 2) || rungi_text_ends_in("pg", ends, 2));
    assert_false(rungi_text_ends_in("a.tar.gz", ends, 1) || rungi_text_ends_in("", ends, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_in),   cmocka_unit_test(escapes), cmocka_unit_test(strings_grow),
        cmocka_unit_test(distances), cmocka_unit_test(sizes),   cmocka_unit_test(patterns),
    };
    return RUN_TESTS(tests);
}
