// SPDX-License-Identifier: Apache-2.0
#include "base/number.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

enum { DIGITS_MAX = 128 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Copies digits to `out` at *used, without the underscores between them. Returns where they end;
// NULL when an underscore does not stand between two digits or there is no room.
static const char *copy_digits(const char *s, bool hex, char *out, size_t *used)
{
    for (; *used < DIGITS_MAX - 2; s++) {
        bool (*digit)(char) = hex ? is_hex : is_digit;
        if (digit(*s))
            out[(*used)++] = *s;
        else if (*s != '_')
            return s;
        else if (*used == 0 || !digit(s[-1]) || !digit(s[1]))
            return NULL;
    }
    return NULL;
}

// What the scanner below found at the start of a text.
typedef struct decimal {
    char digits[DIGITS_MAX]; // without underscores, for strtod
    const char *end;         // first character that does not belong to the number
    bool whole;              // neither point nor exponent
} decimal;

// Scans sign, digits, point, digits and exponent (when `exponent` allows it).
static bool scan_decimal(const char *s, bool exponent, decimal *d)
{
    size_t n = 0;
    if (*s == '+' || *s == '-')
        d->digits[n++] = *s++;
    size_t start = n;
    if (!(s = copy_digits(s, false, d->digits, &n)))
        return false;
    size_t count = n - start;
    d->whole = true;
    if (*s == '.') {
        d->whole = false;
        d->digits[n++] = *s++;
        size_t before = n;
        if (*s == '_' || !(s = copy_digits(s, false, d->digits, &n)))
            return false;
        count += n - before;
    }
    if (count == 0)
        return false;
    if (exponent && (*s == 'e' || *s == 'E')) {
        d->whole = false;
        d->digits[n++] = *s++;
        if (*s == '+' || *s == '-')
            d->digits[n++] = *s++;
        size_t before = n;
        if (*s == '_' || !(s = copy_digits(s, false, d->digits, &n)) || n == before)
            return false;
    }
    d->digits[n] = 0;
    d->end = s;
    return true;
}

// strtod and printf follow the thread's locale, whose point may be a comma. The C locale is a
// constant of the C library: asking for it costs nothing.
static double c_strtod(const char *text)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double value = strtod_l(text, NULL, c);
    freelocale(c);
    return value;
}

rungi_number rungi_number_f64(const char *text, double *out)
{
    decimal d;
    if (!scan_decimal(text, true, &d) || *d.end)
        return RUNGI_NUMBER_SYNTAX;
    double value = c_strtod(d.digits);
    if (!isfinite(value))
        return RUNGI_NUMBER_RANGE;
    *out = value;
    return RUNGI_NUMBER_OK;
}

static rungi_number parse_hex(const char *text, bool negative, int64_t *out)
{
    char digits[DIGITS_MAX];
    size_t n = 0;
    const char *end = copy_digits(text, true, digits, &n);
    if (!end || *end || n == 0)
        return RUNGI_NUMBER_SYNTAX;
    int64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        int digit = is_digit(digits[i]) ? digits[i] - '0' : (digits[i] | 0x20) - 'a' + 10;
        if (!rungi_i64_mul(value, 16, &value) ||
            !rungi_i64_add(value, negative ? -digit : digit, &value))
            return RUNGI_NUMBER_RANGE;
    }
    *out = value;
    return RUNGI_NUMBER_OK;
}

// Decimal digits with an optional sign to an integer.
static bool digits_to_i64(const char *s, int64_t *out)
{
    bool negative = *s == '-';
    int64_t value = 0;
    for (s += *s == '-' || *s == '+'; *s; s++)
        if (!rungi_i64_mul(value, 10, &value) ||
            !rungi_i64_add(value, negative ? '0' - *s : *s - '0', &value))
            return false;
    *out = value;
    return true;
}

rungi_number rungi_number_i64(const char *text, int64_t *out)
{
    const char *s = text + (*text == '-' || *text == '+');
    if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X'))
        return parse_hex(s + 2, *text == '-', out);
    decimal d;
    if (!scan_decimal(text, true, &d) || *d.end)
        return RUNGI_NUMBER_SYNTAX;
    if (d.whole) {
        if (s[0] == '0' && s[1] != 0)
            return RUNGI_NUMBER_SYNTAX;
        return digits_to_i64(d.digits, out) ? RUNGI_NUMBER_OK : RUNGI_NUMBER_RANGE;
    }
    double value = c_strtod(d.digits);
    if (fabs(value) > 0x1p53)
        return RUNGI_NUMBER_RANGE;
    if (value != floor(value))
        return RUNGI_NUMBER_SYNTAX;
    *out = (int64_t)value;
    return RUNGI_NUMBER_OK;
}

// d times unit, rounded; false when it does not fit.
static bool scale(const decimal *d, int64_t unit, int64_t *out)
{
    int64_t whole;
    if (d->whole)
        return digits_to_i64(d->digits, &whole) && rungi_i64_mul(whole, unit, out);
    double value = c_strtod(d->digits) * (double)unit;
    if (!(fabs(value) < 0x1p63))
        return false;
    *out = llround(value);
    return true;
}

rungi_number rungi_number_bytes(const char *text, int64_t *out)
{
    decimal d;
    if (!scan_decimal(text, false, &d)) // E is exa
        return RUNGI_NUMBER_SYNTAX;
    const char *s = d.end;
    while (*s == ' ')
        s++;
    int64_t unit = 1;
    if (*s && strcmp(s, "B") != 0) {
        static const char prefixes[] = "KMGTPE";
        const char *prefix = strchr(prefixes, *s == 'k' ? 'K' : *s);
        bool binary = prefix && strcmp(s + 1, "iB") == 0;
        if (!prefix || !(binary || strcmp(s + 1, "B") == 0))
            return RUNGI_NUMBER_SYNTAX;
        for (int i = 0; i <= (int)(prefix - prefixes); i++)
            unit *= binary ? 1024 : 1000;
    }
    return scale(&d, unit, out) ? RUNGI_NUMBER_OK : RUNGI_NUMBER_RANGE;
}

static const struct time_unit {
    const char *name;
    int64_t nanoseconds;
} time_units[] = {
    {"s", 1000000000},  {"ms", 1000000},      {"us", 1000},         {"ns", 1},
    {"m", 60000000000}, {"min", 60000000000}, {"h", 3600000000000}, {"d", 86400000000000},
};

rungi_number rungi_number_duration(const char *text, int64_t *out)
{
    int64_t total = 0;
    const char *s = text;
    if (!*s)
        return RUNGI_NUMBER_SYNTAX;
    while (*s) {
        decimal d;
        bool first = s == text;
        // Only the first part may have a sign or an exponent.
        if (!scan_decimal(s, first, &d) || (!first && !is_digit(*s) && *s != '.'))
            return RUNGI_NUMBER_SYNTAX;
        s = d.end;
        while (*s == ' ')
            s++;
        size_t length = strcspn(s, "0123456789. ");
        int64_t unit = 0;
        for (size_t i = 0; i < sizeof time_units / sizeof *time_units; i++)
            if (strlen(time_units[i].name) == length && memcmp(time_units[i].name, s, length) == 0)
                unit = time_units[i].nanoseconds;
        if (length == 0 && !*s && first)
            unit = 1000000000;
        if (!unit)
            return RUNGI_NUMBER_SYNTAX;
        int64_t part;
        if (!scale(&d, unit, &part) || !rungi_i64_add(total, part, &total))
            return RUNGI_NUMBER_RANGE;
        s += length;
        while (*s == ' ' && s[1])
            s++;
    }
    *out = total;
    return RUNGI_NUMBER_OK;
}

static void c_print(char *out, int precision, double value)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = uselocale(c);
    snprintf(out, RUNGI_NUMBER_TEXT, "%.*g", precision, value);
    uselocale(before);
    freelocale(c);
}

char *rungi_number_f64_text(double value, char *out)
{
    if (!isfinite(value)) {
        strcpy(out, isnan(value) ? ".nan" : value > 0 ? ".inf" : "-.inf");
        return out;
    }
    // %g drops final zeros, so 15 digits are already the shortest text where they suffice. Only
    // subnormal numbers can do with fewer.
    int precision = isnormal(value) || value == 0 ? 15 : 1;
    for (;; precision++) {
        c_print(out, precision, value);
        if (precision >= 17 || c_strtod(out) == value)
            break;
    }
    if (!strchr(out, '.')) {
        char *e = strchr(out, 'e');
        char *at = e ? e : out + strlen(out);
        memmove(at + 2, at, strlen(at) + 1);
        memcpy(at, ".0", 2);
    }
    return out;
}

char *rungi_number_bytes_text(int64_t bytes, char *out)
{
    static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    int unit = 0;
    while (bytes != 0 && bytes % 1024 == 0 && unit < 6) {
        bytes /= 1024;
        unit++;
    }
    snprintf(out, RUNGI_NUMBER_TEXT, "%" PRId64 "%s", bytes, units[unit]);
    return out;
}

char *rungi_number_duration_text(int64_t nanoseconds, char *out)
{
    int unit = 0;
    while (nanoseconds % time_units[unit].nanoseconds != 0)
        unit++;
    snprintf(out, RUNGI_NUMBER_TEXT, "%" PRId64 "%s", nanoseconds / time_units[unit].nanoseconds,
             time_units[unit].name);
    return out;
}
