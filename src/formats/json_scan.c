// SPDX-License-Identifier: Apache-2.0
#include "formats/json_scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum state {
    WANT_VALUE,
    WANT_VALUE_OR_END, // just after [
    WANT_KEY,
    WANT_KEY_OR_END, // just after {
    AFTER_VALUE,
};

enum { NUMBER_MAX = 512 };
static const size_t TEXT_MAX_DEFAULT = (size_t)1 << 20;

static uint64_t position(const rungi_json_scan *scan)
{
    return scan->consumed + scan->at;
}

#define SCAN_FAIL(scan, ...) scan_fail((scan), __LINE__, __VA_ARGS__)

static rung_status scan_fail(const rungi_json_scan *scan, int line, const char *reason)
{
    return rungi_fail(RUNG_FORMAT, __FILE__, line, "%s: %s at byte %llu", scan->what, reason,
                      (unsigned long long)position(scan));
}

// The next byte without taking it, -1 at the end of the text.
static rung_status peek(rungi_json_scan *scan, int *byte_out)
{
    if (scan->at == scan->end && !scan->finished) {
        scan->consumed += scan->end;
        scan->at = scan->end = 0;
        RUNG_TRY(scan->read(scan->user, scan->window, sizeof scan->window, &scan->end));
        scan->finished = scan->end == 0;
    }
    *byte_out = scan->at < scan->end ? (unsigned char)scan->window[scan->at] : -1;
    return RUNG_OK;
}

static rung_status peek_after_space(rungi_json_scan *scan, int *byte_out)
{
    for (;;) {
        RUNG_TRY(peek(scan, byte_out));
        if (*byte_out != ' ' && *byte_out != '\n' && *byte_out != '\r' && *byte_out != '\t')
            return RUNG_OK;
        scan->at++;
    }
}

static rung_status take(rungi_json_scan *scan, int *byte_out)
{
    RUNG_TRY(peek(scan, byte_out));
    if (*byte_out < 0)
        return SCAN_FAIL(scan, "ends inside a value");
    scan->at++;
    return RUNG_OK;
}

static rung_status text_reserve(rungi_json_scan *scan, size_t more)
{
    size_t wanted = scan->text_size + more + 1;
    if (wanted <= scan->text_capacity)
        return RUNG_OK;
    size_t limit = scan->max_text ? scan->max_text : TEXT_MAX_DEFAULT;
    if (wanted - 1 > limit)
        return SCAN_FAIL(scan, "a string is longer than allowed");
    size_t capacity = scan->text_capacity ? scan->text_capacity * 2 : 256;
    while (capacity < wanted)
        capacity *= 2;
    char *text = realloc(scan->text, capacity);
    RUNG_CHECK(text, RUNG_NO_MEMORY, "%s: no memory for a string", scan->what);
    scan->text = text;
    scan->text_capacity = capacity;
    return RUNG_OK;
}

static rung_status text_add(rungi_json_scan *scan, const char *data, size_t size)
{
    RUNG_TRY(text_reserve(scan, size));
    memcpy(scan->text + scan->text_size, data, size);
    scan->text_size += size;
    return RUNG_OK;
}

static rung_status take_hex(rungi_json_scan *scan, uint32_t *unit_out)
{
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        int c;
        RUNG_TRY(take(scan, &c));
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return SCAN_FAIL(scan, "\\u without four hexadecimal digits");
        unit = unit << 4 | (uint32_t)digit;
    }
    *unit_out = unit;
    return RUNG_OK;
}

static rung_status take_unicode(rungi_json_scan *scan)
{
    uint32_t code, low;
    RUNG_TRY(take_hex(scan, &code));
    if (code >= 0xD800 && code < 0xE000) {
        int c;
        if (code >= 0xDC00)
            return SCAN_FAIL(scan, "half of a surrogate pair");
        for (int i = 0; i < 2; i++) {
            RUNG_TRY(take(scan, &c));
            if (c != "\\u"[i])
                return SCAN_FAIL(scan, "half of a surrogate pair");
        }
        RUNG_TRY(take_hex(scan, &low));
        if (low < 0xDC00 || low >= 0xE000)
            return SCAN_FAIL(scan, "half of a surrogate pair");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    char out[4];
    size_t size = 0;
    if (code < 0x80) {
        out[size++] = (char)code;
    } else if (code < 0x800) {
        out[size++] = (char)(0xC0 | code >> 6);
        out[size++] = (char)(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        out[size++] = (char)(0xE0 | code >> 12);
        out[size++] = (char)(0x80 | (code >> 6 & 0x3F));
        out[size++] = (char)(0x80 | (code & 0x3F));
    } else {
        out[size++] = (char)(0xF0 | code >> 18);
        out[size++] = (char)(0x80 | (code >> 12 & 0x3F));
        out[size++] = (char)(0x80 | (code >> 6 & 0x3F));
        out[size++] = (char)(0x80 | (code & 0x3F));
    }
    return text_add(scan, out, size);
}

// After the opening quote, up to and with the closing one.
static rung_status take_string(rungi_json_scan *scan)
{
    scan->text_size = 0;
    for (;;) {
        int c;
        RUNG_TRY(take(scan, &c));
        if (c == '"')
            break;
        if (c < 0x20)
            return SCAN_FAIL(scan, "control character in a string");
        if (c != '\\') { // a run of plain bytes out of the window
            size_t begin = scan->at - 1;
            while (scan->at < scan->end && (unsigned char)scan->window[scan->at] >= 0x20 &&
                   scan->window[scan->at] != '"' && scan->window[scan->at] != '\\')
                scan->at++;
            RUNG_TRY(text_add(scan, scan->window + begin, scan->at - begin));
            continue;
        }
        RUNG_TRY(take(scan, &c));
        static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
        const char *found = c ? strchr(escapes, c) : NULL;
        if (c == 'u')
            RUNG_TRY(take_unicode(scan));
        else if (found)
            RUNG_TRY(text_add(scan, &meanings[found - escapes], 1));
        else
            return SCAN_FAIL(scan, "unknown escape in a string");
    }
    RUNG_TRY(text_reserve(scan, 0));
    scan->text[scan->text_size] = 0;
    if (!rungi_utf8_valid(scan->text, scan->text_size))
        return SCAN_FAIL(scan, "not UTF-8: the string that ends");
    return RUNG_OK;
}

static bool digits(const char **at)
{
    const char *begin = *at;
    while (**at >= '0' && **at <= '9')
        (*at)++;
    return *at > begin;
}

static bool is_number(const char *at)
{
    at += *at == '-';
    if (*at == '0')
        at++;
    else if (!digits(&at))
        return false;
    if (*at == '.' && (at++, !digits(&at)))
        return false;
    if (*at == 'e' || *at == 'E') {
        at++;
        at += *at == '+' || *at == '-';
        if (!digits(&at))
            return false;
    }
    return *at == 0;
}

// A number or a literal: all bytes up to white space or punctuation.
static rung_status take_word(rungi_json_scan *scan, rungi_json_token *token_out)
{
    scan->text_size = 0;
    for (;;) {
        int c;
        RUNG_TRY(peek(scan, &c));
        bool part = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                    c == '-' || c == '+' || c == '.';
        if (!part)
            break;
        if (scan->text_size >= NUMBER_MAX)
            return SCAN_FAIL(scan, "number too long");
        char byte = (char)c;
        RUNG_TRY(text_add(scan, &byte, 1));
        scan->at++;
    }
    RUNG_TRY(text_reserve(scan, 0));
    scan->text[scan->text_size] = 0;
    if (is_number(scan->text))
        *token_out = RUNGI_JSON_NUMBER;
    else if (strcmp(scan->text, "true") == 0)
        *token_out = RUNGI_JSON_TRUE;
    else if (strcmp(scan->text, "false") == 0)
        *token_out = RUNGI_JSON_FALSE;
    else if (strcmp(scan->text, "null") == 0)
        *token_out = RUNGI_JSON_NULL;
    else
        return SCAN_FAIL(scan, "not a JSON value");
    return RUNG_OK;
}

static rung_status open_nested(rungi_json_scan *scan, bool array, rungi_json_token *token_out)
{
    int limit = scan->max_depth ? scan->max_depth : RUNGI_JSON_DEPTH_MAX;
    if (scan->depth >= limit)
        return SCAN_FAIL(scan, "nested too deep");
    scan->at++;
    scan->in_array[scan->depth++] = array;
    scan->state = array ? WANT_VALUE_OR_END : WANT_KEY_OR_END;
    *token_out = array ? RUNGI_JSON_ARRAY_BEGIN : RUNGI_JSON_OBJECT_BEGIN;
    return RUNG_OK;
}

static rung_status close_nested(rungi_json_scan *scan, rungi_json_token *token_out)
{
    scan->at++;
    scan->depth--;
    scan->state = AFTER_VALUE;
    *token_out = scan->in_array[scan->depth] ? RUNGI_JSON_ARRAY_END : RUNGI_JSON_OBJECT_END;
    return RUNG_OK;
}

static rung_status next_value(rungi_json_scan *scan, int c, rungi_json_token *token_out)
{
    if (c == '{' || c == '[')
        return open_nested(scan, c == '[', token_out);
    if (c == '"') {
        scan->at++;
        RUNG_TRY(take_string(scan));
        *token_out = RUNGI_JSON_STRING;
    } else {
        RUNG_TRY(take_word(scan, token_out));
    }
    scan->state = AFTER_VALUE;
    return RUNG_OK;
}

static rung_status next_key(rungi_json_scan *scan, int c, rungi_json_token *token_out)
{
    if (c != '"')
        return SCAN_FAIL(scan, "no member name");
    scan->at++;
    RUNG_TRY(take_string(scan));
    RUNG_TRY(peek_after_space(scan, &c));
    if (c != ':')
        return SCAN_FAIL(scan, "no colon after a member name");
    scan->at++;
    scan->state = WANT_VALUE;
    *token_out = RUNGI_JSON_KEY;
    return RUNG_OK;
}

rung_status rungi_json_next(rungi_json_scan *scan, rungi_json_token *token_out)
{
    int c;
    RUNG_TRY(peek_after_space(scan, &c));
    if (scan->state == AFTER_VALUE) {
        if (scan->depth == 0) {
            if (c >= 0)
                return SCAN_FAIL(scan, "something follows the value");
            *token_out = RUNGI_JSON_END;
            return RUNG_OK;
        }
        bool array = scan->in_array[scan->depth - 1];
        if (c == (array ? ']' : '}'))
            return close_nested(scan, token_out);
        if (c != ',')
            return SCAN_FAIL(scan, c < 0 ? "ends inside a value" : "no comma between values");
        scan->at++;
        RUNG_TRY(peek_after_space(scan, &c));
        scan->state = array ? WANT_VALUE : WANT_KEY;
    } else if ((scan->state == WANT_VALUE_OR_END && c == ']') ||
               (scan->state == WANT_KEY_OR_END && c == '}')) {
        return close_nested(scan, token_out);
    }
    if (c < 0)
        return SCAN_FAIL(scan, "ends inside a value");
    if (scan->state == WANT_KEY || scan->state == WANT_KEY_OR_END)
        return next_key(scan, c, token_out);
    return next_value(scan, c, token_out);
}

rung_status rungi_json_skip(rungi_json_scan *scan)
{
    int depth = scan->depth;
    do {
        rungi_json_token token;
        RUNG_TRY(rungi_json_next(scan, &token));
    } while (scan->depth > depth || scan->state != AFTER_VALUE);
    return RUNG_OK;
}

void rungi_json_scan_fini(rungi_json_scan *scan)
{
    free(scan->text);
    scan->text = NULL;
    scan->text_size = scan->text_capacity = 0;
}

rung_status rungi_json_read_memory(void *user, char *buffer, size_t size, size_t *got_out)
{
    rungi_json_memory *memory = user;
    size_t got = size < memory->size ? size : memory->size;
    if (got)
        memcpy(buffer, memory->data, got);
    memory->data += got;
    memory->size -= got;
    *got_out = got;
    return RUNG_OK;
}

bool rungi_utf8_valid(const char *data, size_t size)
{
    const unsigned char *s = (const unsigned char *)data, *end = s + size;
    while (s < end) {
        if (*s < 0x80) {
            s++;
            continue;
        }
        int length = *s >= 0xF0 ? 4 : *s >= 0xE0 ? 3 : 2;
        if (*s < 0xC2 || *s > 0xF4 || end - s < length)
            return false;
        for (int i = 1; i < length; i++)
            if ((s[i] & 0xC0) != 0x80)
                return false;
        if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
            (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F))
            return false;
        s += length;
    }
    return true;
}
