// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// Length of the valid UTF-8 sequence at s (RFC 3629: no overlong forms, no surrogates), else 0.
static int utf8_length(const unsigned char *s)
{
    if (s[0] < 0x80)
        return 1;
    int length = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4)
        return 0;
    for (int i = 1; i < length; i++)
        if ((s[i] & 0xC0) != 0x80)
            return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) ||
        (s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return length;
}

void rungi_text_escape(const char *in, char *out, size_t size)
{
    const unsigned char *s = (const unsigned char *)in;
    size_t n = 0;
    while (*s) {
        int length = utf8_length(s);
        bool plain = length > 0 && *s >= 0x20 && *s != 0x7F;
        size_t need = plain ? (size_t)length : 4;
        if (n + need + 1 > size)
            break;
        if (plain)
            memcpy(out + n, s, need);
        else
            snprintf(out + n, 5, "\\x%02x", *s);
        n += need;
        s += plain ? length : 1;
    }
    out[n] = 0;
}

static bool string_reserve(rungi_string *s, size_t more)
{
    if (s->failed)
        return false;
    if (s->capacity - s->size > more)
        return true;
    size_t capacity = s->capacity ? s->capacity * 2 : 64;
    while (capacity - s->size <= more)
        capacity *= 2;
    char *data = realloc(s->data, capacity);
    if (!data) {
        s->failed = true;
        return false;
    }
    s->data = data;
    s->capacity = capacity;
    return true;
}

void rungi_string_append(rungi_string *s, const char *data, size_t size)
{
    if (!string_reserve(s, size))
        return;
    memcpy(s->data + s->size, data, size);
    s->size += size;
    s->data[s->size] = 0;
}

void rungi_string_add(rungi_string *s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (length < 0 || !string_reserve(s, (size_t)length))
        return;
    va_start(args, fmt);
    vsnprintf(s->data + s->size, (size_t)length + 1, fmt, args);
    va_end(args);
    s->size += (size_t)length;
}

const char *rungi_string_text(const rungi_string *s)
{
    return s->data ? s->data : "";
}

void rungi_string_fini(rungi_string *s)
{
    free(s->data);
    *s = (rungi_string){0};
}

char *rungi_text_copy(const char *text)
{
    return strdup(text);
}

char *rungi_text_format(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (length < 0)
        return NULL;
    char *out = malloc((size_t)length + 1);
    if (!out)
        return NULL;
    va_start(args, fmt);
    vsnprintf(out, (size_t)length + 1, fmt, args);
    va_end(args);
    return out;
}

enum { DISTANCE_MAX = 64 };

int rungi_text_distance(const char *a, const char *b, int limit)
{
    size_t la = strlen(a), lb = strlen(b);
    if (la > DISTANCE_MAX || lb > DISTANCE_MAX)
        return strcmp(a, b) == 0 ? 0 : limit;
    int d[3][DISTANCE_MAX + 1];
    for (size_t j = 0; j <= lb; j++)
        d[0][j] = (int)j;
    for (size_t i = 1; i <= la; i++) {
        int *row = d[i % 3], *up = d[(i + 2) % 3], *up2 = d[(i + 1) % 3];
        row[0] = (int)i;
        for (size_t j = 1; j <= lb; j++) {
            int best = up[j - 1] + (a[i - 1] != b[j - 1]);
            if (up[j] + 1 < best)
                best = up[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                up2[j - 2] + 1 < best)
                best = up2[j - 2] + 1;
            row[j] = best;
        }
    }
    int result = d[la % 3][lb];
    return result < limit ? result : limit;
}

const char *rungi_text_nearest(const char *wanted, const char *const *names, size_t count)
{
    int limit = (int)strlen(wanted) / 3 + 2;
    int best = limit;
    const char *nearest = NULL;
    for (size_t i = 0; i < count; i++) {
        int distance = rungi_text_distance(wanted, names[i], limit);
        if (distance < best) {
            best = distance;
            nearest = names[i];
        }
    }
    return nearest;
}

char *rungi_text_bytes(uint64_t bytes, char *out, size_t size)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(out, size, "%u B", (unsigned)bytes);
        return out;
    }
    double value = (double)bytes / 1024;
    int unit = 0;
    while (value >= 1023.95 && unit < 5) {
        value /= 1024;
        unit++;
    }
    snprintf(out, size, "%.1f %s", value, units[unit]);
    return out;
}

bool rungi_text_match(const char *pattern, const char *text)
{
    const char *star = NULL, *resume = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            resume = text;
        } else if (*pattern == '?' || *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == 0;
}

bool rungi_text_ends_in(const char *text, const char *const *ends, size_t count)
{
    size_t length = strlen(text);
    for (size_t i = 0; i < count; i++) {
        size_t end = strlen(ends[i]);
        if (length >= end && strcasecmp(text + length - end, ends[i]) == 0)
            return true;
    }
    return false;
}
