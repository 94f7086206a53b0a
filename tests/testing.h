// SPDX-License-Identifier: Apache-2.0
// What every unit test includes: cmocka with its prerequisites, and checks of rung_status.
#ifndef RUNGI_TESTS_TESTING_H
#define RUNGI_TESTS_TESTING_H

// cmocka needs these four first.
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
// clang-format on

#include <stdlib.h>
#include <string.h>

#include "rung/status.h"

// 1 in builds with sanitizers: they look for mistakes of memory and of threads, and are slow, so
// that tests of values may go through the same code with fewer and smaller networks there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#    define SANITIZED 1
#elif defined(__has_feature) // clang
#    if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#        define SANITIZED 1
#    endif
#endif
#ifndef SANITIZED
#    define SANITIZED 0
#endif

// Passes when the call returns RUNG_OK; else prints the error record and fails the test.
#define assert_ok(call)                                            \
    do {                                                           \
        if ((call) != RUNG_OK)                                     \
            fail_msg("%s: %s", #call, rung_error_last()->message); \
    } while (0)

// Passes when the call fails with `code` and a message that contains `text`.
#define assert_fails(code, text, call)                                                          \
    do {                                                                                        \
        rung_status got_ = (call);                                                              \
        if (got_ != (code) || !strstr(rung_error_last()->message, (text)))                      \
            fail_msg("%s: got %s (%s), expected %s with \"%s\"", #call, rung_status_text(got_), \
                     got_ ? rung_error_last()->message : "", rung_status_text(code), (text));   \
    } while (0)

// Passes when |a - b| <= tolerance, in float64 (cmocka's assert_float_equal compares floats).
#define assert_near(a, b, tolerance)                                                  \
    do {                                                                              \
        double a_ = (a), b_ = (b), tolerance_ = (tolerance);                          \
        if (!(a_ - b_ <= tolerance_ && b_ - a_ <= tolerance_))                        \
            fail_msg("%s = %.17g, expected %.17g within %g", #a, a_, b_, tolerance_); \
    } while (0)

// Ends the test as skipped and prints why it cannot run here ("no GPU").
#define skip_because(reason)                    \
    do {                                        \
        print_message("skipped: %s\n", reason); \
        tests_skipped++;                        \
        skip();                                 \
    } while (0)

static int tests_skipped;

// Exit status of a test program: 0 passed, 1 failed, 77 when all `count` tests were skipped.
static inline int tests_status(int failed, size_t count)
{
    if (failed)
        return 1;
    return (size_t)tests_skipped == count ? 77 : 0;
}

#define RUN_TESTS(tests)                                                   \
    tests_status(cmocka_run_group_tests_name(__FILE__, tests, NULL, NULL), \
                 sizeof(tests) / sizeof((tests)[0]))

#endif
