// SPDX-License-Identifier: Apache-2.0
// Numbers as people write them, read and written the same in every locale.
#ifndef RUNGI_BASE_NUMBER_H
#define RUNGI_BASE_NUMBER_H

#include <stddef.h>
#include <stdint.h>

typedef enum rungi_number {
    RUNGI_NUMBER_OK,
    RUNGI_NUMBER_SYNTAX, // not a number of this kind
    RUNGI_NUMBER_RANGE,  // a number, but too large for its type
} rungi_number;

// Each reads the whole text, without blanks around it, and sets the output only on
// RUNGI_NUMBER_OK. Digits may be grouped by single underscores (1_000).

// A finite real number: 3, -0.5, .5, 5., 1e-3. Not nan, inf or hexadecimal.
rungi_number rungi_number_f64(const char *text, double *out);
// A whole number: 12, -3, 0x1F, 1_000; 1e6 and 10.0 too, because they are whole (up to 2^53).
// Not 010, which some readers of YAML take for 8.
rungi_number rungi_number_i64(const char *text, int64_t *out);
// Bytes: 4096, 64KiB, 1.5 GiB, 2GB (powers of 1000), up to EiB. Not 2G, which could mean either,
// and no exponents.
rungi_number rungi_number_bytes(const char *text, int64_t *out);
// Nanoseconds: 60s, 500ms, 2.5h, 1h30m, 10us, 7ns, 2d; a bare number is seconds.
rungi_number rungi_number_duration(const char *text, int64_t *out);

enum { RUNGI_NUMBER_TEXT = 40 }; // enough room for any text written below

// Each writes text that reads back as the same value, and returns `out` (of RUNGI_NUMBER_TEXT
// bytes).

// The shortest digits that read back, always with a point (1.0, 0.001, 1.0e-07) so that readers of
// YAML and JSON see a real number. Not finite: .inf, -.inf or .nan.
char *rungi_number_f64_text(double value, char *out);
// 4096 is 4KiB; what is no multiple of 1024 is written as plain digits.
char *rungi_number_bytes_text(int64_t bytes, char *out);
// In the largest of s, ms, us, ns that divides it.
char *rungi_number_duration_text(int64_t nanoseconds, char *out);

#endif
