// SPDX-License-Identifier: Apache-2.0
// Ranges of options, written as people read them: ">= 0", "> 0", "<= 1", "< 1", "[0, 1]", "[0, 1)",
// "(0, 1)". Bounds are written like values of the option's type ("[1s, 24h]").
#ifndef RUNGI_BASE_OPTION_RANGE_H
#define RUNGI_BASE_OPTION_RANGE_H

#include "base/number.h"
#include "base/options.h"

// Reads a number of a numeric type. A long double holds every int64_t and every double.
rungi_number rungi_range_number(rungi_option_type type, const char *text, long double *out);

// Does `range` (NULL: everything) hold `number`? A malformed range holds nothing.
bool rungi_range_holds(const char *range, rungi_option_type type, long double number);

#endif
