// SPDX-License-Identifier: Apache-2.0
#include "base/yaml_text.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// All lower case, all capitals, or a capital first: the forms that YAML 1.1 knows of its words.
static bool is_word(const char *text, const char *word)
{
    size_t capitals = 0, length = strlen(word);
    if (strlen(text) != length)
        return false;
    for (size_t i = 0; i < length; i++) {
        if ((text[i] | 0x20) != word[i])
            return false;
        capitals += text[i] != word[i];
    }
    return capitals == 0 || capitals == length || (capitals == 1 && text[0] != word[0]);
}

bool rungi_yaml_is_null(const char *text)
{
    return !*text || strcmp(text, "~") == 0 || is_word(text, "null");
}

int rungi_yaml_boolean(const char *text)
{
    if (is_word(text, "true") || is_word(text, "yes") || is_word(text, "on"))
        return 1;
    return is_word(text, "false") || is_word(text, "no") || is_word(text, "off") ? 0 : -1;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Letters, digits and a few signs, begun by what no number, date or mark of YAML begins with.
static bool is_plain(const char *text)
{
    if (!is_letter(*text) && *text != '_' && *text != '/' && strncmp(text, "./", 2) != 0 &&
        strncmp(text, "../", 3) != 0)
        return false;
    for (const char *s = text; *s; s++)
        if (!is_letter(*s) && !(*s >= '0' && *s <= '9') && !strchr("_./-+*?@", *s))
            return false;
    // y and n are booleans to some readers of YAML 1.1.
    return !rungi_yaml_is_null(text) && rungi_yaml_boolean(text) < 0 && !is_word(text, "y") &&
           !is_word(text, "n");
}

// Length of the valid UTF-8 sequence at s and its code point, else 0.
static int decode(const unsigned char *s, uint32_t *code)
{
    int length = s[0] < 0x80 ? 1 : s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (length > 1 && (s[0] < 0xC2 || s[0] > 0xF4))
        return 0;
    uint32_t c = length == 1 ? s[0] : s[0] & (0xFFu >> (length + 1));
    for (int i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3F);
    }
    if (c < least[length] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
        return 0;
    *code = c;
    return length;
}

static bool is_utf8(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    uint32_t code;
    while (*s) {
        int length = decode(s, &code);
        if (length == 0)
            return false;
        s += length;
    }
    return true;
}

static void add_binary(const char *text, rungi_string *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *s = (const unsigned char *)text;
    size_t size = strlen(text);
    rungi_string_add(out, "!!binary \"");
    for (size_t i = 0; i < size; i += 3) {
        uint32_t group = (uint32_t)s[i] << 16 | (i + 1 < size ? (uint32_t)s[i + 1] << 8 : 0) |
                         (i + 2 < size ? s[i + 2] : 0);
        rungi_string_add(out, "%c%c%c%c", digits[group >> 18], digits[group >> 12 & 63],
                         i + 1 < size ? digits[group >> 6 & 63] : '=',
                         i + 2 < size ? digits[group & 63] : '=');
    }
    rungi_string_append(out, "\"", 1);
}

void rungi_yaml_add_text(const char *text, rungi_string *out)
{
    if (is_plain(text)) {
        rungi_string_add(out, "%s", text);
        return;
    }
    if (!is_utf8(text)) {
        add_binary(text, out);
        return;
    }
    rungi_string_append(out, "\"", 1);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        uint32_t code;
        int length = decode(s, &code);
        // What YAML counts as a line break, a mark or not printable must be escaped.
        bool odd = code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 ||
                   code == 0x2029 || code == 0xFEFF || code == 0xFFFE || code == 0xFFFF;
        if (code == '"' || code == '\\')
            rungi_string_add(out, "\\%c", *s);
        else if (odd && code < 0x100)
            rungi_string_add(out, "\\x%02x", code);
        else if (odd)
            rungi_string_add(out, "\\u%04x", code);
        else
            rungi_string_append(out, (const char *)s, (size_t)length);
        s += length;
    }
    rungi_string_append(out, "\"", 1);
}

static int base64_digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

char *rungi_yaml_decode_binary(const char *text)
{
    char *out = malloc(strlen(text) / 4 * 3 + 4);
    if (!out)
        return NULL;
    size_t size = 0, digits = 0, padding = 0;
    uint32_t group = 0;
    for (const char *s = text; *s; s++) {
        if (strchr(" \t\r\n", *s))
            continue;
        int digit = base64_digit(*s);
        if (*s == '=' && digits % 4 >= 2 && padding < 2)
            padding++;
        else if (digit < 0 || padding > 0)
            goto malformed;
        group = group << 6 | (uint32_t)(digit < 0 ? 0 : digit);
        if (++digits % 4 != 0)
            continue;
        for (size_t i = 0; i < 3 - padding; i++) {
            out[size] = (char)(group >> (16 - 8 * i));
            if (!out[size++])
                goto malformed;
        }
    }
    if (digits % 4 != 0)
        goto malformed;
    out[size] = 0;
    return out;
malformed:
    free(out);
    return NULL;
}
