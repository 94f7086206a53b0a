// SPDX-License-Identifier: Apache-2.0
// Small text helpers: escaping, growing strings, edit distance, human-readable sizes.
#ifndef RUNGI_BASE_TEXT_H
#define RUNGI_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rung/status.h"

// Copies `in` to `out` (of `size` > 0 bytes, always ended by a NUL), with control characters and
// bytes that are not valid UTF-8 written as \xNN. The result is valid UTF-8.
void rungi_text_escape(const char *in, char *out, size_t size);

// A string that grows. Start from {0}; rungi_string_fini frees it.
typedef struct rungi_string {
    char *data; // NUL-terminated once something was added, else NULL
    size_t size;
    size_t capacity;
    bool failed; // an allocation failed; what was added since is missing
} rungi_string;

void rungi_string_add(rungi_string *s, const char *fmt, ...) RUNG_PRINTF(2, 3);
void rungi_string_append(rungi_string *s, const char *data, size_t size);
// The text so far; "" when empty. Borrowed.
const char *rungi_string_text(const rungi_string *s);
void rungi_string_fini(rungi_string *s);

// A copy of `text` on the heap, NULL when out of memory. Freed with free().
char *rungi_text_copy(const char *text);
// A formatted string on the heap, NULL when out of memory. Freed with free().
char *rungi_text_format(const char *fmt, ...) RUNG_PRINTF(1, 2);

// Edit distance (insert, delete, replace, and swap of neighbours count 1 each), at most `limit`.
int rungi_text_distance(const char *a, const char *b, int limit);
// The name of `names` (count of them) nearest to `wanted`, or NULL when none is near enough to
// propose (distance over a third of its length, plus one).
const char *rungi_text_nearest(const char *wanted, const char *const *names, size_t count);

// Writes `bytes` as "1.5 GiB", "12.0 KiB", "17 B" into `out` and returns it.
char *rungi_text_bytes(uint64_t bytes, char *out, size_t size);
// Does `text` match `pattern` with shell wildcards * and ? (no brackets)?
bool rungi_text_match(const char *pattern, const char *text);
// Does `text` end in one of `ends` (count of them), in any case of letters?
bool rungi_text_ends_in(const char *text, const char *const *ends, size_t count);

#endif
