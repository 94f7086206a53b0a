// SPDX-License-Identifier: Apache-2.0
// GPT-2's byte pair encoding (Sennrich, Haddow, Birch 2016; Radford et al. 2019). The text is split
// by GPT-2's pattern; a piece's bytes are its first symbols; of all neighbours the pair that stands
// first in merges.txt is joined, all its places at once, until no pair is there. In vocab.json and
// merges.txt a byte is written as a printable character: bytes_to_unicode of GPT-2's encoder.py.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <inttypes.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fs.h"
#include "data/tokenizer.h"
#include "data/words.h"

enum { IDS_MAX = 1 << 22, BYTES = 256 };
static const size_t MERGES_BYTES_MAX = (size_t)64 << 20;

static const char split_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+"
    "|\\s+(?!\\S)|\\s+";

typedef struct merge {
    uint32_t left, right; // ids
    uint32_t rank, made;  // rank + 1; 0: a free slot
} merge;

typedef struct gpt2 {
    rung_tokenizer tokenizer;  // first
    rungi_words words;         // tokens as their bytes
    RUNGI_ARRAY(uint32_t) ids; // of the words
    int64_t bytes[BYTES];      // ids of single bytes, -1: none
    merge *merges;
    size_t slots; // a power of two
    pcre2_code *pattern;
} gpt2;

// ---- bytes as characters

// The character that stands for a byte.
static int32_t character_of(int byte)
{
    bool shown = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    if (shown)
        return byte;
    int before = 0; // hidden bytes below: they take the characters from 256 on
    for (int b = 0; b < byte; b++)
        before += !((b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE);
    return BYTES + before;
}

// The bytes that a token stands for; false for one that has other characters (<|endoftext|> has
// none of them).
static bool to_bytes(const char *token, size_t size, rungi_string *out)
{
    const char *end = token + size;
    out->size = 0;
    while (token < end) {
        int32_t character = rungi_utf8_take(&token, end);
        int byte = 0;
        while (byte < BYTES && character_of(byte) != character)
            byte++;
        if (byte == BYTES)
            return false;
        char c = (char)byte;
        rungi_string_append(out, &c, 1);
    }
    return !out->failed;
}

// ---- the files

typedef struct loading {
    gpt2 *g;
    rungi_string bytes;
} loading;

static rung_status take_token(void *user, const char *token, size_t size, int64_t id)
{
    loading *l = user;
    gpt2 *g = l->g;
    RUNG_CHECK(id < IDS_MAX, RUNG_FORMAT, "token %.100s: its id %" PRId64 " is above %d", token, id,
               IDS_MAX - 1);
    g->tokenizer.count = id >= g->tokenizer.count ? id + 1 : g->tokenizer.count;
    if (!to_bytes(token, size, &l->bytes) || l->bytes.size == 0)
        return RUNG_OK; // a special token: no text becomes it
    int64_t number = rungi_words_add(&g->words, l->bytes.data, l->bytes.size);
    RUNG_CHECK(number >= 0 &&
                   (number < (int64_t)g->ids.count || rungi_array_push(&g->ids, (uint32_t)id)),
               RUNG_NO_MEMORY, "no memory for a vocabulary");
    if (l->bytes.size == 1)
        g->bytes[(unsigned char)l->bytes.data[0]] = id;
    return RUNG_OK;
}

static merge *find_merge(const gpt2 *g, uint32_t left, uint32_t right)
{
    uint64_t key = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    size_t at = (size_t)(key >> 32) & (g->slots - 1);
    while (g->merges[at].rank && (g->merges[at].left != left || g->merges[at].right != right))
        at = (at + 1) & (g->slots - 1);
    return &g->merges[at];
}

// The id of a token as it is written in merges.txt.
static int64_t id_of(loading *l, const char *token, size_t size)
{
    if (!to_bytes(token, size, &l->bytes))
        return -1;
    int64_t number = rungi_words_find(&l->g->words, l->bytes.data, l->bytes.size);
    return number < 0 ? -1 : (int64_t)l->g->ids.data[number];
}

static rung_status take_merge(loading *l, const char *line, size_t size, uint32_t rank)
{
    const char *blank = memchr(line, ' ', size);
    size_t left_size = blank ? (size_t)(blank - line) : 0, right_size = size - left_size - 1;
    RUNG_CHECK(blank && left_size && right_size && !memchr(blank + 1, ' ', right_size), RUNG_FORMAT,
               "not two tokens: %.*s", (int)(size < 100 ? size : 100), line);
    int64_t left = id_of(l, line, left_size), right = id_of(l, blank + 1, right_size), made = -1;
    rungi_string joined = {0};
    rungi_string_append(&joined, line, left_size);
    rungi_string_append(&joined, blank + 1, right_size);
    if (!joined.failed)
        made = id_of(l, joined.data, joined.size);
    rungi_string_fini(&joined);
    RUNG_CHECK(left >= 0 && right >= 0 && made >= 0, RUNG_FORMAT,
               "'%.*s' joins tokens that are not in the vocabulary, or makes one that is not",
               (int)(size < 100 ? size : 100), line);
    merge *m = find_merge(l->g, (uint32_t)left, (uint32_t)right);
    if (!m->rank) // of a pair that stands there twice the first counts
        *m = (merge){(uint32_t)left, (uint32_t)right, rank + 1, (uint32_t)made};
    return RUNG_OK;
}

static rung_status take_lines(loading *l, const char *path, const char *text, size_t size)
{
    size_t lines = 1;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    RUNG_CHECK(lines < IDS_MAX, RUNG_FORMAT, "%s: %zu lines, can be at most %d", path, lines,
               IDS_MAX);
    for (l->g->slots = 16; l->g->slots < 2 * lines;)
        l->g->slots *= 2;
    l->g->merges = calloc(l->g->slots, sizeof *l->g->merges);
    RUNG_CHECK(l->g->merges, RUNG_NO_MEMORY, "%s: no memory for it", path);
    uint32_t rank = 0;
    for (size_t at = 0, line = 1; at < size; line++) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at, next = at + length + 1;
        if (length && text[at + length - 1] == '\r')
            length--;
        bool version = line == 1 && length >= 8 && memcmp(text + at, "#version", 8) == 0;
        if (length && !version && take_merge(l, text + at, length, rank++) != RUNG_OK)
            return rungi_fail_prefix("%s, line %zu", path, line);
        at = next;
    }
    return RUNG_OK;
}

static rung_status load_merges(loading *l, const char *path)
{
    char *text = NULL;
    size_t size;
    RUNG_TRY(rungi_fs_read(path, MERGES_BYTES_MAX, &text, &size));
    rung_status status = take_lines(l, path, text, size);
    free(text);
    return status;
}

// ---- encoding

// Joins the symbols of a piece; returns how many are left.
static size_t join(const gpt2 *g, uint32_t *symbols, size_t count)
{
    while (count > 1) {
        const merge *best = NULL;
        for (size_t i = 0; i + 1 < count; i++) {
            const merge *m = find_merge(g, symbols[i], symbols[i + 1]);
            if (m->rank && (!best || m->rank < best->rank))
                best = m;
        }
        if (!best)
            break;
        size_t kept = 0;
        for (size_t i = 0; i < count; kept++) {
            bool pair = i + 1 < count && symbols[i] == best->left && symbols[i + 1] == best->right;
            symbols[kept] = pair ? best->made : symbols[i];
            i += pair ? 2 : 1;
        }
        count = kept;
    }
    return count;
}

static rung_status encode_piece(const gpt2 *g, const char *piece, size_t size, rungi_ids *ids)
{
    size_t first = ids->count;
    for (size_t i = 0; i < size; i++) {
        int64_t id = g->bytes[(unsigned char)piece[i]];
        RUNG_CHECK(id >= 0, RUNG_DATA, "the vocabulary has no token for byte %d",
                   (unsigned char)piece[i]);
        RUNG_CHECK(rungi_array_push(ids, (uint32_t)id), RUNG_NO_MEMORY, "no memory for tokens");
    }
    ids->count = first + join(g, ids->data + first, size);
    return RUNG_OK;
}

static rung_status check_utf8(const char *text, size_t size)
{
    const char *end = text + size;
    for (const char *at = text; at < end;) {
        size_t place = (size_t)(at - text);
        RUNG_CHECK(rungi_utf8_take(&at, end) >= 0, RUNG_DATA, "the text is not UTF-8 at byte %zu",
                   place);
    }
    return RUNG_OK;
}

static rung_status encode(const rung_tokenizer *t, const char *text, size_t size, rungi_ids *ids)
{
    const gpt2 *g = (const gpt2 *)t;
    RUNG_TRY(check_utf8(text, size));
    pcre2_match_data *match = pcre2_match_data_create_from_pattern(g->pattern, NULL);
    RUNG_CHECK(match, RUNG_NO_MEMORY, "no memory to split text");
    rung_status status = RUNG_OK;
    for (size_t at = 0; at < size && status == RUNG_OK;) {
        int code =
            pcre2_match(g->pattern, (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK, match, NULL);
        const PCRE2_SIZE *where = pcre2_get_ovector_pointer(match);
        if (code < 0 || where[0] != at || where[1] <= at) // the pattern covers every text
            status = RUNG_FAIL(RUNG_LIBRARY, "the text could not be split at byte %zu (PCRE2: %d)",
                               at, code);
        else
            status = encode_piece(g, text + at, where[1] - at, ids);
        if (status == RUNG_OK)
            at = where[1];
    }
    pcre2_match_data_free(match);
    return status;
}

// ---- life

static void destroy(rung_tokenizer *t)
{
    gpt2 *g = (gpt2 *)t;
    rungi_words_fini(&g->words);
    rungi_array_fini(&g->ids);
    free(g->merges);
    if (g->pattern)
        pcre2_code_free(g->pattern);
    free(g);
}

static rung_status compile_pattern(gpt2 *g)
{
    int code;
    PCRE2_SIZE at;
    g->pattern = pcre2_compile((PCRE2_SPTR)split_pattern, sizeof split_pattern - 1,
                               PCRE2_UTF | PCRE2_UCP, &code, &at, NULL);
    RUNG_CHECK(g->pattern, RUNG_LIBRARY, "PCRE2 refuses GPT-2's pattern (%d at %zu)", code, at);
    (void)pcre2_jit_compile(g->pattern, PCRE2_JIT_COMPLETE); // else it is interpreted
    return RUNG_OK;
}

rung_status rungi_tokenizer_gpt2(const char *vocabulary, const char *merges, rung_tokenizer **out)
{
    gpt2 *g = calloc(1, sizeof *g);
    RUNG_CHECK(g, RUNG_NO_MEMORY, "no memory for a tokenizer");
    loading l = {.g = g};
    g->tokenizer = (rung_tokenizer){0, encode, destroy};
    memset(g->bytes, 0xFF, sizeof g->bytes);
    rung_status status = compile_pattern(g);
    if (status == RUNG_OK)
        status = rungi_vocabulary_load(vocabulary, IDS_MAX, take_token, &l);
    if (status == RUNG_OK)
        status = load_merges(&l, merges);
    rungi_string_fini(&l.bytes);
    if (status != RUNG_OK) {
        destroy(&g->tokenizer);
        return status;
    }
    *out = &g->tokenizer;
    return RUNG_OK;
}
