// SPDX-License-Identifier: Apache-2.0
#include "base/option_range.h"

#include <string.h>

rungi_number rungi_range_number(rungi_option_type type, const char *text, long double *out)
{
    rungi_number result;
    double real = 0;
    int64_t whole = 0;
    switch (type) {
    case RUNGI_OPTION_REAL:
        result = rungi_number_f64(text, &real);
        break;
    case RUNGI_OPTION_INT:
        result = rungi_number_i64(text, &whole);
        break;
    case RUNGI_OPTION_BYTES:
        result = rungi_number_bytes(text, &whole);
        break;
    case RUNGI_OPTION_DURATION:
        result = rungi_number_duration(text, &whole);
        break;
    default:
        return RUNGI_NUMBER_SYNTAX;
    }
    if (result == RUNGI_NUMBER_OK)
        *out = type == RUNGI_OPTION_REAL ? (long double)real : (long double)whole;
    return result;
}

// Reads the bound in s[0..length).
static bool read_bound(rungi_option_type type, const char *s, size_t length, long double *out)
{
    char text[RUNGI_NUMBER_TEXT];
    if (length >= sizeof text)
        return false;
    memcpy(text, s, length);
    text[length] = 0;
    return rungi_range_number(type, text, out) == RUNGI_NUMBER_OK;
}

static bool in_interval(const char *range, rungi_option_type type, long double number)
{
    size_t length = strlen(range);
    const char *comma = strstr(range, ", ");
    char close = range[length - 1];
    long double low, high;
    if (!comma || (close != ']' && close != ')') ||
        !read_bound(type, range + 1, (size_t)(comma - range - 1), &low) ||
        !read_bound(type, comma + 2, (size_t)(range + length - 1 - (comma + 2)), &high))
        return false;
    return (*range == '[' ? number >= low : number > low) &&
           (close == ']' ? number <= high : number < high);
}

bool rungi_range_holds(const char *range, rungi_option_type type, long double number)
{
    if (!range)
        return true;
    if (*range == '[' || *range == '(')
        return in_interval(range, type, number);
    bool equal = range[0] && range[1] == '=';
    const char *text = range + (equal ? 2 : 1);
    long double bound;
    if (*text != ' ' || !read_bound(type, text + 1, strlen(text + 1), &bound))
        return false;
    if (*range == '>')
        return number > bound || (equal && number == bound);
    return *range == '<' && (number < bound || (equal && number == bound));
}
