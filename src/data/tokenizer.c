// SPDX-License-Identifier: Apache-2.0
#include "data/tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

enum { CHARACTERS = 0x110000, BYTES = 256 };
static const size_t VOCABULARY_BYTES_MAX = (size_t)16
                                           << 20; // a tree of more would be hundreds of MB

// ---- UTF-8

int32_t rungi_utf8_take(const char **at, const char *end)
{
    const unsigned char *b = (const unsigned char *)*at;
    static const struct {
        unsigned char mask, lead;
        int32_t least;
    } forms[] = {{0x80, 0, 0}, {0xE0, 0xC0, 0x80}, {0xF0, 0xE0, 0x800}, {0xF8, 0xF0, 0x10000}};
    for (int more = 0; more < 4; more++) {
        if ((b[0] & forms[more].mask) != forms[more].lead)
            continue;
        if (end - *at <= more)
            return -1;
        int32_t value = b[0] & (unsigned char)~forms[more].mask;
        for (int i = 1; i <= more; i++) {
            if ((b[i] & 0xC0) != 0x80)
                return -1;
            value = value << 6 | (b[i] & 0x3F);
        }
        if (value < forms[more].least || value >= CHARACTERS ||
            (value >= 0xD800 && value <= 0xDFFF))
            return -1;
        *at += more + 1;
        return value;
    }
    return -1;
}

int rungi_utf8_put(int32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char leads[] = {0, 0xC0, 0xE0, 0xF0};
    out[0] = (char)(leads[more] | c >> (6 * more));
    for (int i = 1; i <= more; i++)
        out[i] = (char)(0x80 | (c >> (6 * (more - i)) & 0x3F));
    return more + 1;
}

// ---- vocabularies in JSON

rung_status rungi_vocabulary_load(const char *path, int64_t most, rungi_vocabulary_fn fn,
                                  void *user)
{
    json_t *root, *value;
    const char *key;
    size_t key_size;
    RUNG_TRY(rungi_json_load(path, VOCABULARY_BYTES_MAX, &root));
    rung_status status = RUNG_OK;
    if (!json_is_object(root) || json_object_size(root) == 0 ||
        (int64_t)json_object_size(root) > most)
        status = RUNG_FAIL(
            RUNG_FORMAT, "%s: not a vocabulary: an object of 1 to %" PRId64 " tokens and their ids",
            path, most);
    for (void *it = json_object_iter(root); it && status == RUNG_OK;
         it = json_object_iter_next(root, it)) {
        key = json_object_iter_key(it);
        key_size = strlen(key);
        value = json_object_iter_value(it);
        if (!json_is_integer(value) || json_integer_value(value) < 0 ||
            json_integer_value(value) >= INT32_MAX)
            status = RUNG_FAIL(RUNG_FORMAT, "%s: token %.100s: its id is no whole number from 0",
                               path, key);
        else
            status = fn(user, key, key_size, json_integer_value(value));
    }
    json_decref(root);
    return status;
}

// ---- bytes

static rung_status encode_bytes(const rung_tokenizer *t, const char *text, size_t size,
                                rungi_ids *ids)
{
    (void)t;
    for (size_t i = 0; i < size; i++)
        RUNG_CHECK(rungi_array_push(ids, (unsigned char)text[i]), RUNG_NO_MEMORY,
                   "no memory for tokens");
    return RUNG_OK;
}

static void destroy_plain(rung_tokenizer *t)
{
    free(t);
}

static rung_status make_bytes(rung_tokenizer **out)
{
    rung_tokenizer *t = calloc(1, sizeof *t);
    RUNG_CHECK(t, RUNG_NO_MEMORY, "no memory for a tokenizer");
    *t = (rung_tokenizer){BYTES, encode_bytes, destroy_plain};
    *out = t;
    return RUNG_OK;
}

// ---- characters

typedef struct characters {
    rung_tokenizer tokenizer; // first
    uint32_t *ids;            // of each character below `limit` its id and 1 more; 0: none
    int32_t limit;
} characters;

static rung_status encode_characters(const rung_tokenizer *t, const char *text, size_t size,
                                     rungi_ids *ids)
{
    const characters *c = (const characters *)t;
    const char *end = text + size;
    for (const char *at = text; at < end;) {
        size_t place = (size_t)(at - text);
        int32_t character = rungi_utf8_take(&at, end);
        RUNG_CHECK(character >= 0, RUNG_DATA, "the text is not UTF-8 at byte %zu", place);
        RUNG_CHECK(character < c->limit && c->ids[character] > 0, RUNG_DATA,
                   "character U+%04X at byte %zu of the text is not in the vocabulary",
                   (unsigned)character, place);
        RUNG_CHECK(rungi_array_push(ids, c->ids[character] - 1), RUNG_NO_MEMORY,
                   "no memory for tokens");
    }
    return RUNG_OK;
}

static void destroy_characters(rung_tokenizer *t)
{
    free(((characters *)t)->ids);
    free(t);
}

static rung_status make_characters(characters **out)
{
    characters *c = calloc(1, sizeof *c);
    RUNG_CHECK(c, RUNG_NO_MEMORY, "no memory for a tokenizer");
    c->tokenizer = (rung_tokenizer){0, encode_characters, destroy_characters};
    *out = c;
    return RUNG_OK;
}

// Makes room for the id of a character.
static rung_status reach(characters *c, int32_t character)
{
    if (character < c->limit)
        return RUNG_OK;
    int32_t limit = character < CHARACTERS / 2 ? 2 * (character | 127) : CHARACTERS;
    uint32_t *ids = realloc(c->ids, (size_t)limit * sizeof *ids);
    RUNG_CHECK(ids, RUNG_NO_MEMORY, "no memory for a tokenizer");
    memset(ids + c->limit, 0, (size_t)(limit - c->limit) * sizeof *ids);
    c->ids = ids;
    c->limit = limit;
    return RUNG_OK;
}

static rung_status take_character(void *user, const char *token, size_t size, int64_t id)
{
    characters *c = user;
    const char *at = token, *end = token + size;
    int32_t character = size ? rungi_utf8_take(&at, end) : 0; // a NUL ends the text of JSON
    RUNG_CHECK(character >= 0 && at == end, RUNG_FORMAT, "token '%.100s' is not one character",
               token);
    RUNG_TRY(reach(c, character));
    RUNG_CHECK(c->ids[character] == 0, RUNG_FORMAT, "token '%.100s' stands there twice", token);
    c->ids[character] = (uint32_t)id + 1;
    c->tokenizer.count = id >= c->tokenizer.count ? id + 1 : c->tokenizer.count;
    return RUNG_OK;
}

static rung_status load_characters(const char *path, rung_tokenizer **out)
{
    characters *c = NULL; // gcc does not follow RUNG_TRY
    RUNG_TRY(make_characters(&c));
    rung_status status = rungi_vocabulary_load(path, CHARACTERS, take_character, c);
    if (status != RUNG_OK) {
        destroy_characters(&c->tokenizer);
        return strstr(rung_error_last()->message, path) ? status : rungi_fail_prefix("%s", path);
    }
    *out = &c->tokenizer;
    return RUNG_OK;
}

static rung_status count_characters(characters *c, const char *text, size_t size)
{
    const char *end = text + size;
    for (const char *at = text; at < end;) {
        size_t place = (size_t)(at - text);
        int32_t character = rungi_utf8_take(&at, end);
        RUNG_CHECK(character >= 0, RUNG_DATA, "the text is not UTF-8 at byte %zu", place);
        RUNG_TRY(reach(c, character));
        c->ids[character] = 1;
    }
    for (int32_t i = 0; i < c->limit; i++)
        if (c->ids[i])
            c->ids[i] = (uint32_t)++c->tokenizer.count;
    return RUNG_OK;
}

rung_status rung_tokenizer_of_text(const char *text, size_t size, rung_tokenizer **out)
{
    characters *c = NULL; // gcc does not follow RUNG_TRY
    RUNG_TRY(make_characters(&c));
    rung_status status = count_characters(c, text, size);
    if (status != RUNG_OK) {
        destroy_characters(&c->tokenizer);
        return status;
    }
    *out = &c->tokenizer;
    return RUNG_OK;
}

rung_status rung_tokenizer_save(const rung_tokenizer *t, const char *path)
{
    RUNG_CHECK(t && t->encode == encode_characters && path, RUNG_INVALID,
               "only the vocabulary of characters is saved");
    const characters *c = (const characters *)t;
    json_t *root = json_object();
    for (int32_t i = 0; i < c->limit; i++) {
        char text[5] = {0};
        if (!c->ids[i])
            continue;
        text[rungi_utf8_put(i, text)] = '\0';
        json_object_set_new(root, text, json_integer(c->ids[i] - 1));
    }
    rung_status status = rungi_json_save(path, root);
    json_decref(root);
    return status;
}

// ---- all kinds

rung_status rung_tokenizer_create(const char *kind, const char *vocabulary, const char *merges,
                                  rung_tokenizer **out)
{
    static const char *const kinds[] = {"byte", "char", "gpt2"};
    RUNG_CHECK(kind, RUNG_CONFIG, "no kind of tokenizer given");
    if (strcmp(kind, "byte") == 0)
        return make_bytes(out);
    if (strcmp(kind, "char") == 0) {
        RUNG_CHECK(vocabulary, RUNG_CONFIG, "a tokenizer of characters needs its vocabulary");
        return load_characters(vocabulary, out);
    }
    if (strcmp(kind, "gpt2") == 0) {
        RUNG_CHECK(vocabulary && merges, RUNG_CONFIG,
                   "GPT-2's tokenizer needs its files: vocab.json and merges.txt");
        return rungi_tokenizer_gpt2(vocabulary, merges, out);
    }
    const char *nearest = rungi_text_nearest(kind, kinds, 3);
    return RUNG_FAIL(RUNG_CONFIG, "unknown tokenizer %s%s%s (there are byte, char and gpt2)", kind,
                     nearest ? ", did you mean " : "", nearest ? nearest : "");
}

void rung_tokenizer_destroy(rung_tokenizer **tokenizer)
{
    if (tokenizer && *tokenizer)
        (*tokenizer)->destroy(*tokenizer);
    if (tokenizer)
        *tokenizer = NULL;
}

int64_t rung_tokenizer_count(const rung_tokenizer *t)
{
    return t->count;
}

rung_status rung_tokenizer_encode(const rung_tokenizer *t, const char *text, size_t size,
                                  uint32_t **ids_out, size_t *count_out)
{
    rungi_ids ids = {0};
    rung_status status = t->encode(t, text, size, &ids);
    if (status != RUNG_OK) {
        rungi_array_fini(&ids);
        return status;
    }
    *ids_out = ids.data ? ids.data : calloc(1, sizeof **ids_out);
    *count_out = ids.count;
    RUNG_CHECK(*ids_out, RUNG_NO_MEMORY, "no memory for tokens");
    return RUNG_OK;
}
