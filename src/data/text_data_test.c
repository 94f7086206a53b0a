// SPDX-License-Identifier: Apache-2.0
// Files of tokens, tokenizers and examples line by line, against another program's results
// (tools/fixtures/tokens.py).
#include "base/json.h"
#include "group_testing.h"
#include "rung/convert.h"
#include "rung/text.h"

#define TOKENS RUNG_SOURCE_DIR "/tests/fixtures/tokens/"

// ---- windows of tokens

static void check_windows(const char *path, int64_t length, int64_t count, int64_t factor,
                          int64_t vocabulary)
{
    rung_source *source;
    void *worker;
    assert_ok(rung_source_tokens(
        context, &(rung_tokens_options){.path = path, .length = length, .vocabulary = vocabulary},
        &source));
    assert_int_equal(source->count, count);
    assert_true(rung_shape_equal(&source->fields[0].shape, &RUNG_SHAPE(length)));
    assert_ok(source->open(source->self, 0, &worker));
    for (int64_t i = count - 1; i >= 0; i--) {
        int64_t tokens[64], next[64];
        rung_view views[] = {{RUNG_I64, RUNG_SHAPE(length), tokens},
                             {RUNG_I64, RUNG_SHAPE(length), next}};
        assert_ok(source->read(source->self, worker, &(rung_sample){.index = i}, views));
        for (int64_t k = 0; k < length; k++) {
            assert_int_equal(tokens[k], (i * length + k) * factor % vocabulary);
            assert_int_equal(next[k], (i * length + k + 1) * factor % vocabulary);
        }
    }
    source->close(source->self, worker);
    rung_source_destroy(&source);
}

// C23: a window needs one token more than it is long; what is left is told; none reads past the
// end. 100 tokens hold 12 windows of 8 (one step of 8 of them), 129 hold 16 (two steps).
static void windows(void **state)
{
    (void)state;
    messages.text[0] = '\0';
    check_windows(TOKENS "v1.bin", 8, 12, 37, 50257);
    assert_non_null(strstr(messages.text, "3 tokens at the ends of files are in none of the 12 "
                                          "windows of 8"));
    messages.text[0] = '\0';
    check_windows(TOKENS "v7.bin", 8, 16, 12345, 128256);
    assert_string_equal(messages.text, ""); // all are used
    check_windows(TOKENS "v7.bin", 64, 2, 12345, 128256);
    rung_source *source;
    assert_fails(RUNG_DATA, "v1.bin: 100 tokens, a window needs 101",
                 rung_source_tokens(context,
                                    &(rung_tokens_options){.path = TOKENS "v1.bin", .length = 100},
                                    &source));
    check_windows(TOKENS "v1.bin", 33, 3, 37, 50257);
    // Several files, by pattern and by split: no window goes over an end.
    assert_ok(rung_source_tokens(
        context, &(rung_tokens_options){.path = TOKENS "v?.bin", .length = 8}, &source));
    char place[256];
    assert_int_equal(source->count, 28);
    source->describe(source->self, 13, place, sizeof place);
    assert_string_equal(place, TOKENS "v7.bin, tokens from 8 on");
    rung_source_destroy(&source);
    assert_fails(
        RUNG_NOT_FOUND, "holds no files x*.bin",
        rung_source_tokens(context, &(rung_tokens_options){.path = TOKENS "x*.bin"}, &source));
    char command[1024];
    snprintf(command, sizeof command,
             "cd '%s' && mkdir t && cp " TOKENS "v1.bin t/set_train_0.bin && cp " TOKENS
             "v7.bin t/set_val_0.bin",
             folder.path);
    assert_int_equal(system(command), 0);
    // Windows of 1024 are longer than these files: the message tells which were taken.
    assert_fails(RUNG_DATA, "100 tokens, a window needs 1025",
                 rung_source_open(context, "tokens", test_path(&folder, "t"), "train", &source));
    assert_fails(RUNG_DATA, "129 tokens, a window needs 1025",
                 rung_source_open(context, "tokens", test_path(&folder, "t"), "test", &source));
    void *worker;
    int64_t room[2][8];
    rung_view views[] = {{RUNG_I64, RUNG_SHAPE(8), room[0]}, {RUNG_I64, RUNG_SHAPE(8), room[1]}};
    assert_ok(rung_source_tokens(
        context, &(rung_tokens_options){.path = TOKENS "v1.bin", .length = 8, .vocabulary = 296},
        &source));
    assert_ok(source->open(source->self, 0, &worker));
    assert_fails(RUNG_DATA, "v1.bin: token 8 is 296, the vocabulary has 296",
                 source->read(source->self, worker, &(rung_sample){.index = 0}, views));
    source->close(source->self, worker);
    rung_source_destroy(&source);
}

static rung_status open_bytes(const void *bytes, size_t size)
{
    rung_source *source;
    rung_status status = rung_source_tokens(
        context,
        &(rung_tokens_options){.path = test_write(&folder, "h.bin", bytes, size), .length = 8},
        &source);
    if (status == RUNG_OK)
        rung_source_destroy(&source);
    else
        assert_non_null(strstr(rung_error_last()->message, "h.bin"));
    return status;
}

static void hostile_tokens(void **state)
{
    (void)state;
    static int32_t words[512], good[512];
    size_t size = test_read(TOKENS "v1.bin", good, sizeof good);
    for (size_t cut = 0; cut < size; cut++) {
        if (cut < 1024)
            assert_fails(RUNG_FORMAT, "not a file of tokens", open_bytes(good, cut));
        else
            assert_fails(RUNG_CORRUPT, "cut: expected 1224 bytes for 100 tokens, found ",
                         open_bytes(good, cut));
    }
    assert_fails(RUNG_CORRUPT, "too long: expected 1224 bytes", open_bytes(good, size + 1));
    static const struct {
        int32_t magic, version, count;
        rung_status code;
        const char *text;
    } cases[] = {
        {20240326, 3, 100, RUNG_FORMAT, "a model of llm.c"},
        {20240522, 1, 100, RUNG_FORMAT, "an evaluation of llm.c"},
        {20240520, 2, 100, RUNG_UNSUPPORTED, "of version 2, rung reads 1"},
        {20240801, 1, 100, RUNG_UNSUPPORTED, "of version 1, rung reads 7"},
        {529205256, 0, 0, RUNG_FORMAT, "begins with 529205256, expected 20240520 or 20240801"},
        {20240520, 1, -1, RUNG_FORMAT, "a file of -1 tokens"},
        {20240520, 1, INT32_MAX, RUNG_CORRUPT, "cut: expected 4294968318 bytes"},
        {20240801, 7, INT32_MAX, RUNG_CORRUPT, "cut: expected 8589935612 bytes"},
        {20240520, 1, 0, RUNG_CORRUPT, "too long"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(words, good, size);
        words[0] = cases[i].magic;
        words[1] = cases[i].version;
        words[2] = cases[i].count;
        assert_fails(cases[i].code, cases[i].text, open_bytes(words, size));
    }
}

// ---- tokenizers

static char *read_text(const char *path, size_t *size)
{
    char *text = malloc(1 << 16);
    *size = test_read(path, text, 1 << 16);
    return text;
}

static void check_ids(const char *expected, const uint32_t *ids, size_t count)
{
    json_t *list;
    assert_ok(rungi_json_load(expected, 1 << 20, &list));
    for (size_t i = 0; i < count && i < json_array_size(list); i++)
        if (json_integer_value(json_array_get(list, i)) != ids[i])
            fail_msg("token %zu is %u, expected %d", i, ids[i],
                     (int)json_integer_value(json_array_get(list, i)));
    assert_int_equal(count, json_array_size(list));
    json_decref(list);
}

static void tokenizers(void **state)
{
    (void)state;
    size_t size, count;
    uint32_t *ids;
    rung_tokenizer *t, *again;
    char *text = read_text(TOKENS "sample.txt", &size);

    assert_ok(rung_tokenizer_create("gpt2", TOKENS "vocab.json", TOKENS "merges.txt", &t));
    assert_int_equal(rung_tokenizer_count(t), 256 + 40 + 1);
    assert_ok(rung_tokenizer_encode(t, text, size, &ids, &count));
    check_ids(TOKENS "sample.gpt2.json", ids, count);
    free(ids);
    assert_fails(RUNG_INVALID, "only the vocabulary of characters is saved",
                 rung_tokenizer_save(t, test_path(&folder, "v.json")));
    assert_ok(rung_tokenizer_encode(t, "", 0, &ids, &count));
    assert_int_equal(count, 0);
    free(ids);
    assert_fails(RUNG_DATA, "not UTF-8 at byte 2",
                 rung_tokenizer_encode(t, "ab\xff", 3, &ids, &count));
    rung_tokenizer_destroy(&t);

    assert_ok(rung_tokenizer_of_text(text, size, &t));
    assert_ok(rung_tokenizer_encode(t, text, size, &ids, &count));
    check_ids(TOKENS "sample.char.json", ids, count);
    free(ids);
    assert_ok(rung_tokenizer_save(t, test_path(&folder, "v.json")));
    assert_ok(rung_tokenizer_create("char", test_path(&folder, "v.json"), NULL, &again));
    assert_int_equal(rung_tokenizer_count(again), rung_tokenizer_count(t));
    assert_ok(rung_tokenizer_encode(again, text, size, &ids, &count));
    check_ids(TOKENS "sample.char.json", ids, count);
    free(ids);
    assert_fails(RUNG_DATA, "character U+00FF at byte 1 of the text is not in the vocabulary",
                 rung_tokenizer_encode(t, "a\u00ff", 3, &ids, &count));
    rung_tokenizer_destroy(&t);
    rung_tokenizer_destroy(&again);

    assert_ok(rung_tokenizer_create("byte", NULL, NULL, &t));
    assert_ok(rung_tokenizer_encode(t, text, size, &ids, &count));
    assert_int_equal(count, size);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(ids[i], (unsigned char)text[i]);
    free(ids);
    rung_tokenizer_destroy(&t);
    free(text);
}

static void bad_tokenizers(void **state)
{
    (void)state;
    rung_tokenizer *t;
    static const struct {
        const char *kind, *vocabulary, *merges, *text;
    } cases[] = {
        {"gpt", NULL, NULL, "unknown tokenizer gpt, did you mean gpt2"},
        {"char", NULL, NULL, "needs its vocabulary"},
        {"gpt2", "{}", NULL, "needs its files"},
        {"gpt2", "{}", "", "an object of 1 to"},
        {"gpt2", "[1]", "", "an object of 1 to"},
        {"gpt2", "{\"a\": -1}", "", "token a: its id is no whole number"},
        {"gpt2", "{\"a\": 1e9}", "", "token a: its id is no whole number"},
        {"gpt2", "{\"a\": 2000000000}", "", "above 4194303"},
        {"gpt2", "{\"a\": 0, \"b\": 1}", "#version\na b\n", "m.txt, line 2: 'a b' joins tokens"},
        {"gpt2", "{\"a\": 0, \"b\": 1, \"ab\": 2}", "a b c\n", "m.txt, line 1: not two tokens"},
        {"gpt2", "{\"a\": 0}", "a\n", "m.txt, line 1: not two tokens: a"},
        {"char", "{\"ab\": 0}", NULL, "v.json: token 'ab' is not one character"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *v = cases[i].vocabulary, *m = cases[i].merges;
        rung_status status = rung_tokenizer_create(
            cases[i].kind, v ? test_write(&folder, "v.json", v, strlen(v)) : NULL,
            m ? test_write(&folder, "m.txt", m, strlen(m)) : NULL, &t);
        if (status == RUNG_OK || !strstr(rung_error_last()->message, cases[i].text))
            fail_msg("case %zu: %s", i, rung_error_last()->message);
    }
    // Bytes without a token.
    uint32_t *ids;
    size_t count;
    test_write(&folder, "v.json", "{\"a\": 0}", 8);
    test_write(&folder, "m.txt", "", 0);
    assert_ok(rung_tokenizer_create("gpt2", test_path(&folder, "v.json"),
                                    test_path(&folder, "m.txt"), &t));
    assert_fails(RUNG_DATA, "no token for byte 98",
                 rung_tokenizer_encode(t, "ab", 2, &ids, &count));
    rung_tokenizer_destroy(&t);
}

// Text to tokens, read back as windows.
static void converts(void **state)
{
    (void)state;
    rung_convert_report report;
    rung_convert_options o = {.from = TOKENS "sample.txt",
                              .to = test_path(&folder, "c.bin"),
                              .tokenizer = "gpt2",
                              .vocabulary = TOKENS "vocab.json",
                              .merges = TOKENS "merges.txt"};
    assert_ok(rung_convert_data(context, &o, &report));
    assert_int_equal(report.vocabulary, 297);
    static uint16_t bytes[4096];
    size_t size = test_read(o.to, bytes, sizeof bytes);
    assert_int_equal(size, 1024 + 2 * report.samples);
    uint32_t ids[1024];
    for (int64_t i = 0; i < report.samples; i++)
        ids[i] = bytes[512 + i];
    check_ids(TOKENS "sample.gpt2.json", ids, (size_t)report.samples);
    o.tokenizer = "char";
    o.vocabulary = o.merges = NULL;
    o.to = test_path(&folder, "d.bin");
    assert_ok(rung_convert_data(context, &o, &report));
    rung_source *source;
    assert_ok(
        rung_source_tokens(context, &(rung_tokens_options){.path = o.to, .length = 16}, &source));
    assert_int_equal(source->count, (report.samples - 1) / 16);
    rung_source_destroy(&source);
    assert_int_equal(access(test_path(&folder, "d.bin.vocab.json"), F_OK), 0);
    o.to = test_path(&folder, "e.bin");
    o.tokenizer = NULL;
    assert_fails(RUNG_INVALID, "Say the tokenizer", rung_convert_data(context, &o, &report));
    o.tokenizer = "char";
    o.from = TOKENS "v1.bin";
    assert_fails(RUNG_DATA, "v1.bin: the text is not UTF-8",
                 rung_convert_data(context, &o, &report));
    assert_int_not_equal(access(o.to, F_OK), 0);
}

// ---- examples line by line

static void reviews(void **state)
{
    (void)state;
    rung_source *source, *other;
    json_t *expected;
    assert_ok(rungi_json_load(TOKENS "reviews.json", 1 << 20, &expected));
    const json_t *rows = json_object_get(expected, "rows");
    const json_t *words = json_object_get(expected, "vocabulary");
    messages.text[0] = '\0';
    assert_ok(rung_source_text(context, &(rung_text_options){.path = TOKENS "reviews", .length = 6},
                               &source));
    assert_non_null(strstr(messages.text, "1 blank lines are left out"));
    assert_int_equal(source->count, json_array_size(rows));
    assert_int_equal(source->class_count, 2);
    assert_string_equal(source->class_names[0], "neg");
    assert_string_equal(source->class_names[1], "pos");
    assert_int_equal(rung_source_text_ids(source), json_array_size(words));
    for (size_t i = 0; i < json_array_size(words); i++)
        assert_string_equal(rung_source_text_word(source, (int64_t)i),
                            json_string_value(json_array_get(words, i)));
    assert_null(rung_source_text_word(source, -1));
    assert_null(rung_source_text_word(source, (int64_t)json_array_size(words)));
    // The same from its saved vocabulary.
    const char *saved = test_path(&folder, "vocab.txt");
    assert_ok(rung_source_text_save(source, saved));
    assert_ok(rung_source_text(
        context, &(rung_text_options){.path = TOKENS "reviews", .length = 6, .vocabulary = saved},
        &other));
    for (int64_t i = 0; i < source->count; i++)
        for (int which = 0; which < 2; which++) {
            int64_t tokens[6], label, length;
            rung_view views[] = {{RUNG_I64, RUNG_SHAPE(6), tokens},
                                 {RUNG_I64, RUNG_SCALAR, &label},
                                 {RUNG_I64, RUNG_SCALAR, &length}};
            rung_source *s = which ? other : source;
            assert_ok(s->read(s->self, NULL, &(rung_sample){.index = i}, views));
            const json_t *row = json_array_get(rows, (size_t)i);
            for (size_t k = 0; k < 6; k++)
                assert_int_equal(tokens[k], json_integer_value(json_array_get(row, k)));
            assert_int_equal(label, json_integer_value(json_array_get(row, 6)));
            assert_int_equal(length, json_integer_value(json_array_get(row, 7)));
        }
    char place[256];
    source->describe(source->self, 2, place, sizeof place);
    assert_string_equal(place, TOKENS "reviews/set.neg, line 4");
    rung_source_destroy(&source);
    rung_source_destroy(&other);
    json_decref(expected);
    // Fewer words: those that come once are unknown, and no more than 5 ids.
    assert_ok(rung_source_text(
        context, &(rung_text_options){.path = TOKENS "reviews", .length = 6, .vocabulary_least = 2},
        &source));
    assert_int_equal(rung_source_text_ids(source), 2 + 9);
    rung_source_destroy(&source);
    assert_ok(rung_source_text(
        context, &(rung_text_options){.path = TOKENS "reviews", .length = 6, .vocabulary_most = 5},
        &source));
    assert_string_equal(rung_source_text_word(source, 4), ",");
    assert_int_equal(rung_source_text_ids(source), 5);
    rung_source_destroy(&source);
}

static void put(const char *name, const char *text)
{
    test_write(&folder, name, text, strlen(text));
}

// Columns, splits, and the training words as everybody's vocabulary.
static void columns(void **state)
{
    (void)state;
    rung_source *source;
    int64_t tokens[64], label, length;
    rung_view views[] = {{RUNG_I64, RUNG_SHAPE(64), tokens},
                         {RUNG_I64, RUNG_SCALAR, &label},
                         {RUNG_I64, RUNG_SCALAR, &length}};
    mkdir(test_path(&folder, "c"), 0777);
    put("c/train.tsv", "label\tid\ttext\nbad\t1\tnot good\ngood\t2\tgood film\n");
    put("c/val.tsv", "label\tid\ttext\nbad\t1\tFilm not unheard\ngood\t2\tgood\n");
    const char *path = test_path(&folder, "c");
    assert_ok(rung_source_open(context, "text", path, "test", &source));
    assert_int_equal(source->count, 2);
    assert_string_equal(source->class_names[1], "good");
    assert_int_equal(rung_source_text_ids(source), 5); // good film not
    assert_ok(source->read(source->self, NULL, &(rung_sample){.index = 0}, views));
    assert_true(tokens[0] == 1 && tokens[1] == 4 && tokens[2] == 1 && tokens[3] == 0);
    assert_true(label == 0 && length == 3);
    rung_source_destroy(&source);
    put("n.csv", "\"a b, c\",3\nd,0\n");
    assert_ok(rung_source_text(
        context, &(rung_text_options){.path = test_path(&folder, "n.csv"), .length = 64}, &source));
    assert_int_equal(source->class_count, 4);
    assert_null(source->class_names);
    assert_ok(source->read(source->self, NULL, &(rung_sample){.index = 0}, views));
    assert_true(label == 3 && length == 3);
    rung_source_destroy(&source);
    put("l.csv", "Ab aB,x\nAB,y\n");
    assert_ok(rung_source_text(
        context, &(rung_text_options){.path = test_path(&folder, "l.csv"), .lower = true},
        &source));
    assert_int_equal(rung_source_text_ids(source), 3);
    rung_source_destroy(&source);

    static const struct {
        const char *text, *vocabulary, *message;
    } bad[] = {
        {"a\n", NULL, "b.csv, line 1: has 1 columns"},
        {"a,\n", NULL, "b.csv, line 1: has no label"},
        {"", NULL, "holds no lines of text"},
        {"a,1\n", "x\n", "first lines are <pad> and <unk>"},
        {"a,1\n", "<pad>\n<unk>\nx\nx\n", "v.txt, line 4: x stands there twice"},
        {"a,1\n", "<pad>\n\n", "v.txt, line 2: is no word"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put("b.csv", bad[i].text);
        put("v.txt", bad[i].vocabulary ? bad[i].vocabulary : "");
        rung_text_options o = {.path = test_path(&folder, "b.csv"),
                               .vocabulary =
                                   bad[i].vocabulary ? test_path(&folder, "v.txt") : NULL};
        rung_status status = rung_source_text(context, &o, &source);
        if (status == RUNG_OK || !strstr(rung_error_last()->message, bad[i].message))
            fail_msg("case %zu: %s", i, rung_error_last()->message);
    }
    test_write(&folder, "b.csv", "a\0b,1", 5);
    assert_fails(RUNG_FORMAT, "b.csv",
                 rung_source_text(
                     context, &(rung_text_options){.path = test_path(&folder, "b.csv")}, &source));
}

// The film reviews: as many examples and words as another program counts (sort | uniq).
static void real_reviews(void **state)
{
    (void)state;
    char path[PATH_MAX], command[PATH_MAX * 2], text[64] = {0};
    GROUP_REAL_DATA(path, "rt-polarity.pos");
    *strrchr(path, '/') = '\0';
    snprintf(
        command, sizeof command,
        "cd '%s' && mkdir r && cp '%s'/rt-polarity.* r && "
        "cat r/* | LC_ALL=C tr -s ' \\t\\r\\n\\v\\f' '\\n' | grep -v '^$' | LC_ALL=C sort -u | "
        "wc -l >words",
        folder.path, path);
    assert_int_equal(system(command), 0);
    test_read(test_path(&folder, "words"), text, sizeof text - 1);
    rung_source *source;
    assert_ok(
        rung_source_text(context, &(rung_text_options){.path = test_path(&folder, "r")}, &source));
    assert_int_equal(source->count, 2 * 5331);
    assert_string_equal(source->class_names[1], "pos");
    assert_int_equal(rung_source_text_ids(source), atol(text) + 2);
    rung_source_destroy(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows),    cmocka_unit_test(hostile_tokens),
        cmocka_unit_test(tokenizers), cmocka_unit_test(bad_tokenizers),
        cmocka_unit_test(converts),   cmocka_unit_test(reviews),
        cmocka_unit_test(columns),    cmocka_unit_test(real_reviews),
    };
    return RUN_GROUP(tests, group_set_up);
}
