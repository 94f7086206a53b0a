// SPDX-License-Identifier: Apache-2.0
// printf writes numbers with the decimal point of the process's locale; files want a dot.
#ifndef RUNGI_FORMATS_DECIMAL_H
#define RUNGI_FORMATS_DECIMAL_H

#include <locale.h>
#include <string.h>

// Replaces the locale's decimal point in a printed number by a dot. It does not get longer.
static inline void rungi_decimal_fix(char *text)
{
    const char *point = localeconv()->decimal_point;
    size_t length = strlen(point);
    char *found = strcmp(point, ".") != 0 && length ? strstr(text, point) : NULL;
    if (!found)
        return;
    *found = '.';
    memmove(found + 1, found + length, strlen(found + length) + 1);
}

#endif
